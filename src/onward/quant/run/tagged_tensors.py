"""The tensors of one run of a quantised model and what is said of them (`tags.py`), also when they are written to."""

from __future__ import annotations

import enum
import functools
import weakref
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree

from ..grids.grid import Grid
from .tags import ATTRIBUTE, Entered, Memory, OnGrid, Overwritten, Pending, Tag, count_write, counted, version_of


class Phase(enum.Enum):
    CALIBRATE = enum.auto()
    TRAIN = enum.auto()
    EXACT = enum.auto()


class Tagged:
    """A run, as far as its tensors go."""

    def __init__(self, phase: Phase) -> None:
        self.phase = phase
        self._version = counted if phase is Phase.TRAIN else version_of  # what is trained is not captured
        self._token = object()  # what tags of this run know it by
        self._overwrote = False  # whether a waiting result was changed in place
        self._outside: list[weakref.ref[Tensor]] = []  # tensors with tags that the caller may keep
        self._said: list[weakref.ref[Pending | Entered | Overwritten]] = []  # of tensors that autograd may keep

    def tag(self, x: Tensor) -> Tag | None:
        """What a tensor says about itself in this run, unless it was written to since."""
        tag: Tag | None = getattr(x, ATTRIBUTE, None)
        if tag is None or tag.run is not self._token:
            return None
        if isinstance(tag, OnGrid):
            memory = tag.memory
            is_as_it_was = tag.version == self._version(x) and (memory is None or memory.writes == tag.writes)
            return tag if is_as_it_was else None
        if isinstance(tag, Overwritten):
            return tag
        if isinstance(tag, Entered) and tag.version != self._version(x):
            return None
        settled = tag.settled
        if settled is None or settled is x or isinstance(self.tag(settled), OnGrid):
            return tag
        return Overwritten(settled)  # a view was written to

    def put(self, x: Tensor, tag: Tag | None) -> Tensor:
        """Let it say something else, of the state that it is in."""
        if tag is None:
            if hasattr(x, ATTRIBUTE):
                delattr(x, ATTRIBUTE)
            return x
        tag.run = self._token
        if isinstance(tag, OnGrid):
            tag.version = self._version(x)
            if tag.memory is not None:
                tag.writes = tag.memory.writes
        else:
            if self.phase is Phase.TRAIN:
                self._said.append(weakref.ref(tag))  # a tensor that nobody keeps goes at once
            if isinstance(tag, Entered):
                tag.version = self._version(x)
                self._outside.append(weakref.ref(x))
            elif isinstance(tag, Overwritten):
                self._overwrote = True
        setattr(x, ATTRIBUTE, tag)
        return x

    def forget(self) -> None:
        """At the end of a run. A tensor before its grid says which one it is on that grid, which autograd computes its
        gradient from: Python does not see that this is a circle, and would keep both for ever."""
        for said in self._said:
            if (tag := said()) is not None:
                tag.forget()
        self._said.clear()
        for place in self._outside:
            if (x := place()) is not None:
                self.put(x, None)
        self._outside.clear()

    def has_grid(self, x: Tensor) -> bool:
        """Whether a tensor lies on a grid, or is about to."""
        return self.tag(x) is not None

    def is_on_grid(self, x: Any) -> bool:
        """Whether a value needs no quantising (any more)."""
        return isinstance(x, Tensor) and isinstance(self.tag(x), OnGrid)

    def integers(self, x: Tensor) -> tuple[Tensor, Grid] | None:
        """The integers of a settled tensor and their grid; None in training, and for what lies on no grid."""
        tag = self.tag(x)
        if isinstance(tag, OnGrid) and tag.integers is not None and tag.grid is not None:
            return tag.integers, tag.grid
        return None

    def written(self, x: Tensor, tag: Tag | None = None) -> Tensor:
        """A tensor was written to: it is what the tag says, and views of it have lost their grids."""
        self._overwrote = self._overwrote or x.is_floating_point()  # not for a counter, such as that of a batch norm
        count_write(x)
        before: Tag | None = getattr(x, ATTRIBUTE, None)  # true no longer, but it knows of the views
        memory: Memory | None = Memory()  # there may be views from when it lay on no grid
        if isinstance(before, OnGrid) and before.run is self._token:
            memory = before.memory
        if memory is not None:
            memory.writes += 1
        return self.put(x, replace(tag, memory=memory) if isinstance(tag, OnGrid) else tag)

    def is_replaceable(self, tag: Tag | None) -> bool:
        """Whether another tensor may take the place of one that is to be written to: no view of it has to see that, and
        it is our own, as in training all are that lie on a grid. There autograd may have kept what is there."""
        if isinstance(tag, Pending):
            if tag.is_viewed:
                return False
            tag = None if tag.settled is None else self.tag(tag.settled)
        elif self.phase is not Phase.TRAIN or not isinstance(tag, OnGrid):
            return False
        return not (isinstance(tag, OnGrid) and tag.memory is not None)

    def current(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Arguments with what was changed in place as it is now."""
        if not self._overwrote or not self._has_changed((*args, *kwargs.values())):
            return args, kwargs
        changed: tuple[tuple, dict[str, Any]] = pytree.tree_map_only(Tensor, self._now, (args, kwargs))
        return changed

    def _has_changed(self, values: Iterable[Any]) -> bool:
        return any(
            isinstance(self.tag(each), Overwritten)
            if isinstance(each, Tensor)
            else isinstance(each, (list, tuple)) and self._has_changed(each)
            for each in values
        )

    def _now(self, x: Tensor) -> Tensor:
        while isinstance(tag := self.tag(x), Overwritten):
            x = tag.now
        return x


@functools.lru_cache(4096)
def writes(func: Any) -> bool:
    """Whether a function changes its first argument: add_, __iadd__, __setitem__."""
    name = getattr(func, "__name__", "")
    if name.startswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and name in _IN_PLACE)
    return name.endswith("_")


_IN_PLACE = frozenset(
    f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "div", "and", "or", "xor", "pow", "lshift", "rshift")
)


def tensors_in(args: tuple, kwargs: dict[str, Any]) -> list[Tensor]:
    """Those that a function gets, also in lists."""
    found: list[Tensor] = []
    for each in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(each, Tensor):
            found.append(each)
        elif isinstance(each, (list, tuple)):
            found += [one for one in each if isinstance(one, Tensor)]
    return found
