from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.live
@pytest.mark.parametrize("fault", ["slow-loader", "straggler", "dead-rank", "healthy"])
def test_the_demo_finds_what_it_planted(tmp_path: Path, fault: str) -> None:
    """A real job with a real fault ends with status 0, the report on the terminal, and the job folder kept."""
    line = [sys.executable, "-m", "aidiag", "demo", fault, "--seconds", "26", "--keep", str(tmp_path)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("AIDIAG_", "NCCL_"))}
    ended = subprocess.run(
        line, env={**environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert 0 == ended.returncode, ended.stdout + ended.stderr
    last = "Right: nothing is wrong" if fault == "healthy" else "Planted and found: "
    assert ended.stdout.splitlines()[-1].startswith(last)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["findings"] or fault == "healthy"
    assert (tmp_path / f"aidiag-demo-{fault}/report.json").exists()
