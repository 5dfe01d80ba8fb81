"""What the trainer is doing, and how long: the account of steps and phases, written into the record as it goes.

At any time the trainer is in one phase. Every change of phase closes the account of the one before, so that the phases
of a step add up to its wall time. A change costs a stamp (one word); a step costs one step item and, where steps are not very
short, one state.

A step reaches from the end of the step before to the end of its own optimizer call. A second optimizer extends the
step of the first, unless it has stepped in it already or a batch was taken in between: GANs, separate optimizers for
parts of a model, and wrappers that call an inner optimizer all give one step a turn.

Where optimizer calls cannot be seen at all (a compiled optimizer, old torch versions under torch.compile) each batch
that follows a backward pass is taken for a step, after a while.
"""

from __future__ import annotations

import time
from _thread import get_ident
from collections.abc import Callable, Mapping
from typing import Optional

from . import layout
from .writer import STAMP_INDEX, RecordWriter

UNSEEN_BATCHES = 64
"""Batches with a backward pass each and no optimizer call, after which batches are steps: more than one accumulates."""
STATE_NS = 2_000_000
"""Steps may be so short that a state for each would be a burden: then the last state is at most so old, and the step
items behind it say the rest."""
LOADERS_NS = 20_000_000
"""How old what the record says of a loader may get while steps go on."""
FLUSH_NS = 250_000_000
"""How old a state may get while a step is under way, before the next event writes it."""
TICK_NS = 1_000_000_000
"""How often slow facts (memory, clock offset) are looked at."""
EXTENSIONS_WRITTEN = 4
"""Optimizers of one step whose end is written; with one optimizer a parameter the rest would cost a write each."""
OWNER_SILENT_NS = 10_000_000_000
"""After this silence another thread that steps becomes the training thread."""
WEIGHED_STEPS = 16
"""Of so many steps the hooks weigh themselves in one: looking at the clock twice as often would cost more than it is
worth."""
VALUES_LIMIT = 16
VALUE_NAME_LIMIT = 32

# What layout.stamp is made of: a stamp is written with every change of phase, and a call would double its cost.
PHASES = layout.STAMP_PHASES
TIME = layout.STAMP_TIME_MASK

_UNKNOWN_MEMORY = (layout.UNKNOWN,) * 6


class Timeline:
    """The account of one trainer. Hooks call it from the training thread; nothing here blocks or allocates much.

    `clock` gives CLOCK_MONOTONIC nanoseconds. `tick` is called about once a second at the end of a step.
    """

    __slots__ = (
        "_began", "_flags", "_loaders_written", "_next_tick", "_optimizers_seen", "_stepped", "_unix_offset",
        "_unseen", "_words", "backwards", "base", "batches", "claimed", "clock", "dirty", "dropped", "ended",
        "entered", "errors", "explicit", "fed", "live", "loaders", "loss", "loss_scale", "memory", "overhead", "phase",
        "running", "since", "skipped", "spent", "stage", "steps", "thread", "tick", "told", "values", "weighs",
        "writer", "written",
    )  # fmt: skip

    def __init__(self, writer: RecordWriter, clock: Callable[[], int] = time.monotonic_ns) -> None:
        now = clock()
        self.writer = writer
        self._words = writer.words
        self.clock = clock
        self.live = True
        self.thread = get_ident()
        self.stage = layout.ATTACHED
        self.phase = layout.OTHER
        self.base = layout.OTHER
        """The phase to come back to when a hook leaves its own: what the user declared, or evaluation."""
        self.claimed = False
        """The base phase takes all that happens within it: a checkpoint or an evaluation is not split further."""
        self.entered = now
        """When the phase began."""
        self.since = now
        """Up to when the time in the phase is in the account."""
        self.running = False
        self.spent = [0] * len(layout.PHASES)
        self.steps = 0
        self.skipped = 0
        self.batches = 0
        self.ended = 0
        self._began = now
        self._flags = layout.STEP_FIRST
        self.explicit = False
        """The user calls step(): optimizer calls end no step any more."""
        self.fed = False
        """A batch was taken since the last optimizer call."""
        self.backwards = 0
        """Backward passes since the last batch, or the last optimizer call."""
        self._unseen = 0
        self._optimizers_seen = False
        self._stepped: set[int] = set()
        self.told = 0
        self.loss = 0.0
        self.loss_scale = 0.0
        self.memory: tuple[int, ...] = _UNKNOWN_MEMORY
        self.values: dict[str, float] = {}
        self.overhead = 0
        self.weighs = False
        """Hooks weigh themselves in this step."""
        self.errors = 0
        self.dropped = 0
        self.loaders = 0
        self.dirty: list[Callable[[], None]] = []
        """Writers of loaders that changed since the last state."""
        self.tick: Optional[Callable[[int], None]] = None
        self._unix_offset = time.time_ns() - now
        self._next_tick = now
        self.written = 0
        self._loaders_written = 0
        self.write_state(now)

    # phases

    def start(self, now: int) -> None:
        """Begin the account: the first step starts here."""
        self.running = True
        self.stage = layout.TRAINING
        self.entered = self.since = self._began = now
        self.writer.step(0, now, 0.0, 0, 0, 0, *self.spent)
        self.write_state(now)

    def enter(self, phase: int, now: int) -> None:
        """Be in a phase from now on."""
        self.spent[self.phase] += now - self.since
        self.phase = phase
        self.entered = self.since = now
        self._words[STAMP_INDEX] = PHASES[phase] | now & TIME

    def leave(self, now: int) -> None:
        """Be back in the base phase."""
        self.spent[self.phase] += now - self.since
        self.phase = base = self.base
        self.entered = self.since = now
        self._words[STAMP_INDEX] = PHASES[base] | now & TIME

    def tell_loss(self, loss: float) -> None:
        """The trainer says its loss; it is written with the next step."""
        self.loss = loss
        self.told |= layout.TOLD_LOSS

    def tell_scale(self, scale: float) -> None:
        """The gradient scaler's scale, written with the next step."""
        self.loss_scale = scale
        self.told |= layout.TOLD_SCALE

    def tell_values(self, values: Mapping[str, float]) -> None:
        """Other numbers that the trainer says; the last of each is written about once a second."""
        for name, value in values.items():
            if name in self.values or len(self.values) < VALUES_LIMIT:
                self.values[name[:VALUE_NAME_LIMIT]] = value

    def set_base(self, phase: int, now: int) -> int:
        """Declare a phase that holds until it is declared anew; gives the one before."""
        before = self.base
        self.base = phase
        self.claimed = phase in (layout.CHECKPOINT, layout.EVALUATION)
        if self.running:
            self.enter(phase, now)
        else:
            self.phase = phase
            self.entered = self.since = now
            self.writer.stamp(phase, now)
        return before

    # steps

    def optimizer_ended(self, key: int, now: int) -> None:
        """The optimizer known as `key` is done: its step ends here, or the open step reaches to here."""
        self.backwards = 0
        self._optimizers_seen = True
        if self.explicit:
            self.leave(now)
            return
        stepped = self._stepped
        if stepped and key not in stepped and not self.fed:
            stepped.add(key)
            self.leave(now)
            if len(stepped) <= EXTENSIONS_WRITTEN or now - self.written > FLUSH_NS:
                self.ended = now
                self._write_step(now)
            return
        stepped.clear()
        stepped.add(key)
        self.end_step(now)

    def batch_after_backward(self, now: int) -> None:
        """A batch is about to be taken, and the one before was trained on without an optimizer call seen."""
        self.backwards = 0
        if self.explicit or self._optimizers_seen:
            return
        self._unseen += 1
        if self._unseen > UNSEEN_BATCHES:
            self.end_step(now)

    def end_step(self, now: int, skipped: bool = False) -> None:
        """End a step here. `skipped` says that the gradient scaler left its optimizer call out."""
        self.spent[self.phase] += now - self.since
        self.phase = self.base
        self.entered = self.since = now
        if self.ended:
            self._began = self.ended
            self._flags = 0
        self.ended = now
        self.fed = False
        if skipped:
            self.skipped += 1
            self._flags |= layout.STEP_SKIPPED
            self._stepped.clear()
        else:
            self.steps += 1
        self.weighs = not (self.steps + 1) % WEIGHED_STEPS
        self._write_step(now)
        if now >= self._next_tick:
            self._slow(now)

    def _write_step(self, now: int) -> None:
        flags = self._flags | layout.STEP_LOSS if self.told & layout.TOLD_LOSS else self._flags
        self.writer.step(
            self.steps + self.skipped, self.ended, self.loss, self.batches & 0xFFFFFFFF, flags, 0, *self.spent
        )
        if now - self.written >= STATE_NS:
            self._write(now)
        else:
            self.writer.stamp(self.phase, now)

    def write_state(self, now: int) -> None:
        """Write the state as it is now, the time in the running phase included."""
        if self.running:
            self.spent[self.phase] += now - self.since
            self.since = now
        self._write(now)
        if self.dirty:
            self.write_loaders(now)

    def _write(self, now: int) -> None:
        self.written = now
        writer = self.writer
        writer.state(
            now,
            now + self._unix_offset,
            self.entered,
            self.steps,
            self.skipped,
            self.batches,
            self.ended,
            self.ended - self._began if self.ended else 0,
            self.overhead,
            writer.identity_version,
            writer.notes,
            self.errors,
            self.dropped,
            self.loaders,
            self.stage,
            self.phase,
            self.told,
            self.loss,
            self.loss_scale,
            *self.memory,
            *self.spent,
        )
        if self.dirty and now - self._loaders_written >= LOADERS_NS:
            self.write_loaders(now)

    def write_loaders(self, now: int) -> None:
        """Write the loaders that have changed."""
        self._loaders_written = now
        for write in self.dirty:
            write()
        self.dirty.clear()

    def flush_if_old(self, now: int) -> None:
        """Write the state when the last one is older than FLUSH_NS: steps can be long."""
        if now - self.written > FLUSH_NS:
            self.write_state(now)

    def _slow(self, now: int) -> None:
        self._next_tick = now + TICK_NS
        if self.values:
            self.writer.values(self.values)
        self._unix_offset = time.time_ns() - self.clock()
        if self.tick is not None:
            self.tick(now)

    def weigh(self, since: int) -> None:
        """Count what a hook has taken since then, for all the steps in which hooks do not weigh themselves."""
        self.overhead += (self.clock() - since) * WEIGHED_STEPS

    def is_foreign_step(self, now: int) -> bool:
        """Whether a step comes from another thread than the one that trains: counted, and to be dropped.

        Before the first step, and after a long silence, the thread that steps becomes the one that trains.
        """
        if get_ident() == self.thread:
            return False
        if self.steps == 0 or now - self.since > OWNER_SILENT_NS:
            self.thread = get_ident()
            return False
        self.dropped += 1
        return True
