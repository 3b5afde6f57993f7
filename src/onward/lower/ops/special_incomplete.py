"""The incomplete gamma functions: which share of the gamma function's integral lies below x, and above."""

from __future__ import annotations

import math

import torch

from . import _special_tables as tables
from ._formula import (
    Real,
    constants,
    exp,
    expm1,
    formula,
    like_result,
    log,
    log1p,
    new_axis,
    number,
    rational,
    repeat,
    sqrt,
    sum_last,
    where,
)
from .special_gamma import log_gamma

aten, prims = torch.ops.aten, torch.ops.prims

_LARGE = 20.0  # from here on the integrand is so much like a bell that 32 points are enough
_DEPTH = 60  # of series and continued fraction before: right to the last digit


@formula(aten.igamma.default, aten.special_gammainc.default, prims.igamma.default)
def igamma(a: Real, x: Real) -> Real:
    """igamma(Tensor self, Tensor other) -> Tensor"""
    return _with_edges(a, x, _shares(a, x)[0], below=1)


@formula(aten.igammac.default, aten.special_gammaincc.default, prims.igammac.default)
def igammac(a: Real, x: Real) -> Real:
    """igammac(Tensor self, Tensor other) -> Tensor"""
    return _with_edges(a, x, _shares(a, x)[1], below=0)


def _with_edges(a: Real, x: Real, result: Real, below: float) -> Real:
    """`below` is the answer where all of the integral lies below x."""
    above = 1 - below
    result = where(a.equals(math.inf), above, where(x.equals(math.inf), below, result))
    result = where(a.equals(0), below, where(x.equals(0), above, result))
    both = a.equals(0) & ~(x > 0) | a.equals(math.inf) & x.equals(math.inf)
    return where(both | (a < 0) | (x < 0), math.nan, result)


def _shares(a: Real, x: Real) -> tuple[Real, Real]:
    """Below and above, each of them from where it is not the difference of two numbers close to each other."""
    small, large = _of_small(a.clip(1e-300, _LARGE), x), _of_large(a.clip(_LARGE), x)
    is_small = a < _LARGE
    return where(is_small, small[0], large[0]), where(is_small, small[1], large[1])


def _of_small(a: Real, x: Real) -> tuple[Real, Real]:
    factor = exp(a * log(x) - x - log_gamma(a))
    series, fraction = _series_and_fraction(a, x)
    below, above = factor / a * series, factor / fraction
    near = x < 2
    by_series = (x < a) | ~near & (x < a + 1)
    above = where(near, _above_near_zero(a, x.clip(None, 2)), above)
    return where(by_series, below, 1 - above), where(by_series, 1 - below, above)


def _series_and_fraction(a: Real, x: Real) -> tuple[Real, Real]:
    """1 + x/(a+1) (1 + x/(a+2) (...)), and the continued fraction of Legendre, both from their far ends."""

    def step(turn: Real, series: Real, fraction: Real, a: Real, x: Real) -> tuple[Real, list[Real]]:
        n = _DEPTH - turn
        partial = x - a + (2 * n - 1) - n * (n - a) / fraction
        return turn < _DEPTH - 1, [1 + x / (a + n) * series, partial]

    going = number(a.g, 0.0).equals(0)
    start = [like_result(number(a.g, 1.0)), like_result(x - a + (2 * _DEPTH + 1))]
    series, fraction = repeat(step, going, start, [a, x])
    return series, fraction


def _above_near_zero(a: Real, x: Real) -> Real:
    """For x < 2, where the continued fraction is slow: 1 - x**a / gamma(a+1) (1 + a sum of (-x)**n / (n! (a + n)))"""
    orders = range(1, 31)
    n = constants(a.g, orders)
    signs = constants(a.g, [(-1) ** k / math.factorial(k) for k in orders])
    total = sum_last(new_axis(x) ** n * signs / (new_axis(a) + n))
    start = a * log(x) - log_gamma(a + 1)
    return -expm1(start) - exp(start) * a * total


def _of_large(a: Real, x: Real) -> tuple[Real, Real]:
    """The integral from x to where nothing is left of it, on the side of the top on which x lies."""
    top = a - 1
    width = sqrt(top)
    right = x > top
    far = where(x + 6 * width > top + 9 * width, x + 6 * width, top + 9 * width) + 20
    low = where(x - 6 * width < top - 8 * width, x - 6 * width, top - 8 * width).clip(0)
    length = where(right, far, low) - x
    places = new_axis(x) + new_axis(length) * constants(a.g, tables.POINTS)
    offset = (places - new_axis(top)) / new_axis(top)
    heights = exp(new_axis(top) * (log1p(offset) - offset))
    rest = exp(rational(1 / (top * top), tables.LOG_GAMMA_REST) / top)
    share = sum_last(heights * constants(a.g, tables.WEIGHTS)) * abs(length) / (math.sqrt(2 * math.pi) * width * rest)
    return where(right, 1 - share, share), where(right, share, 1 - share)
