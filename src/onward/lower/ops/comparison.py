"""Comparisons, logic, bits, and choosing by a condition."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..emitter import Emitter, Number, SizeValue, Value
from ..integer_bits import by_planes
from ..registry import lowers

aten = torch.ops.aten

Operand = Value | Number | SizeValue

# Comparisons: in the type PyTorch would promote both sides to.


def _both(g: Emitter, x: Operand, y: Operand) -> list[Value]:
    return g.promote(x, y, dtype=g.result_type(x, y))


@lowers(aten.eq.Tensor, aten.eq.Scalar)
def eq(g: Emitter, x: Operand, y: Operand) -> Value:
    """eq.Tensor(Tensor self, Tensor other) -> Tensor"""
    return g.equal(*_both(g, x, y))


@lowers(aten.ne.Tensor, aten.ne.Scalar, aten.not_equal.Tensor, aten.not_equal.Scalar)
def ne(g: Emitter, x: Operand, y: Operand) -> Value:
    """ne.Tensor(Tensor self, Tensor other) -> Tensor"""
    a, b = _both(g, x, y)
    return g.op.Xor(a, b) if g.dtype(a) is torch.bool else g.not_equal(a, b)


@lowers(aten.lt.Tensor, aten.lt.Scalar, aten.less.Tensor, aten.less.Scalar)
def lt(g: Emitter, x: Operand, y: Operand) -> Value:
    """lt.Tensor(Tensor self, Tensor other) -> Tensor"""
    return g.op.Less(*_both(g, x, y))


@lowers(aten.gt.Tensor, aten.gt.Scalar, aten.greater.Tensor, aten.greater.Scalar)
def gt(g: Emitter, x: Operand, y: Operand) -> Value:
    """gt.Tensor(Tensor self, Tensor other) -> Tensor"""
    return g.op.Greater(*_both(g, x, y))


@lowers(aten.le.Tensor, aten.le.Scalar, aten.less_equal.Tensor, aten.less_equal.Scalar)
def le(g: Emitter, x: Operand, y: Operand) -> Value:
    """le.Tensor(Tensor self, Tensor other) -> Tensor"""
    return g.less_or_equal(*_both(g, x, y))


@lowers(aten.ge.Tensor, aten.ge.Scalar, aten.greater_equal.Tensor, aten.greater_equal.Scalar)
def ge(g: Emitter, x: Operand, y: Operand) -> Value:
    """ge.Tensor(Tensor self, Tensor other) -> Tensor"""
    return g.greater_or_equal(*_both(g, x, y))


# Choosing


@lowers(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
def where(g: Emitter, condition: Value, x: Operand, y: Operand) -> Value:
    """where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"""
    return choose(g, condition, *g.promote(x, y))


@lowers(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(g: Emitter, x: Value, mask: Value, value: Operand) -> Value:
    """masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"""
    return choose(g, mask, *g.promote(value, x))


def choose(g: Emitter, condition: Value, x: Value, y: Value) -> Value:
    """Where; booleans by logic, since onnxruntime's Where has no kernel for them."""
    if g.dtype(x) is not torch.bool:
        return g.where(condition, x, y)
    condition = g.cast(condition, torch.bool)
    opposite = g.op.Not(condition)
    if _is(g, x, True):
        return g.op.Or(condition, y)
    if _is(g, x, False):
        return g.op.And(opposite, y)
    if _is(g, y, True):
        return g.op.Or(opposite, x)
    if _is(g, y, False):
        return g.op.And(condition, x)
    return g.op.Or(g.op.And(condition, x), g.op.And(opposite, y))


def _is(g: Emitter, x: Value, truth: bool) -> bool:
    tensor = g.value_of(x)
    return tensor is not None and tensor.dim() == 0 and bool(tensor) is truth


# Logic


def _register_logic(name: str, *ops: object) -> None:
    @lowers(*ops)
    def logical(g: Emitter, x: Value, y: Value) -> Value:
        """logical_and(Tensor self, Tensor other) -> Tensor, and its kin"""
        return g.node(name, g.promote(x, y, dtype=torch.bool))


_register_logic("And", aten.logical_and.default)
_register_logic("Or", aten.logical_or.default)
_register_logic("Xor", aten.logical_xor.default)


@lowers(aten.logical_not.default)
def logical_not(g: Emitter, x: Value) -> Value:
    """logical_not(Tensor self) -> Tensor"""
    return g.op.Not(g.cast(x, torch.bool))


# Bits: operators of their own from opset 18, on signed and unsigned integers; before, arithmetic on bit planes.


def _register_bits(name: str, combine: Callable[[Emitter, Value, Value], Value], *ops: object) -> None:
    @lowers(*ops)
    def bitwise(g: Emitter, x: Operand, y: Operand) -> Value:
        """bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor, and its kin"""
        a, b = g.promote(x, y)
        if g.out_dtype is torch.bool:
            return g.node(name, [a, b])
        if g.opset >= 18:
            return g.node(f"Bitwise{name}", [a, b])
        return by_planes(g, a, b, g.out_dtype, combine)


_register_bits(
    "And",
    lambda g, x, y: g.op.And(x, y),
    aten.bitwise_and.Tensor,
    aten.bitwise_and.Scalar,
    aten.bitwise_and.Scalar_Tensor,
    aten.__and__.Tensor,
    aten.__and__.Scalar,
)
_register_bits(
    "Or",
    lambda g, x, y: g.op.Or(x, y),
    aten.bitwise_or.Tensor,
    aten.bitwise_or.Scalar,
    aten.bitwise_or.Scalar_Tensor,
    aten.__or__.Tensor,
    aten.__or__.Scalar,
)
_register_bits(
    "Xor",
    lambda g, x, y: g.op.Xor(x, y),
    aten.bitwise_xor.Tensor,
    aten.bitwise_xor.Scalar,
    aten.bitwise_xor.Scalar_Tensor,
    aten.__xor__.Tensor,
    aten.__xor__.Scalar,
)


@lowers(aten.bitwise_not.default)
def bitwise_not(g: Emitter, x: Value) -> Value:
    """bitwise_not(Tensor self) -> Tensor"""
    if g.out_dtype is torch.bool:
        return g.op.Not(x)
    if g.opset >= 18:
        return g.op.BitwiseNot(x)
    return g.op.Sub(g.like(x, -1 if g.dtype(x).is_signed else torch.iinfo(g.dtype(x)).max), x)


@lowers(
    aten.bitwise_left_shift.Tensor,
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.bitwise_left_shift.Scalar_Tensor,
    aten.__lshift__.Tensor,
    aten.__lshift__.Scalar,
)
def bitwise_left_shift(g: Emitter, x: Operand, y: Operand) -> Value:
    """bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor. BitShift takes unsigned integers only."""
    a, b = g.promote(x, y, dtype=torch.int64)
    return g.op.Mul(a, _power_of_two(g, b))


@lowers(
    aten.bitwise_right_shift.Tensor,
    aten.bitwise_right_shift.Tensor_Scalar,
    aten.bitwise_right_shift.Scalar_Tensor,
    aten.__rshift__.Tensor,
    aten.__rshift__.Scalar,
)
def bitwise_right_shift(g: Emitter, x: Operand, y: Operand) -> Value:
    """bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor. The sign is kept, as dividing does."""
    a, b = g.promote(x, y, dtype=torch.int64)
    return g.floor_divide(a, _power_of_two(g, b))


def _power_of_two(g: Emitter, places: Value) -> Value:
    known = g.value_of(places)
    if known is not None and bool(((known >= 0) & (known < 63)).all()):
        return g.const_tensor(torch.ones_like(known) << known)
    table = torch.tensor([1 << place for place in range(63)], dtype=torch.int64)
    return g.op.Gather(g.const_tensor(table), places, axis=0)
