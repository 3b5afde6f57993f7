"""At which sizes to probe.

Probe 0 is the user's example. The others stretch every dynamic axis by its own factors, so that no two axes, and no
simple combinations of them, agree on all probes. Sizes of every kind come first, some of them no multiples of the
example: otherwise `width` and `width // 2 * 2` would look the same. A model that refuses those (pictures in patches, a
U-Net) is probed at sizes that are as even as the example, then at its multiples, which keep all its divisibility. Axes
with bounds are probed within them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..ground.axes import AxisSpace
from .data_sizes import FREE, Freedom

PROBES = 4
_STEPS = (4, 16, 32)  # what pictures are cut into: patches, or what is left after so many halvings
_DIVISIBLE = 840  # by everything up to 8
_VERY_DIVISIBLE = 64 * 105  # and by what pictures are halved to
SIDES = ("most", "own", "other")
GENERAL = "general"  # of a branch on whether two numbers are equal: that they are not
Rule = Callable[[int, int], tuple[int, ...]]

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
    freedom: Freedom = FREE  # of numbers that depend on data
    sizes_as_numbers: bool = False  # for code that takes no symbols: see numbers_of_sizes.py
    side: str = ""  # one of SIDES, or GENERAL: how a branch is answered on which the probes disagree

    @property
    def start(self) -> dict[str, int]:
        """The sizes at which the model runs with data."""
        return {axis: values[0] for axis, values in self.sizes.items()}


def plans(example: dict[str, int], space: AxisSpace | None = None) -> Iterator[Plan]:
    """Attempts in the order in which they should be tried."""
    space = space or AxisSpace()
    independent: dict[str, str] = {}
    tied = _tie(example)
    ones = frozenset(name for name, size in example.items() if size == 1)
    stretched = {name: 2 if name in ones else size for name, size in example.items()}

    def attempt(label: str, start: dict[str, int], ties: dict[str, str], rule: Rule) -> Iterator[Plan]:
        sizes = _spread(start, ties, rule, space)
        if sizes is not None:
            yield Plan(label, sizes, ties, ones if start is stretched else frozenset())

    stepwise = [(f"steps of {most}", _steps_of(most)) for most in _steps_in(example)]
    for label, rule in (("any", _any), *stepwise, ("multiples", _multiples)):
        yield from attempt(label, example, independent, rule)
        if tied:
            yield from attempt(f"{label}, equal axes tied", example, tied, rule)
    for label, rule in (("any", _any), ("multiples", _multiples)):
        if ones:
            yield from attempt(f"{label}, size 1 stretched", stretched, independent, rule)
    yield from attempt("nearby", example, independent, _nearby)
    if tied:
        yield from attempt("nearby, equal axes tied", example, tied, _nearby)
    if any(size > 4 for size in example.values()):
        yield from attempt("smaller", example, independent, _smaller)
        if tied:
            yield from attempt("smaller, equal axes tied", example, tied, _smaller)


def congruent(example: dict[str, int], tied: dict[str, str], space: AxisSpace) -> dict[str, tuple[int, ...]] | None:
    """Sizes that leave the rest that the example leaves, whatever small number they are divided by.

    Most questions about sizes get the example's answers there.
    """
    return _spread(example, tied, _congruent, space)


def beyond(values: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The sizes of an axis at the probes with another example, which the other probes are larger than. Probes that
    leave the example's rest leave that of the other example."""
    first, *others = values
    if size == first:
        return values
    if all((each - first) % _DIVISIBLE == 0 for each in others):
        return (size, *(each - first + size for each in others))
    return (size, *(each + 2 * size for each in others))


def alike_in_remainders(
    start: dict[str, int], tied: dict[str, str], space: AxisSpace
) -> dict[str, tuple[int, ...]] | None:
    """The same for halving a picture six times, so that nearly all questions get the answers of the start."""
    return _spread(start, tied, _alike_when_halved, space)


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
        multiple + (multiple - size + odd) % 2 + 2 * (place == PROBES - 2) + _irregular(size, place)
        for place, (multiple, odd) in enumerate(zip(_multiples(size, row), parities, strict=True))
    )


def _irregular(size: int, place: int) -> int:
    """An even number, so large that dividing by a stride does not hide it: not every 4th pixel of a multiple."""
    return 2 * (size * (1 + 2 * place) // 22) if size >= 16 else 0


def _steps_in(example: dict[str, int]) -> list[int]:
    """The steps that pictures of this size may be cut into."""
    return [most for most in _STEPS if any(size % most == 0 and size > most for size in example.values())]


def _steps_of(most: int) -> Rule:
    """Sizes as divisible by 2 as the example, up to a step, and not by its other divisors."""

    def steps(size: int, row: int) -> tuple[int, ...]:
        step, offsets = min(size & -size, most), _OFFSETS[row % len(_OFFSETS)]
        return tuple(many + step * offset for many, offset in zip(_multiples(size, row), offsets, strict=True))

    return steps


def _multiples(size: int, row: int) -> tuple[int, ...]:
    return tuple(size * factor for factor in _FACTORS[row % len(_FACTORS)])


def _congruent(size: int, row: int) -> tuple[int, ...]:
    return tuple(size + _DIVISIBLE * offset for offset in _OFFSETS[row % len(_OFFSETS)])


def _alike_when_halved(size: int, row: int) -> tuple[int, ...]:
    return tuple(size + _VERY_DIVISIBLE * offset for offset in _OFFSETS[row % len(_OFFSETS)])


def _nearby(size: int, row: int) -> tuple[int, ...]:
    return tuple(size + offset for offset in _OFFSETS[row % len(_OFFSETS)])


def _smaller(size: int, row: int) -> tuple[int, ...]:
    if size <= 4:
        return _nearby(size, row)
    return tuple(max(2, size - offset) for offset in _OFFSETS[row % len(_OFFSETS)])


def _spread(
    example: dict[str, int], tied: dict[str, str], rule: Rule, space: AxisSpace
) -> dict[str, tuple[int, ...]] | None:
    """Sizes for every axis, no two axes alike; None where bounds do not leave enough."""
    sizes: dict[str, tuple[int, ...]] = {}
    row = 0
    for name, size in example.items():
        if name in tied:
            continue
        low, high = space.limits([name, *(each for each, leader in tied.items() if leader == name)])
        values = (size, *rule(size, row))
        while values in sizes.values() or len(set(values)) == 1:
            row += 1
            values = (size, *(value + row for value in rule(size, row)[: PROBES - 1]))
        if min(values) < low or (high is not None and max(values) > high):
            found = _within(size, row, _pool(rule, size, low, high), set(sizes.values()))
            if found is None:
                return None
            values = found
        sizes[name] = values
        row += 1
    return {name: sizes[tied.get(name, name)] for name in example}


def _pool(rule: Rule, size: int, low: int, high: int | None) -> range:
    """The sizes within bounds from which a rule's are drawn."""
    high = max(16 * size, 8 * low) if high is None else min(high, max(16 * size, 8 * low))
    if rule is _multiples:
        for step in (each for each in range(size, 0, -1) if size % each == 0):
            pool = range(-(-low // step) * step, high + 1, step)
            if len(pool) > 1:  # the example itself, and another
                return pool
    if rule is _nearby:
        low, high = max(low, size - max(_OFFSETS[-1])), min(high, size + max(_OFFSETS[-1]))
    elif rule is _smaller and size > low:
        high = size
    return range(low, high + 1)


def _within(size: int, row: int, pool: range, taken: set[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Sizes from a pool, as different from each other as it allows, and some of them odd where others are even."""
    draw = random.Random(1000 * row + size)
    parities = _PARITIES[row % len(_PARITIES)] if pool.step == 1 else (None,) * (PROBES - 1)
    for number in range(200):
        values = [size]
        for odd in parities:
            picks = [draw.choice(pool) for _ in range(12)]
            fresh = [each for each in picks if each not in values] or [each for each in picks if each != size]
            fitting = [each for each in fresh if odd is None or (each - size) % 2 == odd]
            values.append((fitting or fresh or picks)[0])
        if number > 100:  # few sizes and many axes: the example's own size will do for some probes
            values[1:] = [each if draw.random() < 0.6 else size for each in values[1:]]
        if len(set(values)) > 1 and tuple(values) not in taken:
            return tuple(values)
    return None
