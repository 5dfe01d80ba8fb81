"""The process group."""

# mypy: ignore-errors

_group = None


def is_available():
    """It is."""
    return True


def is_initialized():
    """Whether there is a group."""
    return _group is not None


def get_rank():
    """The rank in the group."""
    return _group[0]


def get_world_size():
    """The size of the group."""
    return _group[1]


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1):
    """Make the group."""
    import os

    global _group
    _group = (
        rank if rank >= 0 else int(os.environ.get("RANK", "0")),
        world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", "1")),
    )
