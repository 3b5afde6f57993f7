"""Arithmetic and functions of complex numbers, in terms of their parts.

Roots, logarithms and inverse functions follow W. Kahan, "Branch cuts for complex elementary functions" (1987), in
the forms that lose no digits where parts nearly cancel.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..complex import Complex, Operand, imag_of, lift, lower_real, lowers_complex, product
from ..emitter import Emitter, Number, Value
from ..registry import lowers
from ._in_float64 import in_its_type
from .arithmetic import direction, with_sign_of
from .complex_parts import truth

aten = torch.ops.aten

# Arithmetic


def times(g: Emitter, x: Complex, y: Complex) -> Complex:
    """x * y"""
    real, imag = g.op.Mul(x.real, y.real), None
    if x.imag is not None and y.imag is not None:
        real = g.op.Sub(real, g.op.Mul(x.imag, y.imag))
    if y.imag is not None:
        imag = g.op.Mul(x.real, y.imag)
    if x.imag is not None:
        crossed = g.op.Mul(x.imag, y.real)
        imag = crossed if imag is None else g.op.Add(imag, crossed)
    return Complex(real, imag)


def plus(g: Emitter, x: Complex, y: Complex) -> Complex:
    """x + y"""
    if x.imag is None or y.imag is None:
        only = x.imag if y.imag is None else y.imag
        other = y.real if y.imag is None else x.real
        return Complex(g.op.Add(x.real, y.real), None if only is None else _broadcast(g, only, other))
    return Complex(g.op.Add(x.real, y.real), g.op.Add(x.imag, y.imag))


def minus(g: Emitter, x: Complex, y: Complex) -> Complex:
    """x - y"""
    return (
        plus(g, x, negative(g, y))
        if y.imag is None or x.imag is None
        else Complex(g.op.Sub(x.real, y.real), g.op.Sub(x.imag, y.imag))
    )


def _broadcast(g: Emitter, x: Value, other: Value) -> Value:
    """x as large as its sum with the other would be."""
    return x if g.rank(other) == 0 or g.dims(x) == g.dims(other) else g.op.Add(x, g.op.Mul(other, g.like(other, 0)))


def negative(g: Emitter, z: Complex) -> Complex:
    return Complex(*(g.op.Neg(part) for part in z.parts))


def conjugate(g: Emitter, z: Complex) -> Complex:
    return z if z.imag is None else Complex(z.real, g.op.Neg(z.imag))


def scaled(g: Emitter, z: Complex, number: Number) -> Complex:
    return z if number == 1 else Complex(*(g.op.Mul(part, g.like(part, number)) for part in z.parts))


def turned(g: Emitter, z: Complex) -> Complex:
    """i * z"""
    return Complex(g.op.Neg(imag_of(g, z)), z.real)


def turned_back(g: Emitter, z: Complex) -> Complex:
    """-i * z"""
    return Complex(imag_of(g, z), g.op.Neg(z.real))


def squared_length(g: Emitter, z: Complex) -> Value:
    squares = [g.op.Mul(part, part) for part in z.parts]
    return squares[0] if len(squares) == 1 else g.op.Add(*squares)


def length(g: Emitter, z: Complex) -> Value:
    return g.op.Abs(z.real) if z.imag is None else g.op.Sqrt(squared_length(g, z))


def over(g: Emitter, x: Complex, y: Complex) -> Complex:
    """x / y"""
    if y.imag is None:
        return Complex(*(g.op.Div(part, y.real) for part in x.parts))
    down, product = squared_length(g, y), times(g, x, conjugate(g, y))
    return Complex(*(g.op.Div(part, down) for part in product.parts))


def _number(value: Any) -> Any:
    return value if not isinstance(value, (Complex, Value)) else None


@lowers_complex(aten.mul.Tensor, aten.mul.Scalar, aten.multiply.Tensor, aten.multiply.Scalar)
def mul(g: Emitter, x: Operand, y: Operand) -> Complex:
    """mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    return times(g, lift(g, x), lift(g, y))


@lowers_complex(aten.add.Tensor, aten.add.Scalar)
def add(g: Emitter, x: Operand, y: Operand, alpha: Operand = 1) -> Complex:
    """add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return plus(g, lift(g, x), _by(g, lift(g, y), alpha))


@lowers_complex(aten.sub.Tensor, aten.sub.Scalar, aten.subtract.Tensor, aten.subtract.Scalar)
def sub(g: Emitter, x: Operand, y: Operand, alpha: Operand = 1) -> Complex:
    """sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return minus(g, lift(g, x), _by(g, lift(g, y), alpha))


@lowers_complex(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(g: Emitter, x: Operand, y: Operand, alpha: Operand = 1) -> Complex:
    """rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return minus(g, lift(g, y), _by(g, lift(g, x), alpha))


def _by(g: Emitter, z: Complex, alpha: Operand) -> Complex:
    return z if _number(alpha) == 1 else times(g, z, lift(g, alpha))


@lowers_complex(aten.div.Tensor, aten.div.Scalar, aten.divide.Tensor, aten.divide.Scalar, aten.true_divide.Tensor,
                aten.true_divide.Scalar)  # fmt: skip
def div(g: Emitter, x: Operand, y: Operand) -> Complex:
    """div.Tensor(Tensor self, Tensor other) -> Tensor"""
    return over(g, lift(g, x), lift(g, y))


@lowers_complex(aten.addbmm.default)
def addbmm(g: Emitter, x: Operand, first: Complex, second: Complex, *, beta: Operand, alpha: Operand) -> Complex:
    """addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    products = product(aten.bmm.default)(g, first, second)
    total = Complex(*(g.reduce("ReduceSum", part, [0], keepdims=False) for part in products.parts))
    return plus(g, _by(g, lift(g, x), beta), _by(g, total, alpha))


@lowers_complex(aten.reciprocal.default)
def reciprocal(g: Emitter, z: Complex) -> Complex:
    """reciprocal(Tensor self) -> Tensor"""
    z = lift(g, z)
    if z.imag is None:
        return Complex(g.op.Reciprocal(z.real))
    down = squared_length(g, z)
    return Complex(g.op.Div(z.real, down), g.op.Neg(g.op.Div(z.imag, down)))


@lowers_complex(aten.square.default)
def square(g: Emitter, z: Complex) -> Complex:
    """square(Tensor self) -> Tensor"""
    if z.imag is None:
        return Complex(g.op.Mul(z.real, z.real))
    product = g.op.Mul(z.real, z.imag)
    return Complex(g.op.Mul(g.op.Sub(z.real, z.imag), g.op.Add(z.real, z.imag)), g.op.Add(product, product))


# Length and angle


@lowers_complex(aten.abs.default, aten.absolute.default)
def abs_(g: Emitter, z: Complex) -> Value:
    """abs(Tensor self) -> Tensor; squares in float64, as those of float32 are 0 below 1e-19 and infinite beyond 1e19"""
    return g.cast(length(g, lift(g, z, torch.float64)), g.out_dtype)


def angle_of(g: Emitter, z: Complex) -> Value:
    return direction(g, imag_of(g, z), z.real)


@lowers_complex(aten.angle.default)
def angle(g: Emitter, z: Complex) -> Value:
    """angle(Tensor self) -> Tensor"""
    return angle_of(g, z)


@lowers(aten.angle.default)
def angle_of_real(g: Emitter, x: Value) -> Value:
    """angle(Tensor self) -> Tensor; of real numbers: 0 or pi"""
    x = g.cast(x, g.out_dtype)
    turned_by = g.where(g.op.Less(x, g.like(x, 0)), g.like(x, math.pi), g.like(x, 0))
    return g.where(g.op.IsNaN(x), x, turned_by)


@lowers_complex(aten.sgn.default)
def sgn(g: Emitter, z: Complex) -> Complex:
    """sgn(Tensor self) -> Tensor"""
    size = length(g, z)
    safe = g.where(g.equal(size, g.like(size, 0)), g.like(size, 1), size)
    return Complex(*(g.op.Div(part, safe) for part in z.parts))


def from_polar(g: Emitter, size: Value, turn: Value) -> Complex:
    return Complex(g.op.Mul(size, g.op.Cos(turn)), g.op.Mul(size, g.op.Sin(turn)))


# Exponentials, logarithms, powers


def _exp(g: Emitter, z: Complex) -> Complex:
    size = g.op.Exp(z.real)
    return Complex(size) if z.imag is None else from_polar(g, size, z.imag)


def _log(g: Emitter, z: Complex, unit: float = 1.0) -> Complex:
    """The logarithm to the base e^(1/unit)."""
    size = g.op.Mul(g.op.Log(squared_length(g, z)), g.like(z.real, unit / 2))
    turn = angle_of(g, z)
    return Complex(size, turn if unit == 1 else g.op.Mul(turn, g.like(turn, unit)))


def _sqrt(g: Emitter, z: Complex) -> Complex:
    """The larger part by a root, the other by division: nothing cancels."""
    zero, half, imag = g.like(z.real, 0), g.like(z.real, 0.5), imag_of(g, z)
    large = g.op.Sqrt(g.op.Mul(g.op.Add(g.op.Abs(z.real), length(g, z)), half))
    nothing = g.equal(large, zero)
    small = g.op.Div(g.op.Mul(g.op.Abs(imag), half), g.where(nothing, g.like(z.real, 1), large))
    left = g.op.Less(z.real, zero)
    return Complex(g.where(left, small, large), with_sign_of(g, g.where(left, large, small), imag))


@lowers_complex(aten.exp.default)
def exp(g: Emitter, z: Complex) -> Complex:
    """exp(Tensor self) -> Tensor"""
    return _exp(g, z)


@lowers_complex(aten.exp2.default, aten.special_exp2.default)
def exp2(g: Emitter, z: Complex) -> Complex:
    """exp2(Tensor self) -> Tensor"""
    return _exp(g, scaled(g, z, math.log(2)))


@lowers_complex(aten.expm1.default, aten.special_expm1.default)
def expm1(g: Emitter, z: Complex) -> Complex:
    """expm1(Tensor self) -> Tensor; e^x cos(y) - 1 is expm1(x) cos(y) - 2 sin(y/2)^2"""
    grown, imag = lower_real(g, aten.expm1.default, [z.real]), imag_of(g, z)
    half = g.op.Sin(g.op.Mul(imag, g.like(imag, 0.5)))
    lost = g.op.Mul(g.op.Mul(half, half), g.like(half, 2))
    return Complex(g.op.Sub(g.op.Mul(grown, g.op.Cos(imag)), lost), g.op.Mul(g.op.Exp(z.real), g.op.Sin(imag)))


@lowers_complex(aten.log.default)
def log(g: Emitter, z: Complex) -> Complex:
    """log(Tensor self) -> Tensor"""
    return _log(g, z)


@lowers_complex(aten.log2.default)
def log2(g: Emitter, z: Complex) -> Complex:
    """log2(Tensor self) -> Tensor"""
    return _log(g, z, 1 / math.log(2))


@lowers_complex(aten.log10.default)
def log10(g: Emitter, z: Complex) -> Complex:
    """log10(Tensor self) -> Tensor"""
    return _log(g, z, 1 / math.log(10))


@lowers_complex(aten.log1p.default, aten.special_log1p.default)
def log1p(g: Emitter, z: Complex) -> Complex:
    """log1p(Tensor self) -> Tensor; |1 + z|^2 is 1 + (2x + |z|^2)"""
    excess = g.op.Add(g.op.Add(z.real, z.real), squared_length(g, z))
    size = g.op.Mul(lower_real(g, aten.log1p.default, [excess]), g.like(z.real, 0.5))
    return Complex(size, direction(g, imag_of(g, z), g.op.Add(z.real, g.like(z.real, 1))))


@lowers_complex(aten.sqrt.default)
def sqrt(g: Emitter, z: Complex) -> Complex:
    """sqrt(Tensor self) -> Tensor"""
    return _sqrt(g, z)


@lowers_complex(aten.rsqrt.default)
def rsqrt(g: Emitter, z: Complex) -> Complex:
    """rsqrt(Tensor self) -> Tensor"""
    return reciprocal(g, _sqrt(g, z))


@lowers_complex(aten.sigmoid.default, aten.special_expit.default)
def sigmoid(g: Emitter, z: Complex) -> Complex:
    """sigmoid(Tensor self) -> Tensor"""
    one = Complex(g.like(z.real, 1))
    return reciprocal(g, plus(g, _exp(g, negative(g, z)), one))


@lowers_complex(
    aten.pow.Tensor_Tensor, aten.pow.Tensor_Scalar, aten.pow.Scalar, aten.float_power.Tensor_Tensor,
    aten.float_power.Tensor_Scalar, aten.float_power.Scalar,
)  # fmt: skip
def pow_(g: Emitter, base: Operand, exponent: Operand) -> Complex:
    """pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    z, number = lift(g, base), _number(exponent)
    if isinstance(number, (int, float)) and (simple := _simple_power(g, z, number)) is not None:
        return simple
    power = lift(g, exponent)
    if power.imag is None:
        size = g.pow(length(g, z), power.real)
        return from_polar(g, size, g.op.Mul(angle_of(g, z), power.real))
    raised = _exp(g, times(g, power, _log(g, z)))
    base_is_zero, zero = g.op.Not(truth(g, z)), g.like(z.real, 0)
    by_zero = g.op.Not(truth(g, power))
    real = g.where(by_zero, g.like(z.real, 1), g.where(base_is_zero, zero, raised.real))
    return Complex(real, g.where(g.op.Or(base_is_zero, by_zero), zero, imag_of(g, raised)))


def _simple_power(g: Emitter, z: Complex, exponent: Number) -> Complex | None:
    """Powers that are a few products, or a root."""
    if exponent in (0.5, -0.5):
        root = _sqrt(g, z)
        return root if exponent > 0 else reciprocal(g, root)
    if exponent == 0:
        return Complex(g.annotate(g.expand(g.like(z.real, 1), g.known_dims(z.real)), g.dims(z.real)))
    if exponent != int(exponent) or abs(exponent) > 4:
        return None
    result, twice = z, square(g, z)
    if abs(exponent) > 1:
        result = {2: twice, 3: times(g, twice, z), 4: square(g, twice)}[int(abs(exponent))]
    return result if exponent > 0 else reciprocal(g, result)


# Trigonometry


def _sinh(g: Emitter, z: Complex) -> Complex:
    sinh, cosh, imag = in_its_type(g, "Sinh", z.real), in_its_type(g, "Cosh", z.real), imag_of(g, z)
    return Complex(g.op.Mul(sinh, g.op.Cos(imag)), g.op.Mul(cosh, g.op.Sin(imag)))


def _cosh(g: Emitter, z: Complex) -> Complex:
    sinh, cosh, imag = in_its_type(g, "Sinh", z.real), in_its_type(g, "Cosh", z.real), imag_of(g, z)
    return Complex(g.op.Mul(cosh, g.op.Cos(imag)), g.op.Mul(sinh, g.op.Sin(imag)))


def _tanh(g: Emitter, z: Complex) -> Complex:
    """(sinh 2x + i sin 2y) / (cosh 2x + cos 2y); beyond 60 all of it is sign(x), and cosh would overflow."""
    twice = g.clip(g.op.Add(z.real, z.real), -60, 60)
    around = imag_of(g, z)
    around = g.op.Add(around, around)
    down = g.op.Add(in_its_type(g, "Cosh", twice), g.op.Cos(around))
    return Complex(g.op.Div(in_its_type(g, "Sinh", twice), down), g.op.Div(g.op.Sin(around), down))


def _asin(g: Emitter, z: Complex) -> Complex:
    one = Complex(g.like(z.real, 1))
    below, above = _sqrt(g, minus(g, one, z)), _sqrt(g, plus(g, one, z))
    real = direction(g, z.real, times(g, below, above).real)
    return Complex(real, in_its_type(g, "Asinh", imag_of(g, times(g, conjugate(g, below), above))))


def _acos(g: Emitter, z: Complex) -> Complex:
    one = Complex(g.like(z.real, 1))
    below, above = _sqrt(g, minus(g, one, z)), _sqrt(g, plus(g, one, z))
    half = direction(g, below.real, above.real)
    return Complex(g.op.Add(half, half), in_its_type(g, "Asinh", imag_of(g, times(g, conjugate(g, above), below))))


def _acosh(g: Emitter, z: Complex) -> Complex:
    one = Complex(g.like(z.real, 1))
    below, above = _sqrt(g, minus(g, z, one)), _sqrt(g, plus(g, z, one))
    half = direction(g, imag_of(g, below), above.real)
    return Complex(in_its_type(g, "Asinh", times(g, conjugate(g, below), above).real), g.op.Add(half, half))


def _atanh(g: Emitter, z: Complex) -> Complex:
    one, imag = g.like(z.real, 1), imag_of(g, z)
    squared = g.op.Mul(imag, imag)
    above, below = g.op.Add(one, z.real), g.op.Sub(one, z.real)
    ratio = g.op.Div(
        g.op.Add(g.op.Mul(above, above), squared), g.op.Add(g.op.Mul(below, below), squared)
    )  # fmt: skip
    turn = direction(g, g.op.Add(imag, imag), g.op.Sub(g.op.Mul(above, below), squared))
    return Complex(
        g.op.Mul(g.op.Log(ratio), g.like(z.real, 0.25)), g.op.Mul(turn, g.like(z.real, 0.5))
    )  # fmt: skip


def _around(function: Any) -> Any:
    """f(z) = -i F(iz): sine from hyperbolic sine, and so on."""
    return lambda g, z: turned_back(g, function(g, turned(g, z)))


_FUNCTIONS: dict[Any, Any] = {
    aten.sinh: _sinh, aten.cosh: _cosh, aten.tanh: _tanh, aten.asin: _asin, aten.acos: _acos, aten.acosh: _acosh,
    aten.atanh: _atanh, aten.sin: _around(_sinh), aten.tan: _around(_tanh), aten.atan: _around(_atanh),
    aten.asinh: _around(_asin), aten.cos: lambda g, z: _cosh(g, turned(g, z)),
}  # fmt: skip
_FUNCTIONS |= {
    aten.arcsin: _asin, aten.arccos: _acos, aten.arccosh: _acosh, aten.arctanh: _atanh, aten.arctan: _around(_atanh),
    aten.arcsinh: _around(_asin),
}  # fmt: skip

for _packet, _function in _FUNCTIONS.items():
    lowers_complex(_packet.default)(_function)


# Reductions that are not linear


@lowers_complex(aten.prod.default, aten.prod.dim_int)
def prod(g: Emitter, z: Complex, *rest: Any, dtype: Any = None) -> Complex:
    """prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    by_dim = g.place.op == "aten.prod.dim_int"
    z = lift(g, z)
    size = lower_real(g, aten.prod.dim_int if by_dim else aten.prod.default, [length(g, z), *rest])
    axes = [[rest[0]], *rest[1:]] if by_dim else []
    turn = lower_real(g, aten.sum.dim_IntList if by_dim else aten.sum.default, [angle_of(g, z), *axes])
    return from_polar(g, size, turn)


@lowers_complex(aten.cumprod.default)
def cumprod(g: Emitter, z: Complex, dim: int, dtype: Any = None) -> Complex:
    """cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    z = lift(g, z)
    size = lower_real(g, aten.cumprod.default, [length(g, z), dim])
    return from_polar(g, size, lower_real(g, aten.cumsum.default, [angle_of(g, z), dim]))


def _spread(op: Any, finish: Any = None) -> Any:
    """A complex number's variance is the sum of its parts'."""

    def apply(g: Emitter, z: Complex, *rest: Any, **options: Any) -> Value:
        found = [lower_real(g, op, [part, *rest], options) for part in z.parts]
        total = found[0] if len(found) == 1 else g.op.Add(*found)
        return total if finish is None else finish(g, total)

    return apply


def _root(g: Emitter, x: Value) -> Value:
    return g.op.Sqrt(x)


for _overload in ("default", "dim", "correction"):
    lowers_complex(getattr(aten.var, _overload))(_spread(getattr(aten.var, _overload)))
    lowers_complex(getattr(aten.std, _overload))(_spread(getattr(aten.var, _overload), _root))


@lowers_complex(aten.var_mean.correction, aten.std_mean.correction)
def var_mean(g: Emitter, z: Complex, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> list[Any]:
    """var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)"""
    found = [
        lower_real(g, aten.var_mean.correction, [part, dim], {"correction": correction, "keepdim": keepdim})
        for part in z.parts
    ]
    spread = found[0][0] if len(found) == 1 else g.op.Add(found[0][0], found[1][0])
    mean = Complex(*(each[1] for each in found))
    return [g.op.Sqrt(spread) if g.place.op == "aten.std_mean.correction" else spread, mean]


def _on_length(op: Any) -> Any:
    def apply(g: Emitter, z: Complex, *rest: Any, **options: Any) -> Value:
        return lower_real(g, op, [length(g, z), *rest], options)

    return apply


for _op in (
    aten.linalg_vector_norm.default, aten.norm.Scalar, aten.norm.ScalarOpt_dim, aten.norm.ScalarOpt_dim_dtype,
    aten.norm.ScalarOpt_dtype,
):  # fmt: skip
    lowers_complex(_op)(_on_length(_op))
