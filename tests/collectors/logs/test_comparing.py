"""What lines of steps and tables of hosts say, whatever their order of names, numbers and units."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.logs.blocks.host_table import HostTable
from aidiag.collectors.logs.comparing import Comparison
from aidiag.collectors.logs.comparing.found import listed
from aidiag.collectors.logs.comparing.timing_text import read_timing
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.logs.splitter import Block
from aidiag.collectors.observation import Event, FieldValue, Place
from aidiag.collectors.subject import rank


@pytest.mark.parametrize(
    ("line", "share"),
    [
        ("Epoch: [0][20/10010]    Time 2.000 (2.204)      Data 1.000 (2.050)      Loss 6.98", 0.5),
        ("time: 2.0, data_time: 0.5, memory: 6020, loss: 0.0312", 0.25),
        ("data_time: 0.5  batch_time: 2.0", 0.25),
        ("Time: 2.000s,  742.12/s  (0.402s,  636.82/s)  LR: 1.000e-05  Data: 0.500 (0.052)", 0.25),
        ("dataloader wait: 3.0 s/it   forward+backward: 1.0 s/it", 0.75),
        ("step 100 data wait 300 ms step time 600 ms", 0.5),
        ("data wait: 64 %", 0.64),
    ],
)
def test_the_share_of_input_is_read(line: str, share: float) -> None:
    """The part of a step that was waiting for data."""
    assert read_timing(line).share("input") == pytest.approx(share)


@pytest.mark.parametrize("line", ["", "loss 2.1 lr 3e-4", "data_time", "data: 12 files", "step 212 | loss 2.1120"])
def test_a_line_without_timings_says_nothing(line: str) -> None:
    """No number is taken for a time that is none."""
    assert read_timing(line).share("input") is None


def test_the_optimizer_of_deepspeed_is_no_step() -> None:
    """Beside fwd and bwd the word step stands for the optimizer; the reduction is a part of bwd."""
    timing = read_timing("time (ms) | fwd: 400.0 | bwd: 1000.0 | bwd_inner: 800.0 | bwd_allreduce: 142.0 | step: 20.0")
    assert timing.share("comm") == pytest.approx(0.1)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="datime stp:=(),.|0123456789ms%[]/", max_size=400))
def test_any_text_is_read(text: str) -> None:
    """No line stops the reader."""
    share = read_timing(text).share("input")
    assert share is None or share >= 0


def rows(*lines: str) -> list[dict[str, FieldValue]]:
    """The rows that a table tells."""
    table = HostTable({}, False)
    told: list[dict[str, FieldValue]] = []
    for number, text in enumerate(lines):
        line = Line(Block(text.encode(), 0, number + 1), 0, len(text.encode()), number + 1, True)
        told += [dict(one.fields) for one in table.take(line, 0, text)]
    return told


def test_columns_that_a_command_names() -> None:
    """`ps -eo` names its columns, with or without a header."""
    found = rows("$ ps -eo pid,psr,pcpu,comm | grep python", " 7121   0 24.8 python", "$ nvidia-smi", "1 2 3 python")
    assert found == [{"pid": 7121, "core": 0, "percent": 24.8, "command": "python"}]


def test_gpus_of_a_query_and_of_dmon() -> None:
    """Both tables tell how busy each GPU is."""
    assert rows("$ nvidia-smi --query-gpu=index,utilization.gpu,memory.used --format=csv", "index, utilization.gpu [%], memory.used [MiB]", "0, 31 %, 4120 MiB") == [{"gpu": 0, "percent": 31.0}]  # fmt: skip
    assert rows("$ nvidia-smi dmon -s pu", "# gpu   pwr  temp    sm   mem", "# Idx     W     C     %     %", "    0    52    48    25     6") == [{"gpu": 0, "percent": 25.0}]  # fmt: skip


def test_disks_with_and_without_a_header() -> None:
    """The last column of iostat -x is how busy a disk is."""
    assert rows("$ iostat -x 1 1 | grep sdb", "sdb  1410.00  0.00  38211.0  0.0  0.0  0.0  28.10  99.6") == [{"device": "sdb", "percent": 99.6}]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(alphabet="# $gpuidx,%.0123456789 ", max_size=60), max_size=8))
def test_any_table_is_read(lines: list[str]) -> None:
    """No table stops the reader."""
    assert isinstance(rows("$ ps -eo pid,psr,pcpu,comm", *lines), list)


def test_ranks_are_listed_in_runs() -> None:
    """As rules take them."""
    assert listed([5, 0, 1, 2]) == "0-2, 5"


def test_many_steps_take_little_memory() -> None:
    """Of a long log some lines are kept, and they still say the share."""
    comparison = Comparison()
    for number in range(20_000):
        place = Place("job.log", number + 1, "time: 2.0, data_time: 1.0")
        comparison.add(Event("step_timed", None, None, {}, None, place, number))
    [event] = [one for one in comparison.finish() if one.kind == "steps_timed"]
    assert event.fields["input_share"] == pytest.approx(0.5)
    assert int(event.fields["steps"]) < 600


def test_the_rank_that_waits_for_its_input_is_told() -> None:
    """Of ranks with labels, the one whose input takes longer, and how much that is beside its own work."""
    comparison = Comparison()
    for number, wait in enumerate((0.01, 0.011, 0.91, 0.01)):
        place = Place("job.log", number + 1, f"iter 50 data {wait} s fwd 0.20 s")
        comparison.add(Event("step_timed", rank(number, host="", job=""), None, {}, None, place, number))
    [event] = [one for one in comparison.finish() if one.kind == "rank_input_slower"]

    assert event.subject == rank(2, host="", job="")
    assert event.fields["part"] == pytest.approx(0.9 / 1.1)
    assert [] == [one for one in comparison.finish() if one.kind == "rank_slower" and one.fields["ratio"] != 1.0]
