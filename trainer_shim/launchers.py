"""The place of a process in its job, as each launcher tells it through the environment."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple, Optional

RANKS_LIMIT = 1 << 20
_TF_CONFIG_BYTES_LIMIT = 1 << 20
_SLURM_SPECIAL_STEPS = 0xFFFFFFF0
"""Step ids from here on are Slurm's own (batch script, extern, interactive; slurm.h): no launched step."""


class PlaceInJob(NamedTuple):
    """Rank and world size, and where they are known the rank within the host, ranks on the host, and host number."""

    launcher: str
    rank: int
    world_size: int
    local_rank: Optional[int] = None
    local_world_size: Optional[int] = None
    node_rank: Optional[int] = None


def place(environ: Mapping[str, str]) -> PlaceInJob:
    """The place that the environment tells: torchrun and other setters of RANK, Slurm, MPI, Horovod, TF_CONFIG,
    Kubernetes, in this order; rank 0 of 1 where it tells nothing.
    """
    for read in (_torch, _slurm, _mpi, _horovod, _tf_config, _kubernetes):
        found = read(environ)
        if found is not None and valid(found.rank, found.world_size):
            return _checked(found)
    return PlaceInJob("none", 0, 1, 0, 1, 0)


def valid(rank: int, world_size: int) -> bool:
    """Whether a rank can be one of a world of this size."""
    return 0 <= rank < world_size <= RANKS_LIMIT


def slurm_step(environ: Mapping[str, str]) -> Optional[int]:
    """The step that srun has launched this process in; None outside of srun, as in a batch script."""
    step = number(environ, "SLURM_STEP_ID", "SLURM_STEPID")
    return step if step is not None and step < _SLURM_SPECIAL_STEPS else None


def number(environ: Mapping[str, str], *names: str) -> Optional[int]:
    """The first of the variables that holds a decimal number that is not negative."""
    for name in names:
        text = environ.get(name, "").strip()
        if text.isascii() and text.isdigit() and len(text) <= 10:
            return int(text)
    return None


def _checked(found: PlaceInJob) -> PlaceInJob:
    """The same place without parts that contradict it."""
    local, local_size, node = found.local_rank, found.local_world_size, found.node_rank
    if local_size is not None and not 0 < local_size <= found.world_size:
        local_size = None
    if local is not None and local >= (local_size or found.world_size):
        local = None
    if node is not None and node >= found.world_size:
        node = None
    return found._replace(local_rank=local, local_world_size=local_size, node_rank=node)


def _torch(environ: Mapping[str, str]) -> Optional[PlaceInJob]:
    rank, size = number(environ, "RANK"), number(environ, "WORLD_SIZE")
    if rank is None or size is None:
        return None
    return PlaceInJob(
        "torchrun" if "TORCHELASTIC_RUN_ID" in environ else "env",
        rank,
        size,
        number(environ, "LOCAL_RANK"),
        number(environ, "LOCAL_WORLD_SIZE"),
        number(environ, "GROUP_RANK", "NODE_RANK"),
    )


def _slurm(environ: Mapping[str, str]) -> Optional[PlaceInJob]:
    rank = number(environ, "SLURM_PROCID")
    size = number(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    if rank is None or size is None or slurm_step(environ) is None:
        return None
    node = number(environ, "SLURM_NODEID")
    per_node = environ.get("SLURM_STEP_TASKS_PER_NODE") or environ.get("SLURM_TASKS_PER_NODE", "")
    return PlaceInJob("slurm", rank, size, number(environ, "SLURM_LOCALID"), _slurm_tasks(per_node, node), node)


def _slurm_tasks(per_node: str, node: Optional[int]) -> Optional[int]:
    """Tasks on a node in Slurm's notation: `8`, `8(x4)`, `8(x2),3`."""
    if node is None:
        return None
    for part in per_node.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,6})\))?", part.strip())
        if match is None:
            return None
        times = int(match[2] or 1)
        if node < times:
            return int(match[1])
        node -= times
    return None


def _mpi(environ: Mapping[str, str]) -> Optional[PlaceInJob]:
    for rank, size, local, local_size in (
        (
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
        ),
        ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
        ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ):
        own_rank, own_size = number(environ, rank), number(environ, size)
        if own_rank is not None and own_size is not None:
            return PlaceInJob("mpi", own_rank, own_size, number(environ, local), number(environ, local_size))
    return None


def _horovod(environ: Mapping[str, str]) -> Optional[PlaceInJob]:
    rank, size = number(environ, "HOROVOD_RANK"), number(environ, "HOROVOD_SIZE")
    if rank is None or size is None:
        return None
    return PlaceInJob(
        "horovod",
        rank,
        size,
        number(environ, "HOROVOD_LOCAL_RANK"),
        number(environ, "HOROVOD_LOCAL_SIZE"),
        number(environ, "HOROVOD_CROSS_RANK"),
    )


def _tf_config(environ: Mapping[str, str]) -> Optional[PlaceInJob]:
    """TF_CONFIG counts its tasks in the order chief, worker, ps, evaluator (tf.distribute, "TF_CONFIG")."""
    text = environ.get("TF_CONFIG", "")
    if not text or len(text) > _TF_CONFIG_BYTES_LIMIT:
        return None
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        kinds = [kind for kind in ("chief", "master", "worker", "ps", "evaluator") if kind in cluster]
        tasks = [(kind, index, str(address)) for kind in kinds for index, address in enumerate(cluster[kind])]
        own = next(i for i, (kind, index, _) in enumerate(tasks) if (kind, index) == (task["type"], int(task["index"])))
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration, RecursionError):
        return None
    hosts = [address.rpartition(":")[0] for _, _, address in tasks]
    order = list(dict.fromkeys(hosts))
    return PlaceInJob(
        "tf_config",
        own,
        len(tasks),
        hosts[:own].count(hosts[own]),
        hosts.count(hosts[own]),
        order.index(hosts[own]),
    )


def _kubernetes(environ: Mapping[str, str]) -> Optional[PlaceInJob]:
    """An indexed Job numbers its pods and does not say how many there are: the world is at least index + 1."""
    index = number(environ, "JOB_COMPLETION_INDEX")
    if index is None:
        return None
    size = number(environ, "WORLD_SIZE", "NUM_PROCESSES", "JOB_COMPLETIONS") or index + 1
    return PlaceInJob("kubernetes", index, max(size, index + 1), 0, 1, index)
