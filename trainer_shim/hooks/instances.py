"""Hooks on single modules, and what keeps them from doing harm there.

Hooks on all modules would cost microseconds for each of hundreds of sub-modules, and full backward hooks break models
with in-place operations: neither is used.

A hook lies in its module's own dictionaries and goes where they go. So a copy or a pickle of a module gets, in place of
a hook, a callable of the standard library that does nothing: it can be loaded where aidiag is not installed. Under a
compiler a hook is a function that returns at once, so that a graph gets no break by it.
"""

from __future__ import annotations

import functools
import sys
import weakref
from _thread import get_ident
from typing import TYPE_CHECKING, Any, Callable, Optional

from .. import layout
from .compiling import compiles_backward

if TYPE_CHECKING:
    from .roots import RootHook

ROOTS_LIMIT = 4
CALLS_LIMIT = 16
"""Outermost calls in one step above which hooks on a module would cost too much."""


class InstanceHook:
    """A hook for one module. A replica of the module shares its dictionaries and is told from it by its id."""

    def __init__(self, module: Any, is_compiling: Callable[[], bool]) -> None:
        self._key = id(module)
        self._is_compiling = is_compiling

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial, (sys.audit, "aidiag")  # takes anything, returns None

    def __deepcopy__(self, _memo: Any) -> Any:
        return functools.partial(sys.audit, "aidiag")


class _Before(InstanceHook):
    def __init__(self, hook: RootHook, module: Any, first_phase: int = layout.FORWARD) -> None:
        super().__init__(module, hook.is_compiling)
        self._hook = hook
        self._first_phase = first_phase

    def __call__(self, module: Any, _arguments: Any) -> None:
        if self._is_compiling():
            return
        hook = self._hook
        key = id(module)
        if not hook.live or key != self._key:
            return
        try:
            timeline = hook.timeline
            if get_ident() != timeline.thread or (hook.inside and hook.is_nested(key)):
                return
            now = timeline.clock()
            hook.inside = key
            if hook.is_grad_enabled():
                hook.charged = True
                if hook.evaluation.entered:
                    hook.evaluation.forward(module, now)
                if not timeline.claimed:
                    timeline.enter(self._first_phase, now)
            else:
                hook.begins_without_gradients(now)
            if timeline.weighs:
                timeline.weigh(now)
        except Exception as error:
            hook.failed(error)


class _BeforeInner(InstanceHook):
    def __init__(self, hook: RootHook, module: Any) -> None:
        super().__init__(module, hook.is_compiling)
        self._hook = hook

    def __call__(self, module: Any, _arguments: Any) -> None:
        if self._is_compiling():
            return
        if self._hook.live and id(module) == self._key:
            self._hook.synchronised()


class _After(InstanceHook):
    def __init__(self, hook: RootHook, module: Any) -> None:
        super().__init__(module, hook.is_compiling)
        self._hook = hook

    def __call__(self, module: Any, _arguments: Any, output: Any) -> None:
        if self._is_compiling():
            return
        hook = self._hook
        if not hook.live or hook.inside != self._key or id(module) != self._key:
            return
        try:
            timeline = hook.timeline
            if get_ident() != timeline.thread:
                return
            now = timeline.clock()
            hook.inside = 0
            if hook.charged:
                hook.backward.forward_ended(output)
            timeline.leave(now)
            if timeline.weighs:
                timeline.weigh(now)
        except Exception as error:
            hook.failed(error)


class _Gradient(InstanceHook):
    """A hook on a parameter."""

    def __init__(self, hook: RootHook, parameter: Any) -> None:
        super().__init__(parameter, hook.is_compiling)
        self._backward = hook.backward

    def __call__(self, parameter: Any) -> None:
        if self._is_compiling():
            return
        self._backward.gradient(parameter)


class HookedRoots:
    """The modules that carry the hooks of a session, held weakly, with a way to take the hooks off for a while."""

    def __init__(self, hook: RootHook) -> None:
        self._hook = hook
        self._modules: list[Callable[[], Optional[Any]]] = []
        self._handles: list[Any] = []

    def set(self, modules: list[Any]) -> None:
        """Hook these modules, and no others."""
        self.take_off()
        self._modules = [weakref.ref(module) for module in modules]
        self.put_on()

    def modules(self) -> list[Any]:
        """The hooked modules that still exist."""
        return [module for reference in self._modules if (module := reference()) is not None]

    def put_on(self) -> None:
        """Register the hooks."""
        hook = self._hook
        for module in self.modules():
            inner = synchronised_module(module)
            first = layout.FORWARD if inner is None else layout.COMM
            self._handles.append(module.register_forward_pre_hook(_Before(hook, module, first)))
            self._handles.append(module.register_forward_hook(_After(hook, module)))
            if inner is not None:
                self._handles.append(inner.register_forward_pre_hook(_BeforeInner(hook, inner)))
            for parameter in _reduced_parameters(module):
                self._handles.append(parameter.register_post_accumulate_grad_hook(_Gradient(hook, parameter)))

    def take_off(self) -> None:
        """Remove the hooks, as if they had never been there."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


def synchronised_module(module: Any) -> Optional[Any]:
    """The model inside of a DistributedDataParallel that broadcasts buffers before each forward, else None.

    Rank 0 sends its buffers (batch norm statistics) and the others wait for them there, hidden in the forward.
    """
    if type(module).__name__ != "DistributedDataParallel" or not getattr(module, "broadcast_buffers", False):
        return None
    if not getattr(module, "modules_buffers", None):
        return None
    inner = getattr(module, "module", None)
    return inner if getattr(inner, "_compiled_call_impl", None) is None else None


def _reduced_parameters(module: Any) -> list[Any]:
    """The parameters of a DistributedDataParallel that will most likely be the first and the last to get gradients.

    Either of them gets its own before the reducer knows that it was the last one. None where the backward pass may be
    compiled, which would draw the hooks in, and in a torch that has no such hooks.
    """
    wrapper = getattr(module, "_orig_mod", module)
    if type(wrapper).__name__ != "DistributedDataParallel" or compiles_backward():
        return []
    trained = [p for p in wrapper.parameters() if p.requires_grad and hasattr(p, "register_post_accumulate_grad_hook")]
    return list({id(p): p for p in (trained[-1:] + trained[:1])}.values())


class _CountBefore(InstanceHook):
    def __init__(self, calls: OuterCalls, module: Any) -> None:
        super().__init__(module, calls.is_compiling)
        self._calls = calls

    def __call__(self, module: Any, _arguments: Any) -> None:
        if self._is_compiling():
            return
        if id(module) == self._key:
            self._calls.begins(self._key)


class _CountAfter(InstanceHook):
    def __init__(self, calls: OuterCalls, module: Any) -> None:
        super().__init__(module, calls.is_compiling)
        self._calls = calls

    def __call__(self, module: Any, _arguments: Any, _output: Any) -> None:
        if self._is_compiling():
            return
        if id(module) == self._key:
            self._calls.ended(self._key)


class OuterCalls:
    """Watches candidates through one step and says which of them were called, and not from within another."""

    def __init__(self, modules: list[Any], is_compiling: Callable[[], bool]) -> None:
        self.is_compiling = is_compiling
        self._modules = modules
        self._inside = 0
        self._counts: dict[int, int] = {}
        self._handles: list[Any] = []
        for module in modules:
            self._handles.append(module.register_forward_pre_hook(_CountBefore(self, module)))
            self._handles.append(module.register_forward_hook(_CountAfter(self, module)))

    @property
    def called(self) -> bool:
        """Whether any candidate was called."""
        return bool(self._counts)

    def begins(self, key: int) -> None:
        """A candidate's forward begins."""
        if self._inside in (0, key):
            self._inside = key
            self._counts[key] = self._counts.get(key, 0) + 1

    def ended(self, key: int) -> None:
        """A candidate's forward has ended."""
        if self._inside == key:
            self._inside = 0

    def finish(self) -> list[Any]:
        """Take the hooks off; gives the modules that were called outermost, in the order of their first calls."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        by_key = {id(module): module for module in self._modules}
        self._modules = []
        return [by_key[key] for key, count in self._counts.items() if count <= CALLS_LIMIT]
