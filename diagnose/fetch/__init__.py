"""Fetching what schedulers know of a job, with the tools that its user has, into files that evidence can point at."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from aidiag.diagnose.fetch.fetched import Fetched, FetchError
from aidiag.diagnose.fetch.pod import fetch_pod
from aidiag.diagnose.fetch.slurm import fetch_job

__all__ = ["FetchError", "Fetched", "fetch"]


def fetch(jobs: Sequence[str], pods: Sequence[str], namespace: str, out: Path | None) -> Fetched:
    """What Slurm knows of `jobs` and Kubernetes of `pods`, as files in `out`, which must be new: by default a temporary
    folder, which stays, and is named on standard error. Raises FetchError.
    """
    if out is None:
        folder = Path(tempfile.mkdtemp(prefix="aidiag-"))
    else:
        folder = out
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            raise FetchError(f"{folder} exists already", "give --out a new folder") from None
    found = Fetched([folder])
    try:
        for job in jobs:
            found.add(fetch_job(job, folder))
        for pod in pods:
            found.add(fetch_pod(pod, namespace, folder))
    except BaseException:
        _remove_empty(folder)
        raise
    print(f"aidiag: what was fetched lies in {folder}", file=sys.stderr)
    return found


def _remove_empty(folder: Path) -> None:
    """Leave nothing where nothing was fetched."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    if not any(folder.iterdir()):
        folder.rmdir()
