from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidiag.collectors.run_files import ProcessMark, RunFile
from aidiag.diagnose.job.earlier import set_aside
from aidiag.diagnose.job.folder import HostFolder, JobFolder, make
from aidiag.diagnose.job.process import alive, mark
from aidiag.diagnose.job.runs import (
    SILENT_SECONDS,
    SidecarFile,
    claim_key,
    is_over,
    read_runs,
    read_sidecar,
    write_run,
    write_sidecar,
)

ME = mark(os.getpid())
GONE = ProcessMark(2**22 + 1, 1, ME.namespace if ME else 0, ME.boot if ME else "")
ELSEWHERE = replace(GONE, namespace=1)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[JobFolder, HostFolder]:
    """A new job folder."""
    return make(tmp_path, "j", "a")


def run(key: str = "1", **more: object) -> RunFile:
    """A run that began at 1000."""
    facts = RunFile(key, "j", "a", ("train",), "/w", 1000.0, ME)
    return replace(facts, **more)  # type: ignore[arg-type]


def test_a_run_reads_back(folders: tuple[JobFolder, HostFolder]) -> None:
    """What is written is what is read, oldest first."""
    runs = [
        run("2", started=5.0, captures={"stdout": "stdout-2.log"}),
        run("1-1", started=6.0, ended=7.0, exit_status=3),
    ]
    for one in reversed(runs):
        write_run(folders[1], one)

    assert runs == read_runs(folders[1])


@given(st.binary(max_size=300))
def test_a_broken_run_file_hides_no_other(data: bytes) -> None:
    """Whatever a file holds, the others are read."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as place:
        folder = HostFolder(Path(place))
        write_run(folder, run())
        folder.run("2").write_bytes(data)
        (folder.path / "run-3.json").mkdir()

        assert run() in read_runs(folder)


def test_each_run_has_a_key_of_its_own(folders: tuple[JobFolder, HostFolder]) -> None:
    """Two containers of one host with the same process id get different files."""
    assert ["7", "7-1", "7-2"] == [claim_key(folders[1], 7) for _ in range(3)]


@pytest.mark.parametrize(
    ("facts", "over"),
    [
        (run(), False),
        (run(ended=1.0), True),
        (run(run=GONE), True),
        (run(run=GONE, child=ME), False),
        (run(run=GONE, child=GONE), True),
        (run(run=replace(GONE, boot="another")), True),
        (run(run=ELSEWHERE), False),
        (run(run=ELSEWHERE, seen=1000.0 + SILENT_SECONDS), False),
        (run(run=ELSEWHERE, started=900.0, seen=900.0), True),
    ],
)
def test_when_a_run_is_over(facts: RunFile, over: bool) -> None:
    """It said so, or run and command are gone, or it is in a container and has been silent for long."""
    assert over == is_over(facts, 1000.0)


def test_life_of_a_process() -> None:
    """A process lives until it ends, also before its parent has asked for its status, and no other one is taken for it."""
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    it = mark(process.pid)
    assert it is not None
    assert alive(it)
    assert not alive(replace(it, start_ticks=it.start_ticks + 1))
    assert alive(ELSEWHERE) is None
    assert process.stdin is not None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert alive(it) is False
    assert mark(process.pid) == it
    process.wait()
    assert mark(process.pid) is None


def test_the_sidecar_s_file(folders: tuple[JobFolder, HostFolder]) -> None:
    """It reads back; a broken one is none."""
    facts = SidecarFile(7, "a", "j", 5.0, 9877, "http://127.0.0.1:9877")
    write_sidecar(folders[1], facts)
    assert facts == read_sidecar(folders[1])
    folders[1].sidecar.write_text("{")
    assert read_sidecar(folders[1]) is None


def test_setting_aside(folders: tuple[JobFolder, HostFolder]) -> None:
    """What an ended job left is moved, locks stay, and only the newest two are kept."""
    job, host = folders
    for number in (1, 2, 3):
        write_run(host, run(ended=2.0))
        host.findings.write_text(str(number))
        host.sidecar_lock.touch()
        job.report.write_text(str(number))
        assert set_aside(job, host, 1000.0 + number) is not None

    kept = sorted(host.path.glob("earlier-*"))
    assert ["2", "3"] == [(folder / "findings.ndjson").read_text() for folder in kept]
    assert ["2", "3"] == [(folder / "job-report.json").read_text() for folder in kept]
    assert {*kept, host.sidecar_lock} == set(host.path.iterdir())
    assert [host.path] == list(job.path.iterdir())
    assert set_aside(job, host, 2000.0) is None


def test_nothing_is_set_aside_under_a_living_run(folders: tuple[JobFolder, HostFolder]) -> None:
    """While a run of the folder is at work its files stay."""
    write_run(folders[1], run())
    folders[1].findings.write_text("x")

    assert set_aside(*folders, 1000.0) is None
    assert folders[1].findings.exists()
