"""What ibv_devinfo, ibstat and ibstatus say of RDMA ports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue


class RdmaPorts(TextBlock):
    """A device and its ports: lines of `key: value` below the name of the device.

    The three commands word a state as `PORT_ACTIVE (4)`, `Active` and `4: ACTIVE`; all become `ACTIVE`.
    """

    reopens: ClassVar[bool] = True

    _PAIR = re.compile(r"\s{0,24}([A-Za-z][A-Za-z_ ]{0,40}?)(?:\[[ \d]{1,6}\])?:\s{0,40}(.{0,200}).*")
    _PORT = re.compile(r"\s{0,24}(?:Port (\d{1,3}):|port:\s{1,24}(\d{1,3}))\s{0,8}")
    _STATE = re.compile(r"(?:\d{1,2}: |PORT_)?(\w{1,40})(?: \(\d{1,2}\))?")
    _KEYS: ClassVar[Mapping[str, str]] = {
        "state": "state",
        "physical state": "physical_state",
        "phys state": "physical_state",
        "phys_state": "physical_state",
        "link layer": "link",
        "link_layer": "link",
        "active_mtu": "mtu",
    }

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._began = False
        self._device = fields
        self._fields: dict[str, FieldValue] = dict(fields)
        self._evidence: tuple[Line, int] | None = None

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the name of the device, a port, or a line about it."""
        if not self._began:
            self._began = True
            return []
        if port := self._PORT.fullmatch(content):
            told = self.close()
            self._fields = {"device": self._device["device"], "port": int(port[1] or port[2])}
            return told
        pair = self._PAIR.fullmatch(content)
        if not pair or (content[:1].strip() and pair[1].lower() not in self._KEYS):
            self.over = bool(content.strip())
            return self.close() if self.over else []
        if name := self._KEYS.get(pair[1].lower()):
            self._fields[name] = self._value(name, pair[2].strip())
            if name == "state":
                self._evidence = (line, start)
        return []

    def _value(self, name: str, text: str) -> FieldValue:
        value = self._STATE.match(text)
        if not value or name == "link":
            return text
        return int(value[1]) if name == "mtu" and value[1].isdigit() else value[1].upper().replace("_", "")

    def close(self) -> list[Outcome]:
        """The port that has been read so far."""
        evidence, self._evidence = self._evidence, None
        return [Outcome(*evidence, self._fields)] if evidence else []
