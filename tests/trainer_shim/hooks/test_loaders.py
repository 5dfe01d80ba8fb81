"""Data loaders under watch: they behave as ever, and say what they cost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, get_worker_info

import aidiag.trainer_shim as shim
from aidiag.trainer_shim.record import LoaderRecord

SLOW_SECONDS = 0.02


class Numbers(Dataset[Any]):  # type: ignore[misc]
    """Items that take no time, or a little."""

    def __init__(self, count: int = 8, seconds: float = 0.0) -> None:
        self.count = count
        self.seconds = seconds

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        if index >= self.count:
            raise IndexError
        time.sleep(self.seconds)
        return torch.full((4,), float(index))


class Stream(IterableDataset[Any]):  # type: ignore[misc]
    """Items without an end that can be known."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        yield from (
            torch.tensor([float(i)]) for i in range(0 if info is None else info.id, 6, 1 if info is None else 2)
        )


class Loop:
    """A training loop over a loader."""

    def __init__(self) -> None:
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def train(self, loader: Any) -> None:
        """One epoch."""
        for batch in loader:
            self.model(batch).sum().backward()
            self.optimizer.step()


@pytest.fixture
def loop(trainer: Any) -> Loop:
    """A loop that has found its root already."""
    made = Loop()
    for _ in range(3):
        made.model(torch.zeros(1, 4)).sum().backward()
        made.optimizer.step()
    assert [made.model] == trainer.roots
    return made


def named(trainer: Any, name: str) -> LoaderRecord:
    """The loader of that name."""
    found: dict[str, LoaderRecord] = {loader.name: loader for loader in trainer.record().loaders}
    return found[name]


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_the_same(trainer: Any, workers: int) -> None:
    """A watched loader gives the same batches, of the same types, as one that is not."""
    loader = DataLoader(Numbers(), batch_size=2, num_workers=workers)
    iterator = iter(loader)
    watched = list(iterator)
    kind = type(iterator)
    with pytest.raises(StopIteration):
        next(iterator)
    shim.detach()

    assert 4 == len(loader) == len(watched)
    assert kind is type(iter(loader))
    assert all(torch.equal(a, b) for a, b in zip(watched, loader, strict=True))


def test_a_slow_loader_is_charged(trainer: Any, loop: Loop) -> None:
    """What the step waits for is the loader's, and the phase's, to the millisecond."""
    loop.train(DataLoader(Numbers(8, SLOW_SECONDS), batch_size=2))
    loader = named(trainer, "Numbers")
    record = trainer.record()

    assert 8 * SLOW_SECONDS <= loader.wait_seconds == pytest.approx(record.state.phase_seconds["data_wait"], rel=0.01)
    assert (4, 4, "training") == (loader.batches, record.state.batches, loader.role)
    assert record.steps[-1].phases["data_wait"] > record.steps[-1].seconds * 0.5


def test_a_wait_is_seen_before_it_ends(trainer: Any, loop: Loop) -> None:
    """While a batch is being waited for, the record says so, and since when."""
    seen: list[Any] = []

    class Watching(Numbers):
        def __getitem__(self, index: int) -> Any:
            (path,) = trainer._folder.glob("*.record")
            from aidiag.trainer_shim.record import read_record

            seen.append(read_record(str(path)).state)
            return super().__getitem__(index)

    loop.train(DataLoader(Watching(2), batch_size=1))

    assert {"data_wait"} == {state.phase for state in seen}
    assert all(state.phase_since <= time.monotonic() for state in seen)


def test_workers_and_queue(trainer: Any, loop: Loop) -> None:
    """The pids of the workers are told, and how many batches lay ready: many for a slow trainer, none for a fast one."""
    loader = DataLoader(Numbers(24), batch_size=2, num_workers=2, persistent_workers=True)
    depths = []
    for batch in loader:
        time.sleep(SLOW_SECONDS)
        loop.model(batch).sum().backward()
        loop.optimizer.step()
        depths.append(named(trainer, "Numbers").queue_batches or 0)
    assert loader._iterator is not None
    pids = tuple(worker.pid for worker in loader._iterator._workers)

    assert (2, pids) == (named(trainer, "Numbers").workers, named(trainer, "Numbers").worker_pids)
    assert 3 <= max(depths[2:8])
    iterator = loader._iterator
    loop.train(DataLoader(Numbers(8, SLOW_SECONDS), batch_size=1, num_workers=1))
    assert 0 == named(trainer, "Numbers-2").queue_batches
    list(loader)
    assert iterator is loader._iterator
    assert (2, 24) == (named(trainer, "Numbers").iterations, named(trainer, "Numbers").batches)


def test_loaders_are_told_apart(trainer: Any, loop: Loop) -> None:
    """Loaders have names that last over epochs, also when they are made anew for each; others get another name."""
    dataset, other = Numbers(4), Numbers(4)
    for _ in range(3):
        loop.train(DataLoader(dataset, batch_size=2))
        loop.train(DataLoader(other, batch_size=2))
        loop.train(DataLoader(Subset(dataset, [0, 1]), batch_size=1))

    assert ["Numbers", "Numbers-2", "Numbers-3"] == [loader.name for loader in trainer.record().loaders]
    assert [6, 6, 6] == [loader.batches for loader in trainer.record().loaders]


def test_a_name_of_ones_own(trainer: Any, loop: Loop) -> None:
    """name_loader gives a name; a DataLoader comes back as it is."""
    loader = DataLoader(Numbers(4), batch_size=2)
    assert loader is shim.name_loader(loader, "train")
    loop.train(loader)

    assert 2 == named(trainer, "train").batches


def test_any_iterable_can_be_watched(trainer: Any, loop: Loop) -> None:
    """A loader of any other kind is timed under its name, and keeps its length, items and attributes."""

    class Custom:
        flavour = "mine"

        def __len__(self) -> int:
            return 3

        def __iter__(self) -> Iterator[Any]:
            for _ in range(3):
                time.sleep(SLOW_SECONDS)
                yield torch.zeros(1, 4)

    loader = shim.name_loader(Custom(), "custom")
    loop.train(loader)
    loop.train(loader)

    assert (3, "mine") == (len(loader), loader.flavour)
    assert (6, 2) == (named(trainer, "custom").batches, named(trainer, "custom").iterations)
    assert 6 * SLOW_SECONDS <= named(trainer, "custom").wait_seconds


def test_a_stream_of_workers(trainer: Any, loop: Loop) -> None:
    """An iterable dataset with workers is a loader like another."""
    batches = list(DataLoader(Stream(), batch_size=1, num_workers=2))

    assert 6 == len(batches) == named(trainer, "Stream").batches


def test_a_loader_that_raises(trainer: Any, loop: Loop) -> None:
    """An exception of a dataset reaches the trainer, and the time until then is charged."""

    class Broken(Numbers):
        def __getitem__(self, index: int) -> Any:
            if index == 3:
                raise ValueError("broken item")
            return super().__getitem__(index)

    with pytest.raises(ValueError, match="broken item"):
        loop.train(DataLoader(Broken(), batch_size=1))
    loop.train(DataLoader(Numbers(2), batch_size=1))

    assert 3 == named(trainer, "Broken").batches
    assert 2 == named(trainer, "Numbers").batches


def test_a_loop_that_is_left(trainer: Any, loop: Loop) -> None:
    """Leaving a loop early keeps no batches and no workers alive."""
    loader = DataLoader(Numbers(20), batch_size=1, num_workers=1)
    iterator: Any = iter(loader)
    next(iterator)
    workers = list(iterator._workers)
    del iterator
    for worker in workers:
        worker.join(10)

    assert not any(worker.is_alive() for worker in workers)


def test_batches_of_another_thread_are_its_own(trainer: Any, loop: Loop) -> None:
    """A thread that reads ahead waits for the loader by itself: the step is not charged for it."""
    thread = threading.Thread(target=lambda: list(DataLoader(Numbers(4, SLOW_SECONDS), batch_size=1)))
    thread.start()
    thread.join()

    assert "data_wait" not in trainer.record().state.phase_seconds
    assert () == trainer.record().loaders


def test_a_loader_within_a_loader(trainer: Any, loop: Loop) -> None:
    """A dataset that reads from a loader of its own is charged once, to the outer loader."""

    class Outer(Numbers):
        def __getitem__(self, index: int) -> Any:
            return next(iter(DataLoader(Numbers(1, SLOW_SECONDS), batch_size=1)))[0]

    loop.train(DataLoader(Outer(3), batch_size=1))

    assert ["Outer"] == [loader.name for loader in trainer.record().loaders]


def test_more_loaders_than_places(trainer: Any) -> None:
    """A trainer with a loader for each of many sources fills no more than the table."""
    loaders = [DataLoader(Numbers(1), batch_size=1) for _ in range(40)]
    for loader in loaders:
        list(loader)
    found = trainer.record().loaders

    assert 16 == len(found)
    assert 40 == sum(loader.batches for loader in found)


class Patched:
    """What a user may put in the place of torch's own functions."""

    calls = 0

    @classmethod
    def wrap(cls, original: Any) -> Any:
        """A wrapper that counts."""

        def wrapper(self: Any) -> Any:
            cls.calls += 1
            return original(self)

        return wrapper


@pytest.mark.parametrize("first", ["user", "shim"])
def test_a_users_patch(memory_folder: Any, monkeypatch: pytest.MonkeyPatch, request: Any, first: str) -> None:
    """A user's wrapper around the loader works before and after ours, and stays when we go."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    Patched.calls = 0
    theirs = torch_iter, torch_next = DataLoader.__iter__, _BaseDataLoaderIter.__next__
    if first == "shim":
        trainer = request.getfixturevalue("trainer")
    monkeypatch.setattr(DataLoader, "__iter__", Patched.wrap(DataLoader.__iter__))
    monkeypatch.setattr(_BaseDataLoaderIter, "__next__", Patched.wrap(_BaseDataLoaderIter.__next__))
    if first == "user":
        trainer = request.getfixturevalue("trainer")
    assert 4 == len(list(DataLoader(Numbers(4), batch_size=1)))
    assert 1 + 5 == Patched.calls
    assert 4 == named(trainer, "Numbers").batches
    shim.detach()
    assert 4 == len(list(DataLoader(Numbers(4), batch_size=1)))
    assert 2 * (1 + 5) == Patched.calls
    monkeypatch.undo()
    DataLoader.__iter__, _BaseDataLoaderIter.__next__ = theirs
    del torch_iter, torch_next
