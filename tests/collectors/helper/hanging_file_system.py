"""A FUSE file system, spoken by hand on /dev/fuse, that answers everything but the calls about its contents.

usage: python hanging_file_system.py MOUNT_POINT      (needs root; prints "mounted", serves until it is killed)

Whoever calls statfs, opens or lists it waits in the kernel in D state and outlives SIGKILL until this process ends:
the shape of a dead NFS server or a stuck driver. Protocol: include/uapi/linux/fuse.h.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

GETATTR, INIT = 3, 26
IN_HEADER = struct.Struct("=IIQQIIII")
DIRECTORY = 0o040755


def mount(point: str) -> int:
    """Mount on a folder; the file descriptor of the connection."""
    connection = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={connection},rootmode=40000,user_id=0,group_id=0".encode()
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(b"hanging", os.fsencode(point), b"fuse.hanging", 0, options) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return connection


def serve(connection: int) -> None:
    """Answer what a mount needs to be walked over, and nothing more."""
    while True:
        try:
            request = os.read(connection, 1 << 20)
        except OSError:
            return
        _, opcode, unique, node, *_ = IN_HEADER.unpack_from(request)
        if opcode == INIT:
            answer = struct.pack("=IIIIHHIIHHI7I", 7, 26, 65536, 0, 12, 9, 65536, 1, 1, 0, 0, *[0] * 7)
        elif opcode == GETATTR:
            attributes = struct.pack("=QQQQQQIIIIIIIIII", node, 0, 0, 0, 0, 0, 0, 0, 0, DIRECTORY, 2, 0, 0, 0, 4096, 0)
            answer = struct.pack("=QII", 1000, 0, 0) + attributes
        else:
            continue
        os.write(connection, struct.pack("=IiQ", 16 + len(answer), 0, unique) + answer)


if __name__ == "__main__":
    connection = mount(sys.argv[1])
    print("mounted", flush=True)
    serve(connection)
