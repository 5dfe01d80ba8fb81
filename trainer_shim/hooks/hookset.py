"""All hooks of one attached trainer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Optional

from .checkpoints import CheckpointHook
from .crash import CrashHook
from .evaluation import EvaluationWatch
from .hook import Hook
from .loader_table import LoaderTable
from .loaders import LoaderHook
from .memory import gpu_of

if TYPE_CHECKING:
    from ..timeline import Timeline
    from .backward import BackwardHook
    from .discovery import RootDiscovery
    from .group import GroupHook
    from .memory import MemoryHook
    from .scaler import ScalerHook
    from .steps import StepHook


class TorchHooks:
    """The hooks that need torch."""

    def __init__(self, timeline: Timeline, torch: Any, common: HookSet) -> None:
        from .backward import BackwardHook
        from .compiling import tracing_probe
        from .discovery import RootDiscovery
        from .group import GroupHook
        from .memory import MemoryHook
        from .roots import RootHook
        from .scaler import ScalerHook
        from .steps import StepHook

        backward = BackwardHook(timeline, torch, common.loaders)
        probe = tracing_probe(torch)
        root = RootHook(timeline, torch, probe or (lambda: False), common.loaders, common.evaluation, backward)
        self.torch = torch
        self.backward: BackwardHook = backward
        self.discovery: RootDiscovery = RootDiscovery(timeline, torch, root, common.evaluation)
        self.discovery.live = probe is not None  # without it a hook could not tell that it is being traced
        self.steps: StepHook = StepHook(timeline, common.loaders, common.evaluation, self.discovery, backward)
        self.scaler: ScalerHook = ScalerHook(timeline, self.steps)
        self.memory: MemoryHook = MemoryHook(timeline, torch)
        self.group: GroupHook = GroupHook(timeline, torch, backward, common.learned)
        self._loader_class = torch.utils.data.DataLoader
        self.all: tuple[Hook, ...] = (
            backward, root, self.discovery, self.steps, self.scaler, self.memory, self.group,
        )  # fmt: skip

    def is_loader(self, loader: Any) -> bool:
        """Whether a loader is torch's own, which the wiring sees by itself."""
        return isinstance(loader, self._loader_class)


class HookSet:
    """The hooks of a session. `learned` is told rank and world size; `slow` is called about once a second."""

    def __init__(self, timeline: Timeline, learned: Callable[[int, int], None], slow: Callable[[], None]) -> None:
        self.timeline = timeline
        self.learned = learned
        self._slow = slow
        self.evaluation = EvaluationWatch(timeline)
        self.table = LoaderTable(timeline)
        self.loaders = LoaderHook(timeline, self.table, self.evaluation)
        self.checkpoints = CheckpointHook(timeline)
        self.crash = CrashHook(timeline)
        self.torch: Optional[TorchHooks] = None
        timeline.tick = self._tick

    def add_torch(self, torch: Any) -> None:
        """Add the hooks for torch, once it is loaded."""
        if self.torch is None:
            self.torch = TorchHooks(self.timeline, torch, self)

    def _all(self) -> tuple[Hook, ...]:
        common = (self.evaluation, self.loaders, self.checkpoints, self.crash)
        return common if self.torch is None else common + self.torch.all

    def _tick(self, _now: int) -> None:
        if self.torch is not None:
            self.torch.memory.read()
        self._slow()

    def gpu(self) -> tuple[str, str]:
        """Index and UUID of this trainer's GPU, empty texts where they are not known."""
        return ("", "") if self.torch is None else gpu_of(self.torch.torch, os.environ)

    def silence(self) -> None:
        """Make every hook do nothing, and touch nothing else: this is what a forked child does."""
        self.timeline.live = False
        for hook in self._all():
            hook.live = False

    def end(self) -> None:
        """Take away what was put on modules and before the exception hook."""
        self.silence()
        self.crash.end()
        if self.torch is not None:
            self.torch.discovery.end()
