"""Which formula of the axes gives these numbers at the probes?

Python froze a number (`int(h * 0.5)`), and all that is left are its values at several sizes. Most such numbers are of
the form floor((p * axis + b) / q), or a product of axes. Several formulas may fit the probes; all are offered, the
simplest first, and what fits elsewhere too is found out by running them.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import torch

from .sizes import Size, computed, constant

_LARGEST_DENOMINATOR = 64
_LARGEST_FACTOR = 256
_SQUARE_ROOT = math.sqrt  # while a model is traced, `math.sqrt` is another function


def candidates(values: Sequence[Any], sizes: Sequence[Size]) -> Iterator[Size]:
    """Sizes with these values, built from others."""
    if all(type(value) is int for value in values):
        yield from _integers(values, sizes)
    else:
        yield from _floats(values, sizes)


def chosen(values: Sequence[Any], sizes: Sequence[Size]) -> Iterator[Size]:
    """The smaller or the larger of two sizes, where that gives these values: what `sorted(x.shape)` holds."""
    for first, second in itertools.combinations(sizes, 2):
        for function in (torch.sym_min, torch.sym_max):
            extreme = _compute(function, first, second)
            if extreme.values[: len(values)] == tuple(values):
                yield extreme


def _integers(values: Sequence[int], sizes: Sequence[Size]) -> Iterator[Size]:
    for size in sizes:
        yield from _floored_line(values, size)
    for first, second in itertools.combinations(sizes, 2):
        for function in (operator.mul, operator.add, operator.sub):
            yield from _floored_line(values, _compute(function, first, second))
        yield from _floored_line(values, _compute(abs, _compute(operator.sub, first, second)))
    for size in sizes:
        yield from _remainders(values, size)
    common = math.gcd(*values)
    for factor in (each for each in range(2, min(common, _LARGEST_FACTOR) + 1) if common % each == 0):
        for size in sizes:  # padding to a multiple: ceil(height / 32) * 32
            for rounded in _floored_line([value // factor for value in values], size):
                yield _compute(operator.mul, rounded, _number(size, factor))


def _floored_line(values: Sequence[int], axis: Size) -> Iterator[Size]:
    """floor((p * axis + b) / q) for the slope that the probes show and every kind of rounding that fits them."""
    for slope in _slopes(values, axis.values[: len(values)]):
        p, q = slope.numerator, slope.denominator
        low = max(q * value - p * x for value, x in zip(values, axis.values, strict=False))
        high = min(q * value - p * x + q - 1 for value, x in zip(values, axis.values, strict=False))
        usual = (
            [0, q - 1, q // 2, low, high]
            if p == 1
            else [b for b in range(low, high + 1) if b % q in (0, q - 1, q // 2)]
        )
        offsets = dict.fromkeys(b for b in usual if low <= b <= high)
        for offset in offsets:
            scaled = axis if p == 1 else _compute(operator.mul, axis, _number(axis, p))
            moved = scaled if offset == 0 else _compute(operator.add, scaled, _number(axis, offset))
            yield moved if q == 1 else _compute(operator.floordiv, moved, _number(axis, q))
        if q % 2 == 0:
            yield from _rounded_line(values, axis, p, q)


def _rounded_line(values: Sequence[int], axis: Size, p: int, q: int) -> Iterator[Size]:
    """round(p * axis / q) + b, where Python rounds halves to the even number."""
    offsets = {value - round(Fraction(p * x, q)) for value, x in zip(values, axis.values, strict=False)}
    if len(offsets) == 1:
        scaled = axis if p == 1 else _compute(operator.mul, axis, _number(axis, p))
        rounded = _compute(round, _compute(operator.truediv, scaled, _number(axis, q)))
        offset = offsets.pop()
        yield rounded if offset == 0 else _compute(operator.add, rounded, _number(axis, offset))


def _remainders(values: Sequence[int], size: Size) -> Iterator[Size]:
    """(size + b) % m and (b - size) % m: what is missing to a multiple."""
    for modulus in range(max(values) + 1, _LARGEST_DENOMINATOR + 1):
        for function in (operator.add, operator.sub):
            sign = 1 if function is operator.add else -1
            offset = (values[0] - sign * size.values[0]) % modulus
            if all((offset + sign * x) % modulus == value for x, value in zip(size.values, values, strict=False)):
                yield _compute(operator.mod, _compute(function, _number(size, offset), size), _number(size, modulus))


def _slopes(values: Sequence[int], sizes: Sequence[int]) -> list[Fraction]:
    """The simplest slope, and the exact one of the farthest pair: rounding moves a slope by at most 1 / distance."""
    low, high = min(range(len(sizes)), key=sizes.__getitem__), max(range(len(sizes)), key=sizes.__getitem__)
    distance = sizes[high] - sizes[low]
    if distance == 0:
        return []
    exact = Fraction(values[high] - values[low], distance)
    found = [
        Fraction(round(exact * q), q)
        for q in range(1, _LARGEST_DENOMINATOR + 1)
        if abs(Fraction(round(exact * q), q) - exact) <= Fraction(1, distance)
    ]
    return list(dict.fromkeys(slope for slope in [*found, exact] if slope != 0 and _is_plausible(slope)))


def _is_plausible(slope: Fraction) -> bool:
    """Whether somebody writes such a factor: 3 / 4, 1 / 14, 0.15. With 4 / 17 much can be hit by chance."""
    p, q = slope.numerator, slope.denominator
    return p == 1 or q <= 10 or 100 % q == 0 or q & (q - 1) == 0


def _floats(values: Sequence[Any], sizes: Sequence[Size]) -> Iterator[Size]:
    pairs = list(itertools.combinations(sizes, 2))
    products = [_compute(operator.mul, first, second) for first, second in pairs]
    ratios = [
        _compute(operator.truediv, first, second) for first, second in pairs if 0 not in second.values[: len(values)]
    ]
    for axis in (*sizes, *products, *ratios):
        for transform in (_itself, _inverse, _root, _inverse_root):
            if any(value <= 0 for value in axis.values[: len(values)]):
                continue
            transformed = transform(axis)
            factor = values[0] / transformed.values[0]
            scaled = transformed if factor == 1 else _compute(operator.mul, transformed, _number(axis, factor))
            if all(math.isclose(a, b, rel_tol=1e-12) for a, b in zip(scaled.values, values, strict=False)):
                yield scaled


def _itself(axis: Size) -> Size:
    return axis if axis.is_float() else _compute(torch.sym_float, axis)


def _inverse(axis: Size) -> Size:
    return _compute(operator.truediv, _number(axis, 1.0), axis)


def _root(axis: Size) -> Size:
    return _compute(_SQUARE_ROOT, axis)


def _inverse_root(axis: Size) -> Size:
    return _compute(operator.truediv, _number(axis, 1.0), _root(axis))


def _number(like: Size, number: float) -> Size:
    return constant(like.tracer, number)


def _compute(function: Callable[..., Any], *operands: Size) -> Size:
    return computed(function, *operands, is_the_models=False)
