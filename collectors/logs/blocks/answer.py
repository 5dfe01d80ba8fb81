"""A command whose answer is a word or an address on the next line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue

ANSWER_LIMIT = 200
"""A longer line is no answer of this kind."""


class Answer(TextBlock):
    """The line after a command, as `answer` beside the fields of the command."""

    reopens: ClassVar[bool] = True

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._fields = fields
        self._asked = False

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the command, then its answer."""
        if not self._asked:
            self._asked = True
            return []
        self.over = True
        answer = content.strip()
        if not answer or len(answer) > ANSWER_LIMIT or answer.startswith(("$ ", "# ")):
            return []
        return [Outcome(line, start, {**self._fields, "answer": answer})]

    def close(self) -> list[Outcome]:
        """Nothing: there was no answer."""
        return []
