"""Where the NVML library is, and whether it may be loaded.

A library that another user could put in its place would run with our rights: root loads only files that root owns, in
folders that nobody else can change.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

SONAME = "libnvidia-ml.so.1"

FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",  # Kubernetes device plugins and GKE
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",  # NixOS
    "/run/nvidia/driver/usr/lib64",  # the GPU operator's driver container
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
)


def find_library(environ: Mapping[str, str], *, root: bool) -> str | None:
    """The path of the library, None where there is none that may be loaded.

    `AIDIAG_NVML_LIBRARY` names another; `LD_LIBRARY_PATH` counts too, except for `root`.
    """
    named = environ.get("AIDIAG_NVML_LIBRARY")
    return next((path for path in ([named] if named else _candidates(environ, root=root)) if _usable(path, root)), None)


def is_trusted(path: str) -> bool:
    """Whether only root can change what a path leads to. Folders like /tmp, where all may make files and only owners
    remove them, do not count against it.
    """
    try:
        parts = [Path(path).resolve(strict=True)]
        parts += parts[0].parents
        for part in parts:
            facts = part.stat()
            shared = bool(facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)) and not facts.st_mode & stat.S_ISVTX
            if facts.st_uid != 0 or shared:
                return False
    except OSError:
        return False
    return True


def _usable(path: str, root: bool) -> bool:
    return os.path.isabs(path) and Path(path).is_file() and (not root or is_trusted(path))  # noqa: PTH117


def _candidates(environ: Mapping[str, str], *, root: bool) -> Iterator[str]:
    folders = [] if root else [folder for folder in environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for folder in (*folders, *FOLDERS, *_linker_folders()):
        yield f"{folder}/{SONAME}"


def _linker_folders() -> Iterator[str]:
    """The folders in /etc/ld.so.conf.d (ld.so(8))."""
    try:
        for file in sorted(Path("/etc/ld.so.conf.d").glob("*.conf")):
            yield from (line.strip() for line in file.read_text(errors="replace").splitlines() if line.startswith("/"))
    except OSError:
        return
