"""The `aidiag` command: one module a command, each imported only when it is called.

Every failure of aidiag itself ends in one line on stderr and status 3 (`failure`).
"""

from __future__ import annotations

from aidiag.diagnose.cli.group import main

__all__ = ["main"]
