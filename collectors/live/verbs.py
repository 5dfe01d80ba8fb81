"""Ports of this machine through libibverbs, asked in helpers of their own: opening a device may block in its firmware."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aidiag.collectors.answers import MTU_BYTES, VerbsPort
from aidiag.collectors.helper import Helper
from aidiag.collectors.helper.pool import HelperPool

CALLS = Path(__file__).resolve().with_name("verbs_calls.py")


class LiveVerbs:
    """Asks for ports. `environ` is for the helper."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._helpers = HelperPool(lambda: Helper(CALLS, name="libibverbs", environ=environ, packages=False))

    def port(self, device: str, number: int) -> VerbsPort:
        """What ibv_query_port says. Raises OSError, UnavailableError without the library or the device, HungError."""
        answer = self._helpers.ask(device, "query_port", device, number)
        if "errno" in answer:
            raise OSError(int(answer["errno"]), str(answer["text"]), str(answer["call"]))
        return VerbsPort(
            state=int(answer["state"]),
            active_mtu_bytes=MTU_BYTES.get(answer["active_mtu"], 0),
            maximum_mtu_bytes=MTU_BYTES.get(answer["max_mtu"], 0),
            lid=int(answer["lid"]),
        )

    def close(self) -> None:
        """End the helpers."""
        self._helpers.close()
