"""How the size of a tensor follows a named axis, read from its values at all points: `(batch + 1) // 2`.

A kernel gives sizes and no expressions. What is found here is held against every point at which the model was followed,
hundreds of them, small ones and large ones. It names a size to people, and limits a file; no tensor is made by it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from fractions import Fraction

from ..ground.axes import Expression

_LARGEST_DENOMINATOR = 64
_MIN, _MAX = min, max  # while a model is traced, these names may stand for other functions


@functools.lru_cache(maxsize=256)
def line(name: str, xs: tuple[int, ...], values: tuple[int, ...]) -> tuple[Expression, str] | None:
    """An expression that has these values where the axis has the sizes xs, and its text; None if none is known.

    Many runs of a model, one after the other, ask for the same sizes.
    """
    top = max(values)
    for most in (None, top):
        for least in (None, 0):
            pairs = list(zip(xs, values, strict=True))
            inside = [(x, v) for x, v in pairs if v != most and v != least]
            ends = [] if least is None else [max(x for x, v in pairs if v == least)] if least in values else []
            for p, b, q in (*_floored(inside), *_stepwise(inside, ends)):
                found = [(p * x + b) // q for x in xs]
                found = [max(each, 0) for each in found] if least is not None else found
                found = [min(each, top) for each in found] if most is not None else found
                if found == list(values):
                    return _expression(name, p, b, q, most, least)
    return None


def _floored(pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """All (p, b, q) with a small q so that floor((p * x + b) / q) goes through these points."""
    if len({x for x, _ in pairs}) < 2:
        return
    (first, low), (last, high) = min(pairs), max(pairs)
    exact = Fraction(high - low, last - first)
    for q in range(1, _LARGEST_DENOMINATOR + 1):
        p = round(exact * q)
        if p == 0 or abs(Fraction(p, q) - exact) > Fraction(1, last - first):
            continue
        least = max(q * v - p * x for x, v in pairs)
        most = min(q * v - p * x + q - 1 for x, v in pairs)
        if least <= most:
            yield p, 0 if least <= 0 <= most else least, q
            return


def _stepwise(pairs: Sequence[tuple[int, int]], ends: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """The line with a slope of 1 where too few points are left to tell: `min(batch, 2)`, `min(max(batch - 1, 0), 1)`.

    `ends` is the largest size of the axis at which the values are still the least.
    """
    for x, v in pairs if len(set(pairs)) == 1 else () if pairs else ((end, 0) for end in ends):
        yield 1, v - x, 1
        return


def _expression(
    name: str, p: int, b: int, q: int, most: int | None, least: int | None
) -> tuple[Expression, str]:  # fmt: skip
    made: Expression | str = name
    text, is_open = name, False
    if p != 1:
        made, text, is_open = Expression(operator.mul, (made, p)), f"{text} * {p}", True
    if b:
        made, text, is_open = Expression(operator.add, (made, b)), f"{text} {'+' if b > 0 else '-'} {abs(b)}", True
    if q != 1:
        made, text = Expression(operator.floordiv, (made, q)), f"({text}) // {q}" if is_open else f"{text} // {q}"
    if least is not None:
        made, text = Expression(_MAX, (made, least)), f"max({text}, {least})"
    if most is not None:
        made, text = Expression(_MIN, (made, most)), f"min({text}, {most})"
    return (made if isinstance(made, Expression) else Expression(operator.mul, (made, 1))), text
