"""One shim a process: an injected shim answers to `import aidiag.trainer_shim`, whether or not aidiag is installed.

An injected shim lives under a name of its own, so that nothing called `aidiag` is imported where nobody asks for it.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Optional

PACKAGE = "aidiag"
NAME = "aidiag.trainer_shim"


class StandIn:
    """A meta path finder that gives the public names of the loaded shim to `aidiag.trainer_shim`.

    Modules below that name still come from an aidiag that is installed, which may be another version.
    """

    def __init__(self, shim: ModuleType) -> None:
        self._shim = shim

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """The spec of the stand-in for the one name, None for all others."""
        if fullname != NAME:
            return None
        spec = ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type] # without importlib.abc, which is slow
        installed = [os.path.join(folder, "trainer_shim") for folder in path or ()]
        spec.submodule_search_locations = [f for f in installed if os.path.isdir(f)] or list(self._shim.__path__)
        return spec

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        """An ordinary module will do."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Fill the stand-in."""
        module.__doc__ = self._shim.__doc__
        for name in self._shim.__all__:
            setattr(module, name, getattr(self._shim, name))


class LastResort:
    """Behind all other finders: an empty `aidiag` package where none is installed, for the stand-in to lie in."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """The spec of the empty package, None for all other names."""
        return ModuleSpec(fullname, self, is_package=True) if fullname == PACKAGE else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        """An ordinary module will do."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Leave it empty."""


def install(shim: ModuleType) -> None:
    """Have `aidiag.trainer_shim` lead to `shim`, unless it is that already."""
    if shim.__name__ != NAME and NAME not in sys.modules:
        sys.meta_path.insert(0, StandIn(shim))
        sys.meta_path.append(LastResort())
