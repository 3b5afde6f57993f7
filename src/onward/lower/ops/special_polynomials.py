"""Orthogonal polynomials of a degree that is a number or a tensor, by their recurrences.

They are computed in the dtype of the result, one degree after the other as PyTorch does, and overflow where its do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..emitter import Emitter, Number, SizeValue, Value
from ..registry import lowers
from ._formula import Real, any_of, cos, floor, like_result, number, repeat, sin, where
from ._in_float64 import arccosine

aten = torch.ops.aten

Closed = Callable[[Real, Real], tuple[Real, Real]]


@dataclass(frozen=True)
class Family:
    """`first(x)` has degree 1; `following(x, k, q, p)` has degree k + 1, after q of degree k and p of degree k - 1.

    `closed(x, n)` says where no recurrence is needed, and the values there. Degrees above `limit` are not computed.
    """

    first: Callable[[Real], Real]
    following: Callable[[Real, Real, Real, Real], Real]
    closed: Closed | None = None
    limit: Mapping[torch.dtype, int] | None = None


def evaluate(family: Family, x: Real, n: Real) -> Real:
    """The polynomial of degree n, cut down to a whole number; 0 for degrees below 0."""
    dtype = x.g.dtype(x.value)
    unusable = n.is_nan() | (abs(n) >= 2.0**63)  # as integers they would be the lowest
    n = where(unusable | (n < 0) & (n <= -1), -1, floor(n.clip(0)))
    highest = n
    if family.limit is not None:
        too_high = n > family.limit[dtype]
        highest = where(too_high, 1, n)
    if family.closed is not None:
        known, values = family.closed(x, n)
        highest = where(known, 0, n)
    result = _recur(family, x, highest)
    if family.limit is not None:
        result = where(too_high, math.nan, result)
    if family.closed is not None:
        result = where(known, Real(x.g, x.g.cast(values.value, dtype)), result)
    return where(n < 0, 0, where(n.equals(0), 1, result))


def _recur(family: Family, x: Real, n: Real) -> Real:
    def step(turn: Real, q: Real, p: Real, x: Real, n: Real) -> tuple[Real, list[Real]]:
        k = turn + 1
        going = k < n
        further = where(going, family.following(x, k, q, p), q)
        return any_of((k + 1 < n) & ~further.is_nan()), [further, where(going, q, p)]

    one = number(x.g, 1.0, x.g.dtype(x.value))
    return repeat(step, any_of(n > 1), [like_result(family.first(x)), like_result(one)], [x, n])[0]


# Chebyshev's between -1 and 1 are waves of the angle acos(x), from some degree on.


def _alternating(n: Real) -> Real:
    """1 for even numbers, -1 for odd ones"""
    return 1 - 2 * (n - 2 * floor(n * 0.5))


def _wave(
    lowest: int, inside: Callable[[Real, Real], Real], right: Callable[[Real], Real], left: Callable[[Real], Real]
) -> Closed:
    """Above the lowest degree, `inside(n, angle)`; `right(n)` at 1, `left(n)` at -1"""

    def closed(x: Real, n: Real) -> tuple[Real, Real]:
        g = x.g
        x, n = Real(g, g.cast(x.value, torch.float64)), Real(g, g.cast(n.value, torch.float64))
        size = abs(x)
        angle = arccosine(where(size < 1, x, 0))
        ends = where(x > 0, right(n), left(n))
        return size.equals(1) | (n > lowest) & (size < 1), where(size.equals(1), ends, inside(n, angle))

    return closed


def _one(n: Real) -> Real:
    return n * 0 + 1


def _chebyshev(x: Real, k: Real, q: Real, p: Real) -> Real:
    return (x + x) * q - p


def _shifted(family: Family) -> Family:
    """From 0 to 1 instead of -1 to 1"""
    closed = family.closed
    return Family(
        lambda x: family.first(x + x - 1),
        lambda x, k, q, p: family.following(x + x - 1, k, q, p),
        None if closed is None else lambda x, n: closed(x + x - 1, n),
    )


T = Family(lambda x: x, _chebyshev, _wave(6, lambda n, angle: cos(n * angle), _one, _alternating))
U = Family(
    lambda x: x + x,
    _chebyshev,
    _wave(
        8,
        lambda n, angle: sin((n + 1) * angle) / sin(angle),
        lambda n: n + 1,
        lambda n: (n + 1) * _alternating(n),
    ),
)
V = Family(
    lambda x: x + x - 1,
    _chebyshev,
    _wave(
        8,
        lambda n, angle: cos((n + 0.5) * angle) / cos(angle * 0.5),
        _one,
        lambda n: (n + n + 1) * _alternating(n),
    ),
)
W = Family(
    lambda x: x + x + 1,
    _chebyshev,
    _wave(8, lambda n, angle: sin((n + 0.5) * angle) / sin(angle * 0.5), lambda n: n + n + 1, _alternating),
)

# Hermite's grow so fast that PyTorch has a limit, by dtype.

_LIMIT = {torch.float32: 128, torch.float64: 512}
H = Family(lambda x: x + x, lambda x, k, q, p: (x + x) * q - (k + k) * p, limit=_LIMIT)
HE = Family(lambda x: x, lambda x, k, q, p: x * q - k * p, limit=_LIMIT)

L = Family(
    lambda x: 1 - x,
    lambda x, k, q, p: ((k + k + (1 - x)) * q - k * p) / (k + 1),
    lambda x, n: (x.equals(0), _one(n)),
)
P = Family(
    lambda x: x,
    lambda x, k, q, p: ((k + k + 1) * x * q - k * p) / (k + 1),
    lambda x, n: (abs(x).equals(1), where(x > 0, 1, _alternating(n))),
)


def _register(packet: Any, family: Family) -> None:
    @lowers(packet.default, packet.x_scalar, packet.n_scalar)
    def lowering(g: Emitter, x: Value | Number | SizeValue, n: Value | Number | SizeValue) -> Value:
        """special_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor, and its kin"""
        wide = torch.float64 if g.out_dtype is torch.float64 else torch.float32
        rounded = [g.cast(g.as_value(each, g.out_dtype), wide) for each in (x, n)]
        return evaluate(family, *(Real(g, each) for each in rounded)).value


_register(aten.special_chebyshev_polynomial_t, T)
_register(aten.special_chebyshev_polynomial_u, U)
_register(aten.special_chebyshev_polynomial_v, V)
_register(aten.special_chebyshev_polynomial_w, W)
_register(aten.special_shifted_chebyshev_polynomial_t, _shifted(T))
_register(aten.special_shifted_chebyshev_polynomial_u, _shifted(U))
_register(aten.special_shifted_chebyshev_polynomial_v, _shifted(V))
_register(aten.special_shifted_chebyshev_polynomial_w, _shifted(W))
_register(aten.special_hermite_polynomial_h, H)
_register(aten.special_hermite_polynomial_he, HE)
_register(aten.special_laguerre_polynomial_l, L)
_register(aten.special_legendre_polynomial_p, P)
