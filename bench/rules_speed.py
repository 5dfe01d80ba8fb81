"""What the rules cost: taking samples in, judging a tick, loading rules. Prints figures; nothing is asserted.

python -m bench.rules_speed
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from aidiag.collectors import registry
from aidiag.collectors.observation import Sample, labels
from aidiag.collectors.signal import Registry
from aidiag.collectors.subject import host, job, rank
from aidiag.rules.engine import judge
from aidiag.rules.loader import BUILT_IN, load_rules
from aidiag.rules.tracker import Tracker
from aidiag.rules.window import Window

RANKS, RULES = 8, 30
WARM_UP, TICKS = 60, 60
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


def main() -> None:
    """Measure and print."""
    known = registry()
    book = load_rules((), known)
    rules = list(book.rules)
    copies = [replace(rules[n % len(rules)], id=f"{rules[n % len(rules)].id}_{n}") for n in range(len(rules), RULES)]
    rules = (rules + copies)[:RULES]
    window, tracker = Window(known, unix_offset=0.0), Tracker()
    adding = judging = tracking = 0.0
    for second in range(WARM_UP + TICKS):
        seen, now = samples(second), float(second)
        spent = [time.process_time()]
        window.add_all(seen)
        spent.append(time.process_time())
        judgements = judge(rules, window, now)
        spent.append(time.process_time())
        tracker.update(judgements, now)
        spent.append(time.process_time())
        if second >= WARM_UP:
            adding += spent[1] - spent[0]
            judging += spent[2] - spent[1]
            tracking += spent[3] - spent[2]
    count = len(samples(0))
    print(f"samples: {adding / TICKS / count * 1e6:.2f} µs each, {adding / TICKS * 1e3:.2f} ms a second for {count}")
    print(f"judging: {judging / TICKS * 1e3:.2f} ms a tick of {len(rules)} rules and {RANKS} ranks")
    print(f"tracking: {tracking / TICKS * 1e3:.2f} ms a tick")
    load_many(known)


def load_many(known: Registry) -> None:
    """Load 100 rule files without and with a cache, and print how long it took."""
    with tempfile.TemporaryDirectory() as folder:
        many = Path(folder) / "rules"
        many.mkdir()
        files = sorted(BUILT_IN.rglob("*.yaml"))
        for number in range(100):
            file = files[number % len(files)]
            (many / f"{number}.yaml").write_text(
                file.read_text().replace(f"id: {file.stem}\n", f"id: {file.stem}_{number}\n")
            )
        cache = Path(folder) / "cache"
        for state in ("cold", "warm", "warm"):
            before = time.process_time()
            book = load_rules([many], known, built_in=False, cache_folder=cache)
            spent = time.process_time() - before
            print(f"loading: {len(book.rules)} rules, cache {state}: {spent * 1e3:.1f} ms CPU")


if __name__ == "__main__":
    main()
