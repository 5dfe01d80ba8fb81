"""The dashboard against Grafana's own TypeScript types, which refuse a misspelt key."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aidiag.grafana.job import UID
from tests.real_parts import missing

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("typescript@5", "@grafana/schema@13")
INSTALL_SECONDS = 200

HEAD = """\
import type { Dashboard } from '@grafana/schema';
// JSON has the words of an enum where TypeScript wants its members.
type Words<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]: Words<T[K]> } : T;
export const dashboard: Words<Dashboard> = """

Complaints = Callable[[dict[str, Any]], str]


@pytest.fixture(scope="module")
def complaints(require: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Complaints:
    """What the type checker says of a dashboard; nothing when it is well formed."""
    npm, node = require("npm"), require("node")
    folder = tmp_path_factory.mktemp("types")
    (folder / "package.json").write_text('{"private": true}')
    install = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", *PACKAGES]
    try:
        done = subprocess.run(install, cwd=folder, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        missing(f"npm install {' '.join(PACKAGES)} has not ended after {INSTALL_SECONDS} s")
    if done.returncode != 0:
        missing(f"npm install {' '.join(PACKAGES)} failed: {done.stderr.strip()[-300:]}")
    compiler = [node, str(folder / "node_modules" / "typescript" / "bin" / "tsc"), "--noEmit", "--skipLibCheck"]
    options = ["--strict", "--module", "esnext", "--moduleResolution", "bundler", "--target", "es2022"]

    def check(dashboard: dict[str, Any]) -> str:
        source = folder / "dashboard.ts"
        source.write_text(HEAD + json.dumps(dashboard, indent=1) + ";\n")
        return subprocess.run(
            [*compiler, *options, str(source)], cwd=folder, capture_output=True, text=True, check=False
        ).stdout

    return check


@pytest.fixture
def board() -> dict[str, Any]:
    """The committed dashboard."""
    loaded: dict[str, Any] = json.loads((ROOT / "grafana" / "dashboards" / f"{UID}.json").read_text())
    return loaded


def test_dashboard_has_grafanas_types(complaints: Complaints, board: dict[str, Any]) -> None:
    """The TypeScript compiler takes the committed dashboard as a Dashboard of Grafana."""
    assert "" == complaints(board)


def test_misspelt_key_is_refused(complaints: Complaints, board: dict[str, Any]) -> None:
    """The check above sees a key that Grafana does not know, and a value of the wrong type."""
    first = board["panels"][1]
    broken_mode = {**first["fieldConfig"]["defaults"]["thresholds"], "mode": "absolut"}
    broken = {**first, "fieldConfig": {"overrides": [], "defaults": {"thresholds": broken_mode}}}

    assert "'\"titel\"' does not exist in type" in complaints({**board, "titel": "x"})
    assert "Type 'string' is not assignable to type 'number'" in complaints({**board, "schemaVersion": "42"})
    assert "absolut" in complaints({**board, "panels": [broken]})
