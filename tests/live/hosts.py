"""Two hosts on one machine: namespaces of network, processes, host name and mounts, joined by a virtual cable."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUBNET = "10.77.9"


@dataclass(frozen=True)
class Host:
    """One host: its network namespace, host name and address."""

    namespace: str
    name: str
    address: str

    def start(
        self, command: Sequence[str], environ: Mapping[str, str], folder: Path, output: Path
    ) -> subprocess.Popen[bytes]:
        """Start a command on this host, with a private /dev/shm, /run and process list, in `folder`."""
        inside = (
            f"hostname {self.name} && mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs /run && "
            'mount -t proc proc /proc && exec "$@"'
        )
        unshare = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child"]
        with open(output, "wb") as stream:
            return subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, *unshare, "sh", "-c", inside, "sh", *command],
                cwd=folder,
                env={**base_environ(), **environ},
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def base_environ() -> dict[str, str]:
    """The environment of a rank: this interpreter first on PATH, these sources importable by `python -m aidiag` only."""
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    kept = {name: value for name, value in os.environ.items() if name in ("HOME", "LANG", "TMPDIR")}
    return {**kept, "PATH": path, "OMP_NUM_THREADS": "1"}


def aidiag(*arguments: str) -> list[str]:
    """The command line of aidiag from these sources, whatever the working directory."""
    return [sys.executable, str(ROOT / "tests" / "live" / "program.py"), *arguments]


def make(prefix: str) -> tuple[Host, Host]:
    """Two hosts joined by a cable, whose names begin with `prefix`. Needs root."""
    hosts = (
        Host(f"{prefix}-a", f"{prefix}-node-a", f"{SUBNET}.1"),
        Host(f"{prefix}-b", f"{prefix}-node-b", f"{SUBNET}.2"),
    )
    for host in hosts:
        _ip("netns", "add", host.namespace)
        _ip("-n", host.namespace, "link", "set", "lo", "up")
    one, other = hosts
    _ip(
        "-n", one.namespace, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", other.namespace
    )  # fmt: skip
    for host in hosts:
        _ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", "eth0")
        _ip("-n", host.namespace, "link", "set", "eth0", "up")
    return hosts


def remove(hosts: Sequence[Host]) -> None:
    """Take the hosts away."""
    for host in hosts:
        subprocess.run(["ip", "netns", "del", host.namespace], check=False, capture_output=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
