"""Which variables of a job's environment may be told: an allow-list of names, and never a value that looks secret."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping

PREFIXES = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "GLOO_", "TORCHELASTIC_", "UCX_", "FI_", "RCCL_")
NAMES = frozenset(
    [
        "AIDIAG_OUT",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
        "NODE_RANK",
        "ROLE_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCH_DISTRIBUTED_DEBUG",
        "TORCH_CPP_LOG_LEVEL",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_ALLOC_CONF",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "NVIDIA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "SLURM_JOB_ID",
        "SLURM_STEP_ID",
        "SLURM_PROCID",
        "SLURM_NTASKS",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_NNODES",
        "SLURM_STEP_NUM_NODES",
        "SLURM_TASKS_PER_NODE",
        "SLURM_STEP_TASKS_PER_NODE",
        "SLURM_ARRAY_JOB_ID",
        "SLURM_ARRAY_TASK_ID",
        "SLURM_RESTART_COUNT",
        "SLURM_CPUS_PER_TASK",
        "SLURMD_NODENAME",
        "SLURM_JOB_PARTITION",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "PMI_RANK",
        "PMI_SIZE",
        "PMIX_RANK",
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_SIZE",
        "HOROVOD_RANK",
        "HOROVOD_SIZE",
        "HOROVOD_LOCAL_RANK",
        "HOROVOD_LOCAL_SIZE",
        "HOROVOD_CROSS_RANK",
        "HOROVOD_CROSS_SIZE",
        "JOB_COMPLETION_INDEX",
        "JOBSET_NAME",
        "POD_NAME",
        "POD_NAMESPACE",
        "NODE_NAME",
        "AIDIAG_JOB_ID",
        "AIDIAG_DIR",
    ]
)
VALUE_LIMIT = 200
"""Characters of one value."""

_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|AUTH", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"""
    \b(?:AKIA|ASIA)[0-9A-Z]{12,}            # AWS access key ids
    | \b(?:hf|ghp|gho|ghu|ghs|ghr|npm|pypi)_[0-9A-Za-z]{16,} | \bgithub_pat_\w{16,} | \bglpat-[\w-]{16,}
    | \bsk-[\w-]{16,} | \bxox[abeoprs]-[\w-]{8,}
    | \beyJ[\w-]{8,}\.[\w-]{8,}             # JSON web tokens
    | \b(?:bearer|basic)\s+[\w.~+/=-]{8,}
    | ://[^/\s@]*:[^/\s@]*@                 # user and password in an address
    | -----BEGIN
    | \b[0-9a-f]{40,}\b                     # bare hexadecimal keys; ids with hyphens are shorter runs
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LONG_RUN = re.compile(r"[0-9A-Za-z+/_=-]{32,}")
_BITS_LIMIT = 4.2
"""Bits a character above which a long run is taken for a random key; hexadecimal text cannot pass 4."""


def looks_secret(text: str) -> bool:
    """Whether a text holds something that looks like a key, a password or a token."""
    if _SECRET_VALUE.search(text):
        return True
    return any(_bits_per_character(run) > _BITS_LIMIT for run in _LONG_RUN.findall(text))


def _bits_per_character(text: str) -> float:
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)


def redact(text: str) -> str:
    """A text without the parts that look secret."""
    text = _SECRET_VALUE.sub("[redacted]", text)
    return _LONG_RUN.sub(lambda match: "[redacted]" if _bits_per_character(match[0]) > _BITS_LIMIT else match[0], text)


def allowed(environ: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that may be told."""
    return {
        name: value[:VALUE_LIMIT]
        for name, value in sorted(environ.items())
        if (name in NAMES or name.startswith(PREFIXES)) and not _SECRET_NAME.search(name) and not looks_secret(value)
    }
