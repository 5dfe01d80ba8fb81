"""A stand-in for torch: as much of it as decides whether a process attaches, at a hundredth of the time to import."""

# mypy: ignore-errors

import os
import types

if os.environ.get("FAKE_TORCH_BROKEN"):
    raise ImportError("planted: libtorch cannot be loaded")


class Tensor:
    """A tensor of nothing."""

    grad_fn = None


def is_grad_enabled() -> bool:
    """Gradients are on."""
    return True


__version__ = "0.fake"
autograd = types.SimpleNamespace(Variable=types.SimpleNamespace(_execution_engine=None))
compiler = types.SimpleNamespace(is_compiling=lambda: False)

from torch import distributed, nn, optim, utils  # noqa: F401
