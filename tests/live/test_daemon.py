"""Jobs that something else starts: `eval "$(aidiag env)"` in the launcher's shell, and a daemon on the host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.hosts import aidiag, base_environ
from tests.live.test_verdicts import TRAIN, free_port
from tests.real_parts import missing, require

pytest.importorskip("torch")
pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


class Daemon:
    """A running `aidiag daemon`."""

    def __init__(self, folder: Path, records: Path | None = None) -> None:
        self.port = free_port()
        self.records = records
        self.log = folder / "daemon.log"
        with open(self.log, "wb") as stream:
            self.process = subprocess.Popen(
                aidiag("daemon", "--port", str(self.port), *(("--records", str(records)) if records else ())),
                env=base_environ(), cwd=folder, stdout=stream, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def get(self, path: str) -> bytes:
        """What it serves."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            content: bytes = answer.read()
            return content

    def wait_for_finding(self, cause: str, seconds: float) -> dict[str, Any] | None:
        """The first finding of a cause, None when it does not come."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                findings = json.loads(self.get("/api/v1/findings"))["findings"]
            except OSError:
                findings = []
            for finding in findings:
                if finding["cause"] == cause:
                    found: dict[str, Any] = finding
                    return found
            time.sleep(0.5)
        return None


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon for the jobs of this test alone, ended after it."""
    with tempfile.TemporaryDirectory(prefix="aidiag-test-", dir="/dev/shm") as records:
        made = Daemon(tmp_path, Path(records))
        yield made
        made.process.kill()
        made.process.wait(10)


def job(name: str, options: str) -> str:
    """A shell script that starts a two-rank job with the variables of `aidiag env`."""
    command = " ".join(f"'{word}'" for word in aidiag("env"))
    port = free_port()
    return (
        f'export AIDIAG_JOB_ID={name}\neval "$({command})"\n'
        f"exec {sys.executable} -m torch.distributed.run --nproc-per-node=2 --master-port={port} {TRAIN} {options}\n"
    )


def test_env_and_daemon_name_the_slow_loader(daemon: Daemon, tmp_path: Path) -> None:
    """The job is seen by the daemon, its fault is named with rank, there and in the job folder that `aidiag env` has made,
    and SIGTERM ends the daemon within five seconds.
    """
    script = job("envjob", "--steps 150 --workers 1 --slow-loader 3 --on-rank 1")
    with subprocess.Popen(
        ["sh", "-c", script], env={**base_environ(), "AIDIAG_DIR": str(daemon.records)}, cwd=tmp_path
    ) as process:
        finding = daemon.wait_for_finding("straggler_input", 150)
        metrics = daemon.get("/metrics").decode()
        process.wait(200)

    assert finding is not None, daemon.log.read_text()
    assert [1] == finding["culprit"]["ranks"]
    assert 'aidiag_step_phase_seconds_total{job_id="envjob",phase="data_wait",rank="1"}' in metrics
    assert "aidiag_finding_active{" in metrics
    daemon.process.send_signal(signal.SIGTERM)
    assert 0 == daemon.process.wait(5)

    (host,) = (path.name for path in (tmp_path / "aidiag-envjob").iterdir() if path.is_dir())
    after = subprocess.run(
        aidiag("diagnose", "--format", "json", "aidiag-envjob"), env=base_environ(), cwd=tmp_path, capture_output=True,
        check=True, timeout=60,
    )  # fmt: skip
    report = json.loads(after.stdout)
    named = {finding["cause"]: finding["culprit"] for finding in report["findings"]}
    assert ([1], [host]) == (named["straggler_input"]["ranks"], named["straggler_input"]["hosts"])
    assert [0, 1] == [row["rank"] for row in report["ranks"]]
    assert [] == [gap for gap in report["unknown"] if "host" in gap["what"]]
    assert (tmp_path / "aidiag-envjob/report.json").exists()


def test_taken_port_ends_the_daemon_with_status_3(daemon: Daemon, tmp_path: Path) -> None:
    """A daemon never moves to another port: it says which is taken and exits with 3."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            daemon.get("/-/healthy")
            break
        except OSError:
            time.sleep(0.2)
    second = subprocess.run(
        aidiag("daemon", "--port", str(daemon.port)), env=base_environ(), capture_output=True, text=True, check=False,
        timeout=30,
    )  # fmt: skip

    assert 3 == second.returncode
    assert "in use" in second.stderr
    assert 1 == len(second.stderr.strip().splitlines())


def test_rank_in_a_private_mount_is_seen(tmp_path: Path) -> None:
    """Ranks with their own /dev/shm and process ids, as in a container, are seen from the host's daemon."""
    if os.geteuid() != 0:
        missing("namespaces need root")
    require("unshare")
    inner = "mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs /run && mount -t proc proc /proc && " + job(
        "boxed", "--steps 400 --workers 1"
    )
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inner]
    process = subprocess.Popen(command, env=base_environ(), cwd=tmp_path)
    daemon = Daemon(tmp_path)
    try:
        deadline = time.monotonic() + 90
        wanted = 'aidiag_steps_total{job_id="boxed",rank="1"}'
        seen = ""
        while time.monotonic() < deadline and wanted not in seen:
            time.sleep(0.5)
            try:
                seen = daemon.get("/metrics").decode()
            except OSError:
                continue
        assert wanted in seen, daemon.log.read_text()
        assert 'aidiag_rank_up{job_id="boxed",rank="1"} 1.0' in seen
    finally:
        daemon.process.kill()
        daemon.process.wait(10)
        process.kill()
        process.wait(20)
