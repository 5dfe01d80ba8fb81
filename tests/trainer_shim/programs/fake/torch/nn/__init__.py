"""Modules."""


class Module:
    """A module of nothing."""
