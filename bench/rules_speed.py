"""What the rules cost: taking samples in, judging a tick, loading rules. Prints figures; nothing is asserted.

    python -m bench.rules_speed
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from aidiag.collectors import registry
from aidiag.collectors.observation import Sample, labels
from aidiag.collectors.subject import host, job, rank
from aidiag.rules.engine import judge
from aidiag.rules.loader import BUILT_IN, load_rules
from aidiag.rules.tracker import Tracker
from aidiag.rules.window import Window

RANKS, RULES, TICKS = 8, 30, 120
PHASES = ("data_wait", "h2d", "forward", "backward", "optimizer", "comm_late_peer", "comm_wire", "checkpoint",
          "evaluation", "other")  # fmt: skip


def samples(second: int) -> list[Sample]:
    """What the trainer, process and host collectors give in a second of a job of 8 ranks."""
    now, found = float(second), []
    for number in range(RANKS):
        subject = rank(number, host="a", job="j")
        plain = {"steps_total": 5.0 * now, "step_seconds_total": now, "step_last_seconds": 0.2 + now % 3 / 100,
                 "step_p99_seconds": 0.25, "step_idle_seconds": 0.1, "rank_up": 1.0, "rank_state_code": 4.0,
                 "rank_shim_attached": 1.0, "batches_total": 5.0 * now, "rank_resident_memory_bytes": 1e9 + now,
                 "rank_cpu_seconds_total": 0.9 * now, "rank_loader_workers_alive": 4.0, "rank_cpus_allowed": 16.0,
                 "rank_memory_used_bytes": 1e10 + now, "rank_memory_limit_bytes": 1e11,
                 "rank_heartbeat_timestamp_seconds": 1.7e9 + now}  # fmt: skip
        found += [Sample(name, subject, value, now) for name, value in plain.items()]
        found += [Sample("step_phase_seconds_total", subject, now / 10, now, labels(phase=phase)) for phase in PHASES]
        found += [Sample("loader_wait_seconds_total", subject, now / 50, now, labels(loader="train")),
                  Sample("loader_workers", subject, 4.0, now, labels(loader="train")),
                  Sample("rank_process_state", subject, "running", now)]  # fmt: skip
    found += [Sample("job_world_size", job("j"), 8.0, now), Sample("job_ranks_seen", job("j"), 8.0, now)]
    found += [Sample(f"host_memory_{name}_bytes", host("a"), 1e11, now) for name in ("total", "available")]
    return found


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    before = time.process_time()
    work()
    return time.process_time() - before


def main() -> None:
    """Measure and print."""
    known = registry()
    book = load_rules((), known)
    rules = list(book.rules)
    copies = [replace(rules[n % len(rules)], id=f"{rules[n % len(rules)].id}_{n}") for n in range(len(rules), RULES)]
    rules = (rules + copies)[:RULES]
    window, tracker = Window(known, unix_offset=0.0), Tracker()
    adding = judging = telling = 0.0
    count = 0
    for second in range(TICKS):
        seen = samples(second)
        adding += cpu(lambda seen=seen: window.add_all(seen)) if second >= 60 else cpu(lambda seen=seen: window.add_all(seen)) * 0
        count += len(seen) * (second >= 60)
        found: list[object] = []
        spent = cpu(lambda now=second, found=found: found.extend(judge(rules, window, float(now))))
        judging += spent * (second >= 60)
        telling += cpu(lambda now=second, found=found: tracker.update(found, float(now))) * (second >= 60)
    ticks = TICKS - 60
    print(f"add: {adding / count * 1e6:.2f} µs a sample, {adding / ticks * 1e3:.2f} ms a second for {count // ticks} samples")
    print(f"judge: {judging / ticks * 1e3:.2f} ms a tick ({len(rules)} rules, {RANKS} ranks), track: {telling / ticks * 1e3:.2f} ms")
    with tempfile.TemporaryDirectory() as folder:
        many = Path(folder) / "rules"
        many.mkdir()
        files = sorted(BUILT_IN.rglob("*.yaml"))
        for number in range(100):
            file = files[number % len(files)]
            (many / f"{number}.yaml").write_text(file.read_text().replace(f"id: {file.stem}\n", f"id: {file.stem}_{number}\n"))
        cache = Path(folder) / "cache"
        for words in ("cold", "warm", "warm"):
            spent = cpu(lambda: print(len(load_rules([many], known, built_in=False, cache_folder=cache).rules), end=" "))
            print(f"rules loaded {words}: {spent * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
