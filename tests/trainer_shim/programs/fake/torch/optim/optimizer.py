"""The optimizer and its global hooks."""

# mypy: ignore-errors

_before = []
_after = []


class _Handle:
    def __init__(self, hooks, hook):
        self._hooks, self._hook = hooks, hook
        hooks.append(hook)

    def remove(self):
        self._hooks.remove(self._hook)


def register_optimizer_step_pre_hook(hook):
    """Call a hook before each step."""
    return _Handle(_before, hook)


def register_optimizer_step_post_hook(hook):
    """Call a hook after each step."""
    return _Handle(_after, hook)


class SGD:
    """An optimizer of nothing."""

    param_groups = ()

    def step(self):
        """Make a step."""
        for hook in _before:
            hook(self, (), {})
        for hook in _after:
            hook(self, (), {})
