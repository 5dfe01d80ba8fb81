"""The types of the fields of a pattern: what they match, and how their text becomes a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aidiag.collectors.observation import FieldValue
from aidiag.collectors.pci import pci_address, pci_address_of_number

UNIT_BYTES: Mapping[str, int] = {
    "bytes": 1, "b": 1,
    "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40,
    "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
    "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Type:
    """A type of field: its expression, and how its text becomes a value.

    The end of a `loose` one is where the text behind it begins; a `closed` one cannot go on where it has ended. `opening` matches its
    first character, where without what must follow it could end at several.
    """

    expression: str
    value: Callable[[str], FieldValue]
    loose: bool = False
    closed: bool = False
    opening: str = ""


def size_bytes(text: str) -> int:
    """The bytes that `1.50 GiB`, `20.00 MiB` or `512 bytes` stand for (kB as torch and the kernel mean it: 1024)."""
    number, unit = re.fullmatch(r"([\d.]+) ?([A-Za-z]+)", text).groups()  # type: ignore[union-attr]
    return round(float(number) * UNIT_BYTES[unit.lower()])


def _mib_bytes(text: str) -> int:
    return int(text) << 20


def _gib_bytes(text: str) -> int:
    return round(float(text) * (1 << 30))


def as_text(text: str) -> str:
    """Text without blanks around it."""
    return text.strip()


TYPES: Mapping[str, Type] = {
    "int": Type(r"-?\d{1,19}", int),
    "float": Type(r"-?\d{1,15}(?:\.\d{1,9})?", float),
    "hex": Type(r"(?:0x)?[0-9a-fA-F]{1,32}|\(nil\)", as_text),
    "pci": Type(r"(?:PCI:)?[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?", pci_address),
    "pci_number": Type(r"(?:0x)?[0-9a-fA-F]{1,16}", pci_address_of_number),
    "bus": Type(r"[0-9a-fA-F]{2}", lambda text: f"0000:{text.lower()}:00.0", closed=True),
    "size": Type(r"\d{1,15}(?:\.\d{1,6})? ?(?:bytes|[KMGTkmgt]i?[Bb]|B)", size_bytes, closed=True),
    "amount": Type(
        r"\d{1,15}(?:\.\d{0,6})? ?(?:[Bb]ytes|[KMGTkmgt]i?[Bb]?|B)(?![A-Za-z])", size_bytes, closed=True, opening=r"\d"
    ),
    "blanks": Type(r"[ \t]{1,32}", as_text),
    "mib": Type(r"\d{1,9}", _mib_bytes),
    "gib": Type(r"\d{1,6}(?:\.\d{1,6})?", _gib_bytes),
    "digits": Type(r"\d{1,19}", as_text),
    "grouped": Type(r"\d[\d,]{0,24}", as_text),
    "version": Type(r"\d{1,3}\.\d{1,4}(?:\.\d{1,4})?(?:\.\d{1,4})?", as_text),
    "counter": Type(r"[.:= \t]{1,32}\d{1,19}", lambda text: int(text.strip(".:= \t"))),
    "device": Type(r"[A-Za-z][\w-]{1,31}", as_text),
    "ipv4": Type(r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}", as_text),
    "task": Type(r"[^\s\[\](){}]{1,16}", as_text),
    "name": Type(r"[A-Za-z_][\w.]{0,127}", as_text),
    "word": Type(r"\S{1,255}?", as_text, loose=True),
    "tag": Type(r"[^\[\]]{1,100}?", as_text, loose=True),
    "devices": Type(r"\[\d{1,3}\].{0,1000}?", as_text, loose=True),
    "text": Type(r".{0,1000}?", as_text, loose=True),
}
