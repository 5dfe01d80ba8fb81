"""Copying the shim into a folder, for images that hold no aidiag."""

from __future__ import annotations

import shutil
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
INJECT = PACKAGE / "inject"
"""What goes on PYTHONPATH."""


def export(folder: Path) -> Path:
    """Copy the shim to `folder/trainer_shim`, in the place of an older copy, and give what goes on PYTHONPATH.

    Raises OSError where that cannot be written, FileExistsError where something else lies there.
    """
    target = folder / "trainer_shim"
    if target.exists() and not (target / "inject" / "sitecustomize.py").is_file():
        raise FileExistsError(f"{target} is there and is not an exported shim")
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    return target / "inject"
