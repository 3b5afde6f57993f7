"""The tensors of one run of a quantized model, and what they say about themselves (`states.py`)."""

from __future__ import annotations

import enum
import functools
import weakref
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree

from ...capture.memory.versions import count_write, counted, version_of
from ..grids.grid import Grid
from .states import ATTRIBUTE, Entered, Label, Memory, OnGrid, Overwritten, Pending, State


class Phase(enum.Enum):
    CALIBRATE = enum.auto()
    TRAIN = enum.auto()
    EXACT = enum.auto()


class Tensors:
    """The tensors of one run of a quantized model: what is said of them, also when they are written to."""

    def __init__(self, phase: Phase) -> None:
        self.phase = phase
        self._version = counted if phase is Phase.TRAIN else version_of  # what is trained is not captured
        self._token = object()  # what labels of this run know it by
        self._overwrote = False  # whether a waiting result was changed in place
        self._outside: list[weakref.ref[Tensor]] = []  # tensors with labels that the caller may keep
        self._labels: list[weakref.ref[Label]] = []  # of tensors that autograd may keep

    def label(self, x: Tensor) -> Label | None:
        """The label of a tensor, unless it was written to since."""
        label: Label | None = getattr(x, ATTRIBUTE, None)
        if label is None or label.run is not self._token:
            return None
        state, memory = label.state, label.memory
        if isinstance(state, OnGrid):
            is_as_it_was = label.version == self._version(x) and (memory is None or memory.writes == label.writes)
            return label if is_as_it_was else None
        return None if isinstance(state, Entered) and label.version != self._version(x) else label

    def tag(self, x: Tensor) -> State | None:
        """What a tensor says about itself in this run, unless it was written to since."""
        label = self.label(x)
        if label is None:
            return None
        state = label.state
        if isinstance(state, (OnGrid, Overwritten)):
            return state
        settled = state.settled
        if settled is None or settled is x or isinstance(self.tag(settled), OnGrid):
            return state
        return Overwritten(settled)  # a view was written to

    def has_changed_since(self, x: Tensor, then: Label | None) -> bool:
        """Whether a tensor was written to since it had a label."""
        return self.label(x) is not then or (then is not None and self.tag(x) is not then.state)

    def put(self, x: Tensor, state: State | None, memory: Memory | None = None) -> Tensor:
        """Let a tensor say something new, of the values that it has now."""
        if state is None:
            if hasattr(x, ATTRIBUTE):
                delattr(x, ATTRIBUTE)
            return x
        version = self._version(x) if isinstance(state, (OnGrid, Entered)) else None
        label = Label(self._token, state, version, memory)
        if not isinstance(state, OnGrid):
            if self.phase is Phase.TRAIN:
                self._labels.append(weakref.ref(label))  # a tensor that nobody keeps goes at once
            if isinstance(state, Entered):
                self._outside.append(weakref.ref(x))
            elif isinstance(state, Overwritten):
                self._overwrote = True
        setattr(x, ATTRIBUTE, label)
        return x

    def learn(self, x: Tensor, **changes: Any) -> Tensor:
        """Add to what a tensor says of itself, whose values have not changed."""
        label: Label = getattr(x, ATTRIBUTE)
        label.state = label.state._replace(**changes)
        return x

    def shared(self, x: Tensor) -> Memory:
        """The memory of a tensor on a grid, for a view of it."""
        label: Label = getattr(x, ATTRIBUTE)
        return label.shared()

    def forget(self) -> None:
        """At the end of a run. A tensor before its grid says which one it is on that grid, which autograd computes its
        gradient from: Python does not see that this is a circle, and would keep both for ever."""
        for place in self._labels:
            if (label := place()) is not None:
                label.run, label.state = None, OnGrid()
        self._labels.clear()
        for outside in self._outside:
            if (x := outside()) is not None:
                self.put(x, None)
        self._outside.clear()

    def has_grid(self, x: Tensor) -> bool:
        """Whether a tensor lies on a grid, or is about to."""
        return self.tag(x) is not None

    def is_on_grid(self, x: Any) -> bool:
        """Whether a value needs no quantizing (any more)."""
        return isinstance(x, Tensor) and isinstance(self.tag(x), OnGrid)

    def integers(self, x: Tensor) -> tuple[Tensor, Grid] | None:
        """The integers of a settled tensor and their grid; None in training, and for what lies on no grid."""
        tag = self.tag(x)
        if isinstance(tag, OnGrid) and tag.integers is not None and tag.grid is not None:
            return tag.integers, tag.grid
        return None

    def written(self, x: Tensor, state: State | None = None) -> Tensor:
        """A tensor was written to: it is what the state says, and views of it have lost their grids."""
        self._overwrote = self._overwrote or x.is_floating_point()  # not for a counter, such as that of a batch norm
        count_write(x)
        before: Label | None = getattr(x, ATTRIBUTE, None)  # true no longer, but it knows of the views
        memory: Memory | None = Memory()  # there may be views from when it lay on no grid
        if before is not None and isinstance(before.state, OnGrid) and before.run is self._token:
            memory = before.memory
        if memory is not None:
            memory.writes += 1
        return self.put(x, state, memory if isinstance(state, OnGrid) else None)

    def is_replaceable(self, x: Tensor) -> bool:
        """Whether another tensor may take the place of one that is to be written to: no view of it has to see that, and
        it is our own, as in training all are that lie on a grid. There autograd may have kept what is there."""
        tag, place = self.tag(x), x
        if isinstance(tag, Pending):
            if tag.is_viewed:
                return False
            tag, place = (None, x) if tag.settled is None else (self.tag(tag.settled), tag.settled)
        elif self.phase is not Phase.TRAIN or not isinstance(tag, OnGrid):
            return False
        label = self.label(place)
        return not (isinstance(tag, OnGrid) and label is not None and label.memory is not None)

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
    """The tensors that a function gets, also in lists."""
    found: list[Tensor] = []
    for each in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(each, Tensor):
            found.append(each)
        elif isinstance(each, (list, tuple)):
            found += [one for one in each if isinstance(one, Tensor)]
    return found
