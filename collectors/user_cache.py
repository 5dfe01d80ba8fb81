"""The user's own cache folder: what is costly to make again, and what may be lost at any time."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The user's cache folder for aidiag (XDG base directory specification), None where there is none.

    The specification wants a path that is not absolute to be ignored.
    """
    chosen = environ.get("XDG_CACHE_HOME", "")
    if chosen.startswith("/"):
        return Path(chosen) / "aidiag"
    home = environ.get("HOME", "")
    return Path(home) / ".cache" / "aidiag" if home.startswith("/") else None


def write_cache(path: Path, content: bytes) -> None:
    """Replace a file of the cache in one go. Where it cannot be written, nothing happens."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.stem}-", dir=path.parent)
        try:
            with open(descriptor, "wb") as stream:
                stream.write(content)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink()
            raise


def keep_newest(folder: Path, pattern: str, count: int) -> None:
    """Remove all but the `count` files of a pattern that were written last."""

    def written(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except OSError:
            return 0.0

    with contextlib.suppress(OSError):
        for path in sorted(folder.glob(pattern), key=written, reverse=True)[count:]:
            path.unlink(missing_ok=True)
