"""How NCCL was configured, as lines of text: processes that are alike together, and what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aidiag.diagnose.report.escape import one_line
from aidiag.diagnose.report.nccl_view import NcclProcess, NcclView, transports, who

KINDS_SHOWN = 8
"""Groups of processes that are configured alike."""

Line = tuple[str, str]


def nccl_lines(view: NcclView, say: Mapping[str, str]) -> Iterator[Line]:
    """The lines with their styles. All foreign text is escaped."""
    groups: dict[str, list[NcclProcess]] = {}
    for process in view.processes:
        groups.setdefault(_alike(process, say), []).append(process)
    groups.pop("", None)
    for text, processes in list(groups.items())[:KINDS_SHOWN]:
        yield one_line(f"  {who(processes)}: {text}"), ""
    if len(groups) > KINDS_SHOWN:
        yield f"  {say['more'].format(count=len(groups) - KINDS_SHOWN)}", ""
    settings: dict[str, None] = {}
    for process in view.processes:
        settings |= dict.fromkeys(f"{name}={value}" for name, value in process.settings.items())
    if settings:
        yield one_line(f"  {say['set']}: {', '.join(settings)}"), "dim"
    for difference in view.differences:
        values = "; ".join(f"{one.value} ({one.who})" for one in difference.values)
        yield one_line(f"  {say['differs']}: {difference.what}: {values}"), "yellow"


def _alike(process: NcclProcess, say: Mapping[str, str]) -> str:
    parts = []
    if process.version:
        parts.append(process.version + (f"+cuda{process.cuda_version}" if process.cuda_version else ""))
    if process.network:
        parts.append(process.network)
    if process.interface:
        parts.append(f"{say['started_over']} {process.interface}")
    if process.nics:
        parts.append(f"{say['devices']} {' '.join(map(_name, process.nics))}")
    if process.gpudirect:
        parts.append(f"GPUDirect {process.gpudirect}")
    if process.links:
        parts.append(f"{say['over']} {', '.join(sorted(transports(process)))}")
    if process.channels is not None:
        parts.append(f"{process.channels} {say['channels']}")
    return " · ".join(parts)


def _name(device: str) -> str:
    """A device as it is called on all hosts: an RDMA port with its number, an interface without its address."""
    return device if "/" in device else device.split(":")[0]
