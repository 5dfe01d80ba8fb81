"""What it costs to judge the logs of a job whose ranks all fail, by their number. Prints figures; nothing is asserted.

python -m bench.failing_ranks
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from aidiag.collectors import registry
from aidiag.collectors.logs import read_log
from aidiag.collectors.logs.processes import Processes
from aidiag.rules.engine import judge
from aidiag.rules.loader import load_rules
from aidiag.rules.tracker import Tracker
from aidiag.rules.window import Window

SIZES = (1_000, 2_000, 4_000, 8_000)
RANKS_PER_HOST = 8

FAILING = """\
node{host}:{pid}:{pid} [{local}] NCCL INFO Bootstrap : Using eth0:10.0.0.{local}<0>
node{host}:{pid}:{pid} [{local}] NCCL INFO ncclCommInitRank comm 0x55 rank {rank} nranks {ranks} cudaDev {local} busId 1a000 - Init COMPLETE
[rank{rank}]:[E1128 10:{minute:02d}:{second:02d}.100000000 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600030 milliseconds before timing out.
node{host}:{pid}:{pid} [{local}] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer node0<53178>
[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/train.py", line 10, in main
[rank{rank}]:     loss = model(batch)
[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {local} has a total capacity of 79.15 GiB of which 1.00 GiB is free. Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 76.00 GiB is allocated by PyTorch, and 500.00 MiB is reserved by PyTorch but unallocated.
[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error, NCCL version 2.20.5
E1128 10:{minute:02d}:{second:02d}.500000 {pid} torch/distributed/elastic/multiprocessing/api.py:826] failed (exitcode: 1) local_rank: {local} (pid: {pid}) of binary: /usr/bin/python
"""


def write_logs(folder: Path, ranks: int) -> list[Path]:
    """The logs of a job, one for each rank; all fail within a minute and a half."""
    paths = []
    for rank in range(ranks):
        host, local = divmod(rank, RANKS_PER_HOST)
        minute, second = divmod(rank * 90 // ranks, 60)
        text = FAILING.format(
            rank=rank, ranks=ranks, host=host, local=local, pid=10_000 + rank, minute=minute, second=second
        )
        paths.append(folder / f"node{host}-rank{rank}.log")
        paths[-1].write_text(text)
    return paths


def main() -> None:
    """Measure and print."""
    known = registry()
    rules = load_rules((), known).rules
    for ranks in map(int, sys.argv[1:]) if sys.argv[1:] else SIZES:
        with tempfile.TemporaryDirectory() as folder:
            processes = Processes()
            events = [
                event
                for path in write_logs(Path(folder), ranks)
                for event in read_log(path, source=path.name, processes=processes)
            ]
        window = Window(known, event_horizon_seconds=None, unix_offset=0.0)
        spent = [time.process_time()]
        window.add_all(events)
        latest = max(window.time_of(event) or 0.0 for event in events)
        spent.append(time.process_time())
        judgements = judge(rules, window, latest)
        spent.append(time.process_time())
        findings = Tracker(unix_offset=0.0).update(judgements, latest, final=True)
        spent.append(time.process_time())
        adding, judging, tracking = (after - before for before, after in pairwise(spent))
        print(
            f"{ranks:6} ranks, {len(events):6} events, {len(findings):5} findings: "
            f"adding {adding:.2f} s, judging {judging:.2f} s, tracking {tracking:.2f} s"
        )


if __name__ == "__main__":
    main()
