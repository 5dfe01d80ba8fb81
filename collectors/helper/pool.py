"""Helpers for calls about many things of one kind (mounts, RDMA devices), where one that hangs must not stop the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from aidiag.collectors.errors import HungError
from aidiag.collectors.helper.helper import Helper

STUCK_LIMIT = 8
"""So many helpers may be stuck at once; what would need one more is not asked."""


class HelperPool:
    """Asks about resources in helpers that `make` makes, as few as will do.

    A call that does not return binds its helper to the resource that it was about: further asks about that resource
    get HungError at once until the call has come back or its helper has ended, all other resources get another helper.
    """

    def __init__(self, make: Callable[[], Helper]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._idle: list[Helper] = []
        self._stuck: dict[str, Helper] = {}

    def ask(self, resource: str, verb: str, *arguments: object) -> Any:
        """The answer to a verb about a resource. Raises as Helper.ask does."""
        helper = self._take(resource)
        try:
            answer = helper.ask(verb, *arguments)
        except HungError:
            with self._lock:
                self._stuck[resource] = helper
            raise
        except BaseException:
            self._give_back(helper)
            raise
        self._give_back(helper)
        return answer

    def pending(self) -> dict[str, tuple[str, float]]:
        """What has not returned, by resource, with its seconds."""
        with self._lock:
            stuck = dict(self._stuck)
        return {resource: call for resource, helper in stuck.items() if (call := helper.pending())}

    def close(self) -> None:
        """End all helpers."""
        with self._lock:
            helpers = [*self._idle, *self._stuck.values()]
            self._idle.clear()
        for helper in helpers:
            helper.close()

    def _take(self, resource: str) -> Helper:
        with self._lock:
            stuck = self._stuck.pop(resource, None)
            if stuck:
                return stuck  # asked again: it says at once what has not returned, or answers when that has come back
            if self._idle:
                return self._idle.pop()
            self._free()
            if self._idle:
                return self._idle.pop()
            if len(self._stuck) >= STUCK_LIMIT:
                others = ", ".join(sorted(self._stuck)[:3])
                raise HungError(f"{resource} was not asked: {STUCK_LIMIT} others have not answered ({others}, ...)")
        return self._make()

    def _free(self) -> None:
        """Take back the helpers whose calls have come back since, also about resources that nobody asks for any more."""
        for resource, helper in list(self._stuck.items()):
            if helper.pending() is None:
                self._idle.append(self._stuck.pop(resource))

    def _give_back(self, helper: Helper) -> None:
        with self._lock:
            self._idle.append(helper)
