"""Loaders that are not torch's DataLoader: any iterable, timed as one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .session import Session


class WatchedLoader:
    """An iterable whose batches are timed. It has the length and the attributes of the one inside."""

    def __init__(self, loader: Any, name: str, session: Session) -> None:
        self.__wrapped__ = loader
        self._aidiag_name = name
        self._aidiag_session = session

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":  # while it is being unpickled
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __len__(self) -> int:
        return len(self.__wrapped__)

    def __getitem__(self, item: Any) -> Any:
        return self.__wrapped__[item]

    def __iter__(self) -> Iterator[Any]:
        hooks = self._aidiag_session.hooks
        if hooks is None or not hooks.loaders.live:
            return iter(self.__wrapped__)
        hooks.table.rename(self.__wrapped__, self._aidiag_name)
        entry = hooks.loaders.iteration_begins(self.__wrapped__)
        if entry is None:
            return iter(self.__wrapped__)
        iterator = None
        try:
            iterator = iter(self.__wrapped__)
        finally:
            hooks.loaders.iteration_began(entry, None)
        return WatchedIterator(iterator, entry, self._aidiag_session)

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self.__wrapped__,)


def _itself(loader: Any) -> Any:
    return loader


class WatchedIterator:
    """The iterator of a WatchedLoader."""

    def __init__(self, iterator: Any, entry: Any, session: Session) -> None:
        self.__wrapped__ = iterator
        self._aidiag_loader = entry
        self._aidiag_session = session

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __iter__(self) -> WatchedIterator:
        return self

    def __next__(self) -> Any:
        hooks = self._aidiag_session.hooks
        entry = hooks.loaders.batch_begins(self) if hooks is not None and hooks.loaders.live else None
        if hooks is None or entry is None:
            return next(self.__wrapped__)
        try:
            batch = next(self.__wrapped__)
        except BaseException:
            hooks.loaders.batch_ended(entry, False)
            raise
        hooks.loaders.batch_ended(entry, True)
        return batch
