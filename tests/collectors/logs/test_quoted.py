"""What a user or a model said is not what a program said."""

from __future__ import annotations

import pytest

from aidiag.collectors.logs.quoted import is_quoted

ERROR = "RuntimeError: CUDA out of memory."


@pytest.mark.parametrize(
    "line",
    [
        f"INFO logger.py:36] Received request chat-5e1b: prompt: '<|im_start|>user\\nMy job prints \"{ERROR}\" why?', params",
        f"Received request cmpl-1: prompt: 'What does {ERROR} mean?', sampling_params",
        f'{{"role": "user", "content": "I get {ERROR} on step 3"}}',
        f'{{"question": "what is {ERROR}", "id": 3}}',
        f"[user] {ERROR}",
        f"User: I see {ERROR}",
        f"[rank0]: [assistant] {ERROR}",
        f"### Instruction: explain {ERROR}",
    ],
)
def test_a_quoted_error_is_told_apart(line: str) -> None:
    """Chat requests, samples and data sets hold errors that nobody had."""
    assert is_quoted(line.encode(), line.index(ERROR))


@pytest.mark.parametrize(
    "line",
    [
        ERROR,
        f"[rank0]: {ERROR}",
        f'{{"level": "error", "message": "{ERROR}"}}',
        f"Received request cmpl-1: prompt: 'hello', params: None. {ERROR}",
        f'{{"content": "hello", "error": "{ERROR}"}}',
        f"user@node-a:~$ python train.py; {ERROR}",
        f"2026-11-30 20:17:36,100 ERROR the user asked: {ERROR}",
    ],
)
def test_an_error_of_a_program_stays(line: str) -> None:
    """What stands behind a quotation that has ended, or in a log of JSON lines, is the program's own."""
    assert not is_quoted(line.encode(), line.index(ERROR))
