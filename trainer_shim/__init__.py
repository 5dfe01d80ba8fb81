"""The trainer shim: what lives in the training process. Standard library only, Python 3.9 and newer.

Put on PYTHONPATH (`aidiag run`, `aidiag env`), it needs no change of the training script. By hand:

    import aidiag.trainer_shim as shim

    shim.attach()                     # once, before training; not needed when a hook would attach anyway
    with shim.phase("evaluation"):    # or as a decorator
        ...
    shim.log(loss=loss.item())
    shim.step()                       # at the end of each step, where no torch optimizer tells it

Nothing here raises into the training, whatever happens.
"""

from .api import attach, detach, inject, log, name_loader, phase, step

__all__ = ["attach", "detach", "inject", "log", "name_loader", "phase", "step"]
