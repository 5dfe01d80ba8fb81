"""The shim of this process: armed when torch is there, attached when the process turns out to train."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Optional, Union

from . import arming, folder, gate, launchers, off, owner
from .arming import START_FOLDER
from .folder import OffError
from .identity import identity, process_identity, versions

if TYPE_CHECKING:
    from .hooks.hookset import HookSet
    from .timeline import Timeline

_NOWHERE = {"local_rank": None, "local_world_size": None, "node_rank": None}
"""The place within the host is not known any more when the rank turns out to be another."""
ARMED, ATTACHED, OUT, OFF, DETACHED = "armed", "attached", "out", "off", "detached"


class Session:
    """One a process. `hooks` is None unless the process has attached: the wiring looks at it with every call.

    `out` is the state of a process that an ancestor speaks for, `off` that of one in which the shim cannot work.
    """

    def __init__(self) -> None:
        self.state = OFF if os.environ.get("AIDIAG_DISABLE") == "1" else ARMED
        self.reason = "AIDIAG_DISABLE=1" if self.state == OFF else ""
        self.hooks: Optional[HookSet] = None
        self.timeline: Optional[Timeline] = None
        self._identity: dict[str, object] = {}
        self._wiring: Any = None
        self._follows_forks = False

    def arm(self, torch: Any) -> None:
        """Torch has been imported: wire it up. Never raises."""
        if self.state == OFF:
            return
        try:
            if self._wiring is None:
                from .hooks.wiring import Wiring

                self._wiring = Wiring(self)
            self._wiring.arm(torch)
            if self.hooks is not None:
                self.hooks.add_torch(torch)
                self._wiring.connect()
        except Exception as error:
            self.reason = f"cannot arm: {error!r}"

    def trigger(self, rank: int = -1, world_size: int = -1) -> Optional[HookSet]:
        """Something happened that only a trainer does: attach, if this process may. Never raises.

        A process that was kept out is asked anew when it says which rank it is.
        """
        if self.state == ARMED or (self.state == OUT and launchers.valid(rank, world_size)):
            self.attach(rank=rank, world_size=world_size)
        return self.hooks

    def attach(
        self,
        *,
        rank: int = -1,
        world_size: int = -1,
        job_id: Optional[str] = None,
        framework: Optional[str] = None,
    ) -> bool:
        """Make the record and put the hooks in place. False when this process must stay out. Never raises."""
        if self.state == ATTACHED:
            return True
        if self.state == OFF:
            return False
        self.state = OUT  # until it has worked: an event in the midst of this must not start it again
        told: dict[str, object] = {}
        here = None
        try:
            environ = {**os.environ, "AIDIAG_JOB_ID": job_id} if job_id else os.environ
            told = identity(environ, START_FOLDER)
            if launchers.valid(rank, world_size) and (rank, world_size) != (told["rank"], told["world_size"]):
                told.update(rank=rank, world_size=world_size, **_NOWHERE)
            _refuse_unsupported()
            here = owner.this_process()
            kept_out = gate.kept_out(told, here, os.environ)
            if kept_out is not None:
                self.reason = kept_out
                return False
            told.update(process_identity(here))
            if framework:
                told["framework"] = framework
            self._begin(told, here)
        except OffError as error:
            self._off(error, told, here)
        except Exception as error:
            self._off(OffError("internal", f"{type(error).__name__}: {error}"), told, here)
        return self.state == ATTACHED

    def _begin(self, told: dict[str, object], here: owner.Owner) -> None:
        from .hooks.hookset import HookSet
        from .timeline import Timeline
        from .writer import RecordWriter

        _, fd = folder.create_record(os.environ, here)
        try:
            writer = RecordWriter(fd)
        finally:
            os.close(fd)
        writer.identity(told)
        self._identity = told
        self.timeline = Timeline(writer)
        writer.publish()
        self.hooks = HookSet(self.timeline, self._learned, self._slow)
        if not self._follows_forks:
            os.register_at_fork(after_in_child=self._forked)
            self._follows_forks = True
        self.state = ATTACHED
        arming.arm()

    def _off(self, error: OffError, told: dict[str, object], here: Optional[owner.Owner]) -> None:
        self.state = OFF
        self.reason = error.reason
        hooks, self.hooks, self.timeline = self.hooks, None, None
        if hooks is not None:
            hooks.silence()
        off.report(error, told, here, os.environ)

    def _learned(self, rank: int, world_size: int) -> None:
        """The process group says who we are."""
        told = self._identity
        before = (told["rank"], told["world_size"])
        if self.timeline is None or before == (rank, world_size):
            return
        if before != (0, 1):
            fields: dict[str, Union[str, int]] = {
                "rank": rank,
                "world_size": world_size,
                "told_rank": str(before[0]),
                "told_world": str(before[1]),
            }
            self.timeline.writer.note("group_differs", fields)
        told.update(rank=rank, world_size=world_size, **_NOWHERE)
        self.timeline.writer.identity(told)

    def _slow(self) -> None:
        """About once a second: what became known late."""
        if self._wiring is not None:
            self._wiring.connect()
        if self.timeline is None or self.hooks is None:
            return
        told = self._identity
        if not told["gpu"] and not told["gpu_uuid"]:
            told["gpu"], told["gpu_uuid"] = self.hooks.gpu()
            if told["gpu"] or told["gpu_uuid"]:
                self.timeline.writer.identity(told)
        found = versions()
        if found != told["versions"]:
            told["versions"] = found
            self.timeline.writer.identity(told)

    def _forked(self) -> None:
        """In a child: let go of everything that is the parent's. The child attaches only if it is a rank itself."""
        try:
            hooks, timeline = self.hooks, self.timeline
            self.hooks = self.timeline = None
            if self.state == ATTACHED:
                self.state = ARMED
            if hooks is not None:
                hooks.silence()
            if timeline is not None:
                timeline.writer.close()
        except Exception as error:
            self.reason = f"after fork: {error!r}"

    def detach(self) -> None:
        """Take all hooks away and leave the record as it is. Never raises."""
        try:
            hooks, timeline = self.hooks, self.timeline
            self.hooks = self.timeline = None
            if self.state == ATTACHED:
                self.state = DETACHED
            if hooks is not None:
                hooks.end()
            if self._wiring is not None:
                self._wiring.disconnect()
            if timeline is not None:
                from . import layout

                timeline.stage = layout.DETACHED
                timeline.write_state(timeline.clock())
                timeline.writer.close()
        except Exception as error:
            self.reason = f"cannot detach: {error!r}"


def _refuse_unsupported() -> None:
    """Raise OffError where the shim's assumptions do not hold: Linux, and an interpreter lock."""
    if sys.platform != "linux":
        raise OffError("platform", f"{sys.platform} is not supported")
    if sys.byteorder != "little":
        raise OffError("platform", "machines that store the high byte first are not supported")
    gil = getattr(sys, "_is_gil_enabled", None)
    if gil is not None and not gil():
        raise OffError("free_threaded", "Python runs without its interpreter lock")


session = Session()
