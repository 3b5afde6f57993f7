"""Which of the axes that need not be dynamic (`Dim.AUTO`) the model lets vary.

A model that refuses other sizes does not say which axis it minds. So the axes are tried in groups: those that stand at
the same place and have the same size in the example first, as batches of several inputs do; then those of the same
size; then each alone. What works together with all that worked before stays.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from ..errors import CaptureError
from .inputs import example_sizes
from .run import Request


def unwilling(request: Request, capture: Callable[[Request], Any]) -> set[str]:
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


def _works(request: Request, capture: Callable[[Request], Any]) -> bool:
    try:
        capture(request)
    except CaptureError:
        return False
    return True
