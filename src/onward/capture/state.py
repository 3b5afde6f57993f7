"""A model's state while it runs for us: nothing that a run writes is left behind, and no random number is used up."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from .memory import leaves, storage
from .own_code import namespaces
from .tensor import Traced
from .traits import traits
from .weights import owner


@contextlib.contextmanager
def state_kept(model: Any) -> Iterator[None]:
    """Around a trace, which writes to no memory of the model's: what a module was given as an attribute goes again.

    A model may assign to its buffers and keep what it computed (caches, `weight_norm` before a forward); while it is
    traced, these are traced tensors.
    """
    with torch.random.fork_rng(devices=[]), _attributes_kept(owner(model)), _containers_kept(model):
        yield


@contextlib.contextmanager
def _attributes_kept(module: torch.nn.Module | None) -> Iterator[None]:
    if module is None:
        yield
        return
    modules = [each for each in module.modules() if not isinstance(each, torch.jit.ScriptModule)]  # interpreted
    registered = [(each._parameters, dict(each._parameters), each._buffers, dict(each._buffers)) for each in modules]
    attributes = [(each, dict(vars(each))) for each in modules]
    try:
        yield
    finally:
        for parameters, old_parameters, buffers, old_buffers in registered:
            _restore(parameters, old_parameters)
            _restore(buffers, old_buffers)
        for each, before in attributes:
            for name, value in [(name, value) for name, value in vars(each).items() if name not in _REGISTRIES]:
                if name in before and not _holds_traced(before[name]):
                    if _holds_traced(value) or isinstance(before[name], _SIMPLE):  # a counter goes back too
                        vars(each)[name] = before[name]
                elif _holds_traced(value):
                    del vars(each)[name]


@contextlib.contextmanager
def _containers_kept(model: Any) -> Iterator[None]:
    """What modules, or the files in which they are written, keep in dicts and lists: tables by size, for example.

    A list in a file is somebody's record rather than a table: it is put back only if traced tensors came into it.
    """
    module = owner(model)
    spaces = [vars(each) for each in module.modules() if not isinstance(each, torch.jit.ScriptModule)] if module else []
    files = namespaces(model)
    records = {id(each) for names in files for each in list(names.values()) if type(each) is list}
    records -= {id(each) for names in spaces for each in list(names.values())}
    spaces = [*spaces, *files]
    containers = {id(each): each for names in spaces for each in list(names.values()) if type(each) in (dict, list)}
    before = [(each, each.copy()) for key, each in containers.items() if key not in map(id, spaces)]
    try:
        yield
    finally:
        for each, copy in before:
            if id(each) in records and not _holds_traced(each):
                continue
            if len(each) != len(copy) or not all(map(operator.is_, _content(each), _content(copy))):
                each.clear()
                each.update(copy) if isinstance(each, dict) else each.extend(copy)


def _content(container: Any) -> list[Any]:
    return [*container, *container.values()] if isinstance(container, dict) else container


_SIMPLE = (bool, int, float, str)
# What every module has: its registries, looked after above, its hooks, and plain flags.
_REGISTRIES = frozenset(vars(torch.nn.Module()))


def _restore(present: dict[str, Any], before: dict[str, Any]) -> None:
    if [*present] != [*before] or any(present[name] is not before[name] for name in before):
        present.clear()
        present.update(before)


def _holds_traced(value: Any) -> bool:
    if isinstance(value, (list, tuple, dict)) and not isinstance(value, torch.Tensor):
        return any(map(_holds_traced, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Traced)


@contextlib.contextmanager
def own_state(model: Any, weights: Mapping[str, torch.Tensor] | None = None) -> Iterator[None]:
    """Around a call of the model itself: it writes to copies of its buffers, and reads other weights if some are given.

    `weights` are by the name in the state dict. The tensors stay the same objects with other memory, so that whatever
    else refers to them (tied modules, the flat weights of an LSTM) sees the same.
    """
    module = owner(model)
    if module is None:
        with state_kept(model):
            yield
        return
    others = weights or {}
    tensors = {id(tensor): tensor for _, tensor in named_tensors(module)}
    chosen = {id(tensor): others[name] for name, tensor in named_tensors(module) if name in others}
    written = {id(buffer) for buffer in module.buffers()}
    kept = [(tensor, tensor.data) for tensor in tensors.values()]
    with state_kept(model), _MemoryKept([*module.parameters(), *plain_attributes(module)]):
        try:
            for tensor, data in kept:
                if id(tensor) not in written and id(tensor) not in chosen:
                    continue
                other = chosen.get(id(tensor), data)
                tensor.data = other.detach().clone() if id(tensor) in written else other.detach()
            yield
        finally:
            for tensor, data in kept:
                ours = id(tensor) in written or id(tensor) in chosen
                if ours or (_is_plain(tensor) and storage(tensor) != storage(data)):
                    tensor.data = data


def plain_attributes(module: torch.nn.Module) -> list[torch.Tensor]:
    """Tensors that modules have as they are, registered as nothing."""
    values = [value for each in module.modules() for value in vars(each).values()]
    return [value for value in values if isinstance(value, torch.Tensor) and _is_plain(value)]


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is memory and nothing else."""
    kind, place = type(tensor), tensor.device.type
    return kind in (torch.Tensor, torch.nn.Parameter) and place != "meta" and tensor.layout is torch.strided


class _MemoryKept(TorchDispatchMode):
    """Parameters are written to by few models, and large: they are copied when a write comes, and copied back."""

    supports_higher_order_operators = True

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self._memories = {storage(each): each.untyped_storage() for each in tensors if _is_plain(each)}
        self._copies: dict[int, torch.UntypedStorage] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as in session.py

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if isinstance(func, OpOverload) and func._schema.is_mutable:
            for position, name in traits(func).writes:
                for target in leaves(args[position] if position < len(args) else (kwargs or {}).get(name)):
                    if isinstance(target, torch.Tensor) and _is_plain(target):
                        self._before_write(storage(target))
        return func(*args, **(kwargs or {}))

    def _before_write(self, memory: int) -> None:
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
