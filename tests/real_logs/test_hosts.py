"""Real jobs on two hosts, made of network namespaces, whose network is at fault."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.hosts import Host, make, remove
from tests.real_logs import jobs
from tests.real_parts import missing, require

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

PORT = 29500


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts, taken away after the test."""
    if os.geteuid() != 0:
        missing("namespaces need root")
    require("ip")
    require("unshare")
    made = make(f"real{os.getpid() % 100_000}")
    yield made
    remove(made)


def train(hosts: tuple[Host, Host], folder: Path, **environ: str) -> list[Path]:
    """Run rank 0 on the first host and rank 1 on the second one to their ends; their logs."""
    processes, logs = [], []
    for rank, host in enumerate(hosts):
        logs.append(folder / f"{host.name}.log")
        own = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": hosts[0].address, "MASTER_PORT": str(PORT)}
        command = [sys.executable, str(jobs.TRAIN), "none"]
        processes.append(host.start(command, {**own, "GLOO_SOCKET_IFNAME": "eth0", **environ}, folder, logs[-1]))
    try:
        for process in processes:
            process.wait(jobs.LIMIT_SECONDS)
    finally:
        for process in processes:
            jobs.end(process)
    return logs


def filter_ports(host: Host, rule: str) -> None:
    """A packet filter on a host that lets through what `rule` says and drops other new connections."""
    rules = ["iifname lo accept", "ct state established accept", *([rule] if rule else []), "tcp flags syn drop"]
    chain = "\n".join(["type filter hook input priority 0; policy accept;", *rules])
    text = f"table inet filter {{\nchain input {{\n{chain}\n}}\n}}\n"
    subprocess.run(
        ["ip", "netns", "exec", host.namespace, require("nft"), "-f", "-"], input=text.encode(), check=True
    )  # fmt: skip


def test_two_hosts_without_a_filter_train(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """The twin without fault: nothing is found."""
    logs = train(hosts, tmp_path)
    assert "Training finished" in logs[0].read_text()
    assert jobs.verdict(jobs.judged(*logs)) == ("nothing", ())


def test_a_blocked_rendezvous_port(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """The other host's connections to the store are dropped, so that they time out."""
    filter_ports(hosts[0], "")
    logs = train(hosts, tmp_path, TIMEOUT="10")
    assert jobs.verdict(jobs.judged(*logs))[0] == "net_firewall", "".join(log.read_text() for log in logs)


def test_only_the_rendezvous_port_is_open(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """Both ranks come to the store, and cannot connect to each other."""
    for host in hosts:
        filter_ports(host, f"tcp dport {PORT} accept")
    logs = train(hosts, tmp_path, TIMEOUT="6")
    assert jobs.verdict(jobs.judged(*logs))[0] == "net_firewall", "".join(log.read_text() for log in logs)
