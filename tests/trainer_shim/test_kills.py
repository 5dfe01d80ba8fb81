"""Writers that are killed leave records that can be read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "kill_writers.py"
KILLS = int(os.environ.get("AIDIAG_KILLS", "500"))


@pytest.mark.live
def test_kills_tear_nothing(memory_folder: Path) -> None:
    """Of 500 writers killed by SIGKILL, none leaves a record that is torn or lies behind what it had finished."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(memory_folder), str(KILLS)],
        capture_output=True, text=True, timeout=280, check=True, cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    result = json.loads(done.stdout)

    assert [] == result["problems"]
    assert result["live_reads"] > 0
