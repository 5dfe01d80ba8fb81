"""Utilities."""

# mypy: ignore-errors

from torch.utils import data  # noqa: F401
