"""`aidiag check`: one verdict for each target."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from aidiag.collectors.observation import Absent, Event, Observation, Sample, labels
from aidiag.collectors.signal import Registry
from aidiag.collectors.subject import gpu, host, nic, port
from aidiag.rules.checks import Verdict, verdicts
from aidiag.rules.loader import load_rules
from aidiag.rules.window import Window

A = host("a")
GIB = 1024.0**3


def check(
    registry: Registry, observations: Iterable[Observation], *, language: str = "en"
) -> dict[tuple[str, str], Verdict]:
    """The verdicts of the built-in rules by check and target."""
    window = Window(registry)
    window.add_all(observations)
    found = verdicts(load_rules((), registry).rules, window, 1.0, language)
    return {(verdict.id, verdict.target): verdict for verdict in found}


def test_what_is_wrong_says_what_was_seen_and_expected(registry: Registry) -> None:
    """A sick target has its status, what was observed and expected, a reason and a first remedy."""
    found = check(
        registry,
        [
            Sample("host_shm_size_bytes", A, 64 * 1024.0**2, 0.0),
            Sample("host_shm_available_bytes", A, 64 * 1024.0**2, 0.0),
        ],
    )["dev-shm", "node"]

    assert ("critical", "64 MiB, 64 MiB free", "at least 1 GiB, 64 MiB free") == (
        found.status,
        found.observed,
        found.expected,
    )
    assert "/dev/shm on a has 64 MiB" in found.reason
    assert "--shm-size" in found.remedy


def test_what_is_well_is_ok(registry: Registry) -> None:
    """A healthy target is ok."""
    observations = [
        Sample("host_shm_size_bytes", A, 16 * GIB, 0.0),
        Sample("host_shm_available_bytes", A, 16 * GIB, 0.0),
    ]

    assert "ok" == check(registry, observations)["dev-shm", "node"].status


def test_each_target_has_its_verdict(registry: Registry) -> None:
    """Ports, GPUs, interfaces and variables are told apart by name."""
    first, second = port("mlx5_0", 1, host="a"), port("mlx5_1", 1, host="a")
    found = check(
        registry,
        [
            *(Sample("rdma_port_up", subject, up, 0.0) for subject, up in ((first, 0.0), (second, 1.0))),
            *(Sample("rdma_port_used_by_job", subject, 1.0, 0.0) for subject in (first, second)),
            Sample("net_chosen_interface_missing", A, 1.0, 0.0, labels(variable="NCCL_SOCKET_IFNAME")),
            Sample("net_chosen_interface_missing", A, 0.0, 0.0, labels(variable="GLOO_SOCKET_IFNAME")),
            Sample("gpu_memory_foreign_bytes", gpu(3, host="a"), 30 * GIB, 0.0),
            Sample("gpu_memory_total_bytes", gpu(3, host="a"), 80 * GIB, 0.0),
        ],
    )

    assert "critical" == found["ib-port-state", "mlx5_0:1"].status
    assert "ok" == found["ib-port-state", "mlx5_1:1"].status
    assert "critical" == found["bootstrap-iface", "NCCL_SOCKET_IFNAME"].status
    assert "ok" == found["bootstrap-iface", "GLOO_SOCKET_IFNAME"].status
    assert "critical" == found["gpu-mem-in-use", "gpu3"].status


def test_hardware_that_is_not_there_is_skipped(registry: Registry) -> None:
    """Where a collector says that the thing is not there, the check is skipped with that reason."""
    found = check(
        registry,
        [
            Sample("host_shm_size_bytes", A, 16 * GIB, 0.0),
            *(
                Absent(name, A, "no NVIDIA driver on this host", expected=False)
                for name in ("gpu_memory_foreign_bytes", "gpu_memory_total_bytes")
            ),
        ],
    )["gpu-mem-in-use", "node"]

    assert ("skipped", "no NVIDIA driver on this host") == (found.status, found.reason)


def test_what_should_be_visible_and_is_not_is_unknown(registry: Registry) -> None:
    """A fact that cannot be read makes the check unknown, with the reason and what would help; never ok."""
    subject = gpu(0, host="a")
    found = check(
        registry,
        [
            Sample("gpu_memory_total_bytes", subject, 80 * GIB, 0.0),
            Absent("gpu_memory_foreign_bytes", subject, "NVML_ERROR_NO_PERMISSION", "run as root"),
            Absent("rdma_port_up", port("mlx5_0", 1, host="a"), "state is not readable"),
        ],
    )

    assert ("unknown", "run as root") == (
        found["gpu-mem-in-use", "gpu0"].status,
        found["gpu-mem-in-use", "gpu0"].remedy,
    )
    assert "NVML_ERROR_NO_PERMISSION" in found["gpu-mem-in-use", "gpu0"].reason
    assert "unknown" == found["ib-port-state", "mlx5_0:1"].status


def test_a_collector_that_failed_makes_its_checks_unknown(registry: Registry) -> None:
    """Where nothing was seen since reading failed, the check is unknown for the node."""
    found = check(registry, [Absent("rdma_port_up", A, "the call has not returned for 2 s", "see dmesg")])

    assert ("unknown", "see dmesg") == (found["ib-port-state", "node"].status, found["ib-port-state", "node"].remedy)


def test_nothing_reported_is_unknown(registry: Registry) -> None:
    """Silence is no health: without any report every check is unknown, and none is missing."""
    found = check(registry, [])

    assert {"unknown"} == {verdict.status for verdict in found.values()}
    assert {"dev-shm", "mem-size-free", "ib-port-state", "gpu-mem-in-use", "mtu-host", "bootstrap-iface"} <= {
        check for check, _ in found
    }


def test_warnings_and_unused_things(registry: Registry) -> None:
    """A warning stays a warning; a port that the job leaves out is no fault."""
    spare = port("mlx5_9", 1, host="a")
    observations = [
        Sample("rdma_port_up", spare, 0.0, 0.0),
        Sample("rdma_port_used_by_job", spare, 0.0, 0.0),
        *(
            Sample(name, nic(device, host="a"), value, 0.0)
            for device, mtu in (("rdma0", 9000.0), ("rdma1", 1500.0))
            for name, value in (("net_mtu_bytes", mtu), ("net_used_by_job", 1.0))
        ),
    ]
    found = check(registry, observations)

    assert "ok" == found["ib-port-state", "mlx5_9:1"].status
    assert ("warning", "ok") == (found["mtu-host", "rdma1"].status, found["mtu-host", "rdma0"].status)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_verdicts_speak_both_languages(registry: Registry, language: str) -> None:
    """Observed, expected and reason come in the language asked for."""
    observations = [
        Sample("host_shm_size_bytes", A, 1024.0**2, 0.0),
        Sample("host_shm_available_bytes", A, 1024.0**2, 0.0),
    ]
    found = check(registry, observations, language=language)["dev-shm", "node"]

    assert ("空闲" in found.observed) == (language == "zh")


def test_a_skipped_target_beside_judged_ones_is_told(registry: Registry) -> None:
    """Where one target of a check is judged and another is skipped, both are told; only "the whole node is skipped" goes."""
    judged, absent = port("mlx5_0", 1, host="a"), port("mlx5_1", 1, host="a")
    found = check(
        registry,
        [
            Sample("rdma_port_up", judged, 1.0, 0.0),
            Sample("rdma_port_used_by_job", judged, 1.0, 0.0),
            Absent("rdma_port_up", absent, "no cable was ever there", "", (), expected=False),
            Sample("rdma_port_used_by_job", absent, 1.0, 0.0),
        ],
    )

    assert "ok" == found["ib-port-state", "mlx5_0:1"].status
    assert "skipped" == found["ib-port-state", "mlx5_1:1"].status
    assert ("ib-port-state", "node") not in found


EVENT_RULE = """
id: crashed
cause: gpu_lost
check: xid-errors
title: A GPU reported an Xid
severity: critical
confidence: 0.9
scope: gpu
events: [xid, gpu_off_bus]
when: 'event == "gpu_off_bus" or xid == 79'
summary: "{who} fell off the bus."
why: The driver says so.
observed: "{event}"
expected: no such event
remedy: [{do: Reboot the host., confirm: It is back.}]
references: ["https://docs.nvidia.com/deploy/xid-errors/"]
tests:
  - {name: fires, events: [{kind: xid, gpu: 0, at: 1s, fields: {xid: 79}}], at: 5s, expect: {targets: [gpu0]}}
  - {name: quiet, events: [{kind: xid, gpu: 0, at: 1s, fields: {xid: 13}}], at: 5s, expect: quiet}
  - {name: undecided, events: [{kind: xid, gpu: 0, at: 1s}], at: 5s, expect: undecided}
"""


def check_events(registry: Registry, folder: Path, observations: Iterable[Observation]) -> Verdict:
    """The verdict of a check on events."""
    file = folder / "crashed.yaml"
    file.write_text(EVENT_RULE)
    book = load_rules((file,), registry)
    assert not book.errors
    window = Window(registry)
    window.add_all(observations)
    (found,) = verdicts([rule for rule in book.rules if rule.id == "crashed"], window, 1.0)
    return found


def watched(*kinds: str) -> list[Sample]:
    """What the runner tells of sources that are read."""
    return [Sample("event_kind_watched", A, 1.0, 0.0, labels(kind=kind)) for kind in kinds]


def test_no_event_is_well_where_events_would_have_been_seen(registry: Registry, tmp_path: Path) -> None:
    """The source of each kind was read and nothing was there: ok. With an event it is what the event makes it."""
    assert "ok" == check_events(registry, tmp_path, watched("xid", "gpu_off_bus")).status
    happened = Event("xid", gpu(0, host="a"), 0.5, {"xid": 79})
    found = check_events(registry, tmp_path, [*watched("xid", "gpu_off_bus"), happened])
    assert ("critical", "gpu0") == (found.status, found.target)


def test_no_event_is_unknown_where_nobody_looks(registry: Registry, tmp_path: Path) -> None:
    """A kind that nothing watches, or whose source cannot be read, makes the check unknown and says why."""
    found = check_events(registry, tmp_path, watched("xid"))
    assert ("unknown", "nothing watches for gpu_off_bus here") == (found.status, found.reason)
    assert "unknown" == check_events(registry, tmp_path, []).status

    refused = [Absent(kind, A, "/dev/kmsg: Operation not permitted", "run as root") for kind in ("xid", "gpu_off_bus")]
    found = check_events(registry, tmp_path, refused)
    assert ("unknown", "run as root") == (found.status, found.remedy)
    assert "not permitted" in found.reason


def test_no_event_is_skipped_where_there_is_no_such_source(registry: Registry, tmp_path: Path) -> None:
    """A host that has no GPU has no Xid to look for."""
    absent = [Absent(kind, A, "there is no GPU here", expected=False) for kind in ("xid", "gpu_off_bus")]
    found = check_events(registry, tmp_path, absent)
    assert ("skipped", "there is no GPU here") == (found.status, found.reason)
