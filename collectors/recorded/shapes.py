"""From the JSON of a recording to the answers of a node. Each function raises what a wrong shape makes Python raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from aidiag.collectors.answers import (
    MTU_BYTES,
    ClockState,
    CommandResult,
    FileSystemUse,
    Kernel,
    KernelMessage,
    Limit,
    Route,
    Service,
    SharedMemoryFile,
    Socket,
    VerbsPort,
)

Item = TypeVar("Item")


def word(answer: Any) -> str:
    """A text and nothing else."""
    if not isinstance(answer, str):
        raise TypeError(f"{type(answer).__name__} instead of a text")
    return answer


def texts(answer: Any) -> dict[str, str]:
    """Name to text."""
    return {str(name): str(value) for name, value in answer.items()}


def lists(answer: Any) -> dict[str, list[str]]:
    """Name to list of texts."""
    return {name: words(values) for name, values in answer.items()}


def words(answer: Any) -> list[str]:
    """A list of texts."""
    return [word(value) for value in answer]


def numbers(answer: Any) -> dict[str, int]:
    """Name to whole number."""
    return {name: int(value) for name, value in answer.items()}


def optional(answer: Any) -> dict[str, Any] | None:
    """An object or null."""
    return None if answer is None else dict(answer)


def kernel(answer: Any) -> Kernel:
    """`sysname release machine`."""
    return Kernel(word(answer["sysname"]), word(answer["release"]), word(answer["machine"]))


def clock_state(answer: Any) -> ClockState:
    """Offset and errors in microseconds."""
    micro = 1e-6
    return ClockState(
        state=int(answer["state"]),
        status=int(answer["status"]),
        offset_seconds=answer["offset_us"] * micro,
        maximum_error_seconds=answer["maxerror_us"] * micro,
        estimated_error_seconds=answer["esterror_us"] * micro,
    )


def limits(answer: Any) -> dict[str, Limit]:
    """RLIMIT name to `{soft, hard}`; -1 is RLIM_INFINITY."""

    def bound(number: int) -> int | None:
        return None if number == -1 else int(number)

    return _each(answer, lambda limit: Limit(bound(limit["soft"]), bound(limit["hard"])))


def file_system_use(answer: Any) -> FileSystemUse:
    """The fields of statvfs(3), blocks of `f_frsize` bytes; bit 1 of `f_flag` is ST_RDONLY."""
    block = int(answer["f_frsize"])
    return FileSystemUse(
        size_bytes=int(answer["f_blocks"]) * block,
        free_bytes=int(answer["f_bfree"]) * block,
        available_bytes=int(answer["f_bavail"]) * block,
        inodes=int(answer["f_files"]),
        inodes_available=int(answer["f_favail"]),
        read_only=bool(answer["f_flag"] & 1),
    )


def shared_memory(answer: Any) -> list[SharedMemoryFile]:
    """`{name, bytes, uid, age, mapped_by}`."""
    return [
        SharedMemoryFile(
            name=word(file["name"]),
            size_bytes=int(file["bytes"]),
            uid=int(file["uid"]),
            age_seconds=float(file["age"]),
            mapped_by=tuple(map(int, file["mapped_by"])) if file.get("mapped_by") is not None else None,
        )
        for file in answer
    ]


def routes(answer: Any) -> list[Route]:
    """`{destination, gateway, interface}`."""
    return [
        Route(word(route["destination"]), str(route.get("gateway") or ""), word(route["interface"])) for route in answer
    ]


def sockets(answer: Any) -> list[Socket]:
    """`{proto, local, remote, state, uid, pid, comm}`."""
    return [
        Socket(
            protocol=word(socket["proto"]),
            local=word(socket["local"]),
            remote=str(socket.get("remote") or ""),
            state=word(socket["state"]),
            uid=int(socket["uid"]),
            pid=socket.get("pid"),
            command=socket.get("comm"),
        )
        for socket in answer
    ]


def verbs_port(answer: Any) -> VerbsPort:
    """`{state, active_mtu, max_mtu, lid}`, MTUs enumerated."""
    return VerbsPort(
        state=int(answer["state"]),
        active_mtu_bytes=MTU_BYTES[answer["active_mtu"]],
        maximum_mtu_bytes=MTU_BYTES[answer["max_mtu"]],
        lid=int(answer.get("lid") or 0),
    )


def services(answer: Any) -> dict[str, Service]:
    """Unit to its properties as on D-Bus."""

    def service(unit: Any) -> Service:
        active = unit.get("active_seconds")
        return Service(
            load_state=word(unit["LoadState"]),
            active_state=word(unit["ActiveState"]),
            sub_state=word(unit["SubState"]),
            result=word(unit["Result"]),
            restarts=int(unit["NRestarts"]),
            active_seconds=None if active is None else float(active),
        )

    return _each(answer, service)


def kernel_messages(answer: Any) -> list[KernelMessage]:
    """`{age, level, text}`, in any order; given oldest first."""
    messages = [KernelMessage(float(line["age"]), word(line["level"]), word(line["text"])) for line in answer]
    return sorted(messages, key=lambda message: -message.age_seconds)


def command(answer: Any) -> CommandResult:
    """`{rc, seconds, stdout}`."""
    return CommandResult(int(answer["rc"]), float(answer["seconds"]), word(answer["stdout"]))


def _each(answers: Any, shape: Callable[[Any], Item]) -> dict[str, Item]:
    """The items of a map, without those whose answer is an error."""
    return {name: shape(item) for name, item in answers.items() if "error" not in item and "hang" not in item}
