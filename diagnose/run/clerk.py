"""Everything that a run has to do with the job folder, in one thread of the keeper: any of it may fail or hang, and
then nothing else waits for it.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from aidiag.collectors.bounded import read_bounded
from aidiag.collectors.run_files import ProcessMark, RunFile
from aidiag.diagnose.job.folder import write_atomically
from aidiag.diagnose.job.process import alive
from aidiag.diagnose.job.runs import SEEN_EVERY_SECONDS, is_over, read_runs, read_sidecar, write_run
from aidiag.diagnose.report.model import REPORT_LIMIT_BYTES
from aidiag.diagnose.run.capture import Capture
from aidiag.diagnose.run.environment import additions, nccl_conf_names
from aidiag.diagnose.run.prepare import Desk, prepare, run_file
from aidiag.diagnose.run.speaker import Speaker
from aidiag.diagnose.run.task import Task
from aidiag.diagnose.run.watcher import Watcher

TICK_SECONDS = 1.0
CAPTURE_SECONDS = 2.0
REPORT_SECONDS = 6.0
POLL_SECONDS = 0.1


class Clerk(Thread):
    """Prepares the folder, keeps the run's file, looks after the sidecar, says what it finds, and fetches the report.

    `reply` sends a message to `run`: "prepared" with the variables for the command, and "done" at the end. `captures`
    are the streams' captures by the name of the stream; they begin when the folder is there. `desk` is what an
    earlier keeper of the same run had already. `changed` is called at the end. `turned` is the
    monotonic time at which it was last seen at work.
    """

    def __init__(
        self,
        task: Task,
        captures: Mapping[str, Capture],
        say: Callable[[str], None],
        reply: Callable[..., object],
        changed: Callable[[], None],
        desk: Desk | None = None,
    ) -> None:
        super().__init__(name="clerk", daemon=True)
        self._task, self._captures, self._say, self._reply = task, captures, say, reply
        self._changed, self._desk = changed, desk
        self._messages: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._told: set[str] = set()
        self._over = False
        self.ended = False
        self.turned = time.monotonic()

    def tell(self, message: dict[str, Any]) -> None:
        """Hand on a message of `run`: "started" with the command's pid, "ended" with its status, or "lost"."""
        self._messages.put(message)

    def run(self) -> None:
        """Work until the command has ended."""
        try:
            self._work()
        finally:
            self.ended = True
            self._changed()

    def _work(self) -> None:
        try:
            desk = self._desk or prepare(self._task, self._say)
            if desk is not None:
                self._serve(desk)
                self._reply("done")
                return
        except Exception as problem:  # noqa: BLE001 # without a folder the command runs all the same
            self._say(f"internal error in the keeper: {type(problem).__name__}: {problem}")
        self._reply("prepared", added=additions(self._task.environ, job=self._task.job))
        while not self._over:
            self._next(None)
        self._reply("done")

    def _serve(self, desk: Desk) -> None:
        task = self._task = replace(self._task, job=desk.job_id)
        captures = {name: desk.host.capture(name, desk.key).name for name in self._captures}
        file = replace(run_file(task, task.job, desk.key), captures=captures)
        self._try(lambda: write_run(desk.host, file))
        for name, capture in self._captures.items():
            capture.begin(desk.host.capture(name, desk.key))
        if self._desk is None:
            added = additions(task.environ, job=task.job, folder=desk.host, nccl_settings=nccl_conf_names(task.environ))
            self._reply("prepared", added=added, job=task.job, folder=str(desk.host.path), key=desk.key)
        watcher, speaker = Watcher(desk.host, task, self._say), Speaker(desk.host, self._say)
        if desk.sidecar_lock is not None:
            watcher.start(desk.sidecar_lock)
        self._finish(desk, self._watch(desk, file, watcher, speaker), watcher, speaker)

    def _watch(self, desk: Desk, file: RunFile, watcher: Watcher, speaker: Speaker) -> RunFile:
        """Until the command has ended: the run's file as it then is."""
        announced = False
        while file.ended is None:
            message = self._next(TICK_SECONDS)
            now = time.time()
            changed = replace(file, seen=now if now - file.seen >= SEEN_EVERY_SECONDS else file.seen)
            if message["kind"] == "started":
                changed = replace(changed, child=ProcessMark(**message["mark"]), seen=now)
            elif message["kind"] == "ended":
                changed = replace(changed, ended=now, exit_status=message["status"])
            elif message["kind"] == "lost":
                changed = replace(changed, lost=True)
            if changed.lost and (changed.child is None or alive(changed.child) is False):
                changed = replace(changed, ended=now)
            if changed != file:
                file = changed
                self._try(partial(write_run, desk.host, changed))
            if file.ended is None:
                self._try(watcher.tick)
                self._try(speaker.follow)
                announced = announced or self._announce(desk)
        return file

    def _announce(self, desk: Desk) -> bool:
        """Say where the sidecar is, once it is; only the run that started it does."""
        if desk.sidecar_lock is None:
            return True
        sidecar = read_sidecar(desk.host)
        if sidecar is None:
            return False
        url = f", {sidecar.url}" if sidecar.url else ""
        self._say(f"watching job {self._task.job} on {self._task.host}{url}; folder {desk.job.path}")
        return True

    def _finish(self, desk: Desk, file: RunFile, watcher: Watcher, speaker: Speaker) -> None:
        """Wait for the last report, for a bounded time, and only where this is the job's last run on this host or
        the user wants the report in a file.
        """
        for capture in self._captures.values():
            capture.flush(CAPTURE_SECONDS)
        others = [run for run in read_runs(desk.host) if run.key != file.key and not is_over(run, time.time())]
        give_up = time.monotonic() + REPORT_SECONDS
        if not others or self._task.settings.report:
            while not watcher.finished() and time.monotonic() < give_up:
                self._try(speaker.follow)
                time.sleep(POLL_SECONDS)
        self._try(partial(speaker.follow, last=True))
        report = next((path for path in (desk.job.report, desk.host.report) if path.exists()), None)
        if report is not None:
            self._say(f"report: {report}; to read it: aidiag diagnose {shlex.quote(str(desk.job.path))}")
        elif not others:
            self._say(f"no report yet: aidiag diagnose {shlex.quote(str(desk.job.path))}")
        if self._task.settings.report:
            self._try(lambda: self._copy_report(report, self._task.settings.report))

    def _copy_report(self, report: Path | None, wanted: Path | None) -> None:
        if wanted is not None and report is not None:
            write_atomically(self._task.directory / wanted, read_bounded(report, REPORT_LIMIT_BYTES))
        elif wanted is not None:
            self._say(f"{wanted}: not written, there is no report")

    def _next(self, timeout_seconds: float | None) -> dict[str, Any]:
        self.turned = time.monotonic()
        try:
            message = self._messages.get(timeout=timeout_seconds)
        except Empty:
            return {"kind": ""}
        self._over = self._over or message["kind"] in ("ended", "lost")
        return message

    def _try(self, work: Callable[[], object]) -> None:
        """Do something that the job folder may refuse; each reason is told once."""
        try:
            work()
        except OSError as problem:
            if str(problem) not in self._told:
                self._told.add(str(problem))
                self._say(str(problem))
