"""What the real libnccl prints on a machine without a GPU: its choice of an interface, and the missing driver."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_logs import jobs
from tests.real_parts import missing

pytestmark = [pytest.mark.live, pytest.mark.timeout(60)]

CALLS = """
import ctypes, sys
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
nccl, made, communicator = ctypes.CDLL(sys.argv[1]), Id(), ctypes.c_void_p()
status = nccl.ncclGetUniqueId(ctypes.byref(made))
nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
sys.exit(status or nccl.ncclCommInitRank(ctypes.byref(communicator), 2, made, 0))
"""


def library() -> str:
    """Where libnccl lies: `AIDIAG_LIBNCCL`, or in the package nvidia-nccl-cu12 of this interpreter."""
    places = [os.environ.get("AIDIAG_LIBNCCL", "")]
    places += [f"{folder}/nvidia/nccl/lib/libnccl.so.2" for folder in sys.path]
    found = next((place for place in places if place and Path(place).is_file()), None)
    return found or missing("no libnccl; pip install nvidia-nccl-cu12, or set AIDIAG_LIBNCCL")


def has_driver() -> bool:
    """Whether this machine has a CUDA driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("environ", "cause"),
    [
        ({"NCCL_SOCKET_IFNAME": "ib9"}, "net_wrong_interface"),
        ({"NCCL_SOCKET_IFNAME": "^lo,eth,en,wl,br,docker,veth"}, "net_wrong_interface"),
        ({"NCCL_COMM_ID": "10.9.9.9:29555"}, "net_wrong_interface"),
        ({}, "driver_cuda_mismatch"),
    ],
)
def test_what_libnccl_prints_is_judged_right(environ: dict[str, str], cause: str, tmp_path: Path) -> None:
    """No interface of that name or address, or no driver that this library can use."""
    if not environ and has_driver():
        pytest.skip("this machine has a CUDA driver")
    log = tmp_path / "nccl.log"
    with log.open("wb") as output:
        ended = subprocess.run(
            [sys.executable, "-c", CALLS, library()],
            env=jobs.environ(NCCL_DEBUG="INFO", **environ),
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    assert ended.returncode != 0
    report = jobs.judged(log)
    assert jobs.verdict(report)[0] == cause, log.read_text()
    jobs.assert_true_evidence(report, log)
