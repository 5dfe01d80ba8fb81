"""Real logs: gloo jobs of torch 2.13 under torchrun with one planted fault each, and NCCL 2.32 on a machine without a GPU."""

from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.logs import read_log
from aidiag.collectors.logs.compiled import Catalogue

RECORDED = Path(__file__).with_name("recorded")

EXPECTED: dict[str, list[tuple[str, int | None, dict[str, Any]]]] = {
    "gloo-rank-killed.log": [
        ("peer_connection_closed", 0, {"layer": "gloo", "peer": "127.0.0.1"}),
        ("worker_failed", 1, {"exit_code": -9, "signal": "SIGKILL", "first": True, "local_rank": 1}),
        ("worker_failed", 0, {"exit_code": -15, "first": False}),
        ("worker_signalled", None, {"signal": "SIGTERM"}),
    ],
    "gloo-rank-raises.log": [
        ("python_exception", 1, {"type": "ValueError", "text": "bad batch: shapes (3, 4)", "file": "/job/t.py", "line": 9}),
        ("peer_connection_closed", 0, {"layer": "gloo"}),
    ],
    "gloo-rank-hangs.log": [
        ("peer_wait_timeout", 0, {"timeout_ms": 8000, "operation": "recv"}),
        ("worker_failed", 0, {"exit_code": 1, "first": True}),
    ],
    "port-in-use.log": [("port_in_use", None, {"port": 29612, "layer": "store"})],
    "rank-missing.log": [("store_timeout", None, {"joined": 1, "expected": 2, "seconds": 7})],
    "store-unreachable.log": [
        ("connect_failed", None, {"layer": "store", "peer": "127.0.0.1", "port": 29614, "timeout_ms": 4000}),
    ],
    "loader-worker-killed.log": [("loader_worker_killed", None, {"signal": "Killed"})],
    "nccl-wrong-interface.log": [
        ("nccl_setting", None, {"name": "NCCL_SOCKET_IFNAME", "value": "ib9", "host": "node-a", "pid": 20880}),
        ("nccl_no_interface", None, {"host": "node-a", "pid": 20880}),
    ],
    "nccl-no-driver.log": [
        ("nccl_bootstrap_interface", None, {"interface": "eth0", "address": "192.0.2.2<0>"}),
        ("cuda_driver_unusable", None, {"host": "node-a", "pid": 18759}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_recorded_log_tells_what_happened(catalogue: Catalogue, name: str) -> None:
    """Each planted fault and its consequences come out, with rank, fields and a line that holds the evidence."""
    path = RECORDED / name
    lines = path.read_text().splitlines()
    events = list(read_log(path, catalogue=catalogue))
    for kind, rank, fields in EXPECTED[name]:
        told = [one for one in events if one.kind == kind and fields.items() <= dict(one.fields).items()]
        assert told, f"no {kind} with {fields}"
        assert rank in {one.subject.rank if one.subject else None for one in told}
    for event in events:
        assert event.place is not None
        assert event.place.line is not None
        assert event.place.text in lines[event.place.line - 1]


def test_every_recorded_log_is_expected() -> None:
    """No recording lies about unused."""
    assert {path.name for path in RECORDED.iterdir()} == set(EXPECTED)
