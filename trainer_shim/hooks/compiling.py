"""What the shim must know of torch's compiler, which may never have been loaded."""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional


def tracing_probe(torch: Any) -> Optional[Callable[[], bool]]:
    """The function that is True while code is being traced, None where this torch has none.

    The compiler itself knows the function and takes its answer for a constant, so that a hook which asks it first and
    returns leaves nothing in a graph.
    """
    for owner in (getattr(torch, "compiler", None), getattr(torch, "_utils", None)):
        probe: Optional[Callable[[], bool]] = getattr(owner, "is_compiling", None)
        if probe is not None:
            return probe
    return None


def has_compiled() -> bool:
    """Whether torch.compile has compiled anything in this process."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return False
    counters = getattr(utils, "counters", None)
    if counters is None:
        return True
    return bool(counters.get("frames")) or bool(counters.get("stats"))


def compiles_backward() -> bool:
    """Whether backward passes may be traced (compiled autograd), which would draw hooks on graph nodes into a graph."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is None:
        return False
    autograd = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(
        getattr(getattr(dynamo, "config", None), "compiled_autograd", False)
        or getattr(autograd, "compiled_autograd_enabled", False)
    )


def is_compiled(module: Any) -> bool:
    """Whether a module is the entry of a compiled region."""
    return type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None


def is_script(module: Any) -> bool:
    """Whether a module belongs to TorchScript."""
    return any(kind.__name__ == "ScriptModule" for kind in type(module).__mro__)
