"""Python's own variables: numbers that the code around a question changes from one time to the next.

`i += 1` in a `while` leaves no trace in a run, and neither does the `i < 1000` that ends it. So the variables of the
functions that are running are looked at whenever a question is asked. Those that have changed since the last time are,
in the runs that follow, numbers that are followed.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..sizes import SYMBOLIC
from .items import At, CannotExplore, Counter, Place

if TYPE_CHECKING:
    from .recorder import Recorder

_WRITES_THROUGH = sys.version_info >= (3, 13)  # whether Python takes over what is written to the variables of a frame
_NUMBERS = (int, float)


class Variables:
    """The numbers in variables of one run, and the lengths of lists, at every question."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._seen: dict[tuple[Place, int, str], list[tuple[int, Any]]] = {}  # each with the call of the function
        self._growing: dict[int, list[Any]] = {}  # by identity: lists whose lengths are followed

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
                _write(frame, names, followed)

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


def _write(frame: FrameType, names: Any, changed: dict[str, Any]) -> None:
    """Give variables of a function that is running other values."""
    names.update(changed)
    if not _WRITES_THROUGH:
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
