"""What is wrong with an expression, where, and what would mend it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ExpressionError(ValueError):
    """An expression that is not accepted. `offset` counts characters of its text from 0."""

    def __init__(self, message: str, offset: int = 0, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.offset = offset
        self.hint = hint


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names the known word most like `word`, empty where none is alike."""
    choices = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), choices, n=1, cutoff=0.6)
    return f"did you mean {choices[close[0]]}?" if close else ""
