"""A job folder on a file system that stops answering: files wait, the verdict does not."""

from __future__ import annotations

import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from aidiag.collectors import COLLECTORS
from aidiag.collectors.observation import Event
from aidiag.collectors.run_files import RunFile
from aidiag.diagnose.config import Config
from aidiag.diagnose.job.folder import HostFolder
from aidiag.diagnose.job.ledger import Change
from aidiag.diagnose.job.runs import read_runs, read_sidecar, write_run
from aidiag.diagnose.report.model import decode
from aidiag.diagnose.sidecar import runs_seen
from aidiag.diagnose.sidecar.folder_output import FolderOutput
from aidiag.diagnose.sidecar.loop import Sidecar
from aidiag.diagnose.sidecar.snapshot import Snapshot
from aidiag.diagnose.sidecar.watch_job import JobWatch
from aidiag.diagnose.sidecar.writer import Writer
from aidiag.rules.finding import Finding

PATIENCE_SECONDS = 20.0


def finding(number: int) -> Finding:
    """A finding."""
    return Finding(f"r/j/{number}", "c", "r", "warning", 0.5, "t", "s", None, None, None, (), "", ())


def soon(condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true while there is patience."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


class Hanging:
    """An output that hangs until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.entered = threading.Event()
        self.changes: list[Change] = []
        self.snapshots: list[float] = []
        self.events: list[Event] = []

    def write(self, snapshot: Snapshot, changes: Sequence[Change], events: Iterable[Event]) -> None:
        """Hang, then write."""
        self.entered.set()
        assert self.go.wait(PATIENCE_SECONDS)
        self.snapshots.append(snapshot.monotonic)
        self.changes += changes
        self.events = list(events)
        if snapshot.monotonic == 0.0:
            raise OSError("disk full")


def test_writing_waits_and_nothing_is_lost() -> None:
    """While an output hangs, ticks go on at once; afterwards it gets every change, the latest snapshot and no other, and
    an error of it ends nothing.
    """
    slow = Hanging()
    writer = Writer(slow)
    writer.write(Snapshot("a", 0.0, 0.0), [Change("raised", finding(0))], ())
    assert slow.entered.wait(PATIENCE_SECONDS)
    events = [Event("rank_exited", None, 1.0)]
    for number in range(1, 6):
        writer.write(Snapshot("a", float(number), 0.0), [Change("raised", finding(number))], events)
    events.clear()  # what the loop does with its own list later is not seen

    slow.go.set()
    writer.close()

    assert [0.0, 5.0] == slow.snapshots
    assert [finding(number) for number in range(6)] == [change.finding for change in slow.changes]
    assert 1 == len(slow.events)


def test_a_sidecar_judges_on_while_its_folder_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With reads and writes of the job folder hung its loop turns; once the folder answers, the job's end is seen and
    the report is written.
    """
    host = HostFolder(tmp_path / "job" / "a")
    host.path.mkdir(parents=True)
    run = RunFile("1", "j", "a", ("train",), "/", time.time(), None, seen=time.time())
    write_run(host, run)
    answers, waiting, ticks = threading.Event(), [0], [0]
    write, tick = FolderOutput.write, Sidecar.tick

    def hang() -> None:
        if not answers.is_set():
            waiting[0] += 1
            assert answers.wait(PATIENCE_SECONDS)

    def hung_write(self: FolderOutput, *verdict: object) -> None:
        hang()
        write(self, *verdict)  # type: ignore[arg-type]

    def hung_read(folder: HostFolder) -> list[RunFile]:
        hang()
        return read_runs(folder)

    def counted(self: Sidecar, *, final: bool = False) -> Snapshot:
        ticks[0] += 1
        return tick(self, final=final)

    monkeypatch.setattr(FolderOutput, "write", hung_write)
    monkeypatch.setattr(runs_seen, "read_runs", hung_read)
    monkeypatch.setattr(Sidecar, "tick", counted)
    config = Config(rules_folder=tmp_path / "none", waivers_file=tmp_path / "none.yaml", disable=tuple(COLLECTORS))
    watch = JobWatch("j", host, config, port=0)
    thread = threading.Thread(target=watch.run, args=(threading.Event(),), daemon=True)
    thread.start()
    try:
        assert soon(lambda: waiting[0] == 2 and ticks[0] >= 3)
        assert not host.state.exists()
        write_run(host, replace(run, ended=time.time(), exit_status=3))
    finally:
        answers.set()
    thread.join(PATIENCE_SECONDS)

    report = decode(host.report.read_bytes())
    assert ("train", 3) == (report.job.command, report.job.exit_status)
    sidecar = read_sidecar(host)
    assert sidecar is not None
    assert "finished" == sidecar.state
    assert host.state.exists()


def test_a_log_that_takes_nothing_holds_up_nobody() -> None:
    """With standard error stuck, who logs goes on at once; once it takes lines again, all of them come."""
    program = (
        "import logging; from aidiag.diagnose.sidecar.ending import leave, log_aside\n"
        "listener = log_aside()\n"
        "for number in range(2000): logging.getLogger('x').warning('line %d %s', number, '.' * 100)\n"
        "print('went on', flush=True)\n"
        "leave(listener.stop)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert select.select([process.stdout], [], [], PATIENCE_SECONDS)[0]
        assert b"went on\n" == process.stdout.readline()
        lines = process.stderr.read().splitlines()

    assert 2000 == len(lines)
    assert b"line 1999" in lines[-1]
