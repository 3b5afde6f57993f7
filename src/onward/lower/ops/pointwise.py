"""Functions of one tensor, element by element."""

from __future__ import annotations

import math

import torch

from ..emitter import Emitter, Value
from ..registry import lowers
from . import _formula
from ._in_float64 import in_its_type

aten = torch.ops.aten


def _floats(g: Emitter, x: Value) -> Value:
    """Integers become floats before a function that has no integer results."""
    return g.cast(x, g.out_dtype)


def _wide_floats(g: Emitter, x: Value) -> Value:
    """The same, and halves as float32: for functions of several steps, which PyTorch rounds once."""
    return g.cast(x, torch.float64 if g.out_dtype is torch.float64 else torch.float32)


# One ONNX operator each, on floats.


def _register(name: str, *ops: object) -> None:
    @lowers(*ops)
    def function(g: Emitter, x: Value) -> Value:
        """sqrt(Tensor self) -> Tensor, and its kin"""
        return g.node(name, [_floats(g, x)])


def _register_narrow(name: str, *ops: object) -> None:
    @lowers(*ops)
    def function(g: Emitter, x: Value) -> Value:
        """asin(Tensor self) -> Tensor, and its kin"""
        return in_its_type(g, name, _floats(g, x))


_register("Sqrt", aten.sqrt.default)
_register("Reciprocal", aten.reciprocal.default)
_register("Exp", aten.exp.default)
_register("Log", aten.log.default)
_register("Sin", aten.sin.default)
_register("Cos", aten.cos.default)
_register("Tanh", aten.tanh.default)
_register("Sigmoid", aten.sigmoid.default, aten.special_expit.default)
_register_narrow("Asin", aten.asin.default, aten.arcsin.default)
_register_narrow("Acos", aten.acos.default, aten.arccos.default)
_register_narrow("Atan", aten.atan.default, aten.arctan.default)
_register_narrow("Asinh", aten.asinh.default, aten.arcsinh.default)
_register_narrow("Acosh", aten.acosh.default, aten.arccosh.default)
_register_narrow("Atanh", aten.atanh.default, aten.arctanh.default)
_register_narrow("Sinh", aten.sinh.default)
_register_narrow("Cosh", aten.cosh.default)


@lowers(aten.tan.default)
def tan(g: Emitter, x: Value) -> Value:
    """tan(Tensor self) -> Tensor"""
    return in_its_type(g, "Tan", _wide_floats(g, x))


# Powers and logarithms


@lowers(aten.rsqrt.default)
def rsqrt(g: Emitter, x: Value) -> Value:
    """rsqrt(Tensor self) -> Tensor"""
    return g.op.Reciprocal(g.op.Sqrt(_wide_floats(g, x)))


@lowers(aten.exp2.default, aten.special_exp2.default)
def exp2(g: Emitter, x: Value) -> Value:
    """exp2(Tensor self) -> Tensor"""
    x = _floats(g, x)
    return g.op.Pow(g.like(x, 2), x)


@lowers(aten.expm1.default, aten.special_expm1.default)
def expm1(g: Emitter, x: Value) -> Value:
    """expm1(Tensor self) -> Tensor; in float64, since near zero the difference would leave few digits of a float32"""
    if g.out_dtype is torch.float64:
        return _formula.expm1(_formula.real(g, x)).value
    wide = g.cast(x, torch.float64)
    return g.cast(g.op.Sub(g.op.Exp(wide), g.like(wide, 1)), g.out_dtype)


@lowers(aten.log1p.default, aten.special_log1p.default)
def log1p(g: Emitter, x: Value) -> Value:
    """log1p(Tensor self) -> Tensor; in float64, since near zero the sum would keep few digits of a float32"""
    if g.out_dtype is torch.float64:
        return _formula.log1p(_formula.real(g, x)).value
    wide = g.cast(x, torch.float64)
    return g.cast(g.op.Log(g.op.Add(wide, g.like(wide, 1))), g.out_dtype)


@lowers(aten.log2.default)
def log2(g: Emitter, x: Value) -> Value:
    """log2(Tensor self) -> Tensor"""
    return _logarithm(g, x, 2)


@lowers(aten.log10.default)
def log10(g: Emitter, x: Value) -> Value:
    """log10(Tensor self) -> Tensor"""
    return _logarithm(g, x, 10)


def _logarithm(g: Emitter, x: Value, base: int) -> Value:
    x = _wide_floats(g, x)
    return g.op.Div(g.op.Log(x), g.like(x, math.log(base)))


@lowers(aten.logit.default, aten.special_logit.default)
def logit(g: Emitter, x: Value, eps: float | None = None) -> Value:
    """logit(Tensor self, float? eps=None) -> Tensor"""
    x = _wide_floats(g, x)
    x = x if eps is None else g.clip(x, eps, 1 - eps)
    return g.op.Log(g.op.Div(x, g.op.Sub(g.like(x, 1), x)))


@lowers(aten.sinc.default, aten.special_sinc.default)
def sinc(g: Emitter, x: Value) -> Value:
    """sinc(Tensor self) -> Tensor"""
    x = _wide_floats(g, x)
    angle = g.op.Mul(x, g.like(x, math.pi))
    return g.op.Where(g.equal(x, g.like(x, 0)), g.like(x, 1), g.op.Div(g.op.Sin(angle), angle))


@lowers(aten.deg2rad.default)
def deg2rad(g: Emitter, x: Value) -> Value:
    """deg2rad(Tensor self) -> Tensor"""
    x = _floats(g, x)
    return g.op.Mul(x, g.like(x, math.pi / 180))


@lowers(aten.rad2deg.default)
def rad2deg(g: Emitter, x: Value) -> Value:
    """rad2deg(Tensor self) -> Tensor"""
    x = _floats(g, x)
    return g.op.Mul(x, g.like(x, 180 / math.pi))


# Signs


@lowers(aten.neg.default, aten.negative.default)
def neg(g: Emitter, x: Value) -> Value:
    """neg(Tensor self) -> Tensor"""
    return g.op.Neg(x)


@lowers(aten.abs.default, aten.absolute.default)
def abs_(g: Emitter, x: Value) -> Value:
    """abs(Tensor self) -> Tensor"""
    return x if g.dtype(x) is torch.bool else g.op.Abs(x)


@lowers(aten.sign.default, aten.sgn.default)
def sign(g: Emitter, x: Value) -> Value:
    """sign(Tensor self) -> Tensor"""
    zero, dtype = g.like(x, 0), g.dtype(x)
    if dtype is torch.bool:
        return x
    if dtype is torch.int64:  # onnxruntime 1.31's Sign looks at the low 32 bits
        return g.op.Sub(g.cast(g.op.Greater(x, zero), dtype), g.cast(g.op.Less(x, zero), dtype))
    result = g.op.Sign(x)
    # PyTorch calls nan's sign 0, onnxruntime nan
    return g.op.Where(g.op.IsNaN(x), zero, result) if dtype.is_floating_point else result


@lowers(aten.signbit.default)
def signbit(g: Emitter, x: Value) -> Value:
    """signbit(Tensor self) -> Tensor"""
    return below_zero(g, x)


def below_zero(g: Emitter, x: Value) -> Value:
    """Whether x has a minus sign, -0.0 included."""
    zero = g.like(x, 0)
    negative = g.op.Less(x, zero)
    if not g.dtype(x).is_floating_point:
        return negative
    return g.op.Or(negative, g.op.Less(g.op.Reciprocal(x), zero))  # the second half sees -0.0


# Rounding: integers are themselves.


@lowers(aten.ceil.default)
def ceil(g: Emitter, x: Value) -> Value:
    """ceil(Tensor self) -> Tensor"""
    return g.op.Ceil(x) if g.dtype(x).is_floating_point else x


@lowers(aten.floor.default)
def floor(g: Emitter, x: Value) -> Value:
    """floor(Tensor self) -> Tensor"""
    return g.op.Floor(x) if g.dtype(x).is_floating_point else x


@lowers(aten.trunc.default, aten.fix.default)
def trunc(g: Emitter, x: Value) -> Value:
    """trunc(Tensor self) -> Tensor"""
    return g.trunc(x)


@lowers(aten.frac.default)
def frac(g: Emitter, x: Value) -> Value:
    """frac(Tensor self) -> Tensor"""
    return g.op.Sub(x, g.trunc(x))


@lowers(aten.round.default, aten.round.decimals, aten.special_round.default)
def round_(g: Emitter, x: Value, decimals: int = 0) -> Value:
    """round.decimals(Tensor self, *, int decimals) -> Tensor"""
    if decimals == 0 or not g.dtype(x).is_floating_point:
        return g.round(x)
    scale = g.like(x, 10.0 ** abs(decimals))
    there, back = (g.op.Mul, g.op.Div) if decimals > 0 else (g.op.Div, g.op.Mul)
    return back(g.round(there(x, scale)), scale)


# Numbers that are none


@lowers(aten.isnan.default)
def isnan(g: Emitter, x: Value) -> Value:
    """isnan(Tensor self) -> Tensor"""
    return g.op.IsNaN(x) if g.dtype(x).is_floating_point else _never(g, x)


@lowers(aten.isinf.default)
def isinf(g: Emitter, x: Value) -> Value:
    """isinf(Tensor self) -> Tensor. Before opset 10: greater than any number."""
    if not g.dtype(x).is_floating_point:
        return _never(g, x)
    if g.opset >= 10:
        return g.op.IsInf(x)
    return g.op.Greater(g.op.Abs(x), g.like(x, torch.finfo(g.dtype(x)).max))


@lowers(aten.isposinf.default)
def isposinf(g: Emitter, x: Value) -> Value:
    """isposinf(Tensor self) -> Tensor"""
    return _beyond(g, x, "Greater", math.inf)


@lowers(aten.isneginf.default)
def isneginf(g: Emitter, x: Value) -> Value:
    """isneginf(Tensor self) -> Tensor"""
    return _beyond(g, x, "Less", -math.inf)


def _beyond(g: Emitter, x: Value, comparison: str, infinity: float) -> Value:
    if not g.dtype(x).is_floating_point:
        return _never(g, x)
    return g.node(comparison, [x, g.like(x, math.copysign(torch.finfo(g.dtype(x)).max, infinity))])


@lowers(aten.isfinite.default)
def isfinite(g: Emitter, x: Value) -> Value:
    """isfinite(Tensor self) -> Tensor: nan is not less than anything"""
    if not g.dtype(x).is_floating_point:
        return g.op.Not(_never(g, x))
    return g.op.Less(g.op.Abs(x), g.like(x, math.inf))


def _never(g: Emitter, x: Value) -> Value:
    """False for each element."""
    return g.op.Xor(x, x) if g.dtype(x) is torch.bool else g.op.Less(x, x)


@lowers(aten.nan_to_num.default)
def nan_to_num(
    g: Emitter, x: Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Value:
    """nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"""
    if not g.dtype(x).is_floating_point:
        return x
    limits = torch.finfo(g.dtype(x))
    result = x
    if posinf is not None:
        result = g.op.Where(g.op.Greater(x, g.like(x, limits.max)), g.like(x, posinf), result)
    if neginf is not None:
        result = g.op.Where(g.op.Less(x, g.like(x, limits.min)), g.like(x, neginf), result)
    if posinf is None or neginf is None:
        result = g.clip(result, limits.min if neginf is None else None, limits.max if posinf is None else None)
    return g.op.Where(g.op.IsNaN(x), g.like(x, nan or 0.0), result)


@lowers(
    aten.positive.default, aten.real.default, aten.conj.default, aten.resolve_conj.default, aten.resolve_neg.default
)
def positive(g: Emitter, x: Value) -> Value:
    """positive(Tensor self) -> Tensor; real numbers are their own conjugates"""
    return x
