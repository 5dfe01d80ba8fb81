"""Real jobs of two ranks on this host, each with a real fault, judged from what they print alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.real_logs import jobs

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("fault", "options", "environ", "cause", "ranks"),
    [
        ("killed", (), {}, "rank_killed", (1,)),
        ("crashes", (), {}, "peer_crashed", (1,)),
        ("raises", ("--max-restarts", "1"), {}, "peer_crashed", (1,)),
        ("worker_killed", (), {}, "loader_worker_died", (1,)),
        ("too_many_files", (), {}, "fd_limit", (1,)),
        ("shapes", (), {}, "collective_mismatch", None),
        ("shapes", (), {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, "collective_mismatch", None),
        ("none", (), {"GLOO_SOCKET_IFNAME": "ib9"}, "net_wrong_interface", None),
    ],
)
def test_a_job_with_a_fault_is_judged_right(
    fault: str,
    options: tuple[str, ...],
    environ: dict[str, str],
    cause: str,
    ranks: tuple[int, ...] | None,
    tmp_path: Path,
) -> None:
    """The planted fault is the first cause, with true evidence and a remedy; where one rank did it, that rank is blamed."""
    log = tmp_path / "job.log"
    assert jobs.run(jobs.torchrun(fault, *options), log, environ) != 0
    report = jobs.judged(log)
    said, blamed = jobs.verdict(report)
    assert said == cause, log.read_text()
    assert ranks is None or blamed == ranks
    assert report.findings[0].remedy
    jobs.assert_true_evidence(report, log)


def test_a_job_that_trains_to_its_end_is_healthy(tmp_path: Path) -> None:
    """The twin without fault: nothing is found."""
    log = tmp_path / "job.log"
    assert jobs.run(jobs.torchrun("none"), log) == 0
    assert jobs.verdict(jobs.judged(log)) == ("nothing", ())


def test_a_rank_that_waited_in_vain_is_not_blamed_as_crashed(tmp_path: Path) -> None:
    """One rank does something else for too long; the log only shows the other one, which is the victim."""
    log = tmp_path / "job.log"
    assert jobs.run(jobs.torchrun("late"), log, {"TIMEOUT": "5"}) != 0
    report = jobs.judged(log)
    assert report.findings
    assert jobs.verdict(report) != ("peer_crashed", (0,)), log.read_text()


def test_a_port_that_somebody_else_holds(tmp_path: Path) -> None:
    """The store cannot listen on its port."""
    log = tmp_path / "job.log"
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("0.0.0.0", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        assert jobs.run(jobs.torchrun("none", "--master-port", port), log) != 0
    report = jobs.judged(log)
    assert jobs.verdict(report)[0] == "port_in_use"
    assert any(port in step.command for step in report.findings[0].remedy)


def test_a_rank_that_never_comes(tmp_path: Path) -> None:
    """Two ranks are expected and one is started: the store waits in vain."""
    log = tmp_path / "job.log"
    port = str(jobs.free_port())
    alone = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TIMEOUT": "4"}
    assert jobs.run([sys.executable, str(jobs.TRAIN), "none"], log, alone) != 0
    assert jobs.verdict(jobs.judged(log))[0] == "rank_missing", log.read_text()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_a_job_that_somebody_ends(sent: signal.Signals, tmp_path: Path) -> None:
    """The launcher is told to stop, by a person, a scheduler, or a closed session."""
    log = tmp_path / "job.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            jobs.torchrun("late"),
            stdout=output,
            stderr=subprocess.STDOUT,
            env=jobs.environ(TIMEOUT="60"),
            start_new_session=True,
        )
        try:
            until = time.monotonic() + 60
            while b"step 2" not in log.read_bytes() and time.monotonic() < until:
                time.sleep(0.2)
            os.kill(process.pid, sent)
            process.wait(jobs.LIMIT_SECONDS)
        finally:
            jobs.end(process)
    assert jobs.verdict(jobs.judged(log))[0] == "external_signal", log.read_text()
