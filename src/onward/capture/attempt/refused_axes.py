"""Axes that do not vary as asked, and may vary otherwise.

A model that refuses other sizes does not say which axis it minds. Two things are tried. An axis may be the sum of two
others, as a mask is as long as past and present together. And of the axes that need not be dynamic (`Dim.AUTO`) some
may have to stay as they are: they are tried in groups, first those that stand at the same place and have the same size
in the example, as batches of several inputs do, then those of the same size, then each alone. What works together with
all that worked before stays.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from ...errors import CaptureError, FrozenAxisError, LoweringError
from ..call.inputs import example_sizes
from ..ground.axes import Formula
from ..program.facts import caution
from ..record.explained_errors import places_of
from .run import Request

Capture = Callable[[Request], Any]
_MOST_SUMS = 4


def as_a_sum(request: Request, error: CaptureError, capture: Capture) -> tuple[str, Formula] | None:
    """An axis that the model lets vary as the sum of two others, and not alone."""
    concerned = set(error.axes) if isinstance(error, FrozenAxisError) else None
    for total, formula in itertools.islice(_sums(request, concerned), _MOST_SUMS):
        if _works(request.following({total: formula}), capture):
            return total, formula
    return None


def sum_note(total: str, formula: Formula, request: Request) -> str:
    return caution(
        f"{places_of(total, request.axes)}, {total!r}, is taken for {formula}, which it is in the example: the model "
        "refuses other sizes",
        "The file takes inputs for which that holds",
        f"name the axis {str(formula)!r}, which says the same",
    )


def _sums(request: Request, concerned: set[str] | None) -> Iterator[tuple[str, Formula]]:
    """Axes that are the sum of two others in the example."""
    example, space = request.example_sizes(), request.space
    involved = {*space.bounds, *(name for formula in space.formulas.values() for name in formula.names)}
    for total in (name for name in example if name not in involved):
        for pair in itertools.combinations([name for name in example if name != total], 2):
            if concerned is not None and not {total, *pair} <= concerned:
                continue
            if sum(example[name] for name in pair) == example[total]:
                yield total, Formula(tuple((name, 1) for name in pair))


def unwilling(request: Request, capture: Capture) -> set[str]:
    """The optional axes that the model does not let vary; none if it would not work without them either."""
    places = {axis: place for named in request.axes.values() for place, axis in named.items()}
    sizes = example_sizes(request.call, request.axes)
    left = [axis for axis in sizes if axis in request.space.optional]
    if not left or not _works(request.without(left), capture):
        return set()
    groupings: tuple[Callable[[str], Hashable], ...] = (
        lambda axis: (places[axis], sizes[axis]),
        lambda axis: sizes[axis],
        lambda axis: axis,
    )
    tried: set[frozenset[str]] = set()
    for grouping in groupings:
        for group in _grouped(left, grouping):
            rest = [axis for axis in left if axis not in group]
            key = frozenset(rest)
            if key not in tried and _works(request.without(rest), capture):
                left = rest
            tried.add(key)
    return set(left)


def _grouped(axes: Iterable[str], key: Callable[[str], Hashable]) -> list[list[str]]:
    groups: dict[Hashable, list[str]] = {}
    for axis in axes:
        groups.setdefault(key(axis), []).append(axis)
    return list(groups.values())


def _works(request: Request, capture: Capture) -> bool:
    try:
        capture(request)
    except (CaptureError, LoweringError):
        return False
    return True
