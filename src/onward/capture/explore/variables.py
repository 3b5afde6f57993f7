"""Python's own variables: numbers that the code around a question changes from one time to the next.

`i += 1` in a `while` leaves no trace in a run, and neither does the `i < 1000` that ends it. So the variables of the
functions that are running are looked at whenever a question is asked. Those that have changed since the last time are,
in the runs that follow, numbers that are followed.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from types import FrameType, GeneratorType, ModuleType
from typing import Any, Protocol

import torch

from ..ground.frames import write_variables
from ..sizes.sizes import SYMBOLIC, Size
from .items import At, CannotExplore, Counter, Place

_NUMBERS = (int, float)
_MOST_HELD = 256  # numbers of one container that are looked at


class Numbers(Protocol):
    """The numbers of a run that are followed."""

    def index(self, number: int) -> Any:
        """A plain number, as one that is followed."""

    def is_without_data(self, size: Size) -> bool:
        """Whether a number is computed from sizes, numbers of turns and variables alone."""


class Variables:
    """The numbers in variables of one run, and the lengths of lists, at every question."""

    def __init__(self, recorder: Numbers) -> None:
        self._recorder = recorder
        self._seen: dict[tuple[Place, int, str], list[tuple[int, Any]]] = {}  # each with the call of the function
        self._growing: dict[int, list[Any]] = {}  # by identity: lists whose lengths are followed
        self._held: dict[Any, tuple[Any, dict[Any, Any]]] = {}

    def look(
        self, at: At, frames: Sequence[tuple[FrameType, int]], counters: frozenset[Counter], *, in_turn: bool
    ) -> None:
        """A question was asked: note the numbers around it, and follow those that are to be followed.

        `in_turn` says that a loop asks again after a turn: whatever a turn computes from a number that is followed, is
        followed too, so a plain one has come from elsewhere.
        """
        wanted = {(level, name) for place, level, name in counters if place == at.place}
        for level, (frame, call) in enumerate(frames):
            names = frame.f_locals
            followed = {}
            for name, value in names.items():
                self._check_held(at.place, name, value, in_turn)
                number = self._number(value)
                if number is None:
                    continue
                seen = self._seen.setdefault((at.place, level, name), [])
                seen.append((call, number))
                if (level, name) not in wanted:
                    continue
                if type(value) is list:
                    self._growing[id(value)] = value
                elif type(value) in _NUMBERS:
                    begins_anew = (call, number) in seen[:1]
                    if in_turn and len(seen) > 1 and seen[-2] != seen[-1] and not begins_anew:
                        raise CannotExplore(f"`{name}` changes from turn to turn in a way that is not followed")
                    followed[name] = self._recorder.index(number)
            if followed:
                write_variables(frame, followed)

    def _check_held(self, place: Place, name: str, value: Any, in_turn: bool) -> None:
        """Refuse numbers in a list, a dict or an object that change from turn to turn: they are not followed."""
        held = _numbers_in(value)
        key = (place, id(value))
        before = self._held.get(key)
        self._held[key] = (value, held)
        if in_turn and before is not None and any(held.get(each, old) != old for each, old in before[1].items()):
            raise CannotExplore(f"a number that `{name}` holds changes from turn to turn, which is not followed")

    def _number(self, value: Any) -> Any:
        """The number in a variable, unless data says which one it is; of a list, its length."""
        if type(value) in _NUMBERS:
            return value
        if type(value) is list:
            return len(value)
        if isinstance(value, SYMBOLIC) and not value.node.is_bool() and value.node.from_data:
            return value.node.values[0] if self._recorder.is_without_data(value.node) else None
        return None

    def changing(self) -> frozenset[Counter]:
        """The variables that had another value when a question was asked again in the same call of a function."""
        found = set()
        for (place, level, name), seen in self._seen.items():
            pairs = [(a[1], b[1]) for a, b in itertools.pairwise(seen) if a[0] == b[0]]
            if any(a != b for a, b in pairs):
                found.add((place, level, name))
        return frozenset(found)

    def length(self, value: list[Any]) -> Any:
        """The length of a list: of one that grows with the turns of a loop, a number that is followed."""
        return self._recorder.index(len(value)) if id(value) in self._growing else len(value)

    def forget(self) -> None:
        """Let go of what belongs to the model."""
        self._growing.clear()
        self._held.clear()


def _numbers_in(value: Any) -> dict[Any, Any]:
    """The plain numbers in a list, in a dict, or in an object; of an iterator, what is left of it."""
    if hasattr(type(value), "__length_hint__"):
        return {"left": operator.length_hint(value)}
    if isinstance(value, GeneratorType):
        pairs: Any = () if value.gi_frame is None else value.gi_frame.f_locals.items()
    elif type(value) is list:
        pairs = enumerate(value[:_MOST_HELD])
    elif type(value) is dict:
        pairs = itertools.islice(value.items(), _MOST_HELD)
    elif isinstance(value, (torch.Tensor, type, ModuleType)) or not hasattr(value, "__dict__"):
        return {}
    else:
        pairs = itertools.islice(vars(value).items(), _MOST_HELD)
    return {key: number for key, number in pairs if type(number) in _NUMBERS}
