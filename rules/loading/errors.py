"""What is wrong with a rule file."""

from __future__ import annotations

LARGEST_BYTES = 256 << 10
"""The largest rule file that is read."""


class RuleError(ValueError):
    """What is wrong in a file, where (line and column from 1, 0 where it concerns the whole file), and what helps."""

    def __init__(self, path: str, line: int, column: int, message: str, remedy: str = "") -> None:
        place = f"{path}:{line}:{column}" if line else path
        super().__init__(f"{place}: {message}" + (f"; {remedy}" if remedy else ""))
        self.path = path
        self.line = line
        self.column = column
        self.message = message
        self.remedy = remedy
