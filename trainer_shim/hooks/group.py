"""The process group: a stage of its own while it is being made, and the surest source for rank and world size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from .. import launchers, layout
from .hook import Hook

if TYPE_CHECKING:
    from ..timeline import Timeline
    from .backward import BackwardHook


class GroupHook(Hook):
    """Sees `init_process_group` begin and end. `learned` is told the rank and world size of the group."""

    name = "group"

    def __init__(
        self, timeline: Timeline, torch: Any, backward: BackwardHook, learned: Callable[[int, int], None]
    ) -> None:
        super().__init__(timeline)
        self._torch = torch
        self._backward = backward
        self._learned = learned
        self.look()

    def begins(self) -> None:
        """The group is about to be made, which waits for all ranks."""
        try:
            timeline = self.timeline
            timeline.stage = layout.GROUP_INIT
            timeline.write_state(timeline.clock())
        except Exception as error:
            self.failed(error)

    def ended(self) -> None:
        """The group is there, or could not be made."""
        try:
            timeline = self.timeline
            timeline.stage = layout.TRAINING if timeline.running else layout.ATTACHED
            self.look()
            timeline.write_state(timeline.clock())
        except Exception as error:
            self.failed(error)

    def look(self) -> None:
        """Take rank and world size from the group, if there is one."""
        group = getattr(self._torch, "distributed", None)
        if group is None or not group.is_available() or not group.is_initialized():
            return
        rank, world_size = group.get_rank(), group.get_world_size()
        self._backward.distributed = world_size > 1
        if launchers.valid(rank, world_size):
            self._learned(rank, world_size)


def told_place(arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, int]:
    """Rank and world size among the arguments of init_process_group, -1 where they are not given."""
    world_size = named.get("world_size", arguments[3] if len(arguments) > 3 else -1)
    rank = named.get("rank", arguments[4] if len(arguments) > 4 else -1)
    return (rank if isinstance(rank, int) else -1), (world_size if isinstance(world_size, int) else -1)
