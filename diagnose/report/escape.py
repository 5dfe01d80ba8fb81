"""Making foreign text safe to print: what a job writes must not move the cursor or turn text around."""

from __future__ import annotations

import re

# C0 but tab and newline, DEL, C1, and the characters that hide or reorder text (Unicode TR 36, "Trojan source").
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with every unsafe character written as an escape such as \\x1b. Tabs and newlines stay."""
    return _UNSAFE.sub(_escape, text)


def one_line(text: str) -> str:
    """The same on one line: newlines are escaped too."""
    return printable(text).replace("\n", "\\n")


def json_safe(text: str) -> str:
    """JSON text in which DEL, C1 and the characters that hide or reorder text are written as \\u escapes."""
    return _UNSAFE.sub(lambda match: match.group() if match.group() < " " else f"\\u{ord(match.group()):04x}", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
