"""A call that is really stuck in the kernel: D state, outliving SIGKILL, on a FUSE mount of our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]

TRIAL = """
import json, sys, time
from pathlib import Path
from aidiag.collectors.errors import HungError
from aidiag.collectors.helper import abandoned_count
from aidiag.collectors.live import LiveNode
from aidiag.collectors.live.files import make_helpers

point, server = sys.argv[1], int(sys.argv[2])
helpers = make_helpers(deadline_seconds=0.5)
node = LiveNode(helpers=helpers)
said = {}

def note(key, call):
    start = time.monotonic()
    try:
        said[key] = ["answer", str(call())]
    except HungError as error:
        said[key] = ["hung", error.reason]
    except OSError as error:
        said[key] = ["error", error.strerror]
    said[key].append(time.monotonic() - start)

note("first", lambda: node.statvfs(point))
note("second", lambda: node.statvfs(point))
note("below", lambda: node.text(f"{point}/some/file"))
note("root", lambda: node.statvfs("/").size_bytes > 0)
note("name", lambda: node.resolve("localhost")[0][:3])
(resource,) = helpers.pending()
stuck = helpers._stuck[resource]
status = Path(f"/proc/{stuck.pid}/stat")
said["killed"] = stuck.kill()
said["state after kill"] = status.read_text().rpartition(")")[2].split()[0]
said["abandoned"] = abandoned_count()
note("third", lambda: node.statvfs(point))
said["starts"] = stuck.starts
import os, signal
os.kill(server, signal.SIGKILL)
end = time.monotonic() + 20
while abandoned_count() and time.monotonic() < end:
    time.sleep(0.01)
note("after the end", lambda: node.statvfs(point))
said["abandoned at last"] = abandoned_count()
node.close()
print(json.dumps(said))
"""


@pytest.fixture
def hanging_mount() -> list[str]:
    """The start of a command that runs in a mount namespace where $POINT is a file system that hangs."""
    if not (Path("/dev/fuse").exists() and os.geteuid() == 0):
        pytest.skip("needs root and /dev/fuse to mount a file system that does not answer")
    return ["unshare", "--mount", "--propagation", "private"]


@pytest.mark.live
def test_call_in_d_state(hanging_mount: list[str], tmp_path: Path) -> None:
    """A statvfs in D state is reported with its age, its helper is abandoned after SIGKILL and never doubled, other
    calls go on at once, and when the file system ends, so does the report.
    """
    point = tmp_path / "data"
    point.mkdir()
    shell = f"""
        {sys.executable} {HERE / "hanging_file_system.py"} {point} > {tmp_path / "said"} & SERVER=$!
        trap 'kill -9 $SERVER 2>/dev/null' EXIT
        while ! grep -q mounted {tmp_path / "said"}; do kill -0 $SERVER || exit 77; sleep 0.05; done
        {sys.executable} -c "$TRIAL" {point} $SERVER
    """
    run = subprocess.run(
        [*hanging_mount, "bash", "-c", shell],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TRIAL": TRIAL},
        timeout=120,
    )
    if run.returncode == 77:
        pytest.skip(f"no FUSE mount to be had: {run.stderr[-200:]}")
    assert 0 == run.returncode, run.stderr
    said = json.loads(run.stdout)

    assert "hung" == said["first"][0]
    assert f"statvfs({point}) has not returned for 0." in said["first"][1]
    assert ["hung", f"statvfs({point}) has not returned for"] == [said["second"][0], said["second"][1][:-6]]
    assert "hung" == said["below"][0]
    assert [["answer", "True"], ["answer", "127"]] == [said["root"][:2], said["name"][:2]]
    assert (False, 1, 1) == (said["killed"], said["abandoned"], said["starts"])
    assert "D" == said["state after kill"]
    assert "hung" == said["third"][0]
    assert "error" == said["after the end"][0]
    assert 0 == said["abandoned at last"]
