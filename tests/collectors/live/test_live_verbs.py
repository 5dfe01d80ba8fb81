"""libibverbs through a helper, against a library of our own with its interface."""

from __future__ import annotations

import errno
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from aidiag.collectors.answers import VerbsPort
from aidiag.collectors.errors import UnavailableError
from aidiag.collectors.live.verbs import LiveVerbs

FAKE = r"""
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
struct port { int state, max_mtu, active_mtu, gids; uint32_t flags, size, pkey, qkey; uint16_t pkeys, lid, sm_lid; };
static const char *names[] = {"mlx5_0", "mlx5_1", 0};
void **ibv_get_device_list(int *count) {
    if (getenv("NO_STACK")) { errno = ENOSYS; return 0; }
    return (void **)names;
}
void ibv_free_device_list(void **list) {}
const char *ibv_get_device_name(void *device) { return device; }
void *ibv_open_device(void *device) {
    if (strcmp(device, "mlx5_1") == 0) { errno = EACCES; return 0; }
    return device;
}
int ibv_close_device(void *context) { return 0; }
int ibv_query_port(void *context, uint8_t port, struct port *answer) {
    if (port != 1) return EINVAL;
    answer->state = 4; answer->max_mtu = 5; answer->active_mtu = 4; answer->lid = 0x21;
    return 0;
}
"""


@pytest.fixture(scope="module")
def library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libibverbs.so.1 that has two devices, the second closed to this user."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler for a libibverbs of our own")
    folder = tmp_path_factory.mktemp("verbs")
    (folder / "fake.c").write_text(FAKE)
    command = [compiler, "-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1", "-o", "libibverbs.so.1", "fake.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder


@pytest.fixture
def verbs(library_folder: Path) -> Iterator[LiveVerbs]:
    """Verbs through that library."""
    verbs = LiveVerbs({"LD_LIBRARY_PATH": str(library_folder)})
    yield verbs
    verbs.close()


def test_port(verbs: LiveVerbs) -> None:
    """State, MTUs in bytes and identifier of a port."""
    assert VerbsPort(4, 2048, 4096, 0x21) == verbs.port("mlx5_0", 1)


def test_errors(verbs: LiveVerbs) -> None:
    """A device that may not be opened, a port and a device that do not exist are told apart."""
    with pytest.raises(PermissionError, match=r"ibv_open_device\(mlx5_1\)"):
        verbs.port("mlx5_1", 1)
    with pytest.raises(OSError, match=r"ibv_query_port\(mlx5_0, 2\)") as caught:
        verbs.port("mlx5_0", 2)
    assert errno.EINVAL == caught.value.errno
    with pytest.raises(UnavailableError, match="does not show mlx5_7"):
        verbs.port("mlx5_7", 1)


def test_no_stack(library_folder: Path) -> None:
    """A kernel without RDMA gives ENOSYS."""
    verbs = LiveVerbs({"LD_LIBRARY_PATH": str(library_folder), "NO_STACK": "1"})
    with pytest.raises(OSError, match="ibv_get_device_list") as caught:
        verbs.port("mlx5_0", 1)
    verbs.close()

    assert errno.ENOSYS == caught.value.errno
