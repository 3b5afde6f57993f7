"""The points at which expressions of sizes are compared.

A point gives every dynamic axis a size. Nothing is run there: a size is a formula of the axes, and it is evaluated at
all points. Two sizes that agree at every point are taken for one, and a question that every point answers alike is
taken for settled. So points have to be where formulas part: small sizes, sizes around the example's, powers of two and
their neighbors, round numbers, large primes, all axes equal, and every mixture.

A point is dead from the moment on at which the model refuses its sizes: it says nothing about the rest of the trace.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from ..ground.axes import AxisSpace

Sizes = dict[str, int]

_MOST = 160  # points in one trace
_OF_DATA = 24  # points where no axis is dynamic: sizes that depend on data differ there
_SMALL = tuple(range(1, 18))
_MEDIUM = (20, 23, 24, 25, 27, 31, 32, 33, 36, 40, 47, 48, 49, 50, 63, 64, 65, 81, 96, 99, 100, 101, 127, 128, 129)
_LARGE = (144, 196, 223, 224, 225, 255, 256, 257, 384, 511, 512, 513, 576, 768, 1000, 1023, 1024, 1025, 1500, 2047)
_HUGE = (2048, 2049, 3000, 4095, 4096, 4097, 8191, 8192, 10007, 16384, 32768, 65537, 100003)
_JOINT = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 21, 32, 45, 64, 77, 101, 128, 251, 509)


def points_for(example: Mapping[str, int], space: AxisSpace) -> list[Sizes]:
    """The points of a trace whose independent axes have these sizes in the example."""
    if not example:
        return [{} for _ in range(_OF_DATA)]
    found: dict[tuple[int, ...], Sizes] = {}
    for sizes in _proposed(example):
        if len(found) == _MOST:
            break
        key = tuple(sizes.values())
        if key not in found and space.allows(sizes):
            found[key] = sizes
    return list(found.values())


def _proposed(example: Mapping[str, int]) -> Iterator[Sizes]:
    """Points in the order of their worth. Every axis alone, all of them together, and mixtures take turns."""
    if not example:
        return
    kinds = [_together(example), _mixed(example), *(_alone(example, axis) for axis in example)]
    while kinds:
        for kind in list(kinds):
            sizes = next(kind, None)
            if sizes is None:
                kinds.remove(kind)
            else:
                yield sizes


def _alone(example: Mapping[str, int], axis: str) -> Iterator[Sizes]:
    """One axis at other sizes, the others as in the example."""
    own = example[axis]
    near = (own + 1, own - 1, 2 * own, own + 2, own - 2, 2 * own + 1, own // 2, 3 * own, 4 * own, own + 4, own - 4)
    others = [size for name, size in example.items() if name != axis]
    by_worth = (1, 2, 3, *near, 5, 4, *others, 7, 100003, 6, 33, 64, 129, 8, 512, 4097, *_SMALL, *_MEDIUM)
    for size in dict.fromkeys((*by_worth, *_LARGE, *_HUGE)):
        if size > 0 and size != own:
            yield {**example, axis: size}


def _together(example: Mapping[str, int]) -> Iterator[Sizes]:
    """All axes equal, and all as much larger or smaller than in the example."""
    if len(example) == 1:
        return
    for size in (1, 2, 3, 4, 5, 6, 7, 8, 16, 33):
        yield dict.fromkeys(example, size)
        moved = {axis: own + size for axis, own in example.items()}
        yield moved
        if size < min(example.values()):
            yield {axis: own - size for axis, own in example.items()}


def _mixed(example: Mapping[str, int]) -> Iterator[Sizes]:
    """Every axis at a size of its own."""
    if len(example) == 1:
        return
    draw = random.Random(len(example))
    for number in range(80):
        most = 8 if number % 2 else len(_JOINT)
        yield {axis: draw.choice(_JOINT[:most]) for axis in example}
