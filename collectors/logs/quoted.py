"""Words that a user or a model said: a log of a chat server, or samples in a training log, are full of quoted errors."""

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


def is_quoted(text: bytes, start: int) -> bool:
    """Whether what starts at `start` of a line stands within what somebody said to a model, or a model to them."""
    if start == 0:
        return False
    before = text[max(0, start - REACH) : start]
    if _MARK.search(before) or (start <= REACH and _SPEAKER.match(before)):
        return True
    # A later opening quote of a kind ends the earlier ones of its kind.
    last = {opened[1]: opened.end() for opened in _NAMED.finditer(before)}
    return any(not re.search(rb"(?<!\\)" + quote, before[end:]) for quote, end in last.items())
