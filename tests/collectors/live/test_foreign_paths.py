"""Which paths are touched in a helper only: all that lead into a file system that may not answer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.launched_ranks import SCAN_SECONDS, LaunchedRanks, RankProcesses
from aidiag.collectors.live import LiveNode, files
from aidiag.collectors.mounts import Mount, parse_mounts

ROOT = Path(__file__).resolve().parents[3]
LOCAL = "22 1 254:0 / / rw - ext4 /dev/vda rw\n23 22 0:20 / /proc rw - proc proc rw\n"
HOME = "40 22 0:50 / /home rw - nfs4 server:/home rw\n"


class Asked:
    """Helpers that answer `there` to everything and keep what they were asked about."""

    def __init__(self) -> None:
        self.resources: list[str] = []

    def ask(self, resource: str, verb: str, *arguments: Any) -> dict[str, Any]:
        """Note it."""
        self.resources.append(resource)
        return {"value": True}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """What the helpers are asked about when somebody wants to know whether a path is there."""

    def ask(path: str, mounts: dict[str, str]) -> list[str]:
        def tables(process: str) -> tuple[Mount, ...]:
            return parse_mounts(mounts.get(process, ""))

        monkeypatch.setattr(files, "_mounts_of", tables)
        helpers = Asked()
        LiveNode(helpers=helpers).exists(path)  # type: ignore[arg-type]
        return helpers.resources

    return ask


PID = os.getpid()


@pytest.mark.parametrize(
    ("path", "theirs", "expected"),
    [
        (f"/proc/{PID}/root/etc/passwd", LOCAL, []),
        (f"/proc/{PID}/root/home/me/shim/sitecustomize.py", LOCAL + HOME, ["server:/home at /home"]),
        (f"/proc/{PID}/task/{PID}/root/home/me", LOCAL + HOME, ["server:/home at /home"]),
        (f"/proc/{PID}/root/etc/../home/me", LOCAL + HOME, ["server:/home at /home"]),
        (f"/proc/{PID}/root/../../home/me", LOCAL + HOME, ["server:/home at /home"]),
        (f"/proc/{PID}/root/etc", "1 0 0:60 / / rw - fuse.squashfuse image rw\n", ["image at /"]),
        (f"/proc/{PID}/root/etc", "", [f"/proc/{PID}/root"]),
        (f"/proc/{PID}/cwd", LOCAL, [f"/proc/{PID}/cwd"]),
        (f"/proc/{PID}/cwd/data", LOCAL, [f"/proc/{PID}/cwd"]),
        (f"/proc/{PID}/exe", LOCAL, [f"/proc/{PID}/exe"]),
        (f"/proc/{PID}/fd/0", LOCAL, [f"/proc/{PID}/fd/0"]),
        (f"/proc/{PID}/status", LOCAL + HOME, []),
        (f"/proc/{PID}/fd", LOCAL + HOME, []),
    ],
)
def test_ways_through_a_process(asked: Callable[..., list[str]], path: str, theirs: str, expected: list[str]) -> None:
    """Below the root of a process its own mounts count; its folder, program and open files may lie anywhere."""
    assert expected == asked(path, {"/proc/self": LOCAL, f"/proc/{PID}": theirs, f"/proc/{PID}/task/{PID}": theirs})


def test_one_dead_server_is_one_resource(asked: Callable[..., list[str]]) -> None:
    """A process that shares our mounts waits for the same file system as we do: it binds no second helper."""
    both = {"/proc/self": LOCAL + HOME, f"/proc/{PID}": LOCAL + HOME}

    assert ["/home"] == asked("/home/me", both) == asked(f"/proc/{PID}/root/home/me", both)


def test_a_link_of_a_process_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a process is says the kernel, without touching that place."""
    helpers = Asked()
    node = LiveNode(helpers=helpers)  # type: ignore[arg-type]

    assert str(Path.cwd()) == node.link("/proc/self/cwd")
    assert node.link("/proc/self/exe")
    assert [] == helpers.resources


@pytest.mark.live
def test_a_rank_with_a_dead_home(tmp_path: Path) -> None:
    """The shim of a rank lies on a file system that does not answer: the look comes back after the helper's deadline,
    and says so.
    """
    if not (Path("/dev/fuse").exists() and os.geteuid() == 0):
        pytest.skip("needs root and /dev/fuse to mount a file system that does not answer")
    point, job = tmp_path / "home", f"dead-home-{os.getpid()}"
    point.mkdir()
    server = ROOT / "tests" / "collectors" / "helper" / "hanging_file_system.py"
    shell = f"""
        {sys.executable} {server} {point} > {tmp_path / "said"} 2>&1 & SERVER=$!
        trap 'kill -9 $SERVER 2>/dev/null' EXIT
        while ! grep -q mounted {tmp_path / "said"}; do kill -0 $SERVER || exit 77; sleep 0.05; done
        export RANK=1 WORLD_SIZE=2 AIDIAG_JOB_ID={job} PYTHONPATH={point}/trainer_shim/inject
        bash -c 'echo up; exec -a python3 cat'
    """
    command = ["unshare", "--mount", "--propagation", "private", "bash", "-c", shell]
    container = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    helpers = files.make_helpers(deadline_seconds=0.5)
    try:
        assert container.stdout is not None
        if container.stdout.readline() != "up\n":
            pytest.skip("no FUSE mount to be had")
        found: list[RankProcesses] = []
        ranks, now = LaunchedRanks(LiveNode(helpers=helpers), job), 0.0
        while "does not answer" not in (found[0].reason if found else "") and now < 60:
            time.sleep(0.05)  # bash may not have become the trainer yet
            now += SCAN_SECONDS
            found = ranks.find(now)
        path = f"{point}/trainer_shim/inject"
        assert found and f"the file system of {path} does not answer" in found[0].reason
        assert [f"hanging at {point}"] == list(helpers.pending())
    finally:
        container.communicate("")
        helpers.close()
