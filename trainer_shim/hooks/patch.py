"""Replacing functions of torch by wrappers, and giving them back."""

from __future__ import annotations

import functools
from typing import Any, Callable

MARK = "_aidiag_patch"


class Patches:
    """The functions that were replaced. A wrapper keeps the function it stands before as `__wrapped__`."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, str, Any, Any]] = []

    def replace(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        """Put `wrap(original)` in the place of `owner.name`, once; nothing happens where there is no such thing.

        What is already wrapped by us is left alone, even when somebody else has wrapped it since.
        """
        original = vars(owner).get(name)
        if original is None or not callable(original) or _is_ours(original):
            return
        wrapper = functools.wraps(original)(wrap(original))
        setattr(wrapper, MARK, True)
        setattr(owner, name, wrapper)
        self._made.append((owner, name, original, wrapper))

    def restore(self) -> None:
        """Put back what is still ours; a wrapper that somebody has wrapped stays in place and does nothing."""
        for owner, name, original, wrapper in reversed(self._made):
            if vars(owner).get(name) is wrapper:
                setattr(owner, name, original)
        self._made.clear()


def _is_ours(function: Any) -> bool:
    for _ in range(16):
        if function is None:
            return False
        if vars(function).get(MARK, False) if hasattr(function, "__dict__") else False:
            return True
        function = getattr(function, "__wrapped__", None)
    return False
