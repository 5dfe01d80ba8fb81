"""Jobs that end before their sidecar has looked around."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.live


def report(folder: Path, *command: str) -> dict[str, Any]:
    """What `aidiag run` left of a command, told whole."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AIDIAG_")}
    line = [sys.executable, "-m", "aidiag", "run", "--", *command]
    subprocess.run(line, cwd=folder, env={**environ, "PYTHONPATH": str(ROOT)}, check=False, timeout=120)
    (path,) = folder.glob("aidiag-*/report.json")
    told: dict[str, Any] = json.loads(path.read_text())
    return told


def test_a_job_that_fails_at_its_start_is_judged_from_its_output(tmp_path: Path) -> None:
    """A missing module ends both ranks at once: they are named, with the lines that they printed as evidence."""
    said = "".join(
        f'[rank{rank}]: Traceback (most recent call last):\\n[rank{rank}]:   File \\"t.py\\", line 1, in <module>\\n'
        f"[rank{rank}]:     import x\\n[rank{rank}]: ModuleNotFoundError: No module named 'x'\\n"
        for rank in (1,)
    )
    lost = "[rank0]: RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4123\\n"
    told = report(tmp_path, sys.executable, "-c", f'import sys; print("""{said}{lost}"""); sys.exit(1)')

    first = told["findings"][0]
    assert ("peer_crashed", [1]) == (first["cause"], first["culprit"]["ranks"])
    (host,) = {Path(one["source"]).parent.name for one in first["evidence"]}
    source = next(one for one in first["evidence"] if "ModuleNotFoundError" in one["text"])
    written = next(tmp_path.glob(f"aidiag-*/{host}/{Path(source['source']).name}")).read_text().splitlines()
    assert source["text"] in written[source["line"] - 1]


def test_a_job_that_does_nothing_has_no_ranks_and_no_findings(tmp_path: Path) -> None:
    """The healthy twin, after a job with ranks in the same place: nothing of that one is taken over."""
    ranks = "from aidiag.trainer_shim import api; api.attach(); api.step()"
    environ = "import os; os.environ.update(RANK='0', WORLD_SIZE='1', LOCAL_RANK='0')"
    assert 1 == len(report(tmp_path, sys.executable, "-c", f"{environ}; {ranks}")["ranks"])

    told = report(tmp_path, "true")
    assert ([], [], 0) == (told["findings"], told["ranks"], told["job"]["exit_status"])
