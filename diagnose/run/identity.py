"""Which job this is, from the environment that schedulers and launchers make."""

from __future__ import annotations

import getpass
import hashlib
from collections.abc import Mapping
from pathlib import Path


def job_id(environ: Mapping[str, str]) -> str:
    """Stand-in until trainer_shim.identity is there."""
    for name in ("AIDIAG_JOB_ID", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"):
        if environ.get(name) and environ[name] != "none":
            return environ[name]
    text = "\0".join((environ.get("MASTER_ADDR", ""), getpass.getuser(), str(Path.cwd())))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def rank(environ: Mapping[str, str]) -> int | None:
    """Stand-in until trainer_shim.identity is there."""
    for name in ("RANK", "SLURM_PROCID"):
        if environ.get(name, "").isdecimal():
            return int(environ[name])
    return None
