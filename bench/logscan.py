"""How fast, how frugally and how truly logs are read: whole processes with one thread, their start included.

    python -m bench.logscan [speed|line|cold|memory|healthy]... [--mib 1024] [--runs 3] [--gib 10]

`speed`: MiB a CPU second beside ripgrep with the same patterns, in one run, on training output with a fault in 2,000 lines, on
the same with NCCL's start-up lines of 64 ranks again and again (as of an elastic job that restarts every few megabytes), and on
nothing but start-up lines; with the line number of every event, and without. Every planted fault must be found, with
its fields. `line`: the slowest line of 16 KiB among those made for each pattern. `cold`: `aidiag diagnose` on 1 MB, with its cache and
without. `memory`: the peak of `aidiag diagnose -` on a log of many GiB that is made as it is read. `healthy`: a log with every
phrase that frightens and means nothing, which must raise no alarm, and the same with a fault and its victims, which must be
named alone. What is written goes to a temporary folder and is deleted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from aidiag.collectors.logs.catalogue import read_catalogue
from aidiag.collectors.logs.compiled import load_catalogue
from aidiag.collectors.logs.pattern import Blanks, Choice, Field, Literal, Parts, read
from aidiag.collectors.logs.scanner import Scanner
from aidiag.collectors.logs.splitter import LINE_CAP_BYTES, Block
from tests.job_logs import FAULT_EVERY, PLANTED, fault, healthy, start_up, training

MIB = 1 << 20
STARTUP_SHARE = 0.10
"""Of the bytes of the dense log: what 64 ranks print when a job starts, then training until the next start."""

READER = """
import json, sys
from pathlib import Path
from aidiag.collectors.logs import read_log
from tests.job_logs import fault_fields
faults = events = 0
for event in read_log(Path(sys.argv[1]), numbered=sys.argv[2] == "numbered"):
    events += 1
    if event.kind in ("rdma_completion_error", "cuda_out_of_memory"):
        expected = fault_fields(faults)
        if any(event.fields.get(name) != value for name, value in expected.items()):
            sys.exit(f"fault {faults}: {dict(event.fields)} is not {expected}")
        faults += 1
print(faults, events)
"""


def sparse_log(path: Path, size: int) -> int:
    """Write the log with few faults; how many there are."""
    return _write(path, size, 0.0)


def dense_log(path: Path, size: int, share: float) -> int:
    """Write the log with many starts; how many faults there are."""
    return _write(path, size, share)


def _write(path: Path, size: int, share: float) -> int:
    chance = random.Random(7)
    faults = number = written = generation = 0
    started = 0
    with path.open("w") as file:
        while written < size:
            if share and started <= share * written:
                text = "\n".join(start_up(generation)) + "\n"
                generation += 1
                started += len(text)
            else:
                lines = [training(number + n, chance) for n in range(FAULT_EVERY - 1)]
                if share < 1:
                    lines.append(fault(faults))
                    faults += 1
                number += FAULT_EVERY
                text = "\n".join(lines) + "\n"
            file.write(text)
            written += len(text)
    return faults


def ripgrep_patterns(path: Path) -> int:
    """Write all wordings of the catalogue as ripgrep takes them; how many there are."""
    wordings = [one.source for message in read_catalogue() for one in message.patterns]
    path.write_text("".join(_ripgrep(read(source)) + "\n" for source in wordings))
    return len(wordings)


def _ripgrep(parts: Parts) -> str:
    out = []
    for part in parts:
        match part:
            case Literal(text):
                out.append("".join(f"\\{char}" if char in r"\.+*?()|[]{}^$" else char for char in text))
            case Blanks():
                out.append("[ \t]+")
            case Field(type=type_):
                out.append(".*" if type_.loose else f"(?:{_unbounded(type_.expression)})")
            case Choice(options):
                out.append("(?:" + "|".join(_ripgrep(option) for option in options) + ")")
    return "".join(out).replace("\\ ", " ").replace("\\/", "/")


def _unbounded(expression: str) -> str:
    """Repeats without an upper bound, which ripgrep's automata like better, and ASCII classes."""
    simple = re.sub(r"\{[01],\d{2,}\}", "+", expression)
    simple = re.sub(r"\(\?[!=]\[[^\]]*\]\)", "", simple)  # ripgrep does not look ahead
    return simple.replace("\\d", "[0-9]").replace("[\\w.]", "[A-Za-z0-9_.]").replace("\\w", "[A-Za-z0-9_]")


def cpu_seconds(command: list[str], **environ: str) -> tuple[float, float, str]:
    """CPU seconds and peak memory in MiB of a whole process and what it prints."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, env={**os.environ, "LC_ALL": "C.UTF-8", **environ})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode().strip()
    if process.returncode:
        sys.exit(f"{command[0]} failed: {text}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text


def measure(name: str, path: Path, faults: int, patterns: Path, runs: int) -> None:
    """Read one log with each, in turns, and print what came out."""
    size = path.stat().st_size / MIB
    commands = {
        "aidiag, no numbers": [sys.executable, "-c", READER, str(path), "bare"],
        "aidiag": [sys.executable, "-c", READER, str(path), "numbered"],
    }
    if shutil.which("rg"):
        commands["ripgrep"] = ["rg", "-j1", "-c", "-a", "-f", str(patterns), str(path)]
    else:
        print("ripgrep is not installed: its side is skipped (apt install ripgrep)")
    speeds: dict[str, list[float]] = {which: [] for which in commands}
    peak, told = 0.0, ""
    for _ in range(runs):
        for which, command in commands.items():
            seconds, memory, output = cpu_seconds(command)
            speeds[which].append(size / seconds)
            if which != "ripgrep":
                peak, told = max(peak, memory), output
    found, events = map(int, told.split())
    print(f"{name}: {size:.0f} MiB, {events} events, {found} of {faults} faults found, peak memory {peak:.0f} MiB")
    for which, measured in speeds.items():
        beside = ""
        if which != "ripgrep" and "ripgrep" in speeds:
            ratios = [one / other for one, other in zip(measured, speeds["ripgrep"], strict=True)]
            beside = f"   {statistics.median(ratios):.2f} of ripgrep"
        print(f"  {which:20} {statistics.median(measured):7.0f} MiB/s of CPU{beside}")
    if found != faults:
        sys.exit(f"{name}: {faults - found} faults were not found")


def speed(folder: Path, size: int, runs: int) -> None:
    """Beside ripgrep."""
    patterns, log = folder / "patterns", folder / "log"
    print(f"{ripgrep_patterns(patterns)} patterns")
    measure("sparse", log, sparse_log(log, size), patterns, runs)
    measure(f"start-up dense ({STARTUP_SHARE:.0%})", log, dense_log(log, size, STARTUP_SHARE), patterns, runs)
    measure("nothing but start-up", log, dense_log(log, size // 8, 1.0), patterns, runs)
    log.unlink()


def bombs(source: str) -> Iterable[bytes]:
    """Lines of full length that begin a pattern over and over and never finish it."""
    pieces = [piece for piece in re.split(r"<[^<>{}]*>|[{}|]", source) if piece]
    begun = [b"".join(piece.encode() for piece in pieces[:n]) for n in range(1, len(pieces) + 1)]
    fill = [b"", b" ", b"9", b"x", b"(", b"1.5 GiB ", b"0x1 "]
    for one in (text + filler * 3 for text in begun for filler in fill):
        yield (one * (LINE_CAP_BYTES // len(one) + 1))[:LINE_CAP_BYTES]


def line() -> None:
    """The slowest line through the whole scanner: the best of three tries of each."""
    catalogue = load_catalogue()
    for wording in catalogue.wordings:
        _ = wording.regex
    scanner = Scanner(catalogue)
    worst: list[tuple[float, str]] = []
    count = 0
    for message in catalogue.messages.values():
        for wording in message.patterns:
            for text in bombs(wording.source):
                took = min(_seconds(scanner, text) for _ in range(3))
                worst.append((took, wording.source))
                count += 1
        worst = sorted(worst, reverse=True)[:5]
    print(
        f"line: {count} lines of 16 KiB against {len(catalogue.wordings)} patterns, slowest {1000 * worst[0][0]:.1f} ms"
    )
    for took, source in worst:
        print(f"  {1000 * took:6.1f} ms  {source[:100]}")


def _seconds(scanner: Scanner, text: bytes) -> float:
    began = time.process_time()
    for _ in scanner.scan(Block(text, 0, 1)):
        pass
    return time.process_time() - began


DIAGNOSE = [sys.executable, "-m", "aidiag", "diagnose", "--format", "json"]


def cold(folder: Path) -> None:
    """The first run on a machine, and all later ones."""
    log = folder / "small.log"
    sparse_log(log, 1_000_000)
    with tempfile.TemporaryDirectory() as cache:
        for name in ("without its cache", "with its cache", "with its cache"):
            seconds, memory, _ = cpu_seconds([*DIAGNOSE, str(log)], XDG_CACHE_HOME=cache)
            print(f"cold: diagnose on 1 MB {name}: {seconds:.2f} s of CPU, {memory:.0f} MiB")


def memory(size: int) -> None:
    """The peak on a log that nobody could store."""
    chance = random.Random(7)
    pieces = [[training(number, chance) for number in range(FAULT_EVERY - 1)] for _ in range(64)]
    process = subprocess.Popen([*DIAGNOSE, "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    out: list[bytes] = []
    reader = threading.Thread(target=lambda: out.append(process.stdout.read()))  # type: ignore[union-attr]
    reader.start()
    blocks = [("\n".join(lines) + "\n").encode() for lines in pieces]
    began, written, number, shown = time.monotonic(), 0, 0, size // 5
    with process.stdin as pipe:
        while written < size:
            data = blocks[number % len(blocks)] + fault(number).encode() + b"\n"
            pipe.write(data)
            written, number = written + len(data), number + 1
            if written > shown:
                print(f"memory: {written / MIB / 1024:5.1f} GiB read, {resident(process.pid):.0f} MiB")
                shown += size // 5
    reader.join()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    named = sorted({finding["cause"] for finding in json.loads(out[0])["findings"]})
    print(
        f"memory: {written / MIB / 1024:.1f} GiB in {time.monotonic() - began:.0f} s, peak {usage.ru_maxrss / 1024:.0f} MiB, "
        f"{number} faults, named: {', '.join(named)}"
    )


def resident(pid: int) -> float:
    """What a process holds now, in MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def truth(folder: Path, size: int) -> None:
    """No alarm where there is no fault, and that fault alone where there is one."""
    log = folder / "healthy.log"
    with log.open("w") as file:
        chance = random.Random(1)
        while file.tell() < size:
            file.writelines(f"{text}\n" for text in healthy(chance, 200_000))
    length = log.stat().st_size
    wrong = False
    for planted in (None, *PLANTED):
        os.truncate(log, length)
        if planted:
            with log.open("a") as file:
                file.writelines(f"{text}\n" for text in planted.lines)
        began = time.monotonic()
        seconds, peak, text = cpu_seconds([*DIAGNOSE, str(log)])
        report = json.loads(text)
        roots = [one["cause"] for one in report["findings"] if one["severity"] != "info"]
        expected = [planted.cause] if planted else []
        wrong = wrong or roots != expected
        print(
            f"healthy: {length / MIB:.0f} MiB with {planted.cause if planted else 'no fault'}: {roots or 'no alarm'}, "
            f"{len(report['consequences'])} consequences, {seconds:.1f} s of CPU, {time.monotonic() - began:.0f} s, {peak:.0f} MiB"
            f"{'' if roots == expected else '   WRONG'}",
            flush=True,
        )
    log.unlink()
    if wrong:
        sys.exit("healthy: not what was expected")


PARTS = ("speed", "line", "cold", "memory", "healthy")


def main() -> None:
    """Run the parts that are asked for, all by default."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("parts", nargs="*", metavar="|".join(PARTS))
    arguments.add_argument("--mib", type=int, default=1024, help="size of each log")
    arguments.add_argument("--gib", type=float, default=10, help="size of the log for memory")
    arguments.add_argument("--runs", type=int, default=3)
    options = arguments.parse_args()
    parts = options.parts or PARTS
    if unknown := set(parts) - set(PARTS):
        arguments.error(f"no part {min(unknown)}")
    load_catalogue()  # so that every run finds the cache warm
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as code:
        folder = Path(name)
        # Modules lie there compiled, as an installation leaves them.
        os.environ |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": code}
        sparse_log(folder / "first.log", 10_000)
        cpu_seconds([*DIAGNOSE, str(folder / "first.log")])
        if "speed" in parts:
            speed(folder, options.mib * MIB, options.runs)
        if "line" in parts:
            line()
        if "cold" in parts:
            cold(folder)
        if "memory" in parts:
            memory(int(options.gib * 1024 * MIB))
        if "healthy" in parts:
            truth(folder, options.mib * MIB)


if __name__ == "__main__":
    main()
