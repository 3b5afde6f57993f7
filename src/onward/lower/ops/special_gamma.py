"""The gamma function and its relatives: logarithm, derivatives, Hurwitz's zeta."""

from __future__ import annotations

import math

import torch

from ..emitter import Emitter, Value
from ..registry import lowers
from . import _special_tables as tables
from ._formula import (
    Real,
    any_of,
    constants,
    cos_pi,
    formula,
    like_result,
    log,
    new_axis,
    number,
    polynomial,
    rational,
    real,
    repeat,
    sin_pi,
    sum_last,
    where,
)

aten, prims = torch.ops.aten, torch.ops.prims


@formula(aten.lgamma.default, aten.special_gammaln.default, prims.lgamma.default)
def lgamma(x: Real) -> Real:
    """lgamma(Tensor self) -> Tensor: log|gamma|, infinite at 0 and the negative integers"""
    size = abs(x)
    positive = log_gamma(size)
    reflected = math.log(math.pi) - log(abs(sin_pi(x)) * size) - positive
    infinite = (x <= 0) & x.is_whole() | x.is_infinite()
    return where(infinite, math.inf, where(x < 0, reflected, positive))


def log_gamma(x: Real) -> Real:
    """log(gamma(x)) of positive numbers: close to its roots at 1 and 2, after one step from 0, by Stirling's formula"""
    small = x < 0.5
    near = where(small, x + 1, x).clip(0.5, 2.5)
    centre = (near - 1) * (near - 2) * rational(near, tables.LOG_GAMMA_CENTRE)
    far = x.clip(2.5)
    rest = rational(1 / (far * far), tables.LOG_GAMMA_REST) / far
    stirling = (far - 0.5) * log(far) - far + math.log(2 * math.pi) / 2 + rest
    return where(small, centre - log(x), where(x < 2.5, centre, stirling))


@formula(aten.digamma.default, aten.special_digamma.default, aten.special_psi.default, prims.digamma.default)
def digamma(x: Real) -> Real:
    """digamma(Tensor self) -> Tensor: -inf at 0, +inf at -0, not a number at the negative integers"""
    negative = x < 0
    y = where(negative, 1 - x, x)
    above = y + 2
    square = 1 / (above * above)
    positive = log(above) - 0.5 / above - square * rational(square, tables.DIGAMMA_REST) - 1 / (y + 1) - 1 / y
    pole = negative & x.is_whole()
    sine = where(negative & ~pole, sin_pi(x), 1)
    result = where(negative, positive - math.pi * cos_pi(x) / sine, positive)
    return where(pole, math.nan, result)


@lowers(aten.polygamma.default, aten.special_polygamma.default)
def polygamma(g: Emitter, order: int, x: Value) -> Value:
    """polygamma(int n, Tensor self) -> Tensor: a derivative of digamma"""
    start = real(g, x)
    if order == 0:
        return digamma(start).value
    negative = start < 0
    sign = -((-1) ** order)
    scale = sign * math.factorial(order)
    positive = _zeta_of_positive(1.0 + order, where(negative, 1 - start, start))
    pole = (start <= 0) & start.is_whole()
    sine = where(pole | ~negative, 1, sin_pi(start))
    reflection = polynomial(cos_pi(start) / sine, _cotangent(order)) * (-(math.pi ** (order + 1)) / scale)
    terms = where(pole, math.inf, where(negative, -sign * positive + reflection, positive))
    if order > 1 and g.out_dtype in (torch.float16, torch.bfloat16):  # rounded before the factorial, as PyTorch does
        terms = Real(g, g.cast(g.cast(terms.value, g.out_dtype), torch.float64))
    return (scale * terms).value


def _cotangent(order: int) -> list[float]:
    """A derivative of the cotangent as a polynomial in it, from the highest power down: c' = -(1 + c**2)."""
    powers = [0.0, 1.0]  # from the lowest power up
    for _ in range(order):
        slope = [k * c for k, c in enumerate(powers)][1:]
        powers = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return powers[::-1]


@formula(aten.special_zeta.default, aten.special_zeta.self_scalar, aten.special_zeta.other_scalar, prims.zeta.default)
def zeta(s: Real, q: Real) -> Real:
    """special_zeta(Tensor self, Tensor other) -> Tensor: the sum over all k of (q + k)**-s"""
    pole, usable = (q <= 0) & q.is_whole(), s > 1
    power = where(usable, s, 2)
    undefined = (q < 0) & ~power.is_whole()
    start, skipped = _up_to_positive(power, where(pole | undefined, 1, q))
    total = where(undefined, math.nan, skipped + _zeta_of_positive(power, start))
    return where(s.equals(1) | pole & ~(s < 1), math.inf, where(usable, total, math.nan))


def _up_to_positive(s: Real, q: Real) -> tuple[Real, Real]:
    """Take the terms with a negative q + k one by one: how far q came, and their sum."""

    def step(turn: Real, at: Real, total: Real, s: Real) -> tuple[Real, list[Real]]:
        negative = at < 0
        further = where(negative, at + 1, at)
        return any_of(further < 0), [further, where(negative, total + at**-s, total)]

    start = [like_result(q), like_result(number(q.g, 0.0))]
    at, total = repeat(step, any_of(q < 0), start, [s])
    return at, total


# Bernoulli's numbers of even order, over the factorial of it.
_EULER = [
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000, -174611 / 802857662698291200000,
]  # fmt: skip
_TERMS = 10


def _zeta_of_positive(s: Real | float, q: Real) -> Real:
    """Ten terms one by one, the rest by the formula of Euler and Maclaurin."""
    power = new_axis(s) if isinstance(s, Real) else s
    first = sum_last((new_axis(q) + constants(q.g, range(_TERMS))) ** -power)
    w = q + _TERMS
    last, square = w**-s, 1 / (w * w)
    s = s.clip(None, 400) if isinstance(s, Real) else s  # where the rest is 0, it should not be 0 times infinity
    factor = s / w
    tail = factor * _EULER[0]
    for k, coefficient in enumerate(_EULER[1:]):
        factor = factor * ((s + (2 * k + 1)) * (s + (2 * k + 2))) * square
        tail = tail + factor * coefficient
    return first + last * (w / (s - 1) + 0.5 + tail)
