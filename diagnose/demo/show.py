"""Running a demo and showing its report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from aidiag.diagnose.demo.faults import Fault
from aidiag.diagnose.report.model import Report, decode
from aidiag.diagnose.report.terminal import render

SCRIPT = Path(__file__).with_name("train.py")


class DemoError(Exception):
    """The demo could not be run, or its fault was not found."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.remedy = remedy


def run_demo(fault: Fault, out: Path, *, ranks: int, seconds: float, lang: str | None = None) -> None:
    """Train with the fault under `aidiag run`, its job folder in `out`, and print the report.

    Raises DemoError where torch is missing, where no report was left, or where it does not say what was planted.
    """
    if find_spec("torch") is None:
        raise DemoError("demo: torch is not installed", f"{Path(sys.executable).name} -m pip install 'aidiag[torch]'")
    train = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", str(SCRIPT)]
    command = [sys.executable, *train, f"--seconds={seconds:g}", *fault.options]
    report = out.absolute() / "report.json"
    report.unlink(missing_ok=True)
    options = ["--out", str(out.absolute()), "--report", str(report), *(["--lang", lang] if lang else [])]
    print(f"aidiag demo {fault.name}: {ranks} ranks train a small model on this CPU for {seconds:g} s.")
    print(f"Fault: {fault.words}.")
    print(f"$ aidiag run -- torchrun --nproc-per-node={ranks} {SCRIPT.name} {' '.join(fault.options)}\n", flush=True)
    _call([sys.executable, "-m", "aidiag", "run", *options, "--", *command], f"demo-{fault.name}")
    verdict = _read(report)
    print()
    render(verdict, sys.stdout, lang=lang or "en")
    if not fault.found_in(verdict.findings):
        raise DemoError(f"demo: the report does not say what was planted: {fault.words}", f"see {report}")
    print(f"Planted and found: {fault.words}." if fault.causes else f"Right: {fault.words}.")


def _call(line: Sequence[str], job: str) -> None:
    """Run to the end. Ctrl-C ends the training, and then its report is still shown."""
    environ = {"OMP_NUM_THREADS": "1", **os.environ, "AIDIAG_JOB_ID": job}
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        subprocess.run(line, env=environ, check=False)
    finally:
        signal.signal(signal.SIGINT, before)


def _read(path: Path) -> Report:
    try:
        return decode(path.read_bytes(), name=str(path))
    except FileNotFoundError:
        raise DemoError("demo: no report was left", f"the job folder is in {path.parent}") from None
