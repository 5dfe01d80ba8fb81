"""Puts the root hooks where they belong: one search after the first step, one step of watching, then hooks on the roots.

New optimizers (a second phase of training, the other half of a GAN) start another search; their number is bounded.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Optional

from .hook import Hook
from .instances import ROOTS_LIMIT, HookedRoots, OuterCalls
from .search import candidates, outermost

if TYPE_CHECKING:
    from ..timeline import Timeline
    from .evaluation import EvaluationWatch
    from .roots import RootHook

SEARCHES_LIMIT = 4
WATCHED_STEPS_LIMIT = 8
"""Steps through which candidates are watched in vain before the search is given up."""


class RootDiscovery(Hook):
    """Follows the optimizers of a session to the modules whose forwards they belong to."""

    name = "discovery"

    def __init__(self, timeline: Timeline, torch: Any, hook: RootHook, evaluation: EvaluationWatch) -> None:
        super().__init__(timeline)
        self.roots = HookedRoots(hook)
        self._torch = torch
        self._is_compiling = hook.is_compiling
        self._evaluation = evaluation
        self._searches = 0
        self._new: list[Any] = []
        self._watch: Optional[OuterCalls] = None
        self._watched_until = 0

    @property
    def waits(self) -> bool:
        """Whether the end of a step is waited for."""
        return self.live and bool(self._new or self._watch)

    def optimizer_found(self, optimizer: Any) -> None:
        """An optimizer has made its first step."""
        if self.live and self._searches < SEARCHES_LIMIT:
            self._new.append(weakref.ref(optimizer))

    def step_ended(self) -> None:
        """A step has ended, outside of every forward: the time to look, and to put hooks on and take them off."""
        try:
            began = self.timeline.clock()
            if self._watch is not None:
                self._finish_watch(self._watch)
            elif self._new:
                self._begin_watch()
            self.timeline.overhead += self.timeline.clock() - began
        except Exception as error:
            self.failed(error)

    def _begin_watch(self) -> None:
        optimizers = [optimizer for reference in self._new if (optimizer := reference()) is not None]
        self._new.clear()
        self._searches += 1
        found: list[Any] = []
        for optimizer in optimizers[:ROOTS_LIMIT]:
            found.extend(module for module in candidates(self._torch, optimizer) if not any(module is f for f in found))
        known = self.roots.modules()
        fresh = [module for module in found if not any(module is k for k in known)]
        if fresh:
            self._watch = OuterCalls(fresh, self._is_compiling)
            self._watched_until = self.timeline.steps + WATCHED_STEPS_LIMIT

    def _finish_watch(self, watch: OuterCalls) -> None:
        if not watch.called and self.timeline.steps < self._watched_until:
            return
        self._settle(watch)

    def _settle(self, watch: OuterCalls) -> None:
        """End a watch, and hook what was called."""
        self._watch = None
        roots = outermost([*self.roots.modules(), *watch.finish()])[:ROOTS_LIMIT]
        self.roots.set(roots)
        if roots:
            self._evaluation.root = weakref.ref(roots[0])

    def take_off(self) -> bool:
        """Take the hooks off all modules for a while; False when there are none, or when that failed."""
        try:
            if self._watch is not None:
                self._settle(self._watch)
            self.roots.take_off()
            return True
        except Exception as error:
            self.failed(error)
            return False

    def put_on(self) -> None:
        """Put the hooks back on."""
        try:
            if self.live:
                self.roots.put_on()
        except Exception as error:
            self.failed(error)

    def end(self) -> None:
        """Take all hooks off."""
        self.live = False
        if self._watch is not None:
            self._watch.finish()
            self._watch = None
        self.roots.take_off()
