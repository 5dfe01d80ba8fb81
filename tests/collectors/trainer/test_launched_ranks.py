"""Ranks by the launchers' variables, and what keeps the shim out of some."""

from __future__ import annotations

from typing import Any

import pytest

from aidiag.collectors.launched_ranks import AGAIN_SECONDS, SCAN_SECONDS, YOUNG_SECONDS, LaunchedRanks, parse_environ

SHIM = "/opt/aidiag/trainer_shim/inject"
RANK = {"RANK": "1", "WORLD_SIZE": "2", "AIDIAG_JOB_ID": "j", "PYTHONPATH": f"/lib:{SHIM}"}
TRAIN = ["/usr/bin/python3.11", "-u", "train.py"]


def reason(node: Any, environ: dict[str, str], arguments: list[str]) -> str:
    """What keeps the shim out of a process."""
    node.files = {f"/proc/7/root{SHIM}/sitecustomize.py"}
    node.processes = {7: (environ, arguments)}
    (found,) = LaunchedRanks(node).find(0)
    assert ("j", 1, (7,)) == (found.job, found.place.rank, found.pids)
    assert bool(found.reason) == bool(found.remedy)
    return found.reason


def test_a_rank_that_may_attach(node: Any) -> None:
    """A Python with the shim on its path has no obstacle; a program that is no Python may start one."""
    assert "" == reason(node, RANK, TRAIN)
    assert "" == reason(node, {**RANK, "PYTHONPATH": ""}, ["bash", "run.sh"])


@pytest.mark.parametrize(
    ("environ", "arguments", "expected"),
    [
        ({}, ["python", "-I", "train.py"], "python -I ignores PYTHONPATH"),
        ({}, ["python3", "-uE", "-W", "-I", "train.py"], "python -E ignores PYTHONPATH"),
        ({}, ["python3", "-S", "-m", "train"], "python -S loads no sitecustomize"),
        ({}, ["python3", "-m", "train", "-I"], ""),
        ({}, ["python3", "train.py", "-E"], ""),
        ({}, ["python3", "-c", "x", "-S"], ""),
        ({"AIDIAG_DISABLE": "1"}, TRAIN, "AIDIAG_DISABLE=1 is set"),
        ({"PYTHONPATH": "/mine"}, TRAIN, "PYTHONPATH does not hold the shim's folder"),
        ({"PYTHONPATH": "/x/trainer_shim/inject"}, TRAIN, "/x/trainer_shim/inject is not there in its container"),
    ],
)
def test_obstacles(node: Any, environ: dict[str, str], arguments: list[str], expected: str) -> None:
    """Options of Python, a path that was set anew, a container without the path, the switch: each is told."""
    assert expected == reason(node, {**RANK, **environ}, arguments)


def test_a_rank_is_one_of_many_processes(node: Any) -> None:
    """A wrapper, the trainer and its workers are one rank; one that the shim can get into speaks for all."""
    node.files = {f"/proc/{pid}/root{SHIM}/sitecustomize.py" for pid in (8, 9)}
    node.processes = {
        7: (RANK, ["python", "-I", "wrapper.py"]),
        8: (RANK, TRAIN),
        9: ({**RANK, "RANK": "0"}, TRAIN),
    }

    assert [(0, (9,), ""), (1, (7, 8), "")] == [
        (one.place.rank, one.pids, one.reason) for one in LaunchedRanks(node).find(0)
    ]


def test_who_is_no_rank(node: Any) -> None:
    """aidiag itself, launchers, other jobs and processes that cannot be looked into are no ranks."""
    node.processes = {
        1: ({}, ["init"]),
        2: ({**RANK}, ["/usr/bin/python3", "/usr/bin/aidiag", "run", "--", "python"]),
        3: ({**RANK}, ["python3", "-m", "aidiag", "run"]),
        4: ({"AIDIAG_JOB_ID": "j"}, ["python3", "torchrun"]),
        5: ({**RANK, "HIDDEN": "1"}, TRAIN),
        6: ({**RANK, "AIDIAG_JOB_ID": "other"}, TRAIN),
    }

    assert [] == LaunchedRanks(node, "j").find(0)
    assert ["other"] == [one.job for one in LaunchedRanks(node).find(0)]


def test_processes_are_listed_every_few_seconds(node: Any) -> None:
    """New ones are found, ended ones are forgotten."""
    node.processes = {7: (RANK, TRAIN)}
    ranks = LaunchedRanks(node)
    ranks.find(0)
    node.processes[8] = ({**RANK, "RANK": "0"}, TRAIN)
    assert [1] == [one.place.rank for one in ranks.find(SCAN_SECONDS - 1)]
    assert [0, 1] == [one.place.rank for one in ranks.find(SCAN_SECONDS)]
    del node.processes[7]

    assert [0] == [one.place.rank for one in ranks.find(2 * SCAN_SECONDS)]


def test_old_processes_are_hardly_read(node: Any) -> None:
    """Of an old trainer only its start is read, of other old programs nothing for a while."""
    node.files = {f"/proc/7/root{SHIM}/sitecustomize.py"}
    node.processes = {7: (RANK, TRAIN), **{pid: ({}, ["sleep"]) for pid in range(100, 150)}}
    ranks = LaunchedRanks(node)
    ranks.find(0)
    ranks.find(YOUNG_SECONDS)
    node.reads = 0
    assert [(7,)] == [one.pids for one in ranks.find(YOUNG_SECONDS + SCAN_SECONDS)]
    assert 51 >= node.reads
    node.reads = 0
    assert [(7,)] == [one.pids for one in ranks.find(YOUNG_SECONDS + 2 * SCAN_SECONDS)]

    assert 1 == node.reads


@pytest.mark.parametrize("before", [(RANK, ["bash", "run.sh"]), ({}, ["slurmstepd"])], ids=["wrapper", "launcher"])
def test_a_process_that_becomes_another_program(node: Any, before: tuple[dict[str, str], list[str]]) -> None:
    """A wrapper that executes the trainer in its place is a Python then, and a launcher's child becomes a rank."""
    node.processes = {7: before}
    ranks = LaunchedRanks(node)
    ranks.find(0)
    node.processes = {7: (RANK, ["python", "-I", "train.py"])}
    (found,) = ranks.find(SCAN_SECONDS)

    assert "python -I ignores PYTHONPATH" == found.reason


def test_a_wrapper_that_takes_its_time(node: Any) -> None:
    """One that prepares for an hour before it executes the trainer is looked at again now and then."""
    node.processes = {7: (RANK, ["bash", "run.sh"])}
    ranks = LaunchedRanks(node)
    for minute in range(60):
        ranks.find(60 * minute)
    node.processes = {7: (RANK, ["python", "-E", "train.py"])}

    assert "python -E ignores PYTHONPATH" == ranks.find(3600 + AGAIN_SECONDS)[0].reason


def test_a_number_that_goes_to_another_process(node: Any) -> None:
    """A process with the number of one that has ended is another one, as its start tells."""
    node.files = {f"/proc/7/root{SHIM}/sitecustomize.py"}
    node.processes = {7: (RANK, TRAIN)}
    ranks = LaunchedRanks(node)
    ranks.find(0)
    ranks.find(YOUNG_SECONDS)
    node.started[7], node.processes = 6, {7: ({**RANK, "RANK": "0"}, TRAIN)}

    assert [0] == [one.place.rank for one in ranks.find(YOUNG_SECONDS + SCAN_SECONDS)]


def test_a_home_that_does_not_answer(node: Any) -> None:
    """Whether the shim is there on a dead file system is not known, and said to be so; later it is asked again."""
    path = f"/proc/7/root{SHIM}/sitecustomize.py"
    node.processes, node.files, node.hangs = {7: (RANK, TRAIN)}, {path}, {path}
    ranks = LaunchedRanks(node)
    (found,) = ranks.find(0)
    assert f"the file system of {SHIM} does not answer: exists({path}) has not returned for 2.0 s" == found.reason
    ranks.find(YOUNG_SECONDS)
    node.hangs = set()

    assert "" == ranks.find(YOUNG_SECONDS + AGAIN_SECONDS)[0].reason


def test_an_environment_is_taken_apart() -> None:
    """Values may hold anything but a zero byte; what is no assignment is left out."""
    assert {"A": "1=2", "B": "", "C": "�"} == parse_environ(b"A=1=2\0B=\0nothing\0=x\0C=\xff\0")
