"""PCI addresses."""

from __future__ import annotations


def pci_address(text: str) -> str:
    """The form that sysfs uses, `0000:c3:00.0`, of `PCI:0000:c3:00`, `00000000:C3:00.0` and the like."""
    domain, _, rest = text.lower().removeprefix("pci:").partition(":")
    return f"{domain[-4:] if domain[:-4].strip('0') == '' else domain}:{rest}{'' if '.' in rest else '.0'}"
