"""Two runs that part at a decision and meet again: what they do behind the meeting point is one and the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from .items import (
    Block,
    Branch,
    Calc,
    CannotExplore,
    Const,
    Decision,
    Op,
    Piece,
    Raw,
    Ref,
    SizeOf,
    Turn,
    leaf_key,
    made_by,
)

Pair = tuple[Any, Any]  # leaves that stand in the same place of two runs


def pairs_of(one: Any, other: Any) -> Iterator[Pair] | None:
    """The leaves of two templates, side by side; None if the templates differ in more than values."""
    found: list[Pair] = []
    return iter(found) if _collect(one, other, found) else None


def _collect(one: Any, other: Any, found: list[Pair]) -> bool:
    if _is_value(one) or _is_value(other):
        return _collect_values(one, other, found)
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is SizeOf:
        found.append((Ref(one.value), Ref(other.value)))
        return bool(one.axis == other.axis)
    if kind is Calc:
        return one.function is other.function and _collect(one.operands, other.operands, found)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(_collect(a, b, found) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_collect(one[key], other[key], found) for key in one)
    return is_same(one, other)


def _is_value(leaf: Any) -> bool:
    return type(leaf) in (Ref, Const, Piece)


def _collect_values(one: Any, other: Any, found: list[Pair]) -> bool:
    if type(one) is Const and type(other) is Const and one.is_like(other):
        return True
    both = _is_value(one) and _is_value(other)
    number = isinstance(one, (int, float)) or isinstance(other, (int, float))  # one that a branch computes
    if _kind(one) is not _kind(other):
        return False
    if both or (number and type(one if _is_value(one) else other) is Ref):
        found.append((one, other))
        return True
    return False


def _kind(leaf: Any) -> type | None:
    """What a number is, for an operator may do something else with 1 than with 1.0; None for a tensor."""
    if _is_value(leaf):
        return leaf.kind if type(leaf) is Ref else None
    return type(leaf)


def is_same(one: Any, other: Any) -> bool:
    """Whether two plain arguments are the same: numbers, dtypes, names."""
    if type(one) is not type(other):
        return False
    if isinstance(one, numpy.ndarray):
        return bool(numpy.array_equal(one, other))
    return one is other or bool(one == other) or (isinstance(one, float) and one != one and other != other)


def item_pairs(one: Any, other: Any) -> list[Pair] | None:
    """What two items take and make, side by side; None if they are not the same thing done at the same place."""
    if type(one) is not type(other) or one.at.place != other.at.place:
        return None
    if isinstance(one, Op):
        if one.target is not other.target or len(one.outs) != len(other.outs):
            return None
        if any((a is None) != (b is None) for a, b in zip(one.outs, other.outs, strict=True)):
            return None
        if (one.pieces is None) != (other.pieces is None):
            return None
        found = pairs_of((one.args, dict(one.kwargs)), (other.args, dict(other.kwargs)))
    elif isinstance(one, Decision):
        found = pairs_of(one.predicate, other.predicate) if is_same(one.answer, other.answer) else None
    elif isinstance(one, Turn):
        same = (one.number, one.is_end, one.is_static) == (other.number, other.is_end, other.is_static)
        found = pairs_of(one.count, other.count) if same else None
    else:
        raise AssertionError(f"{type(one).__name__} is no part of a run")
    return None if found is None else list(found)


@dataclass
class Meeting:
    """Where two runs meet: as many items at their ends are the same, with these values in place of each other."""

    common: int
    values: dict[Any, Any]  # leaves of the first run by their key, and what stands for them in the second
    leaves: dict[Any, Any]  # the leaves themselves, by key


class Ambiguous(CannotExplore):
    """One value of the first run stands for two of the second: the second run tells them apart."""


def meet(one: Raw, other: Raw, at: int, most: int | None = None) -> Meeting:
    """The longest common end of two runs that part at an item, or one of at most so many items."""
    if one.form.paths != other.form.paths or len(one.results) != len(other.results):
        raise CannotExplore("the two ways return results that are nested differently")
    longest = min(len(one.items), len(other.items)) - at - 1
    most = longest if most is None else min(most, longest)
    found: list[list[Pair]] = []
    while len(found) < most:
        pairs = item_pairs(one.items[-1 - len(found)], other.items[-1 - len(found)])
        if pairs is None:
            break
        found.append(pairs)
    results = pairs_of(one.results, other.results)
    if results is None:
        raise CannotExplore("the two ways return plain values that differ")
    given = list(results)
    common = len(found)
    while True:
        fitting = min(_consistent(one, other, common, found, given), _of_one_rank(one, other, common, found))
        if fitting == common:
            break
        common = fitting
    values: dict[Any, Any] = {}
    leaves: dict[Any, Any] = {}
    first, second = (_made_at_the_end(run, common) for run in (one, other))
    for a, b in (*(pair for pairs in reversed(found[:common]) for pair in pairs), *given):  # in the order of use
        key = leaf_key(a)
        if _place(a, first) is not None and _place(b, second) is not None:
            continue
        if key is None:
            raise Ambiguous("a plain number stands for one that is computed")
        if key in values and leaf_key(values[key]) != leaf_key(b):
            raise Ambiguous("one tensor stands for two")
        values[key], leaves[key] = b, a
    return Meeting(common, values, leaves)


def _made_at_the_end(run: Raw, common: int) -> dict[int, tuple[int, int]]:
    """What the last items of a run make, and where. An operator in place makes nothing."""
    cut = len(run.items) - common
    before = set(run.inputs)
    for item in run.items[:cut]:
        before.update(made_by(item))
    found: dict[int, tuple[int, int]] = {}
    for place, item in enumerate(run.items[cut:]):
        if isinstance(item, Op):
            for number, out in enumerate((*item.outs, item.pieces)):
                if out is not None and out not in before:
                    found.setdefault(out, (place, number))
    return found


def _consistent(one: Raw, other: Raw, common: int, found: list[list[Pair]], results: list[Pair]) -> int:
    """How much of the common end is left if every value made in it is used alike in both."""
    first, second = (_made_at_the_end(run, common) for run in (one, other))
    least = common
    for pairs in (results, *found[:common]):
        for a, b in pairs:
            places = _place(a, first), _place(b, second)
            if places[0] != places[1]:
                for place in places:
                    if place is not None:
                        least = min(least, common - place[0] - 1)
    return least


def _of_one_rank(one: Raw, other: Raw, common: int, found: list[list[Pair]]) -> int:
    """How much of the common end is left if all tensors that it takes from the two ways have as many axes on both.

    An output of an `If` has one rank. So the ways meet behind the last use of a tensor that has not, where `reshape` or
    the like has made both alike.
    """
    for behind, pairs in enumerate(found[:common]):  # the last item first
        for a, b in pairs:
            first, second = one.sizes.get(leaf_key(a)), other.sizes.get(leaf_key(b))
            if first is not None and second is not None and len(first) != len(second):
                return behind
    return common


def _place(leaf: Any, made: dict[int, tuple[int, int]]) -> tuple[int, int] | None:
    value = leaf.value if type(leaf) is Ref else leaf.pieces if type(leaf) is Piece else None
    return None if value is None else made.get(value)


def joined(
    decision: Decision, meeting: Meeting, mine: Sequence[Any], theirs: Sequence[Any], fresh: Callable[[], int]
) -> tuple[Branch, dict[Any, int]]:
    """The branch, and what the values that differ are called behind it."""
    names: dict[Any, int] = {}
    one: list[Any] = []
    other: list[Any] = []
    for key, leaf in meeting.leaves.items():
        there = meeting.values[key]
        if leaf_key(there) != key or leaf_key(leaf) is None:
            names[key] = fresh()
            one.append(leaf)
            other.append(there)
    blocks = Block(tuple(mine), tuple(one)), Block(tuple(theirs), tuple(other))
    yes, no = blocks if decision.answer else blocks[::-1]
    return Branch(decision.predicate, yes, no, tuple(names.values()), decision.at, decision.expression), names
