"""Who a process is within its job. `aidiag run` uses the same functions, so that both sides agree on the job's id."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import sys
import time
from collections.abc import Mapping

from . import environment, launchers, owner

JOB_ID_LIMIT = 96
_JOB_ID_ODD = re.compile(r"[^0-9A-Za-z._-]+")
_RUN_ID_PLACEHOLDERS = frozenset(("", "none"))
"""What torchrun puts where the user gave no --rdzv-id."""
_REPLICA = re.compile(r"-(?:master|worker|launcher|chief|ps|node|replica)(?:-\d+)*$")


def job_id(environ: Mapping[str, str], cwd: str) -> str:
    """The id of the job that a process belongs to: the same in every process of a job on every host.

    In this order: AIDIAG_JOB_ID, Slurm (job and step), torchelastic's run id, Kubernetes, else made from MASTER_ADDR,
    user and start directory `cwd`. Holds nothing but letters, digits and `._-`, so that it can stand in file names.
    """
    return _clean(_given_id(environ) or _made_id(environ, cwd))


def is_made(environ: Mapping[str, str]) -> bool:
    """Whether nothing names the job, so that its id is made of where it starts and other jobs may have the same."""
    return not _given_id(environ)


def _given_id(environ: Mapping[str, str]) -> str:
    return (
        environ.get("AIDIAG_JOB_ID", "") or _slurm_id(environ) or _torchelastic_id(environ) or _kubernetes_id(environ)
    )


def _clean(name: str) -> str:
    """The name itself where it is harmless; else a piece of its hash keeps two names that look alike now apart."""
    clean = _JOB_ID_ODD.sub("_", name).strip("._")
    if clean == name and 0 < len(name) <= JOB_ID_LIMIT:
        return name
    digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:8]
    return f"{clean[: JOB_ID_LIMIT - 9] or 'job'}-{digest}"


def _slurm_id(environ: Mapping[str, str]) -> str:
    """Two sruns in one allocation are two jobs: the step tells them apart. A batch script has no step."""
    number = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID", "")
    if not number.isdigit():
        return ""
    step = launchers.slurm_step(environ)
    return f"slurm-{number}" if step is None else f"slurm-{number}.{step}"


def _torchelastic_id(environ: Mapping[str, str]) -> str:
    run_id = environ.get("TORCHELASTIC_RUN_ID", "")
    return "" if run_id.lower() in _RUN_ID_PLACEHOLDERS else run_id


def _kubernetes_id(environ: Mapping[str, str]) -> str:
    """A pod does not know its job: JobSet tells its name, else the pod's name without its place in the job does."""
    if "KUBERNETES_SERVICE_HOST" not in environ:
        return ""
    name = environ.get("JOBSET_NAME", "")
    if not name:
        name = environ.get("HOSTNAME", "")
        index = environ.get("JOB_COMPLETION_INDEX", "")
        name = name[: -len(index) - 1] if index and name.endswith(f"-{index}") else _REPLICA.sub("", name)
    namespace = environ.get("POD_NAMESPACE", "")
    return f"{namespace}.{name}" if name and namespace else name


def _made_id(environ: Mapping[str, str], cwd: str) -> str:
    parts = "\0".join((environ.get("MASTER_ADDR", ""), str(os.geteuid()), cwd))
    return f"{os.path.basename(cwd.rstrip('/')) or 'root'}-{hashlib.sha256(parts.encode()).hexdigest()[:8]}"


def identity(environ: Mapping[str, str], cwd: str) -> dict[str, object]:
    """What the environment says of a process, with the names of `model.Identity`: its place in the job and its job."""
    place = launchers.place(environ)
    restarts = launchers.number(environ, "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
    return {
        "job_id": job_id(environ, cwd),
        "rank": place.rank,
        "world_size": place.world_size,
        "local_rank": place.local_rank,
        "local_world_size": place.local_world_size,
        "node_rank": place.node_rank,
        "launcher": place.launcher,
        "restart_count": restarts or 0,
        "env": environment.allowed(environ),
    }


def process_identity(here: owner.Owner) -> dict[str, object]:
    """What this process knows of itself, with the names of `model.Identity`."""
    now = time.time()
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    return {
        "host": socket.gethostname(),
        "boot_id": here.boot_id,
        "pid_namespace": here.pid_namespace,
        "pid": here.pid,
        "start_ticks": here.start_ticks,
        "started_unix": now - uptime + here.start_ticks / os.sysconf("SC_CLK_TCK"),
        "attached_unix": now,
        "framework": "pytorch" if "torch" in sys.modules else "python",
        "script": os.path.basename(sys.argv[0]) if sys.argv else "",
        "gpu": "",
        "gpu_uuid": "",
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that are already loaded; nothing is imported for it."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("torch", "lightning", "pytorch_lightning", "transformers", "accelerate", "deepspeed", "numpy"):
        text = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(text, str):
            found[name] = text[:40]
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    if isinstance(cuda, str):
        found["cuda"] = cuda
    return found
