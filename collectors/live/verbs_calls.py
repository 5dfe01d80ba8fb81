"""The verb of the helper that asks libibverbs for a port. Run by path in a helper process.

Structures are those of rdma-core's `libibverbs/verbs.h`, which are part of its ABI (IBVERBS_1.1).
"""

import ctypes
import os

LIBRARY = "libibverbs.so.1"


class UnavailableError(Exception):
    """The library or the device is not here."""


class PortAttributes(ctypes.Structure):
    """struct ibv_port_attr up to `lid`, and room for what later versions append."""

    _fields_ = (
        ("state", ctypes.c_int),
        ("max_mtu", ctypes.c_int),
        ("active_mtu", ctypes.c_int),
        ("gid_tbl_len", ctypes.c_int),
        ("port_cap_flags", ctypes.c_uint32),
        ("max_msg_sz", ctypes.c_uint32),
        ("bad_pkey_cntr", ctypes.c_uint32),
        ("qkey_viol_cntr", ctypes.c_uint32),
        ("pkey_tbl_len", ctypes.c_uint16),
        ("lid", ctypes.c_uint16),
        ("rest", ctypes.c_uint8 * 128),
    )


def doing(text: str) -> None:
    """Name the call about to be made; helper/process.py puts the real one in its place."""


def load() -> ctypes.CDLL:
    """The library with the types of the calls that are made."""
    try:
        library = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError:
        raise UnavailableError(f"{LIBRARY} is not installed here") from None
    library.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
    library.ibv_get_device_name.restype = ctypes.c_char_p
    library.ibv_get_device_name.argtypes = (ctypes.c_void_p,)
    library.ibv_open_device.restype = ctypes.c_void_p
    library.ibv_open_device.argtypes = (ctypes.c_void_p,)
    library.ibv_query_port.argtypes = (ctypes.c_void_p, ctypes.c_uint8, ctypes.c_void_p)
    library.ibv_close_device.argtypes = (ctypes.c_void_p,)
    library.ibv_free_device_list.argtypes = (ctypes.c_void_p,)
    return library


def query_port(name: str, port: int) -> dict[str, object]:
    """`state`, `max_mtu`, `active_mtu` (enumerated) and `lid` of a port, or `errno` and `call` where one fails."""
    library = load()
    doing("ibv_get_device_list()")
    devices = library.ibv_get_device_list(None)
    if not devices:  # ENOSYS: no RDMA stack in this kernel
        return failed("ibv_get_device_list()")
    try:
        index = 0
        while devices[index] and (library.ibv_get_device_name(devices[index]) or b"").decode() != name:
            index += 1
        if not devices[index]:
            raise UnavailableError(f"libibverbs does not show {name}")
        doing(f"ibv_open_device({name})")
        context = library.ibv_open_device(devices[index])
        if not context:
            return failed(f"ibv_open_device({name})")
        try:
            doing(f"ibv_query_port({name}, {port})")
            answer = PortAttributes()
            code = library.ibv_query_port(context, port, ctypes.byref(answer))
            if code:
                return failed(f"ibv_query_port({name}, {port})", code)
            return {
                "state": answer.state,
                "max_mtu": answer.max_mtu,
                "active_mtu": answer.active_mtu,
                "lid": answer.lid,
            }
        finally:
            library.ibv_close_device(context)
    finally:
        library.ibv_free_device_list(devices)


def failed(call: str, code: int = 0) -> dict[str, object]:
    """The errno of a call that failed."""
    number = code or ctypes.get_errno()
    return {"errno": number, "text": os.strerror(number), "call": call}


VERBS = {"query_port": query_port}
