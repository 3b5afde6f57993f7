"""Functions in float64 for which onnxruntime 1.31 has kernels for float32 only."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ..emitter import Emitter, Value
from . import _special_tables as tables
from ._formula import Real, cos, exp, expm1, log, log1p, rational, sin, sqrt, where


def arccosine(x: Real) -> Real:
    """Of numbers between -1 and 1; beyond them the root of a negative number makes it NaN."""
    half = (1 - abs(x)) * 0.5
    angle = 2 * sqrt(half) * rational(half, tables.ARCSINE)
    return where(x < 0, math.pi - angle, angle)


def arcsine(x: Real) -> Real:
    """Near 0 by its own table, so that small numbers keep their digits."""
    small = abs(x) < 0.5
    return where(small, x * rational(where(small, x * x, 0), tables.ARCSINE), math.pi / 2 - arccosine(x))


def arctangent(x: Real) -> Real:
    """The angle in float32, and the sine of what is missing; of numbers beyond 1 by the angle of the reciprocal."""
    g, beyond = x.g, abs(x) > 1
    slope = where(beyond, 1 / where(beyond, x, 1), x)
    angle = Real(g, g.cast(g.op.Atan(g.cast(slope.value, torch.float32)), torch.float64))
    angle = angle + (slope * cos(angle) - sin(angle)) / sqrt(slope * slope + 1)
    return where(beyond, where(x < 0, -math.pi / 2, math.pi / 2) - angle, angle)


_FAR = 1e8  # beyond, adding 1 to the square changes nothing, and the square may be infinite


def area_sine(x: Real) -> Real:
    """log(|x| + sqrt(x^2 + 1)), with the sign of x"""
    size = abs(x)
    far = size > _FAR
    near = where(far, 1, size)
    square = near * near
    result = where(far, log(size) + math.log(2), log1p(near + square / (sqrt(square + 1) + 1)))
    return where(x < 0, -result, result)


def area_cosine(x: Real) -> Real:
    """log(x + sqrt(x^2 - 1))"""
    far = x > _FAR
    more = where(far, 1, x) - 1
    return where(far, log(x) + math.log(2), log1p(more + sqrt(more) * sqrt(more + 2)))


def area_tangent(x: Real) -> Real:
    """Half of log((1 + |x|) / (1 - |x|)), with the sign of x"""
    size = abs(x)
    result = log1p(2 * size / (1 - size)) * 0.5
    return where(x < 0, -result, result)


def hyperbolic_sine(x: Real) -> Real:
    """Half the difference of two powers; of small numbers, in the form that keeps their digits."""
    small = abs(x) < 1
    more = expm1(where(small, x, 0))
    return where(small, more + more / (more + 1), exp(x) - exp(-x)) * 0.5


_FUNCTIONS: dict[str, Callable[[Real], Real]] = {
    "Acos": arccosine,
    "Asin": arcsine,
    "Atan": arctangent,
    "Asinh": area_sine,
    "Acosh": area_cosine,
    "Atanh": area_tangent,
    "Sinh": hyperbolic_sine,
    "Cosh": lambda x: (exp(x) + exp(-x)) * 0.5,
    "Tan": lambda x: sin(x) / cos(x),
}


def in_its_type(g: Emitter, name: str, x: Value) -> Value:
    """The operator of that name, in float64 written out."""
    return _FUNCTIONS[name](Real(g, x)).value if g.dtype(x) is torch.float64 else g.node(name, [x])
