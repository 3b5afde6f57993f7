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
import os
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..bodies.traced_list import TracedList, TracedNumbers
from ..call.weights import owner
from ..functions.numbers_of_sizes import RealNumber, WholeNumber
from ..ground.memory import MADE, is_plain, storage
from ..ground.module_kinds import is_interpreted
from ..memory.tensor import Traced
from ..sizes.sizes import SYMBOLIC, SizeText
from .fingerprints import CONTAINERS, MAPPINGS, SEQUENCES, UNKNOWN, has_state, state_of
from .own_code import Reach, classes, closed_over, kept_by_function, namespaces, packages, reach_of
from .state_changes import SIMPLE, Change

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
    if depth and kind in (tuple, set, frozenset, *SEQUENCES):
        return any(_holds(each, predicate, depth - 1) for each in list(value))
    if depth and kind in MAPPINGS:
        return any(_holds(each, predicate, depth - 1) for pair in value.copy().items() for each in pair)
    return False


@dataclass(frozen=True)
class _Kept:
    """A container and what was in it. One of a module's own is like its attributes: counters in it go back.

    An object is here with its attributes as the container; an array or an iterator with what tells that it moves.
    """

    container: Any
    before: Any
    is_own: bool
    is_file: bool = False
    holder: Any = None  # the object, if the container has the attributes of one
    is_watched: bool = False  # somebody outside may look at it, as at what a closure fills: only what is traced goes

    def is_ours(self, value: Any) -> bool:
        """Whether a value is to be taken out again."""
        return is_traced(value) if self.is_watched else _is_ours(value)

    @property
    def has_names(self) -> bool:
        """Whether the entries are attributes or globals, and not elements of a container."""
        return self.is_file or self.holder is not None

    def change(self, key: Any) -> Change:
        """What to say of an entry that is another one; of the whole, if there is no key."""
        if self.holder is not None:
            what = _article(f"{type(self.holder).__name__} that it keeps")
            return Change(self.holder, key, f"attribute {key!r} of {what}")
        if self.is_file:
            return Change(self.container, key, f"global {key!r}")
        kind = type(self.container).__name__.replace("_", " ")
        what = f"{kind} that it keeps"
        return Change(self.container, key, what if key is None else f"entry {key!r} of {_article(what)}")


@contextlib.contextmanager
def containers_kept(
    model: Any, changed: Callable[[Change], Any], *, alone: bool = False, watched: bool = True
) -> Iterator[None]:
    """Around a run of the model. `changed` is told what is another one than before; if the run is not watched, nobody
    asks for that.

    A run that is alone in the process has made every tensor that was put in; otherwise only those in `MADE` are ours.
    """
    kept = list(_found(model))
    kinds = [(kind, vars(kind).copy()) for kind in _classes(model)]
    reach = reach_of(model)
    functions = [*reach.first, *reach.keepers]
    bare = [each for each in functions if not each.__dict__]
    environment = dict(os.environ)
    variables = [(*each, each[1].cell_contents) for function in functions for each in closed_over(function)]
    try:
        yield
    finally:
        kept += [_Kept(each.__dict__, {}, is_own=False, holder=each) for each in bare if each.__dict__]
        for each in kept if watched else ():
            if _has_moved(each):
                changed(each.change(None))
        for name in {name for name, _ in environment.items() ^ dict(os.environ).items()} if watched else ():
            changed(Change(os.environ, name, f"environment variable {name!r}"))
        cleaned = [_anew(each) for each in kept]
        for each in cleaned if alone else ():
            if not each.is_watched:
                _note_made(each)
        for each in cleaned:
            if isinstance(each.container, dict):
                _clean_mapping(each, changed)
            elif isinstance(each.container, set):
                each.container.difference_update([value for value in list(each.container) if each.is_ours(value)])
            elif isinstance(each.container, SEQUENCES):
                _clean_sequence(each, changed)
        for kind, before in kinds:
            _clean_class(kind, before, changed)
        for name, cell, value in variables:
            if cell.cell_contents is not value and (
                _is_ours(cell.cell_contents) or _is_plain_change(value, cell.cell_contents)
            ):
                changed(Change(cell, "cell_contents", f"variable {name!r}"))


def _anew(kept: _Kept) -> _Kept:
    """The same with the attributes that an object without a dict has now."""
    return replace(kept, container=_Slots(kept.holder)) if isinstance(kept.container, _Slots) else kept


def _has_moved(kept: _Kept) -> bool:
    """Whether something came into a container or left it, or an array or an iterator is another one now.

    The attributes of an object, and the globals of a file, are looked at one by one.
    """
    if kept.has_names:
        return False
    if has_state(kept.container):
        now = state_of(kept.container)
        return bool(now is UNKNOWN or now != kept.before)
    present, before = kept.container.copy(), kept.before
    if isinstance(present, set):
        return bool(present != before)
    if isinstance(present, dict):
        if len(present) == len(before) and all(map(operator.is_, present.values(), before.values())):
            return False
        return present.keys() != before.keys() or not all(_is_kept(present[key], before[key]) for key in before)
    return len(present) != len(before) or not (
        all(map(operator.is_, present, before)) or all(map(_is_kept, present, before))
    )


def _is_kept(now: Any, before: Any) -> bool:
    """Whether an entry is the same; that a plain value is another one is told of the entry, not of the container."""
    return now is before or (type(now) in SIMPLE and type(before) in SIMPLE)


def _clean_class(kind: type, before: dict[str, Any], changed: Callable[[Change], Any]) -> None:
    for name, value in vars(kind).copy().items():
        old = before.get(name, _NOTHING)
        if value is old:
            continue
        if _is_ours(value) or type(value) in SIMPLE:
            changed(Change(kind, name, f"class attribute {name!r}", kind=kind))
        if _is_ours(value):
            setattr(kind, name, before[name]) if name in before else delattr(kind, name)


def _article(name: str) -> str:
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _note_made(kept: _Kept) -> None:
    """Count the tensors that came into a container as made by us."""

    def note(value: Any) -> bool:
        if isinstance(value, torch.Tensor) and is_plain(value):
            MADE.add(value)
        return False  # go on

    if has_state(kept.container):
        return
    before = kept.before.values() if isinstance(kept.before, dict) else kept.before
    present = kept.container.copy()
    known = {id(each) for each in before}
    for value in present.values() if isinstance(present, dict) else present:
        if id(value) not in known:
            _holds(value, note)


def _found(model: Any) -> Iterator[_Kept]:
    """The containers that the model's modules, classes and files have, and those inside of them."""
    module, theirs = owner(model), packages(model)
    modules = [each for each in module.modules() if not is_interpreted(each)] if module else []
    seen = {id(vars(builtins)), *(id(vars(each)) for each in modules)}
    for each in modules:
        own = [value for name, value in vars(each).copy().items() if name not in REGISTRIES]
        if own:
            yield from _inside(own, theirs, seen, is_own=True)
    for kind in _classes(model):
        yield from _inside(list(vars(kind).values()), theirs, seen, is_own=False)
    for names in namespaces(model):
        if id(names) not in seen:
            seen.add(id(names))
            yield _Kept(names, names.copy(), is_own=False, is_file=True)
    reach = reach_of(model)
    files = {id(each.__globals__): each.__globals__ for each in reach.first}
    named, closed = _named(reach, theirs)
    beside = (value for names in files.values() for value in list(names.values()))
    yield from _inside((*beside, *named), theirs, seen, is_own=False)
    for function in (*reach.first, *reach.keepers):
        if function.__dict__ and id(function) not in seen:
            seen.add(id(function))
            yield _Kept(function.__dict__, function.__dict__.copy(), is_own=False, holder=function)
    yield from (replace(each, is_watched=True) for each in _inside(closed, theirs, seen, is_own=False))


def _named(reach: Reach, theirs: set[str]) -> tuple[list[Any], list[Any]]:
    """What a run may change of the globals that code names, and of what functions keep by themselves."""
    if "named" not in reach.memo:
        kept = [value for each in (*reach.first, *reach.keepers) for value in kept_by_function(each)]
        both = (reach.values, kept)
        reach.memo["named"] = tuple([each for each in values if _has_content(each, theirs)] for values in both)
    found: tuple[list[Any], list[Any]] = reach.memo["named"]
    return found


def _has_content(value: Any, theirs: set[str]) -> bool:
    return type(value) in CONTAINERS or has_state(value) or _is_plain_object(value, type(value), theirs)


def _classes(model: Any) -> list[type]:
    """The classes of the model's modules, and those that its code names."""
    memo = reach_of(model).memo
    if "classes" not in memo:
        memo["classes"] = list(dict.fromkeys((*classes(model), *reach_of(model).classes)))
    found: list[type] = memo["classes"]
    return found


def _inside(values: Iterable[Any], theirs: set[str], seen: set[int], *, is_own: bool) -> Iterator[_Kept]:
    waiting = [(value, _DEEPEST) for value in values]
    while waiting:
        value, depth = waiting.pop()
        kind = type(value)
        holder = None
        if has_state(value):
            if id(value) not in seen:
                seen.add(id(value))
                yield _Kept(value, state_of(value), is_own)
            continue
        if kind not in CONTAINERS:
            if not _is_plain_object(value, kind, theirs):
                continue
            holder, value = value, _attributes(value)
        key = id(value if holder is None else holder)
        if key in seen:
            continue
        seen.add(key)
        yield _Kept(value, value.copy(), is_own, holder=holder)
        if depth:
            content = value.values() if isinstance(value, dict) else value
            waiting += [(each, depth - 1) for each in list(content) if type(each) not in SIMPLE]


def _is_plain_object(value: Any, kind: type, theirs: set[str]) -> bool:
    """Whether a value is an object of a class of the model's own packages, with attributes."""
    if kind is types.SimpleNamespace:
        return True
    if kind.__module__.partition(".")[0] not in theirs or isinstance(value, (type, torch.nn.Module)):
        return False
    return type(getattr(value, "__dict__", None)) is dict or bool(_slots(kind))


class _Slots(dict[str, Any]):
    """The attributes of an object that has no dict: a copy, which writes to the object as well."""

    def __init__(self, of: Any) -> None:
        super().__init__({name: getattr(of, name) for name in _slots(type(of)) if hasattr(of, name)})
        self._of = of

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        setattr(self._of, name, value)

    def pop(self, name: str, *default: Any) -> Any:
        delattr(self._of, name)
        return super().pop(name, *default)


def _slots(kind: type) -> list[str]:
    found = [vars(each).get("__slots__", ()) for each in kind.__mro__]
    names = [name for each in found for name in ((each,) if isinstance(each, str) else each)]
    return [name for name in names if not name.startswith("__")]


def _attributes(value: Any) -> dict[str, Any]:
    return vars(value) if hasattr(value, "__dict__") else _Slots(value)


def _clean_mapping(kept: _Kept, changed: Callable[[Change], Any]) -> None:
    present, before = kept.container, kept.before
    values = list(present.values())
    if len(values) == len(before) and all(map(operator.is_, values, before.values())):
        return
    for key, value in present.copy().items():  # at once: other threads write to it meanwhile
        old = before.get(key, _NOTHING)
        if value is old:
            continue
        if kept.has_names and (kept.is_ours(value) or ((old is None or old is _NOTHING) and type(value) in SIMPLE)):
            changed(kept.change(key))
        if kept.is_ours(key) or kept.is_ours(value):
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
    new = [each for each in list(present) if id(each) not in known and kept.is_ours(each)]
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
