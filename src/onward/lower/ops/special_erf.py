"""The error function's relatives: complements, inverses, the normal distribution; entropies."""

from __future__ import annotations

import math

import torch

from ..emitter import Emitter, Value
from ..registry import lowers
from . import _special_tables as tables
from ._formula import Real, exp, formula, log, log1p, rational, real, sqrt, where

aten, prims = torch.ops.aten, torch.ops.prims

_ROOT_HALF = math.sqrt(0.5)


@lowers(aten.erf.default, aten.special_erf.default)
def erf(g: Emitter, x: Value) -> Value:
    """erf(Tensor self) -> Tensor. onnxruntime 1.31 has Erf for float32 only."""
    if g.out_dtype is not torch.float64:
        return g.op.Erf(g.cast(x, g.out_dtype))
    wide = real(g, x)
    size = abs(wide)
    outside = 1 - erfc(size)
    near = wide * rational(wide * wide, tables.ERF_CENTRE)
    return where(size < 1, near, where(wide < 0, -outside, outside)).value


@formula(aten.erfc.default, aten.special_erfc.default, prims.erfc.default)
def erfc(x: Real) -> Real:
    """erfc(Tensor self) -> Tensor: not 1 - erf(x), which has no digits left where erf is almost 1"""
    size = abs(x)
    upper = where(size < 30, exp(-x * x) * _erfcx_of_positive(size.clip(0, 30)), 0)
    return where(x.is_nan(), x, where(x < 0, 2 - upper, upper))


@formula(aten.special_erfcx.default, prims.erfcx.default)
def erfcx(x: Real) -> Real:
    """special_erfcx(Tensor self) -> Tensor: exp(x**2) erfc(x)"""
    positive = _erfcx_of_positive(abs(x))
    negative = x.clip(None, 0)
    return where(x < 0, 2 * exp(negative * negative) - positive, positive)


def _erfcx_of_positive(x: Real) -> Real:
    """One table from 0 to infinity."""
    return rational(1 - 8 / (x + 4), tables.ERFCX) / (1 + 2 * x)


@formula(aten.special_log_ndtr.default)
def log_ndtr(x: Real) -> Real:
    """special_log_ndtr(Tensor self) -> Tensor: in the lower tail without the distribution, which would be 0 there"""
    scaled = x * _ROOT_HALF
    low = scaled.clip(None, 0)
    tail = log(0.5 * _erfcx_of_positive(-low)) - low * low
    return where(x < -1, tail, log1p(-0.5 * erfc(scaled.clip(-1))))


@formula(aten.special_ndtri.default, prims.ndtri.default)
def ndtri(p: Real) -> Real:
    """special_ndtri(Tensor self) -> Tensor: where the normal distribution reaches p"""
    middle = p - 0.5
    result = _quantile(middle, where(middle < 0, p, 1 - p))
    ends = where(p.equals(0), -math.inf, where(p.equals(1), math.inf, math.nan))
    return where((p > 0) & (p < 1), result, ends)


@formula(aten.erfinv.default, aten.special_erfinv.default, prims.erf_inv.default)
def erfinv(x: Real) -> Real:
    """erfinv(Tensor self) -> Tensor"""
    result = _quantile(x * 0.5, (1 - abs(x)) * 0.5) * _ROOT_HALF
    ends = where(x.equals(-1), -math.inf, where(x.equals(1), math.inf, math.nan))
    return where(abs(x) < 1, result, ends)


def _quantile(middle: Real, tail: Real) -> Real:
    """Where the normal distribution reaches 0.5 + middle; `tail` is the smaller side of what it divides."""
    centre = middle * rational(middle * middle, tables.QUANTILE_CENTRE)
    depth = sqrt(-log(tail.clip(5e-324, 0.5)))
    outside = where(depth < 5, rational(depth, tables.QUANTILE_TAIL), rational(depth, tables.QUANTILE_FAR_TAIL))
    return where(abs(middle) < 0.425, centre, where(middle < 0, -outside, outside))


@formula(aten.special_entr.default)
def entr(x: Real) -> Real:
    """special_entr(Tensor self) -> Tensor: -x log(x)"""
    entropy = -x * log(where(x > 0, x, 1))
    return where(x < 0, -math.inf, entropy)


@formula(aten.special_xlog1py.default, aten.special_xlog1py.self_scalar, aten.special_xlog1py.other_scalar)
def xlog1py(x: Real, y: Real) -> Real:
    """special_xlog1py(Tensor self, Tensor other) -> Tensor: x log(1 + y), and 0 where x is 0, but nan where y is nan"""
    return where(x.equals(0) & ~y.is_nan(), 0, x * log1p(y))
