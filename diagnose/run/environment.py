"""What `aidiag run` and `aidiag env` add to a job's environment. What the user has set stays as it is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from aidiag.collectors.bounded import read_bounded
from aidiag.diagnose.job.folder import HostFolder
from aidiag.trainer_shim.export import INJECT

NCCL_LOGGING = {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_LEVELS"}
"""Who has set one of these has decided what NCCL logs, and where to: then none is added."""

NCCL_SUBSYSTEMS = "INIT,BOOTSTRAP,ENV,NET,GRAPH"


def additions(
    environ: Mapping[str, str],
    *,
    job: str,
    inject: Path = INJECT,
    folder: HostFolder | None = None,
    nccl_settings: Iterable[str] = (),
) -> dict[str, str]:
    """The variables to add or replace, for a job started with `environ`.

    `folder` is where NCCL logs go; without one NCCL's logging is left alone. `nccl_settings` are the names that NCCL
    reads from its configuration files.
    """
    added = {"PYTHONPATH": first_on_path(str(inject), environ.get("PYTHONPATH", "")), "AIDIAG_JOB_ID": job}
    if environ.get("AIDIAG_DIR"):
        added["AIDIAG_DIR"] = str(Path(environ["AIDIAG_DIR"]).absolute())
    if folder is None:
        return added
    added["AIDIAG_OUT"] = str(folder.path.parent.parent)
    if not NCCL_LOGGING & {*environ, *nccl_settings}:
        added["NCCL_DEBUG"] = "INFO"
        added["NCCL_DEBUG_SUBSYS"] = NCCL_SUBSYSTEMS
        added["NCCL_DEBUG_FILE"] = folder.nccl_pattern
    return added


def first_on_path(folder: str, path: str) -> str:
    """A search path with `folder` in front, once. The rest stays as it was written, empty entries too."""
    if not path:
        return folder
    rest = [entry for entry in path.split(os.pathsep) if entry != folder]
    return os.pathsep.join([folder, *rest])


def nccl_conf_names(environ: Mapping[str, str], *, system: Path = Path("/etc/nccl.conf")) -> set[str]:
    """The variables that NCCL's configuration files set: $NCCL_CONF_FILE, else ~/.nccl.conf, and /etc/nccl.conf
    (NCCL src/misc/param.cc). Files that cannot be read count as empty.
    """
    files = [system]
    if environ.get("NCCL_CONF_FILE"):
        files.append(Path(environ["NCCL_CONF_FILE"]))
    elif environ.get("HOME"):
        files.append(Path(environ["HOME"]) / ".nccl.conf")
    return {name for file in files for name in _names(file)}


def _names(file: Path) -> Iterator[str]:
    try:
        text = read_bounded(file.resolve()).decode(errors="replace")
    except (OSError, RuntimeError):
        return
    for line in text.splitlines():
        if match := re.match(r"\s*([A-Za-z_]\w*)\s*=", line):
            yield match[1]
