"""Words that are quoted: a log of a chat server, samples in a training log and notes of people are full of errors of others."""

from __future__ import annotations

import re

REACH = 8_000
"""So far before a message its quotation may begin, in bytes."""

_SPEAKER = re.compile(
    rb"(?:\[(?:rank)?\d{1,7}\]:? ?)?[\s>*#-]{0,8}"
    rb"(?:[\[<*|]{1,3}(?:user|assistant|human|prompter|gpt|bot)[\]>*|]{1,3}"
    rb"|(?:user|assistant|human|prompter|question|prompt|q)[ ]?[:>])",
    re.IGNORECASE,
)
_MARK = re.compile(
    rb"<\|im_start\|>|<\|(?:user|assistant|start_header_id)\|>|\[INST\]|<start_of_turn>|### (?:Instruction|Human|User)"
)
_NAMED = re.compile(
    rb"\b(?:prompts?|completions?|generated_text|question|instruction|query|content|user_input|input_text|chosen|rejected|answer)"
    rb"['\"]?\s{0,2}[:=]\s{0,2}\[?[bfru]?(['\"])"
)  # fmt: skip

_SIGN = re.compile(rb"['\"<\xe2]|\[INST\]|### ")
"""One of these stands before all that is quoted, but for what a speaker says."""

PROSE_REACH = 120
_PROSE = re.compile(rb"(?<!error)(?<!with)(?<!reason)(?<!message)(?<!exception)(?<!File)(?<!file)(?<=[A-Za-z,]) $")
"""What stands before a quotation mark in prose: a word and a blank. In JSON it is a colon, and an error's words are its own."""

_MENTIONED = re.compile(
    rb"\b(?:of|like|as|about|for|says?|prints?|called|named|words?|phrase|string|text|label|pattern|regex|grep)[ ]'"
    rb"(?:[A-Za-z_.]{1,60}: )?$"
)
"""What stands before an error in single quotes that is only spoken of; programs put their own errors in such quotes, too."""


def is_quoted(text: bytes, start: int) -> bool:
    """Whether what starts at `start` of a line is quoted: by a user, a model, or in prose."""
    if start == 0:
        return False
    before = text[max(0, start - REACH) : start]
    if not _SIGN.search(before):
        return start <= REACH and _SPEAKER.match(before) is not None
    if _in_prose(before[-PROSE_REACH:]):
        return True
    if _MARK.search(before) or (start <= REACH and _SPEAKER.match(before)):
        return True
    # A later opening quote of a kind ends the earlier ones of its kind.
    last = {opened[1]: opened.end() for opened in _NAMED.finditer(before)}
    return any(not re.search(rb"(?<!\\)" + quote, before[end:]) for quote, end in last.items())


def _in_prose(before: bytes) -> bool:
    """Whether an open quotation mark stands before it, behind a word that names no error."""
    mark = max(before.rfind(b'"'), before.rfind("\N{LEFT DOUBLE QUOTATION MARK}".encode()))
    if _MENTIONED.search(before):
        return True
    return mark >= 0 and bool(_PROSE.search(before[:mark])) and not before[mark + 1 : mark + 2].isspace()
