"""A real single-node Slurm for tests, with its own munge socket and key, away from any that the machine may have."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

READY_SECONDS = 60.0


@contextmanager
def cluster(folder: Path, require: Callable[[str], str], *, slots: int = 4) -> Iterator[Mapping[str, str]]:
    """Run munged, slurmctld and slurmd as this user (root) until the block ends.

    Gives the environment for sbatch and its kin. `folder` holds all state; its path must be short (a socket lies in it).
    """
    programs = {name: require(name) for name in ("munged", "slurmctld", "slurmd", "sinfo")}
    host = socket.gethostname().split(".")[0]
    for name in ("state", "spool", "munge"):
        (folder / name).mkdir(mode=0o700)
    folder.chmod(0o755)  # munged refuses a socket in a folder that other users cannot enter
    key = folder / "munge" / "key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    runs = folder / "run"
    runs.mkdir(mode=0o755)
    config = folder / "slurm.conf"
    config.write_text(_config(folder, host, _free_ports(2), slots))
    environment = {**_without_slurm(os.environ), "SLURM_CONF": str(config)}
    with ExitStack() as stack:
        munge = ("--foreground", "--force", f"--key-file={key}", f"--socket={runs / 'munge'}")
        files = tuple(f"--{kind}-file={folder / 'munge' / kind}" for kind in ("pid", "log", "seed"))
        stack.enter_context(_process((programs["munged"], *munge, *files), folder / "munged.out", environment))
        _wait_for((runs / "munge").exists, "munged made no socket", folder)
        for name in ("slurmctld", "slurmd"):
            stack.enter_context(
                _process((programs[name], "-D", "-f", str(config)), folder / f"{name}.out", environment)
            )

        def idle() -> bool:
            answer = subprocess.run(
                [programs["sinfo"], "-h", "-o", "%t"], env=environment, capture_output=True, text=True, check=False
            )
            return answer.stdout.strip() == "idle"

        _wait_for(idle, "the node did not become idle", folder)
        yield environment


def _config(folder: Path, host: str, ports: Sequence[int], slots: int) -> str:
    return f"""\
ClusterName=aidiagtest
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder / "run" / "munge"}
StateSaveLocation={folder / "state"}
SlurmdSpoolDir={folder / "spool"}
SlurmctldPidFile={folder / "ctld.pid"}
SlurmdPidFile={folder / "slurmd.pid"}
SlurmctldLogFile={folder / "ctld.log"}
SlurmdLogFile={folder / "slurmd.log"}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={slots} State=UNKNOWN
PartitionName=test Nodes={host} Default=YES MaxTime=10 State=UP
"""


def _without_slurm(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


@contextmanager
def _process(command: Sequence[str], output: Path, environment: Mapping[str, str]) -> Iterator[None]:
    with output.open("wb") as stream:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, env=environment
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(done: Callable[[], bool], complaint: str, folder: Path) -> None:
    end = time.monotonic() + READY_SECONDS
    while not done():
        logs = (path for path in sorted(folder.glob("*.out")) + sorted(folder.glob("*.log")))
        assert time.monotonic() < end, "\n".join([complaint, *(f"{p.name}: {p.read_text()[-800:]}" for p in logs)])
        time.sleep(0.1)


def remove(folder: Path) -> None:
    """Delete the cluster's folder."""
    shutil.rmtree(folder, ignore_errors=True)
