"""A copy of a model to run in its place, so that nothing a run writes reaches the model, or a thread that is using it.

The copy shares the memory of parameters that the model does not write to. What cannot be copied (a lock, a file, a
generator) is shared as well. A model whose copy would take a compiler's time runs itself, with copies of its buffers,
if nobody else can be using it; so does a quantized one, because its hooks know it by its identity.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import threading
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ..call.weights import owner
from ..ground.memory import is_plain, storage
from ..ground.module_kinds import is_generated, is_interpreted
from ..state.state import named_tensors, plain_attributes
from .front_ends import front_end_of

_MANY_MODULES = 2000  # of a model that is copied for every run
_HOOKS = ("_forward_pre_hooks", "_forward_hooks")


@dataclass(frozen=True)
class Twin:
    """What is called in place of a model: a copy, or the model itself."""

    model: Any
    copies: Mapping[int, Any] = field(default_factory=dict)  # of what the model has, by the identity of the original

    def of(self, value: Any) -> Any:
        """The copy of something that the model has; the thing itself if it is shared."""
        return self.copies.get(id(value), value)


@contextlib.contextmanager
def on_copies(
    model: Any, weights: Mapping[str, torch.Tensor] | None = None, changed: Collection[str] = (), *, often: bool = False
) -> Iterator[Twin]:
    """The model, or a copy of it, with everything that it writes to in memory of its own.

    `weights` are other weights by their names in the state dict; `changed` are the names of those that it writes to.
    What is called often is copied only while other threads run, and once for an export: whoever calls it sees to it
    that everything but memory is as it was afterwards.
    """
    module, given = owner(model), weights or {}
    if module is None:
        yield Twin(model)
        return
    has_scripts = any(map(is_interpreted, module.modules()))
    if often:
        twin = _copy_of_this_export(module) if threading.active_count() > 1 else None
    elif has_scripts:  # they copy every tensor by themselves, and are given others afterwards
        twin = _twin(module, {}, ())
    else:
        twin = _twin(module, given, changed)
    if twin is None or often or has_scripts:
        with _own_memory(module if twin is None else twin.model, given, changed):
            yield _as_called(Twin(module) if twin is None else twin, model)
    else:
        yield _as_called(twin, model)


def _as_called(twin: Twin, model: Any) -> Twin:
    """The method of the copy, if a method is the model."""
    return twin if model is owner(model) else Twin(getattr(twin.model, model.__name__), twin.copies)


class _OfExport(threading.local):
    twins: dict[int, tuple[torch.nn.Module, Twin | None]] | None = None


_OF_EXPORT = _OfExport()


@contextlib.contextmanager
def one_copy() -> Iterator[None]:
    """Around an export: one copy of the model serves for all calls in which a copy may be used again."""
    before, _OF_EXPORT.twins = _OF_EXPORT.twins, {}
    try:
        yield
    finally:
        _OF_EXPORT.twins = before


def _copy_of_this_export(module: torch.nn.Module) -> Twin | None:
    kept = _OF_EXPORT.twins
    if kept is None:
        return _twin(module, {}, ())
    if id(module) not in kept:
        kept[id(module)] = module, _twin(module, {}, ())
    return kept[id(module)][1]


def _twin(module: torch.nn.Module, weights: Mapping[str, torch.Tensor], changed: Collection[str]) -> Twin | None:
    modules = list(module.modules())
    takes_long = len(modules) > _MANY_MODULES or any(front_end_of(each).is_slow_to_copy for each in modules)
    if (takes_long and threading.active_count() == 1) or any(_has_our_hooks(each) for each in modules):
        return None
    known = _tensors(module, weights, changed)
    graphs = [each for each in modules if is_generated(each)]
    if graphs:  # a copy that they make of themselves has no hooks, and is compiled
        copies: dict[int, Any] = {**known, **{id(each.graph): each.graph for each in graphs}}
        return Twin(_by_parts(module, copies), copies)
    try:
        copies = dict(known)
        return Twin(copy.deepcopy(module, copies), copies)
    except Exception:  # a lock, a file, a tensor that is not a leaf: the rest can be copied
        copies = dict(known)
        return Twin(_by_parts(module, copies), copies)


def _tensors(
    module: torch.nn.Module, weights: Mapping[str, torch.Tensor], changed: Collection[str]
) -> dict[int, torch.Tensor]:
    """What stands for every tensor of the model, by its identity."""
    chosen, written = _chosen(module, weights), _written(module, changed)
    known: dict[int, torch.Tensor] = {}
    for tensor in (*(tensor for _, tensor in named_tensors(module)), *plain_attributes(module)):
        key = id(tensor)
        if key in known:
            continue
        is_ours = key in chosen or key in written
        is_usual = type(tensor) is torch.nn.Parameter and is_plain(tensor) and not tensor.is_inference()
        if not is_ours and not is_usual:
            known[key] = tensor
            continue
        other = chosen.get(key, tensor).detach()
        other = other.clone() if key in written else other
        if isinstance(tensor, torch.nn.Parameter):  # an object of its own: a model may assign to its `.data`
            other = torch.nn.Parameter(other, tensor.requires_grad)
            other.__dict__.update(tensor.__dict__)
        known[key] = other
    return known


def _by_parts(module: torch.nn.Module, copies: dict[int, Any]) -> Any:
    """A copy of which each part that cannot be copied is the original's."""
    modules = [each for each in module.modules() if not is_interpreted(each)]
    for each in modules:
        copies[id(each)] = object.__new__(type(each))
    for each in modules:
        vars(copies[id(each)]).update({name: _part(value, copies) for name, value in vars(each).copy().items()})
    return copies[id(module)]


def _part(value: Any, copies: dict[int, Any]) -> Any:
    if id(value) in copies:
        return copies[id(value)]
    kind = type(value)
    if kind in (dict, collections.OrderedDict):
        entries: dict[Any, Any] = kind()
        copies[id(value)] = entries
        entries.update((_part(key, copies), _part(each, copies)) for key, each in value.copy().items())
        return entries
    if kind is list:
        items: list[Any] = []
        copies[id(value)] = items
        items.extend(_part(each, copies) for each in list(value))
        return items
    if kind is tuple:
        return tuple(_part(each, copies) for each in value)
    attempt: MutableMapping[int, Any] = collections.ChainMap({}, copies)
    try:
        made = copy.deepcopy(value, attempt)  # type: ignore[arg-type]
    except Exception:  # it cannot be copied
        copies[id(value)] = value
        return value
    copies.update(attempt.maps[0])  # type: ignore[attr-defined]
    return made


def _chosen(module: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> dict[int, torch.Tensor]:
    """The tensors that are replaced by others, by identity: a tied one has several names."""
    return {id(tensor): weights[name] for name, tensor in named_tensors(module) if name in weights}


def _written(module: torch.nn.Module, changed: Collection[str]) -> set[int]:
    """What the model may write to, by identity: its buffers, its other tensors, and the parameters that the trace saw
    it write to."""
    found = {id(tensor) for name, tensor in named_tensors(module) if name in changed}
    return found | {id(each) for each in (*module.buffers(), *plain_attributes(module))}


def _has_our_hooks(module: torch.nn.Module) -> bool:
    """Whether the module is quantized: the hooks know it by its identity."""
    hooks = [hook for name in _HOOKS for hook in getattr(module, name).values()]
    return any(type(hook).__module__.split(".")[0] == "onward" for hook in hooks)


@contextlib.contextmanager
def _own_memory(
    module: torch.nn.Module, weights: Mapping[str, torch.Tensor], changed: Collection[str]
) -> Iterator[None]:
    """Inside, what the model writes to is a copy. The tensors stay the same objects with other memory, so that whatever
    else refers to them (tied modules, the flat weights of an LSTM) sees the same."""
    tensors = {id(each): each for each in (*(tensor for _, tensor in named_tensors(module)), *plain_attributes(module))}
    chosen, written = _chosen(module, weights), _written(module, changed)
    swapped = {key for key in tensors if key in written or key in chosen}
    kept = [(tensor, tensor.data) for tensor in tensors.values()]
    try:
        for tensor, data in kept:
            if id(tensor) in swapped:
                other = chosen.get(id(tensor), data).detach()
                tensor.data = other.clone() if id(tensor) in written else other
        yield
    finally:
        for tensor, data in kept:
            if id(tensor) in swapped or (is_plain(tensor) and storage(tensor) != storage(data)):
                tensor.data = data
