"""Dicts and lists in which modules, and the files in which they are written, keep things: tables by size, for example.

A trace puts traced tensors into them, which must not stay, and a table that one run has left would not be made again by
the next. Only what a run itself made is taken out again, one by one: everything else in such a container may be another
thread's, which serves the same model meanwhile.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .memory import MADE, is_plain, storage
from .numbers_of_sizes import RealNumber, WholeNumber
from .own_code import classes, namespaces, packages
from .python.state_changes import SIMPLE, Change
from .sizes import SYMBOLIC, SizeText
from .tensor import Traced
from .traced_list import TracedList, TracedNumbers
from .weights import owner

_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict)
_SEQUENCES = (list, collections.deque)
_OURS = (Traced, *SYMBOLIC, SizeText, WholeNumber, RealNumber, TracedList, TracedNumbers)
# What every module has: its registries, its hooks, and plain flags.
REGISTRIES = frozenset(vars(torch.nn.Module()))
_DEEPEST = 6  # containers in containers


def is_traced(value: Any) -> bool:
    """Whether a value is, or holds, a tensor or a size of a trace."""
    return _holds(value, lambda each: isinstance(each, _OURS))


def _is_ours(value: Any) -> bool:
    """The same, or a tensor that a run of ours made."""
    return _holds(value, lambda each: isinstance(each, _OURS) or _is_made(each))


def _is_made(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and is_plain(value) and storage(value) in MADE


def _holds(value: Any, predicate: Callable[[Any], bool], depth: int = _DEEPEST) -> bool:
    kind = type(value)
    if kind in SIMPLE:
        return False
    if predicate(value):
        return True
    if depth and kind in (tuple, set, frozenset, *_SEQUENCES):
        return any(_holds(each, predicate, depth - 1) for each in list(value))
    if depth and kind in _MAPPINGS:
        return any(_holds(each, predicate, depth - 1) for pair in value.copy().items() for each in pair)
    return False


@dataclass(frozen=True)
class _Kept:
    """A container and what was in it. One of a module's own is like its attributes: counters in it go back."""

    container: Any
    before: Any
    is_own: bool
    is_file: bool = False

    def change(self, key: Any) -> Change:
        label = (
            f"global {key!r}" if self.is_file else f"entry {key!r} of a {type(self.container).__name__} that it keeps"
        )
        return Change(self.container, key, label)


@contextlib.contextmanager
def containers_kept(model: Any, changed: Callable[[Change], Any], *, alone: bool = False) -> Iterator[None]:
    """Around a run of the model. `changed` is told which plain values are others than before.

    A run that is alone in the process has made every tensor that was put in; otherwise only those in `MADE` are ours.
    """
    kept = list(_found(model))
    kinds = [(kind, vars(kind).copy()) for kind in classes(model)]
    try:
        yield
    finally:
        for each in kept if alone else ():
            _note_made(each)
        for each in kept:
            if isinstance(each.container, dict):
                _clean_mapping(each, changed)
            elif isinstance(each.container, set):
                each.container.difference_update([value for value in list(each.container) if _is_ours(value)])
            else:
                _clean_sequence(each, changed)
        for kind, before in kinds:
            for name, value in vars(kind).copy().items():
                if value is not before.get(name) and _is_ours(value):
                    setattr(kind, name, before[name]) if name in before else delattr(kind, name)


def _note_made(kept: _Kept) -> None:
    """Count the tensors that came into a container as made by us."""

    def note(value: Any) -> bool:
        if isinstance(value, torch.Tensor) and is_plain(value):
            MADE.add(value)
        return False  # go on

    before = kept.before.values() if isinstance(kept.before, dict) else kept.before
    present = kept.container.copy()
    known = {id(each) for each in before}
    for value in present.values() if isinstance(present, dict) else present:
        if id(value) not in known:
            _holds(value, note)


def _found(model: Any) -> Iterator[_Kept]:
    """The containers that the model's modules, classes and files have, and those inside of them."""
    module, theirs = owner(model), packages(model)
    modules = [each for each in module.modules() if not isinstance(each, torch.jit.ScriptModule)] if module else []
    seen = {id(vars(builtins)), *(id(vars(each)) for each in modules)}
    for each in modules:
        own = [value for name, value in vars(each).copy().items() if name not in REGISTRIES]
        if own:
            yield from _inside(own, theirs, seen, is_own=True)
    for kind in classes(model):
        yield from _inside(list(vars(kind).values()), theirs, seen, is_own=False)
    for names in namespaces(model):
        if id(names) not in seen:
            seen.add(id(names))
            yield _Kept(names, names.copy(), is_own=False, is_file=True)
        yield from _inside(list(names.values()), theirs, seen, is_own=False)


def _inside(values: Iterable[Any], theirs: set[str], seen: set[int], *, is_own: bool) -> Iterator[_Kept]:
    waiting = [(value, _DEEPEST) for value in values]
    while waiting:
        value, depth = waiting.pop()
        kind = type(value)
        if kind not in _CONTAINERS:
            if not _is_plain_object(value, kind, theirs):
                continue
            value = vars(value)
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield _Kept(value, value.copy(), is_own)
        if depth:
            content = value.values() if isinstance(value, dict) else value
            waiting += [(each, depth - 1) for each in list(content) if type(each) not in SIMPLE]


_CONTAINERS = frozenset((*_MAPPINGS, *_SEQUENCES, set))


def _is_plain_object(value: Any, kind: type, theirs: set[str]) -> bool:
    """Whether a value is an object of a class of the model's own packages, with attributes."""
    if kind.__module__.partition(".")[0] not in theirs or isinstance(value, (type, torch.nn.Module)):
        return False
    return type(getattr(value, "__dict__", None)) is dict


def _clean_mapping(kept: _Kept, changed: Callable[[Change], Any]) -> None:
    present, before = kept.container, kept.before
    values = list(present.values())
    if len(values) == len(before) and all(map(operator.is_, values, before.values())):
        return
    for key, value in present.copy().items():  # at once: other threads write to it meanwhile
        old = before.get(key, _NOTHING)
        if value is old:
            continue
        if _is_ours(key) or _is_ours(value):
            if old is _NOTHING:
                present.pop(key, None)
            else:
                present[key] = old
        elif _is_plain_change(old, value):
            changed(kept.change(key))
            if kept.is_own:
                present[key] = old


def _is_plain_change(old: Any, new: Any) -> bool:
    return type(old) in SIMPLE and type(new) in SIMPLE and old != new


def _clean_sequence(kept: _Kept, changed: Callable[[Change], Any]) -> None:
    present, before = kept.container, list(kept.before)
    if len(present) == len(before) and all(map(operator.is_, list(present), before)):
        return
    for place, (value, old) in enumerate(zip(list(present), before, strict=False)):
        if _is_plain_change(old, value):
            changed(kept.change(place))
            if kept.is_own and len(present) == len(before):
                present[place] = old
    known = {id(each) for each in before}
    new = [each for each in list(present) if id(each) not in known and _is_ours(each)]
    if len(present) == len(before) and isinstance(present, list):  # items were replaced
        for place, (value, old) in enumerate(zip(list(present), before, strict=False)):
            if any(value is each for each in new):
                present[place] = old
    for value in new:
        for place, each in enumerate(list(present)):
            if each is value:
                del present[place]
                break
    if new and isinstance(present, collections.deque):  # a full one has lost its oldest
        held = {id(each) for each in list(present)}
        present.extendleft(each for each in reversed(before) if id(each) not in held)


_NOTHING = object()
