"""PCI addresses, `0000:c3:00.0` as sysfs writes them, from the other forms."""

from __future__ import annotations


def pci_address(text: str) -> str:
    """The form that sysfs uses, `0000:c3:00.0`, of `PCI:0000:c3:00`, `00000000:C3:00.0` and the like."""
    domain, _, rest = text.lower().removeprefix("pci:").partition(":")
    return f"{domain[-4:] if domain[:-4].strip('0') == '' else domain}:{rest}{'' if '.' in rest else '.0'}"


def pci_address_of_number(text: str) -> str:
    """The address that NCCL writes as one hexadecimal number, `c3000` (busIdToInt64 in its utils.cc)."""
    number = int(text, 16)
    return f"{number >> 20:04x}:{number >> 12 & 0xFF:02x}:{number >> 4 & 0xFF:02x}.{number & 0xF:x}"
