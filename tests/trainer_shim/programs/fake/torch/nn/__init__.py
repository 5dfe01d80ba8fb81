"""Modules."""

# mypy: ignore-errors


class Module:
    """A module of nothing."""
