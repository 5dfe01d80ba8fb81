"""The trainer shim: what lives in the training process. Standard library only, Python 3.9 and newer.

Put on PYTHONPATH (`aidiag run`, `aidiag env`), it needs no change of the training script. By hand:

    import aidiag.trainer_shim as shim

    shim.attach()                     # once, before training; not needed when a hook would attach anyway
    with shim.phase("evaluation"):    # or as a decorator
        ...
    shim.log(loss=loss.item())
    shim.step()                       # at the end of each step, where no torch optimizer tells it

Nothing here raises into the training, whatever happens. Every Python process of a job imports this module, so it loads
the rest only when somebody asks for it.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .api import attach, detach, log, name_loader, phase, step

__all__ = ["attach", "detach", "log", "name_loader", "phase", "step"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from . import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
