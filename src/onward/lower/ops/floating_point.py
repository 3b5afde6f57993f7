"""What floating-point numbers are made of, by arithmetic alone: mantissas and exponents, neighbours, bits."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..emitter import Emitter, Value
from ..registry import lowers
from ._formula import Real, floor, log, number, where

aten, prims = torch.ops.aten, torch.ops.prims


@lowers(aten.frexp.Tensor, prims.frexp.default)
def frexp(g: Emitter, x: Value) -> list[Value]:
    """frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)"""
    dtype = g.dtype(x)
    mantissa, exponent = split(Real(g, g.cast(x, torch.float64)), dtype is torch.float64)
    return [g.cast(mantissa.value, dtype), g.cast(exponent.value, torch.int32)]


def split(x: Real, full_range: bool = True) -> tuple[Real, Real]:
    """x = mantissa * 2**exponent with 0.5 <= |mantissa| < 1; what has no such form is its own mantissa. Exact.

    Numbers that came from narrower floats are not in the full range of float64.
    """
    size = abs(x)
    usual = (size > 0) & (size < math.inf)
    scaled, moved = where(usual, size, 1), number(x.g, 0.0)
    if full_range:  # so that no power of two is out of range
        low, high = scaled < 2.0**-1000, scaled > 2.0**1000
        scaled = scaled * where(low, 2.0**128, where(high, 2.0**-128, 1))
        moved = where(low, -128, where(high, 128, 0))
    exponent = floor(log(scaled) * (1 / math.log(2))) + 1  # up to one off, where the logarithm is rounded
    mantissa = scaled * _power_of_two(-exponent)
    above, below = mantissa >= 1, mantissa < 0.5
    mantissa = mantissa * where(above, 0.5, where(below, 2, 1))
    exponent = exponent + where(above, 1, where(below, -1, 0)) + moved
    return where(usual, where(x < 0, -mantissa, mantissa), x), where(usual, exponent, 0)


def _power_of_two(exponent: Real) -> Real:
    return number(exponent.g, 2.0) ** exponent


@lowers(aten.nextafter.default, prims.nextafter.default)
def nextafter(g: Emitter, x: Value, y: Value) -> Value:
    """nextafter(Tensor self, Tensor other) -> Tensor"""
    dtype = g.out_dtype
    limits = torch.finfo(dtype)
    start, target = (Real(g, g.cast(g.cast(each, dtype), torch.float64)) for each in (x, y))
    return next_to(start, target, limits, full_range=dtype is torch.float64).value


def next_to(x: Real, target: Real, limits: torch.finfo, full_range: bool) -> Real:
    """The number after x in a format, on the way to the target."""
    digits, smallest = 1 - round(math.log2(limits.eps)), limits.smallest_normal * limits.eps
    mantissa, exponent = split(x, full_range)
    up, positive = target > x, x > 0
    shrinks = positive & ~up | (x < 0) & up
    step = _power_of_two(exponent - digits) * where(shrinks & abs(mantissa).equals(0.5), 0.5, 1)
    step = where(x.equals(0), smallest, step.clip(smallest))
    moved = x + where(up, step, -step)
    moved = where(x.is_infinite(), where(positive, limits.max, -limits.max), moved)
    # -0.0 has to come last: as the first choice of a Where onnxruntime 1.31 makes it 0.0.
    apart = (x < target) | (x > target)
    zero_or_same = where(positive | (x < 0), x, target) * where(apart, 0, 1)
    moved = where(apart & ~moved.equals(0), moved, zero_or_same)
    return where(x.is_nan() | target.is_nan(), math.nan, moved)


@lowers(aten.hash_tensor.default)
def hash_tensor(g: Emitter, x: Value, dim: Sequence[int] = (), keepdim: bool = False) -> Value:
    """hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor: all bits xor'ed

    There is no such reduction in ONNX: the ones among each of the 64 bits are counted.
    """
    bits = _bits(g, g.cast(x, torch.float64)) if g.dtype(x).is_floating_point else g.cast(x, torch.int64)
    rank = g.rank(bits)
    axes = [axis % rank for axis in dim] if dim and rank else list(range(rank))
    sign = g.op.Less(bits, g.const(0))
    rest = g.op.Where(sign, g.op.Sub(bits, g.const(_LOWEST)), bits)
    shifted = g.op.Div(g.unsqueeze(rest, [rank]), g.const([2**k for k in range(63)]))
    parities = _odd(g, _sum(g, _odd(g, shifted), axes, keepdim))
    # In halves: onnxruntime 1.31 adds int64 up with the digits of a float64.
    low, high = ([2 ** (k - start) if start <= k < start + 32 else 0 for k in range(63)] for start in (0, 32))
    halves = [g.reduce("ReduceSum", g.op.Mul(parities, g.const(half)), [-1], keepdims=False) for half in (low, high)]
    total = g.op.Add(halves[0], g.op.Mul(halves[1], g.const(2**32)))
    negative = _odd(g, _sum(g, g.cast(sign, torch.int64), axes, keepdim))
    return g.cast(g.op.Add(total, g.op.Mul(negative, g.const(_LOWEST))), torch.uint64)


_LOWEST = -(2**63)


def _sum(g: Emitter, x: Value, axes: Sequence[int], keepdim: bool) -> Value:
    return g.reduce("ReduceSum", x, axes, keepdims=keepdim) if axes else x


def _odd(g: Emitter, x: Value) -> Value:
    """1 for odd numbers, 0 for even ones, of numbers that are not negative"""
    two = g.const(2)
    return g.op.Sub(x, g.op.Mul(g.op.Div(x, two), two))


def _bits(g: Emitter, value: Value) -> Value:
    """The 64 bits of a float64, as an integer."""
    x = Real(g, value)
    mantissa, exponent = split(x)
    size = abs(x)
    subnormal = size < 2.0**-1022
    exponent_bits = where(subnormal, 0, exponent + 1022)
    fraction = where(subnormal, size.clip(None, 1) * 2.0**537 * 2.0**537, (abs(mantissa) * 2 - 1) * 2.0**52)
    special = x.is_nan() | x.is_infinite()
    exponent_bits = where(special, 2047, exponent_bits)
    fraction = where(special, where(x.is_nan(), 2.0**51, 0), fraction)
    parts = [g.cast(each.value, torch.int64) for each in (exponent_bits, fraction)]
    bits = g.op.Add(g.op.Mul(parts[0], g.const(2**52)), parts[1])
    negative = (x < 0) | (1 / x < 0)  # the second half sees -0.0
    return g.op.Where(negative.value, g.op.Add(bits, g.const(_LOWEST)), bits)
