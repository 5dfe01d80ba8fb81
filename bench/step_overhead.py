"""What the shim costs a training step, on the CPU.

    python bench/step_overhead.py
    python bench/step_overhead.py --traceml VENV      # beside it, TraceML on the same loop

Two ways. *Hooks alone*: the calls of one step in a row, without the training in between, so that nothing drowns them.
*Paired*: a real loop in one process, where the instrument is switched on and off in short blocks that alternate; the
difference of neighbours is what counts, since the speed of a machine wanders. Bare against bare, measured in the same
way, must come out near zero and shows how far the figures can be trusted.

VENV is a virtual environment of your own with torch and traceml-ai (`pip install traceml-ai`); it is no dependency.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

BUDGET_NS = 15_000
"""All hooks of a step, by themselves."""
TRACEML_AUTOMATIC_NS = 350_000
TRACEML_MANUAL_NS = 70_000
"""A step under TraceML 0.5.0 in its automatic and its manual mode, measured beside aidiag on its development machine.
TraceML itself gives 190,000 to 550,000 and 80,000 to 230,000 for one T4 (github.com/traceopt-ai/traceml, pull request
230)."""
TIMES_CHEAPER = 20
"""How many times cheaper than TraceML's automatic mode the shim has to be."""


class Loop:
    """A training loop over an endless loader. `modules` is the number of sub-modules of the model."""

    def __init__(self, modules: int) -> None:
        width = 64 if modules < 10 else 8
        layers: list[nn.Module] = [nn.Linear(width, width) for _ in range(modules - 1)]
        self.model = nn.Sequential(*layers, nn.Linear(width, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        data = TensorDataset(torch.randn(4096, width), torch.randint(0, 10, (4096,)))
        self.loader = DataLoader(data, batch_size=16)
        self._batches: Iterator[Any] = iter(())
        self.around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext

    def step(self) -> None:
        """One step."""
        try:
            x, y = next(self._batches)
        except StopIteration:
            self._batches = iter(self.loader)
            x, y = next(self._batches)
        with self.around():
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()


class Instrument(Protocol):
    """Something that watches a loop and can be switched on and off in it."""

    def on(self) -> None:
        """Watch."""

    def off(self) -> None:
        """Leave the loop bare."""


class Shim:
    """aidiag's shim, with all that it puts into torch taken out again when it is off."""

    def __init__(self, loop: Loop) -> None:
        import aidiag.trainer_shim as shim
        from aidiag.trainer_shim.session import session

        assert shim.attach(), session.reason
        for _ in range(5):
            loop.step()
        self.session, self.hooks = session, session.hooks
        assert self.hooks is not None and self.hooks.torch is not None
        assert self.hooks.torch.discovery.roots.modules() == [loop.model]

    def on(self) -> None:
        """Wire torch up."""
        self.session.hooks = self.hooks
        self.session._wiring.arm(torch)
        self.session._wiring.connect()
        self.hooks.torch.discovery.put_on()  # type: ignore[union-attr]

    def off(self) -> None:
        """Give torch its own functions back."""
        self.session.hooks = None
        self.hooks.torch.discovery.take_off()  # type: ignore[union-attr]
        self.session._wiring.disconnect()


class Bare:
    """Nothing at all, for the control."""

    def on(self) -> None:
        """Nothing."""

    def off(self) -> None:
        """Nothing."""


class Empty:
    """Hooks that do nothing, at the places where the shim has its own: what torch itself takes to call them, and what
    Python code between its kernels costs. No instrument at these places can be cheaper.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._handles: list[Any] = []
        self._backward = torch.autograd.backward
        self._next = _BaseDataLoaderIter.__next__

    def on(self) -> None:
        """Put them in."""
        if self._handles:
            return
        backward, following, model = self._backward, self._next, self._loop.model
        self._handles = [
            model.register_forward_pre_hook(lambda _module, _arguments: None),
            model.register_forward_hook(lambda _module, _arguments, _output: None),
            register_optimizer_step_pre_hook(lambda _optimizer, _arguments, _keywords: None),
            register_optimizer_step_post_hook(lambda _optimizer, _arguments, _keywords: None),
        ]
        torch.autograd.backward = lambda *arguments, **keywords: backward(*arguments, **keywords)
        _BaseDataLoaderIter.__next__ = lambda iterator: following(iterator)

    def off(self) -> None:
        """Take them out."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        torch.autograd.backward = self._backward
        _BaseDataLoaderIter.__next__ = self._next


class TraceML:
    """TraceML's automatic mode. Its patches and its threads stay while it is off, so that what switching it saves is
    only a part of its cost: the loop before it was started, and with it, shows the whole.
    """

    def __init__(self, loop: Loop) -> None:
        import traceml_ai  # type: ignore[import-not-found]

        traceml_ai.init(mode="auto")
        self._loop, self._trace = loop, lambda: traceml_ai.trace_step(loop.model)

    def on(self) -> None:
        """Trace each step."""
        self._loop.around = self._trace

    def off(self) -> None:
        """Trace none."""
        self._loop.around = contextlib.nullcontext


def stretches(loop: Loop, steps: int, count: int) -> float:
    """Nanoseconds of a step: the median of `count` stretches of `steps` steps."""
    times = []
    for _ in range(count):
        began = time.perf_counter_ns()
        for _ in range(steps):
            loop.step()
        times.append((time.perf_counter_ns() - began) / steps)
    return statistics.median(times)


def paired(loop: Loop, instrument: Instrument, steps: int, pairs: int) -> dict[str, float]:
    """Nanoseconds a step that the instrument costs: the median of the differences of neighbouring blocks of `steps`
    steps, its standard error, and the bare step.
    """

    def block() -> float:
        began = time.perf_counter_ns()
        for _ in range(steps):
            loop.step()
        return (time.perf_counter_ns() - began) / steps

    differences, bare = [], []
    gc.collect()
    gc.disable()
    for pair in range(pairs):
        order = (True, False) if pair % 2 else (False, True)
        times = {}
        for on in order:
            (instrument.on if on else instrument.off)()
            loop.step()
            times[on] = block()
        differences.append(times[True] - times[False])
        bare.append(times[False])
    gc.enable()
    instrument.off()
    quartiles = statistics.quantiles(differences, n=4)
    error = 1.2533 * (quartiles[2] - quartiles[0]) / 1.349 / len(differences) ** 0.5
    return {"cost": statistics.median(differences), "error": error, "bare": statistics.median(bare)}


def hooks_alone(loop: Loop, shim: Shim, rounds: int = 20_000) -> dict[str, float]:
    """Nanoseconds of all hook calls of one step, in the order of a step, and of each; the clock's own time taken off."""
    hooks = shim.hooks
    assert hooks is not None and hooks.torch is not None
    loaders, steps, backward = hooks.loaders, hooks.torch.steps, hooks.torch.backward
    model, optimizer, iterator = loop.model, loop.optimizer, iter(loop.loader)
    next(iterator)
    (before,), (after,) = model._forward_pre_hooks.values(), model._forward_hooks.values()
    output = torch.zeros(1, requires_grad=True) * 1
    entry: list[Any] = [None]
    parts: dict[str, Callable[[], object]] = {
        "batch begins": lambda: entry.__setitem__(0, loaders.batch_begins(iterator)),
        "batch ended": lambda: loaders.batch_ended(entry[0], True),
        "forward begins": lambda: before(model, ()),
        "forward ended": lambda: after(model, (), output),
        "backward begins": backward.begins,
        "backward computed": backward.computed,
        "backward ended": backward.ended,
        "optimizer begins": lambda: steps.before(optimizer),
        "step ended": lambda: steps.after(optimizer),
    }
    clock = time.perf_counter_ns
    empty = statistics.median(-(clock() - clock()) for _ in range(rounds))
    lambda_ns = _lambda_cost(rounds)
    times: dict[str, list[int]] = {name: [] for name in parts}
    gc.collect()
    gc.disable()
    for _ in range(rounds):
        for name, call in parts.items():
            began = clock()
            call()
            times[name].append(clock() - began)
    gc.enable()
    median = {name: max(statistics.median(values) - empty - lambda_ns, 0.0) for name, values in times.items()}
    mean = sum(statistics.fmean(values) - empty - lambda_ns for values in times.values())
    return {**median, "all": sum(median.values()), "mean": mean}


def _lambda_cost(rounds: int) -> float:
    """What calling through a lambda costs, which no trainer pays."""
    clock = time.perf_counter_ns
    nothing: Callable[[], object] = lambda: None
    empty = statistics.median(-(clock() - clock()) for _ in range(rounds))
    values = []
    for _ in range(rounds):
        began = clock()
        nothing()
        values.append(clock() - began)
    return max(statistics.median(values) - empty, 0.0)


def measure_traceml(venv: Path) -> dict[str, Any]:
    """Run this file under `traceml run` in a virtual environment that has it; gives its figures."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [
            str(venv / "bin" / "python"), str(venv / "bin" / "traceml"), "run", str(Path(__file__).resolve()),
            "--mode", "summary", "--logs-dir", folder, "--args", "--instrument", "traceml", "--json", str(result),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder, check=False)
        if not result.exists():
            raise SystemExit(f"TraceML could not be measured:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
        found: dict[str, Any] = json.loads(result.read_text())
        return found


def show(name: str, figures: dict[str, float]) -> None:
    """One line of a paired measurement."""
    print(
        f"  {name:34}{figures['cost'] / 1000:8.1f} µs a step  ± {figures['error'] / 1000:.1f}"
        f"   (bare step {figures['bare'] / 1000:.0f} µs)"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traceml", type=Path, metavar="VENV", help="measure TraceML of this environment beside it")
    parser.add_argument("--pairs", type=int, default=400, help="pairs of blocks (default 400)")
    parser.add_argument("--instrument", choices=["shim", "traceml"], default="shim", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    small = Loop(3)
    results: dict[str, Any] = {"bare": paired(small, Bare(), 20, options.pairs)}
    if options.instrument == "traceml":
        before = stretches(small, 20, options.pairs)
        traceml = TraceML(small)
        results["paired"] = paired(small, traceml, 20, options.pairs)
        traceml.on()
        whole = stretches(small, 20, options.pairs) - before
        results["whole"] = {"cost": whole, "error": results["paired"]["error"], "bare": before}
        options.json.write_text(json.dumps(results))
        os._exit(0)  # its own summary is not wanted
    results["empty"] = paired(small, Empty(small), 20, options.pairs)
    shim = Shim(small)
    results["paired"] = paired(small, shim, 20, options.pairs)
    shim.on()
    results["alone"] = hooks_alone(small, shim)
    import aidiag.trainer_shim as public

    public.detach()
    large = Loop(500)
    results["large bare"] = paired(large, Bare(), 2, options.pairs // 4)
    shim = Shim(large)
    results["large paired"] = paired(large, shim, 2, options.pairs // 4)
    shim.on()
    results["large alone"] = hooks_alone(large, shim)
    public.detach()
    if options.traceml:
        results["traceml"] = measure_traceml(options.traceml)

    print("hooks alone (median of each call)")
    for name, ns in results["alone"].items():
        if name not in ("all", "mean"):
            print(f"  {name:34}{ns / 1000:8.2f} µs")
    for name, key in (("all hooks of a step, 3 modules", "alone"), ("all hooks of a step, 500 modules", "large alone")):
        total = results[key]["all"]
        verdict = "within" if total <= BUDGET_NS else "OVER"
        print(
            f"  {name:34}{total / 1000:8.2f} µs   {verdict} {BUDGET_NS / 1000:.0f} µs; mean {results[key]['mean'] / 1000:.2f}"
        )
    print("paired in one process, all that torch does to call the hooks included")
    show("bare against bare, 3 modules", results["bare"])
    show("empty hooks at these places", results["empty"])
    show("shim, 3 modules", results["paired"])
    show("bare against bare, 500 modules", results["large bare"])
    show("shim, 500 modules", results["large paired"])
    cost = results["paired"]["cost"]
    automatic = TRACEML_AUTOMATIC_NS
    if "traceml" in results:
        show("bare against bare, its process", results["traceml"]["bare"])
        show("TraceML, its steps traced or not", results["traceml"]["paired"])
        show("TraceML, before its start and with", results["traceml"]["whole"])
        automatic = results["traceml"]["whole"]["cost"]
    print("cheaper than TraceML")
    print(
        f"  its automatic mode {automatic / cost:.1f} times (wanted {TIMES_CHEAPER}), published manual {TRACEML_MANUAL_NS / cost:.1f} times"
    )
    if options.json:
        options.json.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
