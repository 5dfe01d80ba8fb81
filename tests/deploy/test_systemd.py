"""deploy/systemd: the node daemon's unit and its user."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
UNIT = FOLDER / "aidiag.service"
EXPOSURE_LIMIT = 3.0  # systemd's scale from 0 to 10; "OK" ends at 5, a unit without any hardening has 9.6


def exposure(systemd_analyze: str, unit: Path) -> float:
    """How exposed systemd says a unit is."""
    command = [systemd_analyze, "security", "--offline=true", "--no-pager", str(unit)]
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"Overall exposure level for .*: ([\d.]+)", text)
    assert found, text
    return float(found[1])


def test_unit_is_hardened(require: Callable[[str], str]) -> None:
    """systemd's own assessment of the unit stays at or below the limit."""
    assert exposure(require("systemd-analyze"), UNIT) <= EXPOSURE_LIMIT


def test_assessment_sees_a_lost_restriction(require: Callable[[str], str], tmp_path: Path) -> None:
    """Without its restrictions the same unit is far above the limit."""
    bare = tmp_path / UNIT.name
    kept = ("[", "Type=", "ExecStart=", "Description=", "WantedBy=")
    bare.write_text("\n".join(line for line in UNIT.read_text().splitlines() if line.startswith(kept)))

    assert exposure(require("systemd-analyze"), bare) > 3 * EXPOSURE_LIMIT


def test_unit_has_no_unknown_setting(require: Callable[[str], str], tmp_path: Path) -> None:
    """systemd reads every line of the unit without a complaint, and complains of a misspelt one."""
    text = UNIT.read_text().replace("/usr/local/bin/aidiag", "/bin/true")
    complaints = {}
    for name, content in (("good", text), ("bad", text.replace("NoNewPrivileges", "NoNewPriviledges"))):
        unit = tmp_path / f"{name}.service"
        unit.write_text(content)
        command = [require("systemd-analyze"), "verify", "--man=no", str(unit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        complaints[name] = [line for line in done.stderr.splitlines() if unit.name in line]

    assert [] == complaints["good"]
    assert "NoNewPriviledges" in "".join(complaints["bad"])


def test_user_can_be_made(require: Callable[[str], str], tmp_path: Path) -> None:
    """systemd's own tool makes the unit's user from its file, in an empty root, without a shell."""
    (tmp_path / "etc").mkdir()
    command = [require("systemd-sysusers"), f"--root={tmp_path}", str(FOLDER / "aidiag.sysusers")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stderr
    (user,) = re.findall(r"^User=(.+)$", UNIT.read_text(), re.MULTILINE)
    (line,) = (tmp_path / "etc" / "passwd").read_text().splitlines()
    assert line.startswith(f"{user}:")
    assert line.endswith("nologin")
