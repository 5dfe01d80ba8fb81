"""Finding the root modules: which modules hold the parameters of an optimizer, and which of those are called outermost.

The optimizer knows its parameters, not their modules; the garbage collector knows all objects. One look over them after
the first step gives the candidates; which of them the trainer calls is watched during the second step.

Modules in a compiled region are left alone: a hook that appears on one makes the compiler trace the model once more.
"""

from __future__ import annotations

import gc
from typing import Any

from .compiling import has_compiled, is_compiled, is_script

CANDIDATES_LIMIT = 24
DEPTH_LIMIT = 3


def candidates(torch: Any, optimizer: Any) -> list[Any]:
    """Modules that may be roots for an optimizer, outermost first."""
    wanted = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    modules = _all_modules(torch)
    holders = [m for m in modules if any(id(p) in wanted for p in m._parameters.values() if p is not None)]
    if not holders:  # optimizers over flat or master copies (ZeRO): any module that is trained may be it
        holders = [m for m in modules if any(p.requires_grad for p in m._parameters.values() if p is not None)]
    parents: dict[int, list[Any]] = {}
    for module in modules:
        for child in module._modules.values():
            if child is not None:
                parents.setdefault(id(child), []).append(module)
    family = {id(module): module for module in holders}
    waiting = list(holders)
    while waiting:
        for parent in parents.get(id(waiting.pop()), ()):
            if id(parent) not in family:
                family[id(parent)] = parent
                waiting.append(parent)
    tops = [module for key, module in family.items() if not any(id(p) in family for p in parents.get(key, ()))]
    return _outer_levels(tops, family)


def _all_modules(torch: Any) -> list[Any]:
    objects = gc.get_objects()
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, torch.nn.Module)}
    return [thing for thing in objects if type(thing) in kinds and "_modules" in vars(thing)]


def _outer_levels(tops: list[Any], family: dict[int, Any]) -> list[Any]:
    compiled_elsewhere = has_compiled() and not any(is_compiled(m) for m in family.values())
    if compiled_elsewhere:  # a function was compiled, and the model may lie within it
        return []
    found: list[Any] = []
    level = tops
    for _ in range(DEPTH_LIMIT + 1):
        below: list[Any] = []
        for module in level:
            if getattr(module, "_compiled_call_impl", None) is not None or is_script(module):
                continue
            if any(module is known for known in found):
                continue
            found.append(module)
            if not is_compiled(module):
                below.extend(c for c in module._modules.values() if c is not None and id(c) in family)
        level = below
    return found[:CANDIDATES_LIMIT]


def outermost(called: list[Any]) -> list[Any]:
    """Those of the called modules that lie in none of the others: a recomputed layer is called on its own, too."""
    inner: set[int] = set()
    for module in called:
        for child in module.modules():
            if child is not module:
                inner.add(id(child))
    return [module for module in called if id(module) not in inner]
