"""Where torch calls us: a few functions of torch are wrapped, and the optimizers' global hooks are used.

All of it is put in place once, when torch has been imported, and leads to the hooks of the session that is attached at
the time of the call. Without one, a call costs a look and may be the event at which the session attaches.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable

from .compiling import tracing_probe
from .group import told_place
from .patch import Patches

if TYPE_CHECKING:
    from ..session import Session

Wrap = Callable[[Any], Any]


class Wiring:
    """The wrapped functions of this process."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._patches = Patches()
        self._handles: list[Any] = []
        self._is_compiling: Callable[[], bool] = lambda: False

    def arm(self, torch: Any) -> None:
        """Wrap what can tell that this process trains: iteration of a loader, process group, optimizer step."""
        if self._handles:
            return
        self._is_compiling = tracing_probe(torch) or (lambda: False)
        optimizers = sys.modules.get("torch.optim.optimizer")
        register_before = getattr(optimizers, "register_optimizer_step_pre_hook", None)
        register_after = getattr(optimizers, "register_optimizer_step_post_hook", None)
        if register_before is not None and register_after is not None:
            self._handles.append(register_before(self._before_step()))
            self._handles.append(register_after(self._after_step()))
        loaders = sys.modules.get("torch.utils.data.dataloader")
        self._replace(loaders, "DataLoader", "__iter__", self._iterate)
        self._replace(loaders, "_BaseDataLoaderIter", "__next__", self._next)
        for name in ("torch.distributed", "torch.distributed.distributed_c10d"):
            self._replace(sys.modules.get(name), "", "init_process_group", self._init_group)

    def connect(self) -> None:
        """Wrap the rest, for a process that has attached; called again to catch modules that are imported late."""
        for name in ("torch", "torch.serialization"):
            self._replace(sys.modules.get(name), "", "save", self._checkpoint)
        for name in ("torch.distributed.checkpoint", "torch.distributed.checkpoint.state_dict_saver"):
            for function in ("save", "async_save"):
                self._replace(sys.modules.get(name), "", function, self._checkpoint)
        self._replace(sys.modules.get("torch.autograd"), "", "backward", self._backward)
        for name in ("torch.amp.grad_scaler", "torch.cuda.amp.grad_scaler"):
            self._replace(sys.modules.get(name), "GradScaler", "update", self._scaler)
        # these refuse modules with hooks, or would compile our hooks with the module
        self._replace(sys.modules.get("torch.jit._recursive"), "", "create_script_module", self._without_roots)
        for name in ("torch.cuda", "torch.cuda.graphs"):
            self._replace(sys.modules.get(name), "", "make_graphed_callables", self._without_roots)

    def disconnect(self) -> None:
        """Give torch its functions back."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._patches.restore()

    def _replace(self, module: Any, owner: str, name: str, wrap: Wrap) -> None:
        target = getattr(module, owner, None) if owner and module is not None else module
        if target is not None:
            self._patches.replace(target, name, wrap)

    def _before_step(self) -> Callable[[Any, Any, Any], None]:
        session, is_compiling = self._session, self._is_compiling

        def aidiag_before_step(optimizer: Any, _arguments: Any, _named: Any) -> None:
            if is_compiling():
                return
            hooks = session.hooks or session.trigger()
            if hooks is not None and hooks.torch is not None and hooks.torch.steps.live:
                hooks.torch.steps.before(optimizer)

        return aidiag_before_step

    def _after_step(self) -> Callable[[Any, Any, Any], None]:
        session, is_compiling = self._session, self._is_compiling

        def aidiag_after_step(optimizer: Any, _arguments: Any, _named: Any) -> None:
            if is_compiling():
                return
            hooks = session.hooks
            if hooks is not None and hooks.torch is not None and hooks.torch.steps.live:
                hooks.torch.steps.after(optimizer)

        return aidiag_after_step

    def _iterate(self, original: Any) -> Any:
        session = self._session

        def __iter__(loader: Any) -> Any:
            hooks = session.hooks or session.trigger()
            entry = hooks.loaders.iteration_begins(loader) if hooks is not None and hooks.loaders.live else None
            if hooks is None or entry is None:
                return original(loader)
            iterator = None
            try:
                iterator = original(loader)
            finally:
                hooks.loaders.iteration_began(entry, iterator)
            return iterator

        return __iter__

    def _next(self, original: Any) -> Any:
        session = self._session

        def __next__(iterator: Any) -> Any:
            hooks = session.hooks or session.trigger()
            entry = hooks.loaders.batch_begins(iterator) if hooks is not None and hooks.loaders.live else None
            if hooks is None or entry is None:
                return original(iterator)
            try:
                batch = original(iterator)
            except BaseException:
                hooks.loaders.batch_ended(entry, False)
                raise
            hooks.loaders.batch_ended(entry, True)
            return batch

        return __next__

    def _init_group(self, original: Any) -> Any:
        session = self._session

        def init_process_group(*arguments: Any, **named: Any) -> Any:
            rank, world_size = told_place(arguments, named)
            hooks = session.hooks or session.trigger(rank, world_size)
            group = hooks.torch.group if hooks is not None and hooks.torch is not None else None
            if group is None or not group.live:
                return original(*arguments, **named)
            group.begins()
            try:
                return original(*arguments, **named)
            finally:
                group.ended()

        return init_process_group

    def _checkpoint(self, original: Any) -> Any:
        session = self._session

        def save(*arguments: Any, **named: Any) -> Any:
            hooks = session.hooks
            before = None if hooks is None else hooks.checkpoints.begins()
            if hooks is None or before is None:
                return original(*arguments, **named)
            try:
                return original(*arguments, **named)
            finally:
                hooks.checkpoints.ended(before)

        return save

    def _backward(self, original: Any) -> Any:
        session, is_compiling = self._session, self._is_compiling

        def backward(*arguments: Any, **named: Any) -> Any:
            if is_compiling():
                return original(*arguments, **named)
            hooks = session.hooks
            watch = None if hooks is None or hooks.torch is None else hooks.torch.backward
            if watch is None or not watch.live or not watch.begins():
                return original(*arguments, **named)
            try:
                return original(*arguments, **named)
            finally:
                watch.ended()

        return backward

    def _scaler(self, original: Any) -> Any:
        session = self._session

        def update(scaler: Any, new_scale: Any = None) -> Any:
            result = original(scaler, new_scale)
            hooks = session.hooks
            if hooks is not None and hooks.torch is not None and hooks.torch.scaler.live:
                hooks.torch.scaler.updated(scaler, new_scale)
            return result

        return update

    def _without_roots(self, original: Any) -> Any:
        session = self._session

        def call(*arguments: Any, **named: Any) -> Any:
            hooks = session.hooks
            if hooks is None or hooks.torch is None or not hooks.torch.discovery.take_off():
                return original(*arguments, **named)
            try:
                return original(*arguments, **named)
            finally:
                hooks.torch.discovery.put_on()

        return call
