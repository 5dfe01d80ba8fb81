"""Where the shim cannot work it says so once, leaves a trace, and training goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

STEP = "import torch\nfor _ in range(3):\n    torch.optim.SGD().step()\nprint('trained')\n"
ROOT_ONLY = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="mounting needs root and unshare"
)


def line(done: subprocess.CompletedProcess[str]) -> str:
    """The one line on stderr of a program that trained all the same."""
    assert "trained" == done.stdout.strip()
    (text,) = done.stderr.splitlines()
    assert text.startswith("aidiag: shim off: ")
    return str(text)


def test_no_file_may_grow(injected: Any) -> None:
    """Under `ulimit -f 0` no signal ends the trainer; the name of an empty file tells the reason."""
    done = injected.run(STEP, prefix=["prlimit", "--fsize=0"])

    assert "ulimit -f" in line(done)
    assert ["file_size_limit"] == injected.off_codes()


def test_a_folder_that_cannot_be_written(injected: Any) -> None:
    """A folder that cannot be made is told, and the trace goes where there is room."""
    injected.environ["AIDIAG_DIR"] = "/proc/nothing"
    done = injected.run(STEP)

    assert "/proc/nothing" in line(done)


def test_a_file_in_the_place_of_the_folder(injected: Any) -> None:
    """A file where the folder should be is refused."""
    (injected.folder / "file").touch()
    injected.environ["AIDIAG_DIR"] = str(injected.folder / "file")

    assert "cannot open" in line(injected.run(STEP))


def test_a_helper_says_nothing(injected: Any) -> None:
    """Nothing is printed by a process that would not have attached anyway."""
    injected.environ["AIDIAG_DIR"] = "/proc/nothing"
    done = injected.run("import torch; print('trained')")

    assert ("trained\n", "") == (done.stdout, done.stderr)


def test_stderr_is_closed(injected: Any) -> None:
    """A trainer without stderr is not hurt by our line."""
    injected.environ["AIDIAG_DIR"] = "/proc/nothing"

    assert "trained" == injected.run(f"import sys; sys.stderr.close(); sys.stderr = None\n{STEP}").stdout.strip()


def in_mounts(injected: Any, commands: str, program: str = STEP) -> subprocess.CompletedProcess[str]:
    """Run a program in a mount namespace of its own, after some commands in it."""
    shell = f'{commands} && exec "$@"'
    prefix = ["unshare", "-m", "--propagation", "private", "sh", "-c", shell, "sh"]
    done: subprocess.CompletedProcess[str] = injected.run(program, prefix=prefix)
    return done


LOOK = f"{STEP}import os; print(sorted(name.split('.', 1)[1] for name in os.listdir(os.environ['AIDIAG_DIR'])))"


@ROOT_ONLY
@pytest.mark.live
@pytest.mark.parametrize("size", ["4k", "64k"])
def test_a_full_tmpfs(injected: Any, size: str) -> None:
    """A tmpfs without room for a record: off, with the reason in the name of a file, and no half a record."""
    done = in_mounts(injected, f"mount -t tmpfs -o mode=700,size={size} none {injected.folder}", LOOK)
    trained, names = done.stdout.splitlines()

    assert ("trained", "['no_space.off']") == (trained, names)
    assert "cannot reserve" in done.stderr


@ROOT_ONLY
@pytest.mark.live
def test_a_tmpfs_that_fills_up_later(injected: Any) -> None:
    """A record whose tmpfs fills up while it is in use goes on: its blocks are reserved."""
    program = """
import torch, os
torch.optim.SGD().step()
folder = os.environ["AIDIAG_DIR"]
try:
    with open(folder + "/fill", "wb") as file:
        while True:
            file.write(bytes(4096)); file.flush()
except OSError as error:
    print(error.strerror)
for _ in range(2000):
    torch.optim.SGD().step()
import aidiag.trainer_shim as shim
for i in range(100):
    shim.log(loss=i)
    with shim.phase("checkpoint"): pass
print("trained")
"""
    done = in_mounts(injected, f"mount -t tmpfs -o mode=700,size=400k none {injected.folder}", program)

    assert ["No space left on device", "trained"] == done.stdout.splitlines()
    assert "" == done.stderr


@ROOT_ONLY
@pytest.mark.live
def test_a_read_only_folder(injected: Any) -> None:
    """A folder that was mounted read-only: off, and training goes on."""
    target = injected.folder
    done = in_mounts(injected, f"mount -t tmpfs none {target} && chmod 700 {target} && mount -o remount,ro {target}")

    assert "Read-only file system" in line(done)


@ROOT_ONLY
@pytest.mark.live
def test_a_small_dev_shm(injected: Any) -> None:
    """Docker's /dev/shm of 64 MiB that a job has filled: the usual folder will not do, and that is told."""
    commands = (
        "mount -t tmpfs -o size=1m none /dev/shm && { head -c 2m /dev/zero > /dev/shm/fill 2>&1 || true; } 2>/dev/null"
    )
    injected.environ["AIDIAG_DIR"] = ""

    assert "cannot reserve" in line(in_mounts(injected, commands))


def test_the_trace_says_who(injected: Any) -> None:
    """The file that is left names job, rank, host and reason, where it can be written."""
    import json

    big = Path("/var/tmp") / f"aidiag-off-{os.getpid()}"
    big.mkdir(mode=0o700)
    injected.environ.update(AIDIAG_DIR=str(big), RANK="3", WORLD_SIZE="4")
    try:
        if "not on a tmpfs" not in line(injected.run(STEP)):
            pytest.skip("/var/tmp is a tmpfs here")
        (path,) = big.glob("*.off")
        facts = json.loads(path.read_text())
    finally:
        shutil.rmtree(big)

    assert ("test", 3, 4, "not_tmpfs") == (facts["job_id"], facts["rank"], facts["world_size"], facts["code"])
