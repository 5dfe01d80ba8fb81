"""Optimizers."""

# mypy: ignore-errors

from torch.optim import optimizer  # noqa: F401
from torch.optim.optimizer import SGD  # noqa: F401
