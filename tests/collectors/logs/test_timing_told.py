"""What tables of steps, profiles and saves say, read from a whole text."""

from __future__ import annotations

import io

import pytest

from aidiag.collectors.logs import read_log
from aidiag.collectors.logs.comparing import Comparison
from aidiag.collectors.observation import Event


def compared(text: str, kind: str) -> list[Event]:
    """What the events of a text show together, of one kind."""
    comparison, lines = Comparison(), text.splitlines()
    for event in read_log(io.BytesIO(text.encode()), reference=1.8e9):
        comparison.add(event)
    return [one for one in comparison.finish(lambda _, first, last: lines[first : last - 1]) if one.kind == kind]


def test_a_table_of_steps_is_read_by_its_heading() -> None:
    """Columns by name, other lines between, and a time before the first cell."""
    text = "epoch,iter,step_time,data_time,loss\n0,1,2.0,1.5,7.1\nsaving\n[12:00:01] 0,2,2.0,1.5,7.0\n0,3,2.0,1.5,6.9\n"
    [told] = compared(text, "steps_timed")
    assert told.fields["input_share"] == pytest.approx(0.75)


def test_a_heading_without_a_column_for_data_opens_no_table() -> None:
    """The twin: nothing is told."""
    assert not compared("epoch,data_time,loss\n0,1.5,7.1\n0,1.5,7.0\n", "steps_timed")


def test_a_profile_without_percentages_is_measured_by_its_total() -> None:
    """The largest time of a row, beside the total of the host."""
    text = "aten::item  1.2ms  60.0ms  400\nSelf CPU time total: 120.0ms\n"
    [told] = compared(text, "profile_read")
    assert told.fields["sync_percent"] == pytest.approx(50)
    assert told.fields["sync_calls"] == 400


def test_a_step_after_a_save_that_is_far_out_of_line_holds_the_save() -> None:
    """By the steps around it."""
    step = "Train loss {} 0.40 Grad Norm 0.40 {}s/it\n"
    text = step.format(9, "2.0") + "Saving model and optimizer state at iteration 10\n" + step.format(10, "402.0")
    [told] = compared(text, "saves_timed")
    assert told.fields["seconds"] == pytest.approx(400)
    assert not compared(text.replace("402.0", "4.0"), "saves_timed")


def test_saves_are_measured_against_the_training_between_them() -> None:
    """Where no line has a time of day."""
    text = "Epoch 1 took 30.0 s\ncheckpoint saved in 10.0 s\nEpoch 2 took 30.0 s\ncheckpoint saved in 10.0 s\n"
    [told] = compared(text, "saves_timed")
    assert told.fields["share"] == pytest.approx(0.25)


def test_training_that_goes_on_after_a_warning_only_waited() -> None:
    """Horovod warns of a rank that saves; steps that come afterwards show that nothing hangs."""
    stalled = (
        "Epoch 3: saving model to out.h5\n"
        "W horovod/common/operations.cc:1669] One or more tensors were submitted to be reduced, gathered or broadcasted"
        " by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.\n"
        "Stalled ops:\nallreduce.x [missing ranks: 0]\n"
    )
    [went] = compared(stalled + "30/30 - 90s - loss: 8.1\nEpoch 5\n", "busy_before_timeout")
    [hung] = compared(stalled, "busy_before_timeout")
    assert went.fields.get("went_on") == "yes"
    assert "went_on" not in hung.fields


def test_who_ended_training_and_does_not_wait_is_silent() -> None:
    """Rank 0 where nobody is named, unless it waits itself."""
    late = (
        "[rank{0}]:[E1130 17:05:38.162 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout:"
        " WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds"
        " before timing out.\n"
    )
    [told] = compared("Training complete\n" + late.format(1), "data_ended_before_timeout")
    assert (told.fields["ended"], told.fields["silent"]) == ("0", "yes")
    [told] = compared("Training complete\n" + late.format(0), "data_ended_before_timeout")
    assert "silent" not in told.fields


@pytest.mark.parametrize(("tasks", "allowed"), [(4, 1.0), (1, 4.0)])
def test_the_cpus_of_a_slurm_step_are_shared_by_its_tasks(tasks: int, allowed: float) -> None:
    """What scontrol shows of a step."""
    text = f"State=RUNNING Partition=p NodeList=node-a Nodes=1 CPUs=4 Tasks={tasks} Name=python\n"
    [told] = compared(text, "cpus_compared")
    assert told.fields["allowed"] == allowed
