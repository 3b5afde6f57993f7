"""Arithmetic on two or three tensors: sums, products, quotients, remainders, powers, extremes."""

from __future__ import annotations

import math

import torch

from ..emitter import Emitter, Number, SizeValue, Value
from ..registry import lowers
from ._in_float64 import in_its_type
from .integers import integer_power
from .pointwise import below_zero

aten = torch.ops.aten

Operand = Value | Number | SizeValue


def scaled(g: Emitter, x: Value, factor: Operand) -> Value:
    """x times a number of its own dtype; nothing if the number is one."""
    return x if isinstance(factor, (int, float)) and factor == 1 else g.op.Mul(x, g.as_value(factor, g.dtype(x)))


@lowers(aten.add.Tensor, aten.add.Scalar)
def add(g: Emitter, x: Operand, y: Operand, alpha: Number = 1) -> Value:
    """add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    a, b = g.promote(x, y)
    if g.out_dtype is torch.bool:  # sums of booleans are true where either is
        return g.op.Or(a, b) if alpha else a
    return g.op.Add(a, scaled(g, b, alpha))


@lowers(aten.sub.Tensor, aten.sub.Scalar, aten.subtract.Tensor, aten.subtract.Scalar)
def sub(g: Emitter, x: Operand, y: Operand, alpha: Number = 1) -> Value:
    """sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    a, b = g.promote(x, y)
    return g.op.Sub(a, scaled(g, b, alpha))


@lowers(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(g: Emitter, x: Operand, y: Operand, alpha: Number = 1) -> Value:
    """rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return sub(g, y, x, alpha)


@lowers(aten.mul.Tensor, aten.mul.Scalar, aten.multiply.Tensor, aten.multiply.Scalar)
def mul(g: Emitter, x: Operand, y: Operand) -> Value:
    """mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    a, b = g.promote(x, y)
    return g.op.And(a, b) if g.out_dtype is torch.bool else g.op.Mul(a, b)


@lowers(
    aten.div.Tensor,
    aten.div.Scalar,
    aten.divide.Tensor,
    aten.divide.Scalar,
    aten.true_divide.Tensor,
    aten.true_divide.Scalar,
)
def div(g: Emitter, x: Operand, y: Operand) -> Value:
    """div.Tensor(Tensor self, Tensor other) -> Tensor"""
    return g.op.Div(*g.promote(x, y))


@lowers(aten.div.Tensor_mode, aten.div.Scalar_mode, aten.divide.Tensor_mode, aten.divide.Scalar_mode)
def div_mode(g: Emitter, x: Operand, y: Operand, rounding_mode: str | None = None) -> Value:
    """div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"""
    if rounding_mode == "floor":
        return floor_divide(g, x, y)
    quotient = g.op.Div(*_divided(g, x, y))  # integers: ONNX truncates, as wanted
    return g.cast(g.trunc(quotient) if rounding_mode == "trunc" else quotient, g.out_dtype)


@lowers(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(g: Emitter, x: Operand, y: Operand) -> Value:
    """floor_divide(Tensor self, Tensor other) -> Tensor"""
    return g.cast(_floored(g, *_divided(g, x, y)), g.out_dtype)


def _floored(g: Emitter, a: Value, b: Value) -> Value:
    divisor = _number(g, b)
    if divisor is not None and divisor > 0 and not g.out_dtype.is_floating_point and g.opset >= 10:
        return g.op.Div(g.op.Sub(a, g.mod(a, b)), b)
    if not g.out_dtype.is_floating_point or (divisor and math.frexp(abs(divisor))[0] == 0.5):
        return g.floor_divide(a, b)
    # Like PyTorch, by the remainder: the quotient alone may round up to the next integer (1 // 0.1 is 9).
    exact = g.round(g.op.Div(g.op.Sub(a, g.mod(a, b)), b))
    if divisor:
        return exact
    return g.where(g.equal(b, g.like(b, 0)), g.op.Div(a, b), exact)


@lowers(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def remainder(g: Emitter, x: Operand, y: Operand) -> Value:
    """remainder.Tensor(Tensor self, Tensor other) -> Tensor"""
    return g.mod(*g.promote(x, _divisor(g, y)))


@lowers(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(g: Emitter, x: Operand, y: Operand) -> Value:
    """fmod.Tensor(Tensor self, Tensor other) -> Tensor"""
    return g.fmod(*g.promote(x, _divisor(g, y)))


def _divided(g: Emitter, x: Operand, y: Operand) -> list[Value]:
    """Both operands in the type in which PyTorch rounds a quotient. For halves and a number it is float32, so that the
    number itself is not rounded: 1.5 // 0.1 is 14."""
    if g.out_dtype in (torch.float16, torch.bfloat16) and isinstance(y, float):
        return g.promote(x, y, dtype=torch.float32)
    return g.promote(x, _divisor(g, y))


def _divisor(g: Emitter, y: Operand) -> Operand:
    """A size that integers are divided by, and 1 where it is 0: then there is nothing to divide, or PyTorch raises an
    error. onnxruntime refuses a 0, or dies of it, even where there is nothing to divide."""
    is_whole = isinstance(y, SizeValue) and y.kind is int and not g.out_dtype.is_floating_point
    return SizeValue.of(torch.sym_max, y, 1) if is_whole and 0 in y.values else y  # type: ignore[union-attr]


def _number(g: Emitter, x: Value) -> float | None:
    """The one number that a constant holds."""
    tensor = g.value_of(x)
    return tensor.item() if tensor is not None and tensor.numel() == 1 and tensor.device.type != "meta" else None


# Powers


@lowers(aten.pow.Tensor_Scalar, aten.float_power.Tensor_Scalar)
def pow_tensor_scalar(g: Emitter, x: Value, exponent: Number | SizeValue) -> Value:
    """pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"""
    base = g.cast(x, g.out_dtype)
    if not g.out_dtype.is_floating_point:
        if isinstance(exponent, SizeValue):
            return integer_power(g, base, g.as_value(exponent))
        return _multiplied_out(g, base, int(exponent))
    if isinstance(exponent, SizeValue):
        return g.pow(base, g.as_value(exponent))
    if exponent == -0.5:
        return g.op.Reciprocal(g.op.Sqrt(base))
    if exponent == -2:
        return g.op.Reciprocal(g.op.Mul(base, base))
    return g.pow(base, exponent)


@lowers(aten.pow.Tensor_Tensor, aten.pow.Scalar, aten.float_power.Tensor_Tensor, aten.float_power.Scalar)
def pow_tensor_tensor(g: Emitter, x: Operand, exponent: Value) -> Value:
    """pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    base, power = g.promote(x, exponent)
    return g.op.Pow(base, power) if g.out_dtype.is_floating_point else integer_power(g, base, power)


def _multiplied_out(g: Emitter, x: Value, exponent: int) -> Value:
    """An integer to a known power, which PyTorch wants to be none below zero: squares, and products of them."""
    result = None
    for place in range(exponent.bit_length()):
        x = g.op.Mul(x, x) if place else x
        if exponent >> place & 1:
            result = x if result is None else g.op.Mul(result, x)
    return g.expand(g.like(x, 1), g.known_dims(x)) if result is None else result


@lowers(aten.square.default)
def square(g: Emitter, x: Value) -> Value:
    """square(Tensor self) -> Tensor"""
    x = g.cast(x, g.out_dtype)
    return g.op.Mul(x, x)


# Extremes


@lowers(aten.maximum.default, aten.max.other)
def maximum(g: Emitter, x: Value, y: Value) -> Value:
    """maximum(Tensor self, Tensor other) -> Tensor"""
    return g.max(*g.promote(x, y))


@lowers(aten.minimum.default, aten.min.other)
def minimum(g: Emitter, x: Value, y: Value) -> Value:
    """minimum(Tensor self, Tensor other) -> Tensor"""
    return g.min(*g.promote(x, y))


@lowers(aten.fmax.default)
def fmax(g: Emitter, x: Value, y: Value) -> Value:
    """fmax(Tensor self, Tensor other) -> Tensor: a number rather than nan"""
    a, b = g.promote(x, y)
    return _ignoring_nan(g, a, b, g.max(a, b))


@lowers(aten.fmin.default)
def fmin(g: Emitter, x: Value, y: Value) -> Value:
    """fmin(Tensor self, Tensor other) -> Tensor: a number rather than nan"""
    a, b = g.promote(x, y)
    return _ignoring_nan(g, a, b, g.min(a, b))


def _ignoring_nan(g: Emitter, x: Value, y: Value, extreme: Value) -> Value:
    if not g.dtype(x).is_floating_point:
        return extreme
    return g.op.Where(g.op.IsNaN(x), y, g.op.Where(g.op.IsNaN(y), x, extreme))


Bound = Value | Number | SizeValue | None


@lowers(aten.clamp.default, aten.clamp.Tensor, aten.clip.default, aten.clip.Tensor)
def clamp(g: Emitter, x: Value, lo: Bound = None, hi: Bound = None) -> Value:
    """clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"""
    x = g.cast(x, g.out_dtype)
    low, high = (_bound(g, bound) for bound in (lo, hi))
    return g.clip(x, low, high)


def _bound(g: Emitter, bound: Bound) -> Value | Number | None:
    """A bound as `clip` takes it; one of one element as a 0-d tensor if that is not a matter of broadcasting."""
    if isinstance(bound, (Value, SizeValue)):
        return g.as_value(bound, g.out_dtype)
    return bound


@lowers(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(g: Emitter, x: Value, lo: Bound) -> Value:
    """clamp_min(Tensor self, Scalar min) -> Tensor"""
    return clamp(g, x, lo, None)


@lowers(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(g: Emitter, x: Value, hi: Bound) -> Value:
    """clamp_max(Tensor self, Scalar max) -> Tensor"""
    return clamp(g, x, None, hi)


# Three operands


@lowers(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(g: Emitter, start: Value, end: Value, weight: Operand) -> Value:
    """lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor"""
    first, last, part = g.promote(start, end, weight)
    span = g.op.Sub(last, first)
    if isinstance(weight, (int, float)) and abs(weight) >= 0.5:  # from the nearer end, so that 1 gives the end itself
        return g.op.Sub(last, g.op.Mul(span, g.like(last, 1 - weight)))
    return g.op.Add(first, g.op.Mul(span, part))


@lowers(aten.addcmul.default)
def addcmul(g: Emitter, x: Value, first: Value, second: Value, value: Number = 1) -> Value:
    """addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    base, a, b = g.promote(x, first, second)
    return g.op.Add(base, scaled(g, g.op.Mul(a, b), value))


@lowers(aten.addcdiv.default)
def addcdiv(g: Emitter, x: Value, first: Value, second: Value, value: Number = 1) -> Value:
    """addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    base, a, b = g.promote(x, first, second)
    return g.op.Add(base, scaled(g, g.op.Div(a, b), value))


# Functions of two tensors


@lowers(aten.atan2.default, aten.arctan2.default)
def atan2(g: Emitter, y: Value, x: Value) -> Value:
    """atan2(Tensor self, Tensor other) -> Tensor"""
    return direction(g, *g.promote(y, x))


def direction(g: Emitter, y: Value, x: Value) -> Value:
    """The angle of (x, y), both of one type, in which it is computed whatever the operator's result is."""
    height, width = g.op.Abs(y), g.op.Abs(x)
    equal = g.op.Mul(g.op.Sign(width), g.like(x, math.pi / 4))  # two zeros and two infinities have no quotient
    angle = g.op.Where(g.equal(height, width), equal, in_its_type(g, "Atan", g.op.Div(height, width)))
    angle = g.op.Where(below_zero(g, x), g.op.Sub(g.like(x, math.pi), angle), angle)
    return with_sign_of(g, angle, y)


@lowers(aten.hypot.default)
def hypot(g: Emitter, x: Value, y: Value) -> Value:
    """hypot(Tensor self, Tensor other) -> Tensor"""
    a, b = g.promote(x, y)
    return g.op.Sqrt(g.op.Add(g.op.Mul(a, a), g.op.Mul(b, b)))


@lowers(aten.logaddexp.default)
def logaddexp(g: Emitter, x: Value, y: Value) -> Value:
    """logaddexp(Tensor self, Tensor other) -> Tensor"""
    a, b = g.promote(x, y)
    return _log_of_sum(g, a, b, 1.0)


@lowers(aten.logaddexp2.default)
def logaddexp2(g: Emitter, x: Value, y: Value) -> Value:
    """logaddexp2(Tensor self, Tensor other) -> Tensor"""
    a, b = g.promote(x, y)
    return _log_of_sum(g, a, b, math.log(2))


def _log_of_sum(g: Emitter, x: Value, y: Value, unit: float) -> Value:
    """log(base^x + base^y), base = e^unit: the greater one, plus what the smaller one adds."""
    distance = scaled(g, g.op.Abs(g.op.Sub(x, y)), unit)
    excess = g.op.Log(g.op.Add(g.op.Exp(g.op.Neg(distance)), g.like(x, 1)))
    result = g.op.Add(g.max(x, y), scaled(g, excess, 1 / unit))
    return g.where(g.equal(x, y), g.op.Add(x, g.like(x, math.log(2) / unit)), result)  # also where both are infinite


@lowers(
    aten.xlogy.Tensor,
    aten.xlogy.Scalar_Self,
    aten.xlogy.Scalar_Other,
    aten.special_xlogy.default,
    aten.special_xlogy.self_scalar,
    aten.special_xlogy.other_scalar,
)
def xlogy(g: Emitter, x: Operand, y: Operand) -> Value:
    """xlogy.Tensor(Tensor self, Tensor other) -> Tensor: x log(y), and 0 where x is 0, but nan where y is nan"""
    half = g.out_dtype in (torch.float16, torch.bfloat16)  # which PyTorch computes in float32
    a, b = (g.cast(each, torch.float32) if half else each for each in g.promote(x, y))
    zero = g.like(a, 0)
    nothing = g.op.And(g.equal(a, zero), g.op.Not(g.op.IsNaN(b)))
    return g.op.Where(nothing, zero, g.op.Mul(a, g.op.Log(b)))


@lowers(aten.heaviside.default)
def heaviside(g: Emitter, x: Value, values: Value) -> Value:
    """heaviside(Tensor self, Tensor values) -> Tensor"""
    a, b = g.promote(x, values)
    zero = g.like(a, 0)
    return g.where(g.equal(a, zero), b, g.cast(g.op.Greater(a, zero), g.out_dtype))


@lowers(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(g: Emitter, x: Operand, y: Operand) -> Value:
    """copysign.Tensor(Tensor self, Tensor other) -> Tensor"""
    a, b = g.promote(x, y)
    return with_sign_of(g, g.op.Abs(a), b)


def with_sign_of(g: Emitter, size: Value, signed: Value) -> Value:
    """A size, zeros included, with the sign of another value.

    As a product: onnxruntime 1.31 makes -0.0 of the first choice of a Where 0.0.
    """
    return g.op.Mul(size, g.op.Where(below_zero(g, signed), g.like(size, -1), g.like(size, 1)))
