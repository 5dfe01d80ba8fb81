"""Messages of several lines: tracebacks, torchrun's table of failures, Horovod's list of missing ranks, commands.

A block is opened by a message of the catalogue (`opens:`). From then on it is given the content of each line that carries
the same labels as its first one, since lines of other ranks may come between; a block that `takes_others` and whose first line
has no labels is given every line.
"""

from __future__ import annotations

from collections.abc import Mapping

from aidiag.collectors.logs.blocks.answer import Answer
from aidiag.collectors.logs.blocks.bandwidth_table import BandwidthTable
from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.blocks.command import Command
from aidiag.collectors.logs.blocks.counted import Counted
from aidiag.collectors.logs.blocks.fabric_service import FabricService
from aidiag.collectors.logs.blocks.failure_table import FailureTable
from aidiag.collectors.logs.blocks.gpu_command import GpuCommand
from aidiag.collectors.logs.blocks.gpu_query import GpuQuery
from aidiag.collectors.logs.blocks.host_table import HostTable
from aidiag.collectors.logs.blocks.link_info import LinkInfo
from aidiag.collectors.logs.blocks.missing_ranks import MissingRanks
from aidiag.collectors.logs.blocks.nvlink_status import NvlinkStatus
from aidiag.collectors.logs.blocks.rdma_ports import RdmaPorts
from aidiag.collectors.logs.blocks.rows import DescribedPod, ExitCode, Pods, TaskNames
from aidiag.collectors.logs.blocks.timing_table import TimingTable
from aidiag.collectors.logs.blocks.traceback import TornTraceback, Traceback

__all__ = ["BLOCKS", "Outcome", "TextBlock"]

BLOCKS: Mapping[str, type[TextBlock]] = {
    "command": Command,
    "rdma_ports": RdmaPorts,
    "answer": Answer,
    "traceback": Traceback,
    "torn_traceback": TornTraceback,
    "failure_table": FailureTable,
    "host_table": HostTable,
    "missing_ranks": MissingRanks,
    "gpu_command": GpuCommand,
    "gpu_query": GpuQuery,
    "link_info": LinkInfo,
    "nvlink_status": NvlinkStatus,
    "fabric_service": FabricService,
    "counted": Counted,
    "bandwidth_table": BandwidthTable,
    "pods": Pods,
    "pod": DescribedPod,
    "exit_code": ExitCode,
    "task_names": TaskNames,
    "timing_table": TimingTable,
}
