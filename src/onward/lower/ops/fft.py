"""Fourier transforms. PyTorch makes all of `torch.fft` of three operators: complex to complex, real to complex, and
complex to real, over any axes.

A transform of n values is a product with the matrix e^(-2 pi i jk / n), or the operator DFT (opset 17). What
onnxruntime 1.31 makes of them, 64 rows of real float32 on one thread, as milliseconds and error:

    n          100            512            1000           1024           4096           4099
    DFT        0.7  8e-6      0.6  5e-7      6.7  9e-5      1.4  7e-7      6.1  8e-7      81   4e-4
    matrix     0.03 3e-7      0.2  4e-7      0.9  4e-7      1.2  4e-7      19   3e-7      19   4e-7

Where n is no power of two its DFT loses half of the digits, in float64 none that matter. So: a matrix up to the sizes
below, and before opset 17; DFT beyond, in float64 unless n is known to be a power of two. With a size that is not
known, DFT too, as a matrix would have the square of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..complex import Complex, imag_of, join, lowers_complex, split
from ..emitter import Emitter, SizeValue, Value
from ..registry import lowers
from ._spatial import apply_matrix

aten = torch.ops.aten

Count = int | SizeValue

_LARGEST_MATRIX = 2048
_LARGEST_MATRIX_OF_POWER = 512  # of two
NONE, ROOT, WHOLE = range(3)  # what the result is divided by: 1, sqrt(n), n


@lowers_complex(aten._fft_c2c.default)
def fft_c2c(g: Emitter, z: Complex, dim: Sequence[int], normalization: int, forward: bool) -> Complex:
    """_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor"""
    return transform_all(g, z, dim, normalization, forward)


@lowers(aten._fft_r2c.default)
def fft_r2c(g: Emitter, x: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Complex:
    """_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor"""
    *others, last = dim
    half = transform(g, Complex(x), last, normalization, forward=True, onesided=onesided)
    return transform_all(g, half, others, normalization, forward=True)


@lowers_complex(aten._fft_c2r.default)
def fft_c2r(g: Emitter, z: Complex, dim: Sequence[int], normalization: int, last_dim_size: Count) -> Value:
    """_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor"""
    *others, last = dim
    z = transform_all(g, z, others, normalization, forward=False)
    return to_real(g, z, last % g.rank(z.real), normalization, last_dim_size)


def transform_all(g: Emitter, z: Complex, dim: Sequence[int], normalization: int, forward: bool) -> Complex:
    for axis in dim:
        z = transform(g, z, axis, normalization, forward)
    return z


def transform(g: Emitter, z: Complex, axis: int, normalization: int, forward: bool, onesided: bool = False) -> Complex:
    """Along one axis; the first n // 2 + 1 values alone if `onesided`."""
    axis %= g.rank(z.real)
    n = g.dim_size(z.real, axis)
    kept = n // 2 + 1 if onesided else n
    if _by_operator(g, n):
        return _by_dft(g, z, axis, n, forward, _factor(normalization, n, None if forward else n), onesided)
    cos, sin = _waves(g, n, n, kept, g.dtype(z.real))
    factor = _factor(normalization, n)
    cos, sin = (_times(g, wave, factor) for wave in (cos, sin))
    sin = g.op.Neg(sin) if forward else sin
    real, imag = (apply_matrix(g, z.real, wave, axis) for wave in (cos, sin))
    if z.imag is not None:
        real = g.op.Sub(real, apply_matrix(g, z.imag, sin, axis))
        imag = g.op.Add(imag, apply_matrix(g, z.imag, cos, axis))
    return Complex(real, imag)


def to_real(g: Emitter, z: Complex, axis: int, normalization: int, n: Count) -> Value:
    """What has this one-sided spectrum, n values along an axis."""
    if _by_operator(g, n):
        whole = _both_sides(g, z, axis, n)
        return _by_dft(g, whole, axis, n, False, _factor(normalization, n, n)).real
    dtype = g.dtype(z.real)
    kept = n // 2 + 1
    cos, sin = _waves(g, n, kept, n, dtype)
    weights = g.unsqueeze(_times(g, _occurrences(g, n, kept, dtype), _factor(normalization, n)), [1])
    real = apply_matrix(g, z.real, g.op.Mul(cos, weights), axis)
    if z.imag is None:
        return real
    return g.op.Sub(real, apply_matrix(g, z.imag, g.op.Mul(sin, weights), axis))


def _occurrences(g: Emitter, n: Count, kept: Count, dtype: torch.dtype) -> Value:
    """How often each value of a one-sided spectrum is in the whole one: twice, but for the first, and the middle."""
    places = g.arange(0, kept)
    inside = g.op.And(g.op.Greater(places, g.const(0)), g.op.Less(g.op.Add(places, places), g.as_value(n, torch.int64)))
    return g.op.Add(g.cast(inside, dtype), g.const(1, dtype))


def _both_sides(g: Emitter, z: Complex, axis: int, n: Count) -> Complex:
    """A whole spectrum from a one-sided one: what follows is what was, mirrored, its conjugate."""
    last = (n - 1) // 2
    parts = []
    for part, sign in ((z.real, 1), (imag_of(g, z), -1)):
        mirrored = g.slice(part, [last], [0], [axis], [-1])
        mirrored = mirrored if sign > 0 else g.op.Neg(mirrored)
        parts.append(g.op.Concat(part, mirrored, axis=axis))
    return Complex(*parts)


# Frequencies


@lowers(aten.fft_fftfreq.default)
def fftfreq(g: Emitter, n: Count, d: float = 1.0, *, dtype: torch.dtype | None = None) -> Value:
    """fft_fftfreq(int n, float d=1.0, *, ScalarType? dtype=None, ...) -> Tensor"""
    places, size = g.arange(0, n), g.as_value(n, torch.int64)
    behind = g.op.Less(places, g.as_value((n + 1) // 2, torch.int64))
    signed = g.where(behind, places, g.op.Sub(places, size))
    return _over_length(g, signed, size, d)


@lowers(aten.fft_rfftfreq.default)
def rfftfreq(g: Emitter, n: Count, d: float = 1.0, *, dtype: torch.dtype | None = None) -> Value:
    """fft_rfftfreq(int n, float d=1.0, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _over_length(g, g.arange(0, n // 2 + 1), g.as_value(n, torch.int64), d)


def _over_length(g: Emitter, places: Value, size: Value, d: float) -> Value:
    steps, length = g.promote(places, size)
    return g.op.Div(steps, g.op.Mul(length, g.like(length, d)))


# By the operator


def _by_operator(g: Emitter, n: Count) -> bool:
    if g.opset < 17:
        return False
    if not isinstance(n, int):
        return True
    return n > (_LARGEST_MATRIX_OF_POWER if _is_power_of_two(n) else _LARGEST_MATRIX)


def _is_power_of_two(n: Count) -> bool:
    return isinstance(n, int) and n > 0 and n & (n - 1) == 0


def _by_dft(g: Emitter, z: Complex, axis: int, n: Count, forward: bool, factor: Any, onesided: bool = False) -> Complex:
    dtype = g.dtype(z.real)
    given = g.unsqueeze(z.real, [g.rank(z.real)]) if z.imag is None else join(g, z)
    given = given if _is_power_of_two(n) else g.cast(given, torch.float64)
    settings = {"inverse": int(not forward), "onesided": int(onesided)}
    if g.opset < 20:
        made = g.node("DFT", [given], {**settings, "axis": axis})
    else:
        made = g.node("DFT", [given, None, g.const(axis)], settings)
    dims = list(g.known_dims(given))
    if onesided:
        dims[axis] = g.out.shape[axis]
    g.annotate(made, (*dims[:-1], 2))
    return split(g, _times(g, g.cast(made, dtype), factor))


# By a matrix


def _waves(g: Emitter, n: Count, rows: Count, columns: Count, dtype: torch.dtype) -> tuple[Value, Value]:
    """cos and sin of 2 pi jk / n. One turn is a table, so that jk loses no digits however large it is."""
    if isinstance(n, int):
        turn = torch.arange(n, dtype=torch.float64) * (2 * math.pi / max(n, 1))
        tables = [g.const_tensor(wave(turn).to(dtype)) for wave in (torch.cos, torch.sin)]
    else:
        steps = g.cast(g.arange(0, n), torch.float64)
        turn_value = g.op.Div(g.op.Mul(steps, g.const(2 * math.pi, torch.float64)), g.as_value(n, torch.float64))
        tables = [g.cast(wave(turn_value), dtype) for wave in (g.op.Cos, g.op.Sin)]
    products = g.op.Mul(g.unsqueeze(g.arange(0, rows), [1]), g.unsqueeze(g.arange(0, columns), [0]))
    places = g.mod(products, g.as_value(n, torch.int64))
    cos, sin = (g.op.Gather(table, places, axis=0) for table in tables)
    return cos, sin


# Scales


def _factor(normalization: int, n: Count, divided: Count | None = None) -> float | Any:
    """What to multiply with; `divided` is what the result was divided by already."""
    if isinstance(n, int):
        return {NONE: 1.0, ROOT: 1 / math.sqrt(max(n, 1)), WHOLE: 1 / max(n, 1)}[normalization] * (divided or 1)
    exponent = {NONE: 0.0, ROOT: -0.5, WHOLE: -1.0}[normalization] + (1.0 if divided is not None else 0.0)
    return (n, exponent) if exponent else 1.0


def _times(g: Emitter, x: Value, factor: Any) -> Value:
    """x times a number, or times a power of a size."""
    dtype = g.dtype(x)
    if not isinstance(factor, tuple):
        return x if factor == 1 else g.op.Mul(x, g.const(factor, dtype))
    n, exponent = factor
    size = g.as_value(n, dtype)
    scale = size if abs(exponent) == 1 else g.op.Sqrt(size)
    return g.op.Mul(x, scale) if exponent > 0 else g.op.Div(x, scale)
