"""Whether a process of this host still lives, safe against reused process ids."""

from __future__ import annotations

from pathlib import Path

from aidiag.collectors.run_files import ProcessMark

PROC = Path("/proc")


def mark(pid: int, proc: Path = PROC) -> ProcessMark | None:
    """The mark of a process of our own namespace, None where there is none of this id."""
    found = _stat(pid, proc)
    return None if found is None else ProcessMark(pid, found[1], _namespace(proc), _boot(proc))


def alive(process: ProcessMark, proc: Path = PROC) -> bool | None:
    """True or False, None where it runs in a namespace that we cannot look into. A zombie is not alive."""
    if process.boot != _boot(proc):
        return False
    if process.namespace != _namespace(proc):
        return None
    found = _stat(process.pid, proc)
    return found is not None and found[0] not in "ZX" and found[1] == process.start_ticks


def _stat(pid: int, proc: Path) -> tuple[str, int] | None:
    """State letter and start time of a process."""
    try:
        text = (proc / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 1 :].split()  # the name before may hold spaces and brackets
    return fields[0].decode(), int(fields[19])


def _namespace(proc: Path) -> int:
    try:
        return (proc / "self/ns/pid").stat().st_ino
    except OSError:
        return 0


def _boot(proc: Path) -> str:
    try:
        return (proc / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
