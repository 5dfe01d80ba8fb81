"""Real jobs that fail, and what is said of the logs that they leave."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from aidiag.diagnose.config import Config
from aidiag.diagnose.post_mortem import diagnose
from aidiag.diagnose.report.model import Report

TRAIN = Path(__file__).with_name("train.py")
LIMIT_SECONDS = 150


def environ(**more: str) -> dict[str, str]:
    """The environment of a job: nothing of this one but where programs are."""
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return {"PATH": path, "HOME": os.environ.get("HOME", "/"), "OMP_NUM_THREADS": "1", **more}


def torchrun(fault: str, *options: str) -> list[str]:
    """The command of a job of two ranks on this host. Its port is free, unless an option names one."""
    port = () if "--master-port" in options else ("--master-port", str(free_port()))
    start = (sys.executable, "-m", "torch.distributed.run", "--nnodes", "1", "--nproc-per-node", "2")
    return [*start, *port, *options, str(TRAIN), fault]


def run(command: Sequence[str], log: Path, more: Mapping[str, str] | None = None) -> int:
    """Run a job to its end, all that it prints in `log`; its exit status."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environ(**(more or {})), start_new_session=True
        )
        try:
            return process.wait(LIMIT_SECONDS)
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def judged(*logs: Path) -> Report:
    """The report on logs alone."""
    return diagnose([str(log) for log in logs], Config(), "en", io.BytesIO())


def verdict(report: Report) -> tuple[str, tuple[int, ...]]:
    """The first cause, and the ranks blamed for it; `nothing` where nothing was found."""
    if not report.findings:
        return "nothing", ()
    first = report.findings[0]
    return first.cause, first.culprit.ranks if first.culprit else ()


def assert_true_evidence(report: Report, *logs: Path) -> None:
    """Each line that a report quotes stands at its place in its log."""
    texts = {str(log): log.read_text(errors="backslashreplace").splitlines() for log in logs}
    for finding in (*report.findings, *report.consequences):
        for item in finding.evidence:
            if item.line is not None:
                assert item.text in texts[item.source][item.line - 1]
