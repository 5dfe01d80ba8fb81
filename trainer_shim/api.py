"""The functions that a trainer may call."""

from __future__ import annotations

import functools
from _thread import get_ident
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, cast

from .session import session

if TYPE_CHECKING:
    from .timeline import Timeline

Function = TypeVar("Function", bound=Callable[..., Any])


def attach(
    *,
    rank: int = -1,
    world_size: int = -1,
    job_id: Optional[str] = None,
    framework: Optional[str] = None,
) -> bool:
    """Begin to record this process as one rank of a job. True when it is attached, also from before.

    `rank` and `world_size` are taken from the launcher's environment where they are not given. A loader worker, a
    child of a rank that has attached, and a process in which the shim cannot work stay out.
    """
    return session.attach(rank=rank, world_size=world_size, job_id=job_id, framework=framework)


def detach() -> None:
    """End the record and take all hooks away."""
    session.detach()


def step() -> None:
    """Say that a training step ends here. From the first call on, optimizer calls end no step of themselves."""
    timeline = _timeline()
    if timeline is None:
        return
    try:
        now = timeline.clock()
        if timeline.is_foreign_step(now):
            return
        timeline.explicit = True
        if not timeline.running:
            timeline.start(now)
        timeline.end_step(now)
    except Exception:
        timeline.errors += 1


def log(**values: Any) -> None:
    """Tell the values of this step. `loss` is checked and exported; other numbers are kept in the record.

    A tensor on a GPU is not read, since that would wait for the GPU: pass a number that the trainer has anyway.
    """
    timeline = _timeline()
    if timeline is None:
        return
    try:
        numbers = {name: number for name, value in values.items() if (number := _number(value)) is not None}
        loss = numbers.pop("loss", None)
        if loss is not None:
            timeline.tell_loss(loss)
        if numbers:
            timeline.tell_values(numbers)
    except Exception:
        timeline.errors += 1


def _number(value: Any) -> Optional[float]:
    device = getattr(value, "device", None)
    if device is not None and getattr(device, "type", "cpu") != "cpu":
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


class phase:
    """A stretch of the training that belongs to one phase, as a context manager or a decorator.

    `name` is one of record.PHASES; a name that is not is counted as `other`. Within `checkpoint` and `evaluation`
    nothing is split further.
    """

    def __init__(self, name: str) -> None:
        from . import layout

        self._phase = layout.PHASES.index(name) if name in layout.PHASES else layout.OTHER
        self._before: list[tuple[Optional[Timeline], int]] = []

    def __enter__(self) -> phase:  # noqa: PYI034 - Self is not in Python 3.9
        timeline = _timeline()
        before = 0
        try:
            if timeline is not None and get_ident() != timeline.thread:
                timeline.dropped += 1
                timeline = None
            if timeline is not None:
                now = timeline.clock()
                if not timeline.running:
                    timeline.start(now)
                before = timeline.set_base(self._phase, now)
        except Exception:
            timeline = None
        self._before.append((timeline, before))
        return self

    def __exit__(self, *_: object) -> None:
        timeline, before = self._before.pop() if self._before else (None, 0)
        if timeline is None or not timeline.live:
            return
        try:
            now = timeline.clock()
            timeline.set_base(before, now)
            timeline.flush_if_old(now)
        except Exception:
            timeline.errors += 1

    def __call__(self, function: Function) -> Function:
        """A function that is of this phase whenever it runs."""

        @functools.wraps(function)
        def within(*arguments: Any, **named: Any) -> Any:
            with self:
                return function(*arguments, **named)

        return cast(Function, within)


def name_loader(loader: Any, name: str) -> Any:
    """Call a loader by a name of one's own, and time it. Use what this returns: `train = name_loader(train, "train")`.

    A DataLoader comes back as it is. Any other iterable comes back in a wrapper that behaves like it.
    """
    session.trigger()
    hooks = session.hooks
    if hooks is None:
        return loader
    try:
        if hooks.torch is not None and hooks.torch.is_loader(loader):
            hooks.table.rename(loader, name)
            return loader
        from .watched import WatchedLoader

        return WatchedLoader(loader, name, session)
    except Exception:
        hooks.timeline.errors += 1
        return loader


def _timeline() -> Optional[Timeline]:
    if session.hooks is None:
        session.trigger()
    return session.timeline
