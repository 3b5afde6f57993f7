"""Arithmetic on integers that no operator does exactly: common divisors and powers, computed in a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from onward.onnx_operators import dimension_math as dimensions

from ..emitter import Emitter, Value
from ..registry import lowers

aten = torch.ops.aten


@lowers(aten.gcd.default)
def gcd(g: Emitter, x: Value, y: Value) -> Value:
    """gcd(Tensor self, Tensor other) -> Tensor"""
    return g.cast(_common_divisor(g, *(g.op.Abs(each) for each in g.promote(x, y, dtype=torch.int64))), g.out_dtype)


@lowers(aten.lcm.default)
def lcm(g: Emitter, x: Value, y: Value) -> Value:
    """lcm(Tensor self, Tensor other) -> Tensor"""
    a, b = (g.op.Abs(each) for each in g.promote(x, y, dtype=torch.int64))
    divisor = g.max(_common_divisor(g, a, b), g.const(1))  # of two zeros, whose multiple is zero
    return g.cast(g.op.Abs(g.op.Mul(g.op.Div(a, divisor), b)), g.out_dtype)


def _common_divisor(g: Emitter, x: Value, y: Value) -> Value:
    """Euclid's algorithm on all pairs at once, until the last one is done."""

    def step(body: Emitter, a: Value, b: Value) -> list[Value]:
        more = body.op.Greater(b, body.const(0))
        rest = body.mod(a, body.where(more, b, body.const(1)))
        return [body.where(more, b, a), rest]

    return _while_positive(g, step, [x, y])[0]


def integer_power(g: Emitter, x: Value, exponent: Value) -> Value:
    """x to an integer power by repeated squaring, modulo the type's range as PyTorch has it.

    onnxruntime 1.31 goes by way of doubles. To a negative power only 1 and -1 have an integer other than 0.
    """
    dtype = g.dtype(x)
    x, exponent = g.cast(x, torch.int64), g.cast(exponent, torch.int64)
    one = g.const(1)

    def step(body: Emitter, result: Value, base: Value, rest: Value) -> list[Value]:
        odd = body.equal(body.mod(rest, body.const(2)), body.const(1))
        product = body.where(odd, body.op.Mul(result, base), result)
        return [product, body.op.Mul(base, base), body.op.Div(rest, body.const(2))]

    shape = dimensions.broadcast(g.known_dims(x), g.known_dims(exponent))
    power = _while_positive(g, step, [g.expand(one, shape), x, g.op.Abs(exponent)])[0]
    unit = g.equal(g.op.Abs(x), one)
    keeps = g.op.Or(unit, g.greater_or_equal(exponent, g.const(0)))
    return g.cast(g.where(keeps, power, g.const(0)), dtype)


def _while_positive(g: Emitter, step: Callable[..., list[Value]], start: Sequence[Value]) -> Sequence[Value]:
    """Repeat a step on tensors of one shape as long as an element of the last one is above zero."""
    shape = dimensions.broadcast(*(g.known_dims(each) for each in start))
    state = [g.expand(each, shape) for each in start]
    body = g.subgraph("step")
    body.input("turn", torch.int64, ())
    body.input("go", torch.bool, ())
    made = step(body, *(body.input("state", torch.int64, shape) for _ in state))
    inputs = [None, _any_positive(g, state[-1]), *state]
    found = g.node("Loop", inputs, {"body": body.graph([_any_positive(body, made[-1]), *made])}, outputs=len(state))
    return [g.annotate(each, shape, torch.int64) for each in found]


def _any_positive(g: Emitter, x: Value) -> Value:
    return g.op.Greater(g.reduce("ReduceMax", x), g.const(0))
