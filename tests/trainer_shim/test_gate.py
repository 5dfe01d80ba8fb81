"""Who may attach: a rank, and none of its helpers."""

from __future__ import annotations

import os
from typing import Any

import pytest

STEP = "import torch; torch.optim.SGD().step()\n"
CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True, env={env})\n"


def places(injected: Any) -> list[tuple[int, int, int]]:
    """Rank, world size and steps of all records."""
    return [(r.identity.rank, r.identity.world_size, r.state.steps) for r in injected.records()]


def child(program: str, **changes: str) -> str:
    """A program that runs another one as its child."""
    return CHILD.format(child=program, env=f"{{**__import__('os').environ, **{changes!r}}}")


def test_a_child_of_a_trainer_stays_out(injected: Any) -> None:
    """A tool that a trainer starts runs the same code in the same environment, and has no record."""
    injected.run(STEP + child(STEP) + child(child(STEP)))

    assert [(0, 1, 1)] == places(injected)


def test_a_child_of_a_launcher_attaches(injected: Any) -> None:
    """A launcher imports torch and starts the ranks: they attach, it does not."""
    injected.run(
        "import torch\n" + child(STEP, RANK="0", WORLD_SIZE="2") + child(STEP + STEP, RANK="1", WORLD_SIZE="2")
    )

    assert [(0, 2, 1), (1, 2, 2)] == places(injected)


def test_a_trainer_that_launches_ranks(injected: Any) -> None:
    """A script that looks at its data with a loader and then starts ranks does not keep them out."""
    injected.run(
        STEP + child(STEP, RANK="0", WORLD_SIZE="2", TORCHELASTIC_RUN_ID="none") + child(STEP, RANK="1", WORLD_SIZE="2")
    )

    assert [(0, 1, 1), (0, 2, 1), (1, 2, 1)] == places(injected)


def test_a_child_after_detach(injected: Any) -> None:
    """A trainer that has detached does not speak for its children any more."""
    injected.run(f"{STEP}import aidiag.trainer_shim as shim; shim.detach()\n" + child(STEP))

    assert [(0, 1, 1), (0, 1, 1)] == places(injected)


def test_a_fork_writes_nothing(injected: Any) -> None:
    """A forked child of a trainer lets go of the record: its steps, phases and batches are not the parent's."""
    program = f"""
{STEP}
import os, sys
import aidiag.trainer_shim as shim
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        try:
            torch.optim.SGD().step()
            shim.step(); shim.log(loss=1.0)
            with shim.phase("checkpoint"):
                list(torch.utils.data.DataLoader([1, 2]))
            maps = open("/proc/self/maps").read()
            os._exit(3 if ".record" in maps else 0)
        except BaseException as error:
            print(error, flush=True)
            os._exit(4)
    assert os.waitpid(pid, 0)[1] == 0
torch.optim.SGD().step()
"""
    done = injected.run(program)

    assert ("", "") == (done.stdout, done.stderr)
    assert [(0, 1, 2)] == places(injected)


def test_forked_ranks(injected: Any) -> None:
    """Ranks that are forked, also from a process that has attached, have records of their own."""
    program = f"""
{STEP}
import os
for rank in range(2):
    pid = os.fork()
    if pid == 0:
        torch.distributed.init_process_group(rank=rank, world_size=2)
        for _ in range(rank + 3):
            torch.optim.SGD().step()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""
    injected.run(program)

    assert [(0, 1, 1), (0, 2, 3), (1, 2, 4)] == places(injected)


def test_a_trainer_that_starts_itself_anew(injected: Any) -> None:
    """After exec the process is the same and the trainer another: it attaches, as a restart."""
    program = f"""
{STEP}
import os, sys
if "AGAIN" not in os.environ:
    os.environ.update(AGAIN="1", TORCHELASTIC_RESTART_COUNT="1")
    os.execv(sys.executable, [sys.executable, "-c", os.environ["PROGRAM"]])
"""
    injected.environ["PROGRAM"] = program
    injected.run(program)
    first, second = injected.records()

    assert first.identity.pid == second.identity.pid
    assert [0, 1] == [first.identity.restart_count, second.identity.restart_count]


def test_a_loader_worker_stays_out(injected: Any) -> None:
    """A worker process of a loader knows that it is one, whoever its parents are."""
    program = """
import sys, types
sys.modules["torch.utils.data._utils.worker"] = types.SimpleNamespace(_worker_info=object())
import torch; torch.optim.SGD().step()
"""
    injected.run(program)

    assert [] == places(injected)


@pytest.mark.parametrize("told", [(), (1, 4)], ids=["environment", "arguments"])
def test_the_group_says_who_we_are(injected: Any, told: tuple[int, int]) -> None:
    """A rank that only the process group knows is learned from it; a contradiction is noted."""
    arguments = f"rank={told[0]}, world_size={told[1]}" if told else ""
    injected.environ.update({} if told else {"RANK": "2", "WORLD_SIZE": "3"})
    program = f"{STEP}torch.distributed.init_process_group({arguments})\nimport time\ntorch.optim.SGD().step()"
    injected.run(program)
    (record,) = injected.records()

    assert ((1, 4) if told else (2, 3)) == (record.identity.rank, record.identity.world_size)
    assert [] == [note.kind for note in record.notes]

    injected.environ.update({"RANK": "5", "WORLD_SIZE": "8"})
    injected.run(f"{STEP}torch.distributed.init_process_group(rank=1, world_size=4)")
    record = injected.records()[-1]
    assert (1, 4) == (record.identity.rank, record.identity.world_size)
    assert [("group_differs", "5", 1)] == [(n.kind, n.fields["told_rank"], n.fields["rank"]) for n in record.notes]


def test_a_stuck_group_is_seen(injected: Any) -> None:
    """While the process group is being made, the record says so."""
    program = f"""
import torch
inner = torch.distributed.init_process_group.__wrapped__
import _aidiag_shim.session as s
real = inner.__code__
def look():
    import glob
    from _aidiag_shim.record import read_record
    (path,) = glob.glob({str(injected.folder)!r} + "/*.record")
    return read_record(path).state.stage
stages = []
def stuck(*a, **k):
    stages.append(look())
import types
torch.distributed.init_process_group.__closure__
cell = [c for c in torch.distributed.init_process_group.__closure__ if c.cell_contents is inner][0]
cell.cell_contents = stuck
torch.distributed.init_process_group()
stages.append(look())
print(stages)
"""
    done = injected.run(program)

    assert "['group_init', 'attached']" == done.stdout.strip()


def test_a_launcher_s_environment_is_read_at_attach(injected: Any) -> None:
    """Variables that the script sets itself before it trains count."""
    injected.run(f"import os; os.environ.update(RANK='1', WORLD_SIZE='2', NCCL_DEBUG='INFO')\n{STEP}")
    (record,) = injected.records()

    assert (1, 2) == (record.identity.rank, record.identity.world_size)
    assert "INFO" == record.identity.env["NCCL_DEBUG"]
    assert os.getpid() != record.identity.pid
