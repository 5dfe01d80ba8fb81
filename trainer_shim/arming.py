"""Waiting for torch: a finder that lets every import go its usual way, and calls us once torch has been imported."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Callable, Optional

try:
    START_FOLDER = os.getcwd()
    """Where the process started, which a job's id may be made from: taken before the trainer moves elsewhere."""
except OSError:
    START_FOLDER = ""


class AfterImport:
    """A meta path finder that calls `called` with a module as soon as the module called `name` has been executed.

    It finds nothing itself: it asks the finders behind it and hooks the loader that they give, for one execution. An
    import that fails, fails as it would without it. Whatever goes wrong here, the import goes on.
    """

    def __init__(self, name: str, called: Callable[[Any], None]) -> None:
        self._name = name
        self._called = called

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """The spec that the other finders give for the awaited module, with its loader hooked; None for all others."""
        if fullname != self._name:
            return None
        try:
            for finder in tuple(sys.meta_path):
                find = None if finder is self else getattr(finder, "find_spec", None)
                spec: Optional[ModuleSpec] = find(fullname, path, target) if find is not None else None
                if spec is not None:
                    self._hook(spec.loader)
                    return spec
        except Exception:
            pass  # the import system asks the same finders itself, and reports what is wrong with them
        return None

    def _hook(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)
            execute(module)
            try:
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                self._called(module)
            except Exception:
                pass  # training goes on without us

        if "exec_module" not in vars(loader):
            loader.exec_module = exec_module


def inject() -> None:
    """What `sitecustomize` calls at the start of a process: answer to the name of the package, and wait for torch."""
    from . import stand_in

    stand_in.install(sys.modules[__package__])
    arm()


def arm() -> None:
    """Arm this process now, or as soon as it has imported torch."""
    torch = sys.modules.get("torch")
    if torch is not None and not getattr(getattr(torch, "__spec__", None), "_initializing", False):
        _torch_is_there(torch)
    elif not any(isinstance(finder, AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, AfterImport("torch", _torch_is_there))


def _torch_is_there(torch: Any) -> None:
    from .session import session

    session.arm(torch)
