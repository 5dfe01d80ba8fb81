"""Messages of several lines: tracebacks, torchrun's table of failures, Horovod's list of missing ranks.

A block is opened by a message of the catalogue (`opens:`). From then on it is given the content of each line that carries
the same labels as its first one, since lines of other ranks may come between.
"""

from __future__ import annotations

from collections.abc import Mapping

from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.blocks.failure_table import FailureTable
from aidiag.collectors.logs.blocks.missing_ranks import MissingRanks
from aidiag.collectors.logs.blocks.rows import DescribedPod, ExitCode, Pods, TaskNames
from aidiag.collectors.logs.blocks.traceback import Traceback

__all__ = ["BLOCKS", "Outcome", "TextBlock"]

BLOCKS: Mapping[str, type[TextBlock]] = {
    "traceback": Traceback,
    "failure_table": FailureTable,
    "missing_ranks": MissingRanks,
    "pods": Pods,
    "pod": DescribedPod,
    "exit_code": ExitCode,
    "task_names": TaskNames,
}
