"""A model's state while it runs for us: nothing that a run writes is left behind, and no random number is used up."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from ..call.weights import owner
from ..ground.memory import MADE, is_plain, leaves, storage
from ..ground.module_kinds import is_interpreted
from ..ground.operator_schemas import traits
from ..ground.threads import ONE_AT_A_TIME
from .containers import REGISTRIES, containers_kept, is_traced
from .generators import generators_kept
from .state_changes import SIMPLE, Change, StateTrace

_HOOKS = frozenset(name for name, table in vars(torch.nn.Module()).items() if "_hooks" in name and table is not None)


@contextlib.contextmanager
def state_kept(model: Any, tracer: StateTrace | None = None, *, alone: bool = False) -> Iterator[None]:
    """Around a run: what modules and files were given to keep by it goes again, and plain attributes go back.

    A model may assign to its buffers and keep what it computed (caches, `weight_norm` before a forward); while it is
    traced, these are traced tensors. Everything is put back entry by entry: other threads may use the same model. The
    tracer, if there is one, is told which generators were moved and which plain values were changed. A run that is
    alone in the process has made everything that was put into tables meanwhile.
    """

    def moved(name: str) -> None:
        if tracer is not None:
            tracer.moved.add(name)

    def changed(change: Change) -> None:
        if tracer is not None:
            tracer.changes.setdefault(change.place, change)

    kept = containers_kept(model, changed, alone=alone, watched=tracer is not None)
    with generators_kept(model, moved), _attributes_kept(owner(model)), kept:
        yield


@contextlib.contextmanager
def _attributes_kept(module: torch.nn.Module | None) -> Iterator[None]:
    if module is None:
        yield
        return
    modules = [each for each in module.modules() if not is_interpreted(each)]  # interpreted
    registered = [(table, dict(table)) for each in modules for table in (each._parameters, each._buffers)]
    # A model may register hooks when it is first called, and remember that it has: both go.
    registered += [(table, dict(table)) for each in modules for name, table in vars(each).items() if name in _HOOKS]
    attributes = [(each, dict(vars(each))) for each in modules]
    try:
        yield
    finally:
        for table, content in registered:
            _restore(table, content)
        for each, before in attributes:
            _restore_attributes(vars(each), before)


def _restore_attributes(present: dict[str, Any], before: dict[str, Any]) -> None:
    for name, value in present.copy().items():
        old = before.get(name)
        if name in REGISTRIES or (value is old and name in before):
            continue
        if name not in before:
            if is_traced(value) or isinstance(value, SIMPLE):  # a flag that says that something is there goes with it
                present.pop(name, None)
        elif not is_traced(old) and (is_traced(value) or isinstance(old, SIMPLE)):  # a counter goes back too
            present[name] = old


def _restore(present: dict[Any, Any], before: dict[Any, Any]) -> None:
    """Put back what was registered, in its order. At no moment is anything missing that was there before."""
    for name in [*present]:
        if name not in before:
            present.pop(name, None)
    for name, value in before.items():
        if present.get(name) is not value or name not in present:
            present[name] = value
    if [*present] != [*before]:  # some were removed and came back behind the others
        for name, value in before.items():
            present.pop(name, None)
            present[name] = value


@contextlib.contextmanager
def run_guarded(model: Any, on_write: Callable[[int], Any] | None = None) -> Iterator[None]:
    """Around a call of a model, or of its copy, of which nobody knows yet what it writes to: its parameters and other
    tensors are as they were afterwards, its attributes and tables too. `on_write` is told the memory it writes to."""
    module = owner(model)
    kept = _MemoryKept([] if module is None else [*module.parameters(), *plain_attributes(module)], on_write)
    with ONE_AT_A_TIME, state_kept(model), kept:
        yield


def plain_attributes(module: torch.nn.Module) -> list[torch.Tensor]:
    """Tensors that modules have as they are, registered as nothing."""
    values = [value for each in module.modules() for value in list(vars(each).values())]
    return [value for value in values if isinstance(value, torch.Tensor) and is_plain(value)]


def tables_kept(model: Any) -> contextlib.ExitStack:
    """Around a plain call of the model: what it puts into tables goes again, and its attributes go back.

    While other threads run, what they put in must stay. Then, and only then, a mode looks on and notes which tensors
    the call makes; it changes nothing.
    """
    alone = threading.active_count() == 1
    stack = contextlib.ExitStack()
    stack.enter_context(state_kept(model, alone=alone))
    if not alone:
        stack.enter_context(_MemoryKept([]))
    return stack


class _MemoryKept(TorchDispatchMode):
    """Parameters are written to by few models, and large: they are copied when a write comes, and copied back."""

    supports_higher_order_operators = True

    def __init__(self, tensors: list[torch.Tensor], on_write: Callable[[int], Any] | None = None) -> None:
        super().__init__()
        self._on_write = on_write
        self._memories = {storage(each): each.untyped_storage() for each in tensors if is_plain(each)}
        self._copies: dict[int, torch.UntypedStorage] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as in session.py

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if isinstance(func, OpOverload) and func._schema.is_mutable:
            for position, name in traits(func).writes:
                for target in leaves(args[position] if position < len(args) else (kwargs or {}).get(name)):
                    if isinstance(target, torch.Tensor) and is_plain(target):
                        self._before_write(storage(target))
        result = func(*args, **(kwargs or {}))
        self._note(result, (args, *(kwargs or {}).values()))
        return result

    def _note(self, result: Any, given: Any) -> None:
        """Memory that an op returns is new, unless it was given."""
        made = [value for value in leaves(result) if isinstance(value, torch.Tensor) and is_plain(value)]
        if made:
            known = {storage(each) for each in leaves(given) if isinstance(each, torch.Tensor) and is_plain(each)}
            for value in made:
                if storage(value) not in known:
                    MADE.add(value)

    def _before_write(self, memory: int) -> None:
        if self._on_write is not None:
            self._on_write(memory)
        if memory in self._memories and memory not in self._copies:
            self._copies[memory] = self._memories[memory].clone()

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        for memory, copy in self._copies.items():
            self._memories[memory].copy_(copy, False)


def named_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Every name of every tensor, tied ones under all of theirs."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)
