"""Formulas as they are written on paper, for lowerings that are nothing but arithmetic.

    @formula(aten.lgamma.default)
    def lgamma(x: Real) -> Real:
        '''lgamma(Tensor self) -> Tensor'''
        return where(x < 0.5, ..., log(x) * (x - 0.5) - x)

A formula computes in float64, whatever the dtype of its operator: near the roots, poles and cancellations that special
functions are made of, float32 would leave few digits, and one table of coefficients serves all dtypes. All branches are
computed: what goes into one is best kept inside of its domain (`x.clip(0.5, 2.5)`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..emitter import Emitter, Number, SizeValue, Value
from ..registry import lowers


@dataclass(frozen=True, slots=True, eq=False)
class Real:
    """A tensor of numbers, or what a comparison of such tensors gives."""

    g: Emitter
    value: Value

    def _with(self, op: str, other: Real | float, *, swapped: bool = False) -> Real:
        operand = self._other(other)
        return Real(self.g, self.g.node(op, [operand, self.value] if swapped else [self.value, operand]))

    def _other(self, other: Real | float) -> Value:
        return other.value if isinstance(other, Real) else self.g.like(self.value, other)

    def __add__(self, other: Real | float) -> Real:
        return self._with("Add", other)

    __radd__ = __add__

    def __sub__(self, other: Real | float) -> Real:
        return self._with("Sub", other)

    def __rsub__(self, other: float) -> Real:
        return self._with("Sub", other, swapped=True)

    def __mul__(self, other: Real | float) -> Real:
        return self._with("Mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Real | float) -> Real:
        return self._with("Div", other)

    def __rtruediv__(self, other: float) -> Real:
        return self._with("Div", other, swapped=True)

    def __pow__(self, other: Real | float) -> Real:
        return self._with("Pow", other)

    def __neg__(self) -> Real:
        return self._apply("Neg")

    def __abs__(self) -> Real:
        return self._apply("Abs")

    def __lt__(self, other: Real | float) -> Real:
        return self._with("Less", other)

    def __gt__(self, other: Real | float) -> Real:
        return self._with("Greater", other)

    def __le__(self, other: Real | float) -> Real:
        return Real(self.g, self.g.less_or_equal(self.value, self._other(other)))

    def __ge__(self, other: Real | float) -> Real:
        return Real(self.g, self.g.greater_or_equal(self.value, self._other(other)))

    def equals(self, other: Real | float) -> Real:
        return Real(self.g, self.g.equal(self.value, self._other(other)))

    def __and__(self, other: Real) -> Real:
        return self._with("And", other)

    def __or__(self, other: Real) -> Real:
        return self._with("Or", other)

    def __invert__(self) -> Real:
        return self._apply("Not")

    def _apply(self, op: str) -> Real:
        return Real(self.g, self.g.node(op, [self.value]))

    def clip(self, low: float | None, high: float | None = None) -> Real:
        """Kept between two numbers; what is not a number stays so. Clip with one bound would make infinity finite."""
        if low is None or high is None:
            op, bound = ("Max", low) if low is not None else ("Min", high)
            return self if bound is None else self._with(op, bound)
        return Real(self.g, self.g.clip(self.value, low, high))

    def is_nan(self) -> Real:
        return self._apply("IsNaN")

    def is_infinite(self) -> Real:
        return abs(self).equals(math.inf)

    def is_whole(self) -> Real:
        return self.equals(floor(self))


def formula(*ops: Any) -> Callable[[Callable[..., Real]], Callable[..., Real]]:
    """Register a function of Reals as the lowering of operators whose arguments are all tensors or numbers."""

    def decorate(function: Callable[..., Real]) -> Callable[..., Real]:
        def lowering(g: Emitter, *args: Value | Number | SizeValue) -> Value:
            return function(*(real(g, arg) for arg in args)).value

        lowering.__doc__ = function.__doc__
        lowers(*ops)(lowering)
        return function

    return decorate


def number(g: Emitter, value: float, dtype: torch.dtype = torch.float64) -> Real:
    return Real(g, g.const(value, dtype))


def real(g: Emitter, x: Value | Number | SizeValue) -> Real:
    """An argument as the number that PyTorch would compute with, in float64."""
    exact = isinstance(x, Value) and g.dtype(x).is_floating_point
    return Real(g, g.cast(x if exact else g.as_value(x, g.out_dtype), torch.float64))  # type: ignore[arg-type]


def constants(g: Emitter, values: Sequence[float]) -> Real:
    """Numbers along an axis of their own."""
    return Real(g, g.const_tensor(torch.tensor(values, dtype=torch.float64)))


def where(condition: Real, x: Real | float, y: Real | float) -> Real:
    like = x if isinstance(x, Real) else y
    if not isinstance(like, Real):
        like = Real(condition.g, condition.g.const(0.0, torch.float64))
    return Real(condition.g, condition.g.op.Where(condition.value, like._other(x), like._other(y)))


def exp(x: Real) -> Real:
    return x._apply("Exp")


def log(x: Real) -> Real:
    return x._apply("Log")


def sqrt(x: Real) -> Real:
    return x._apply("Sqrt")


def sin(x: Real) -> Real:
    return x._apply("Sin")


def cos(x: Real) -> Real:
    return x._apply("Cos")


def floor(x: Real) -> Real:
    return x._apply("Floor")


def ceil(x: Real) -> Real:
    return x._apply("Ceil")


def log1p(x: Real) -> Real:
    """log(1 + x), right for small x too: what rounding did to the sum is made good by the quotient."""
    total = 1 + x
    rounded = total - 1
    tiny = rounded.equals(0)
    correction = where(tiny | (x > 1), 1, x / where(tiny, 1, rounded))
    return where(tiny, x, log(total) * correction)


def expm1(x: Real) -> Real:
    """exp(x) - 1, right for small x too, by the same trick"""
    power = exp(x)
    rounded = log(power)
    tiny = rounded.equals(0)
    usual = abs(x) > 30  # where nothing is lost, and the power may be 0 or infinite
    return where(tiny, x, where(usual, power - 1, (power - 1) * (x / where(tiny | usual, 1, rounded))))


def sin_pi(x: Real) -> Real:
    """sin(pi x), with roots exactly at the integers."""
    whole = Real(x.g, x.g.round(x.value))
    odd = whole - 2 * floor(whole * 0.5)
    return (1 - 2 * odd) * sin((x - whole) * math.pi)


def cos_pi(x: Real) -> Real:
    """cos(pi x), with roots exactly between the integers."""
    return sin_pi(x + 0.5)


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """Horner's rule, from the highest power down."""
    if len(coefficients) == 1:
        return where(x.is_nan(), x, coefficients[0])
    result = x if coefficients[0] == 1 else x * coefficients[0]
    for coefficient in coefficients[1:-1]:
        result = (result + coefficient) * x
    return result + coefficients[-1]


@dataclass(frozen=True)
class Rational:
    """numerator(t) / denominator(t) with t = (z - centre) / radius; coefficients from the highest power down."""

    centre: float
    radius: float
    numerator: tuple[float, ...]
    denominator: tuple[float, ...]


def rational(z: Real, table: Rational) -> Real:
    """A tabulated function. The argument is taken to the nearer end of the table if it lies outside."""
    t = ((z - table.centre) * (1 / table.radius)).clip(-1, 1)
    if len(table.denominator) == 1:
        return polynomial(t, table.numerator)
    return polynomial(t, table.numerator) / polynomial(t, table.denominator)


def sum_last(x: Real) -> Real:
    """The sum along the last axis."""
    return Real(x.g, x.g.reduce("ReduceSum", x.value, [-1], keepdims=False))


def new_axis(x: Real) -> Real:
    """A new last axis, to take a series along."""
    return Real(x.g, x.g.unsqueeze(x.value, [x.g.rank(x.value)]))


def any_of(condition: Real) -> Real:
    """Whether it holds anywhere; a sum, since onnxruntime 1.31 has no largest of no elements."""
    g = condition.g
    counted = g.cast(condition.value, torch.float64)
    rank = g.rank(counted)
    return Real(g, g.reduce("ReduceSum", counted, range(rank), keepdims=False) if rank else counted) > 0


def like_result(x: Real) -> Real:
    """Stretched to the shape of the result."""
    return Real(x.g, x.g.expand(x.value, x.g.out.shape))


Step = Callable[..., tuple[Real, Sequence[Real]]]


def repeat(step: Step, going: Real, states: Sequence[Real], fixed: Sequence[Real] = ()) -> list[Real]:
    """While `going`, `going, states = step(turn, *states, *fixed)`. The shapes of states stay as they are."""
    g = going.g
    body = g.subgraph("step")
    turn = body.input("turn", torch.int64, ())
    body.input("going", torch.bool, ())
    before = [
        Real(body, body.input(f"state_{place}", g.dtype(state.value), g.known_dims(state.value)))
        for place, state in enumerate(states)
    ]
    counted = Real(body, body.cast(turn, g.dtype(states[0].value)))
    on, after = step(counted, *before, *(Real(body, each.value) for each in fixed))
    graph = body.graph([on.value, *(state.value for state in after)])
    made = g.node("Loop", [None, going.value, *(state.value for state in states)], {"body": graph}, outputs=len(states))
    results = made if isinstance(made, (tuple, list)) else [made]
    return [
        Real(g, g.annotate(result, g.known_dims(state.value), g.dtype(state.value)))
        for result, state in zip(results, states, strict=True)
    ]
