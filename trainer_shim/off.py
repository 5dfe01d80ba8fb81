"""When the shim must switch itself off: one line for people, and a file that the sidecar finds."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Optional

from . import folder, owner
from .folder import OffError

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def report(
    error: OffError, identity: Mapping[str, object], here: Optional[owner.Owner], environ: Mapping[str, str]
) -> None:
    """Say why the shim is off. Never raises."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(f"aidiag: shim off: {error.reason}\n")
            sys.stderr.flush()
    except Exception:
        pass  # a closed one
    if here is None:
        return
    facts = {name: identity.get(name) for name in ("job_id", "rank", "world_size", "host")}
    text = json.dumps({**facts, "unix": time.time(), "code": error.code, "reason": error.reason}).encode()
    for path in dict.fromkeys((*folder.candidates(environ, os.geteuid()), *folder.candidates({}, os.geteuid()))):
        if _leave(path, owner.file_name(here, "off", error.code), text):
            return


def _leave(path: str, name: str, text: bytes) -> bool:
    """Leave a file in a folder of ours. Its name alone tells the code: a full or limited folder still takes a name."""
    try:
        folder_fd = folder.open_own(path, create=not path.startswith("/run/"))
    except OffError:
        return False
    try:
        fd = os.open(name, _CREATE, 0o600, dir_fd=folder_fd)
    except OSError:
        return False
    finally:
        os.close(folder_fd)
    try:
        if _may_write(len(text)):
            os.write(fd, text)
    except OSError:
        pass  # the name says it
    finally:
        os.close(fd)
    return True


def _may_write(count: int) -> bool:
    """Whether RLIMIT_FSIZE lets a file grow so far; a write beyond it would end the process by SIGXFSZ."""
    import resource

    soft = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return soft == resource.RLIM_INFINITY or soft >= count
