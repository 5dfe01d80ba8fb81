"""A job of two hosts with one shared folder: two sidecars, one report that names host and rank."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.hosts import ROOT, Host, aidiag, base_environ, make, remove
from tests.real_parts import missing, require

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

TRAIN = ROOT / "tests" / "jobs" / "train.py"


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts, taken away after the test."""
    if os.geteuid() != 0:
        missing("namespaces need root")
    require("ip")
    require("unshare")
    made = make(f"aidiag{os.getpid() % 100_000}")
    yield made
    remove(made)


def start(hosts: tuple[Host, Host], folder: Path, *options: str) -> list[subprocess.Popen[bytes]]:
    """The two ranks of a job, each under `aidiag run` on its own host."""
    shared = folder / "shared"
    shared.mkdir()
    processes = []
    for rank, host in enumerate(hosts):
        environ = {
            "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": str(rank),
            "MASTER_ADDR": hosts[0].address, "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "eth0",
            "AIDIAG_JOB_ID": "pair",
        }  # fmt: skip
        command = aidiag("run", "--out", str(shared), "--", sys.executable, str(TRAIN), *options)
        processes.append(host.start(command, environ, folder, folder / f"{host.name}.out"))
    return processes


def report_of(folder: Path) -> dict[str, Any]:
    """The merged report of the job."""
    text = (folder / "shared" / "aidiag-pair" / "report.json").read_text()
    document: dict[str, Any] = json.loads(text)
    return document


def outputs(folder: Path) -> str:
    """What both hosts printed, for the message of a failure."""
    return "".join(path.read_text(errors="replace") for path in sorted(folder.glob("*.out")))[-6000:]


def alarms(report: dict[str, Any]) -> list[str]:
    """The causes of the findings that count as alarms."""
    return [finding["cause"] for finding in report["findings"] if finding["severity"] != "info"]


def test_slow_loader_of_one_host_is_named(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """The merged report names host and rank, `diagnose` on the folder repeats it, and each host's part is there."""
    processes = start(hosts, tmp_path, "--steps", "260", "--slow-loader", "3", "--on-rank", "1", "--workers", "1")
    assert [0, 0] == [process.wait(300) for process in processes], outputs(tmp_path)

    report = report_of(tmp_path)

    assert ["straggler_input"] == alarms(report), outputs(tmp_path)
    culprit = report["findings"][0]["culprit"]
    assert ([1], [hosts[1].name]) == (culprit["ranks"], culprit["hosts"])
    assert [hosts[0].name, hosts[1].name] == report["job"]["hosts"]
    assert [(0, hosts[0].name), (1, hosts[1].name)] == [(row["rank"], row["host"]) for row in report["ranks"]]
    for item in report["findings"][0]["evidence"]:
        lines = (tmp_path / "shared" / "aidiag-pair" / item["source"]).read_text().splitlines()
        assert item["text"] in lines[item["line"] - 1]
    again = subprocess.run(
        aidiag("diagnose", "--format", "json", str(tmp_path / "shared" / "aidiag-pair")),
        env=base_environ(), check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert report["findings"] == json.loads(again.stdout)["findings"]


def test_killed_sidecar_and_interrupted_job_still_give_a_verdict(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """With node-b's sidecar killed for good and the job interrupted by Ctrl-C, the report still names rank and host."""
    processes = start(hosts, tmp_path, "--steps", "2000", "--slow-loader", "3", "--on-rank", "1", "--workers", "1")
    folder = tmp_path / "shared" / "aidiag-pair"
    deadline = time.monotonic() + 150
    while time.monotonic() < deadline and "straggler_input" not in outputs(tmp_path):
        time.sleep(1.0)
    assert "straggler_input" in outputs(tmp_path)
    for _ in range(6):  # a dead sidecar is started again, a few times
        for pid in sidecars_on(hosts[1].name):
            os.kill(pid, signal.SIGKILL)
        time.sleep(6.0)
    assert all(process.poll() is None for process in processes), outputs(tmp_path)
    for host in hosts:
        for pid in processes_of("train.py", host.name):
            os.kill(pid, signal.SIGINT)
    for process in processes:
        process.wait(60)

    report = report_of(tmp_path)

    assert alarms(report)[:1] == ["straggler_input"] or "straggler_input" in alarms(report), outputs(tmp_path)
    culprit = next(f for f in report["findings"] if f["cause"] == "straggler_input")["culprit"]
    assert ([1], [hosts[1].name]) == (culprit["ranks"], culprit["hosts"])
    assert any(hosts[1].name in gap["what"] for gap in report["unknown"])
    assert (folder / hosts[0].name / "report.json").exists()


def processes_of(word: str, host: str) -> list[int]:
    """Process ids, as this namespace counts, of processes on `host` with `word` in their command line."""
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdecimal():
            continue
        try:
            command = (path / "cmdline").read_bytes().split(b"\0")
            name = subprocess.run(
                ["nsenter", "--target", path.name, "--uts", "hostname"], capture_output=True, text=True, check=False
            ).stdout.strip() if any(word.encode() in part for part in command) else ""  # fmt: skip
        except OSError:
            continue
        if name == host and b"run" not in command[:6] and command[0].endswith(b"python"):
            found.append(int(path.name))
    return found


def sidecars_on(host: str) -> list[int]:
    """Process ids of the sidecars on a host."""
    return processes_of("--host-folder", host)
