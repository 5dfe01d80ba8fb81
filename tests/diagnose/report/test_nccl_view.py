"""How NCCL was configured in each process: gathered from its lines, compared, merged and printed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from aidiag.collectors.observation import Event, FieldValue
from aidiag.collectors.subject import rank
from aidiag.diagnose.config import Config
from aidiag.diagnose.post_mortem import diagnose
from aidiag.diagnose.report.merge import merge
from aidiag.diagnose.report.model import Report, decode, encode
from aidiag.diagnose.report.nccl_lines import nccl_lines
from aidiag.diagnose.report.nccl_seen import PROCESSES_KEPT, NcclSeen
from aidiag.diagnose.report.nccl_view import NcclLink, NcclProcess, NcclView, view
from aidiag.diagnose.report.words import words

NODE_A = """\
node-a:10:10 [0] NCCL INFO Bootstrap : Using eth0:192.0.2.1<0>
node-a:10:10 [0] NCCL INFO NCCL version 2.26.2+cuda12.2
node-a:10:11 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.
node-a:10:11 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:192.0.2.1<0>
node-a:10:11 [0] NCCL INFO Using network IB
node-a:10:11 [0] NCCL INFO comm 0x55d1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 3b000 commId 0x9a - Init START
node-a:10:11 [0] NCCL INFO 24 coll channels, 0 collnet channels, 0 nvls channels, 32 p2p channels, 2 p2p channels per peer
node-a:10:11 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA
node-a:10:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA
"""
NODE_B = """\
node-b:20:20 [0] NCCL INFO Bootstrap : Using eth0:192.0.2.2<0>
node-b:20:21 [0] NCCL INFO NCCL_ALGO set by environment to Ring
node-b:20:21 [0] NCCL INFO NET/IB : No device found.
node-b:20:21 [0] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.2<0>
node-b:20:21 [0] NCCL INFO Using network Socket
node-b:20:21 [0] NCCL INFO comm 0x55d2 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 3b000 commId 0x9a - Init START
node-b:20:21 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/Socket/0
"""


def diagnosed(folder: Path, log: str) -> Report:
    """The report on a folder with one log."""
    (folder / "job.log").write_text(log)
    return diagnose([str(folder)], Config(), "en", io.BytesIO())


def seen(log: Report) -> NcclView:
    """The view of a report that has one."""
    assert log.nccl is not None
    return log.nccl


def test_each_process_tells_how_it_is_configured(tmp_path: Path) -> None:
    """Version, interface, network, devices, GPUDirect, channels, ways and variables of a process."""
    first = seen(diagnosed(tmp_path, NODE_A + NODE_B)).processes[0]

    assert first == NcclProcess(
        host="node-a",
        pid=10,
        rank=0,
        version="2.26.2",
        cuda_version="12.2",
        network="IB",
        interface="eth0",
        address="192.0.2.1",
        nics=("[0]mlx5_0:1/IB", "[1]mlx5_1:1/IB"),
        gpudirect="on",
        channels=24,
        links=(NcclLink(1, "NET/IB/0/GDRDMA"),),
        settings={"NCCL_IB_TIMEOUT": "22"},
    )


def test_what_differs_between_ranks_is_told(tmp_path: Path) -> None:
    """A network, a number of devices, and a variable that only one host has."""
    told = {one.what: {value.value: value.who for value in one.values} for one in seen(
        diagnosed(tmp_path, NODE_A + NODE_B)).differences}  # fmt: skip

    assert told["network"] == {"IB": "rank 0", "Socket": "rank 1"}
    assert told["nics"] == {"2": "rank 0", "1": "rank 1"}
    assert told["NCCL_ALGO"] == {"Ring": "rank 1", "(not set)": "rank 0"}
    assert "version" not in told, "only one process said it"


def test_alike_processes_differ_in_nothing(tmp_path: Path) -> None:
    """The addresses of hosts may differ."""
    other = NODE_A.replace("node-a:10:", "node-c:10:").replace("rank 0 ", "rank 1 ").replace("192.0.2.1", "192.0.2.3")

    told = seen(diagnosed(tmp_path, NODE_A + other))

    assert [process.rank for process in told.processes] == [0, 1]
    assert told.differences == ()


def test_without_lines_of_nccl_there_is_no_view(tmp_path: Path) -> None:
    """The key is null, and nothing is printed."""
    assert diagnosed(tmp_path, "step 1 loss 2.0\n").nccl is None


@pytest.mark.parametrize(
    ("transports", "expected"),
    [
        (("NET/IB/0/GDRDMA",), "on"),
        (("NET/IB/0", "P2P/CUMEM"), "off"),
        (("NET/IB/0", "NET/IB/1/GDRDMA"), "partly"),
        (("NET/Socket/0",), ""),
        (("P2P/IPC", "SHM/direct/direct"), ""),
    ],
)
def test_gpudirect_is_judged_where_it_could_be(transports: tuple[str, ...], expected: str) -> None:
    """Ways within a host and over sockets say nothing of it."""
    gathered = NcclSeen()
    for peer, transport in enumerate(transports):
        fields: dict[str, FieldValue] = {"comm_peer": peer, "comm_rank": 9, "transport": transport}
        gathered.add(Event("nccl_channel", rank(0, host="a", job=""), 1.0, fields))
    told = gathered.view()

    assert told is not None
    assert told.processes[0].gpudirect == expected


def test_the_number_of_processes_is_bounded() -> None:
    """A log of very many processes costs no more."""
    gathered = NcclSeen()
    for number in range(PROCESSES_KEPT + 50):
        gathered.add(Event("nccl_network_chosen", rank(number, host="a", job=""), 1.0, {"network": "IB"}))
    told = gathered.view()

    assert told is not None
    assert len(told.processes) == PROCESSES_KEPT


def test_reports_of_two_hosts_are_compared() -> None:
    """What differs shows only when both are together; the same process twice counts once."""
    one = Report(nccl=view([NcclProcess(host="a", pid=1, rank=0, network="IB")]))
    other = Report(nccl=view([NcclProcess(host="b", pid=1, rank=1, network="Socket")]))

    told = seen(merge([one, other, one], {}))

    assert len(told.processes) == 2
    assert [difference.what for difference in told.differences] == ["network"]


def test_a_report_with_it_reads_back(tmp_path: Path) -> None:
    """JSON and back gives the same view."""
    report = diagnosed(tmp_path, NODE_A + NODE_B)

    assert decode(encode(report)).nccl == report.nccl


def test_processes_alike_are_one_line() -> None:
    """Two ranks of one kind, one of another, the variables, and the differences."""
    alike = [
        NcclProcess(host=host, rank=number, version="2.26.2", network="Socket", nics=(f"[0]eth0:192.0.2.{number}",))
        for number, host in enumerate("ab")
    ]
    told = view([*alike, NcclProcess(host="c", rank=2, version="2.27.3", settings={"NCCL_DEBUG": "INFO"})])

    assert told is not None
    assert [text for text, _ in nccl_lines(told, words("en"))] == [
        "  ranks 0-1: 2.26.2 · Socket · devices [0]eth0",
        "  rank 2: 2.27.3",
        "  set: NCCL_DEBUG=INFO",
        "  differs: version: 2.26.2 (ranks 0-1); 2.27.3 (rank 2)",
    ]
