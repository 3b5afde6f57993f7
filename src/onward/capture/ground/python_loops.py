"""What the code of a function says about its loops."""

from __future__ import annotations

import dis
import functools
import itertools
from types import CodeType


def is_called_for_a_loop(code: CodeType, place: int) -> bool:
    """Whether a function that is called at a place gives something to go through, and to do nothing else with."""
    return place in _looped_over(code)


@functools.lru_cache(maxsize=1024)
def _looped_over(code: CodeType) -> frozenset[int]:
    steps = [each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "PRECALL")]
    calls = [(a, b) for a, b in itertools.pairwise(steps) if a.opname.startswith("CALL") and b.opname == "GET_ITER"]
    return frozenset(place for a, b in calls for place in range(a.offset, b.offset))


def is_in_for(code: CodeType, place: int) -> bool:
    """Whether the innermost loop around a place is a `for`, which ends with what it goes through."""
    around = [each for each in _loops(code) if each[0] <= place <= each[1]]
    return bool(around) and min(around, key=lambda each: each[1] - each[0])[2]


@functools.lru_cache(maxsize=1024)
def _loops(code: CodeType) -> tuple[tuple[int, int, bool], ...]:
    """Of every loop in a function: where it begins and where it ends, and whether it is a `for`."""
    steps = {each.offset: each for each in dis.get_instructions(code)}
    ends: dict[int, int] = {}
    for each in steps.values():
        if "JUMP" in each.opname and type(each.argval) is int and each.argval <= each.offset:
            ends[each.argval] = max(ends.get(each.argval, 0), each.offset)
    return tuple((begin, end, steps[begin].opname == "FOR_ITER") for begin, end in ends.items())
