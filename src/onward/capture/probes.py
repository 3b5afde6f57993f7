"""At which sizes to probe.

Probe 0 is the user's example. The others stretch every dynamic axis by its own factors, so that no two axes, and no
simple combinations of them, agree on all probes. Sizes of every kind come first, some of them no multiples of the
example: otherwise `width` and `width // 2 * 2` would look the same. A model that refuses those (pictures in patches, a
U-Net) is probed at multiples of the example, which keep its divisibility.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

PROBES = 4

# One row per axis, one column per probe. No row is a multiple of another, and neither are sums or products of rows.
_FACTORS = ((2, 3, 5), (3, 7, 2), (5, 2, 7), (7, 5, 3), (4, 9, 11), (9, 4, 13), (11, 13, 4), (13, 6, 9), (6, 11, 15))
_OFFSETS = ((1, 2, 4), (2, 5, 1), (3, 1, 7), (4, 3, 2), (5, 9, 3), (7, 4, 6), (9, 6, 5), (6, 8, 11), (8, 11, 9))
# Whether a probe differs from the example by an odd number: no two axes are even and odd together.
_PARITIES = ((0, 1, 1), (1, 0, 1), (1, 1, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 1))


@dataclass(frozen=True)
class Plan:
    """Sizes for one attempt: for each axis the example's size and the other probes'."""

    label: str
    sizes: dict[str, tuple[int, ...]]
    tied: dict[str, str]  # axes that this attempt takes for the same axis: {name: the name it follows}
    enlarged: frozenset[str] = frozenset()  # axes whose example is taken at another size
    other_side: bool = False  # only to be tried where the example is on the special side of a branch


def plans(example: dict[str, int]) -> Iterator[Plan]:
    """Attempts in the order in which they should be tried."""
    independent: dict[str, str] = {}
    tied = _tie(example)
    ones = frozenset(name for name, size in example.items() if size == 1)
    stretched = {name: 2 if name in ones else size for name, size in example.items()}
    for label, rule in (("any", _any), ("multiples", _multiples)):
        yield Plan(label, _spread(example, independent, rule), independent)
        if tied:
            yield Plan(f"{label}, equal axes tied", _spread(example, tied, rule), tied)
    for label, rule in (("any", _any), ("multiples", _multiples)):
        if ones:
            yield Plan(f"{label}, size 1 stretched", _spread(stretched, independent, rule), independent, ones)
    yield Plan("nearby", _spread(example, independent, _nearby), independent)
    if tied:
        yield Plan("nearby, equal axes tied", _spread(example, tied, _nearby), tied)
    if any(size > 4 for size in example.values()):
        yield Plan("smaller", _spread(example, independent, _smaller), independent)
        if tied:
            yield Plan("smaller, equal axes tied", _spread(example, tied, _smaller), tied)
    for label, start, rule in (("moved", _next, _ragged), ("doubled", _double, _larger_multiples)):
        moved = {name: start(size) for name, size in example.items()}
        sizes = {name: (moved[name], *values[1:]) for name, values in _spread(example, independent, rule).items()}
        yield Plan(label, sizes, independent, frozenset(example), other_side=True)


def _tie(example: dict[str, int]) -> dict[str, str]:
    first: dict[int, str] = {}
    tied = {}
    for name, size in example.items():
        leader = first.setdefault(size, name)
        if leader != name:
            tied[name] = leader
    return tied


def _any(size: int, row: int) -> tuple[int, ...]:
    parities = _PARITIES[row % len(_PARITIES)]
    return tuple(
        multiple + (multiple - size + odd) % 2 + 2 * (place == PROBES - 2)
        for place, (multiple, odd) in enumerate(zip(_multiples(size, row), parities, strict=True))
    )


def _multiples(size: int, row: int) -> tuple[int, ...]:
    return tuple(size * factor for factor in _FACTORS[row % len(_FACTORS)])


def _nearby(size: int, row: int) -> tuple[int, ...]:
    return tuple(size + offset for offset in _OFFSETS[row % len(_OFFSETS)])


def _smaller(size: int, row: int) -> tuple[int, ...]:
    if size <= 4:
        return _nearby(size, row)
    return tuple(max(2, size - offset) for offset in _OFFSETS[row % len(_OFFSETS)])


def _next(size: int) -> int:
    return size + 1


def _double(size: int) -> int:
    return 2 * size


def _ragged(size: int, row: int) -> tuple[int, ...]:
    """With the example one larger: nothing is a multiple of what the example is a multiple of."""
    return tuple(multiple + extra for multiple, extra in zip(_multiples(size, row), (2, 3, 5), strict=True))


def _larger_multiples(size: int, row: int) -> tuple[int, ...]:
    return tuple(multiple + size for multiple in _multiples(size, row))


def _spread(
    example: dict[str, int], tied: dict[str, str], rule: Callable[[int, int], tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    sizes: dict[str, tuple[int, ...]] = {}
    row = 0
    for name, size in example.items():
        if name in tied:
            continue
        values = (size, *rule(size, row))
        while values in sizes.values() or len(set(values)) == 1:
            row += 1
            values = (size, *(value + row for value in rule(size, row)[: PROBES - 1]))
        sizes[name] = values
        row += 1
    return {name: sizes[tied.get(name, name)] for name in example}
