"""Lines of the kernel in a log say what they say when the kernel log itself is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from aidiag.collectors import COLLECTORS
from aidiag.collectors.kmsg_lines import KernelLines
from aidiag.collectors.logs.compiled import Catalogue
from aidiag.collectors.logs.kinds import ORIGIN_FIELDS
from aidiag.collectors.logs.stream import LogStream
from aidiag.collectors.observation import Event, FieldValue
from aidiag.collectors.subject import Subject

Read = Callable[..., list[Event]]

XID = "NVRM: Xid (PCI:0000:3B:00): 79, pid=4711, name=python, GPU has fallen off the bus."
OFF_BUS = "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."
OOM = (
    "Memory cgroup out of memory: Killed process 4711 (python) total-vm:9kB, anon-rss:8kB, file-rss:1kB, shmem-rss:2kB"
)
CGROUP = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/slurm/job_1,"
    "task_memcg=/slurm/job_1/step_0,task=python,pid=4711,uid=1000"
)


def without_origin(event: Event) -> Mapping[str, FieldValue]:
    """What an event says, but for which message of the catalogue it was and who printed it."""
    return {key: value for key, value in event.fields.items() if key not in (*ORIGIN_FIELDS, "told_by")}


@pytest.mark.parametrize("line", [XID, OFF_BUS, OOM])
@pytest.mark.parametrize("before", ["", "[12345.678901] ", "Nov 30 20:18:29 node-a kernel: ", "junk>"])
def test_a_line_says_the_same_wherever_it_stands(read: Read, line: str, before: str) -> None:
    """One kind and one set of fields, whether a log holds the line or the kernel log is read."""
    fact = KernelLines().fact(line)
    (event,) = read(f"{before}{line}\n")
    assert fact is not None and event.kind == fact.kind
    told = {key: value for key, value in fact.fields.items() if key not in (*ORIGIN_FIELDS, "told_by")}
    assert without_origin(event) == told
    assert event.fields.get("pid") == fact.fields.get("pid")


def test_collectors_that_share_a_kind_declare_it_alike() -> None:
    """A rule on a kind has the same fields from all that tell of it, and no kind is another one by a second name."""
    known = {kind.name: kind for collector in ("kmsg", "gpu") for kind in COLLECTORS[collector].events}
    shared = [kind for kind in COLLECTORS["logs"].events if kind.name in known]
    assert {kind.name for kind in shared} == {"xid", "gpu_off_bus", "host_oom_kill", "sxid"}
    for kind in shared:
        assert set(kind.fields) - set(ORIGIN_FIELDS) == set(known[kind.name].fields) - set(ORIGIN_FIELDS)
        assert kind.scope == known[kind.name].scope
    everywhere = [field for collector in COLLECTORS.values() for kind in collector.events for field in kind.fields]
    assert "pci_bus_id" in everywhere and "bus_id" not in everywhere


def test_the_kill_has_the_cgroup_of_the_line_before_it(read: Read) -> None:
    """Two lines of one kill are one event."""
    (event,) = read(f"[1.000000] {CGROUP}\n[1.000001] {OOM}\n")
    assert event.kind == "host_oom_kill" and event.fields["told_by"] == "log"
    assert (event.fields["cgroup"], event.fields["limit_of"]) == ("/slurm/job_1/step_0", "cgroup")
    assert event.fields["resident_bytes"] == 11 * 1024


@pytest.mark.parametrize(
    ("line", "limit"),
    [
        (OOM, "cgroup"),
        ("Out of memory: Killed process 4711 (python) total-vm:9kB, anon-rss:8kB", None),
        ("Killed process 4711 (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB", None),
        ("Killed process 4711 (python), UID 1000, total-vm:9kB, anon-rss:8kB, file-rss:0kB", None),
    ],
)
def test_the_forms_of_a_kill(read: Read, line: str, limit: str | None) -> None:
    """Older kernels too; whose limit it was is said only where the line does."""
    (event,) = read(f"[1.000000] {line}\n")
    assert (event.fields["pid"], event.fields["process"], event.fields.get("limit_of")) == (4711, "python", limit)


def test_the_gpu_of_an_xid_is_known_by_its_address(read: Read) -> None:
    """On the host that the line names; of a line that names none nobody knows whose GPU it is."""
    (named,) = read(f"Nov 30 20:18:29 node-a kernel: {XID}\n")
    (unnamed,) = read(f"[12345.678901] {XID}\n")
    assert (named.subject, unnamed.subject) == (Subject("gpu", "0000:3b:00.0", host="node-a"), None)


def test_what_only_looks_like_a_kernel_line(read: Read) -> None:
    """The words alone, without the form that the kernel gives them, say nothing."""
    assert read("NVRM: Xid (somewhere): 79, oh no\nOut of memory: Killed process 12 (python) by our script\n") == []


def test_a_kernel_line_that_is_half_written_is_told_when_it_is_whole(catalogue: Catalogue) -> None:
    """What a look at the unfinished line could not read is not taken for told."""
    stream = LogStream(catalogue, "job.log", job="j")
    assert list(stream.feed(f"[1.000000] {OOM[:58]}".encode())) == []
    assert stream.flush() == []
    (event,) = stream.feed(f"{OOM[58:]}\n".encode())
    assert event.kind == "host_oom_kill"


def test_the_number_that_nccl_gives_a_gpu_is_its_address(read: Read) -> None:
    """`busId c3000` is the GPU that the kernel calls 0000:c3:00.0, and nvidia-smi 0000:C3:00.0."""
    (made,) = read("node-a:1:2 [0] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 0 busId c3000 - Init COMPLETE\n")
    (twice,) = read("NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1c3000\n")
    (lost,) = read("Unable to determine the device handle for GPU 0000:C3:00.0: GPU is lost.\n")
    assert [one.fields["pci_bus_id"] for one in (made, twice, lost)] == ["0000:c3:00.0", "0001:c3:00.0", "0000:c3:00.0"]
    assert (lost.kind, lost.fields["detail"]) == ("gpu_off_bus", "GPU is lost.")
