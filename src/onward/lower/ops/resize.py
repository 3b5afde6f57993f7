"""Interpolation. Every mode works on one axis after the other, and none mixes channels.

ONNX's Resize says all of it from opset 11 on. Where it cannot (older opsets, float64, the rare rounding that differs) a
nearest neighbour is a Gather, linear weights are a hat function around each source position, and any mode at static
sizes is a product with the matrix that PyTorch itself makes of the identity.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from onward.capture.program.facts import Dim, SymDim

from ..bridge import as_dim
from ..emitter import Emitter, SizeValue, Value
from ..registry import lowers
from ._spatial import apply_matrix, by_axes

aten = torch.ops.aten
_FAR = 1 << 14  # pictures are not larger


@dataclass(frozen=True, slots=True)
class _Mode:
    """One way to interpolate: in ONNX's words, and PyTorch's kernel along the last axis of [1, 1, n, size]."""

    mode: str
    coordinates: str
    kernel: Callable[[torch.Tensor, int, float | None], torch.Tensor]
    rounding: str = "floor"
    cubic: float = -0.75
    antialias: bool = False
    align: bool = False

    @property
    def since(self) -> int:
        """The first opset whose Resize knows it."""
        return 18 if self.antialias else 11


def _nearest_kernel(op: Any) -> Callable[[torch.Tensor, int, float | None], torch.Tensor]:
    return lambda x, size, scale: op(x[0], [size], scale)[None]


def _nearest_mode(exact: bool) -> _Mode:
    if exact:
        kernel = _nearest_kernel(aten._upsample_nearest_exact1d.default)
        return _Mode("nearest", "half_pixel", kernel, "round_prefer_ceil")
    return _Mode("nearest", "asymmetric", _nearest_kernel(aten.upsample_nearest1d.default))


def _linear_mode(align: bool, antialias: bool = False) -> _Mode:
    def kernel(x: torch.Tensor, size: int, scale: float | None) -> torch.Tensor:
        if antialias:
            return aten._upsample_bilinear2d_aa.default(x, [x.shape[2], size], align, None, scale)
        return aten.upsample_linear1d.default(x[0], [size], align, scale)[None]

    return _Mode("linear", _coordinates(align), kernel, antialias=antialias, align=align)


def _cubic_mode(align: bool, antialias: bool = False) -> _Mode:
    op = aten._upsample_bicubic2d_aa.default if antialias else aten.upsample_bicubic2d.default

    def kernel(x: torch.Tensor, size: int, scale: float | None) -> torch.Tensor:
        return op(x, [x.shape[2], size], align, None, scale)

    coefficient = -0.5 if antialias else -0.75
    return _Mode("cubic", _coordinates(align), kernel, cubic=coefficient, antialias=antialias, align=align)


def _coordinates(align: bool) -> str:
    return "align_corners" if align else "half_pixel"


# What is asked for


@dataclass(frozen=True, slots=True)
class _Axis:
    """One spatial axis: how long it is, how long it shall be, and the factor if one was given."""

    place: int
    size: Dim
    wanted: Any  # an int, a SymDim or a SizeValue
    factor: float | None

    @property
    def changes(self) -> bool:
        return as_dim(self.wanted) != self.size or self.factor not in (None, 1.0)

    @property
    def static(self) -> bool:
        return isinstance(self.size, int) and isinstance(as_dim(self.wanted), int)

    def factor_gives_size(self) -> bool:
        """Whether size * factor in float32, as onnxruntime computes it, is the wanted size."""
        wanted, factor = as_dim(self.wanted), np.float32(self.factor)
        sizes = self.size.values if isinstance(self.size, SymDim) else (self.size,)
        results = wanted.values if isinstance(wanted, SymDim) else (wanted,) * len(sizes)
        return all(int(factor * np.float32(n)) == m for n, m in zip(sizes, results, strict=False))


def _axes(g: Emitter, x: Value, sizes: Sequence[Any] | None, factors: Sequence[Any] | None, mode: _Mode) -> list[_Axis]:
    spatial = g.rank(x) - 2
    given = list(factors) if factors else [None] * spatial
    wanted = (
        list(sizes) if sizes is not None else [_scaled(g, x, axis, given[axis - 2]) for axis in range(2, spatial + 2)]
    )
    for axis in range(2, spatial + 2):
        factor = given[axis - 2]
        if isinstance(factor, SizeValue):
            if not mode.align and not _computes_a_ratio(factor, g.known_dims(x)[axis]):
                raise g.unsupported(
                    "a scale factor that depends on sizes and is not the ratio of two (pass size=, or "
                    "recompute_scale_factor=True)"
                )
            given[axis - 2] = None
    return [_Axis(axis, g.known_dims(x)[axis], wanted[axis - 2], given[axis - 2]) for axis in range(2, spatial + 2)]


def _computes_a_ratio(factor: SizeValue, size: Dim) -> bool:
    """Whether the size times the factor is whole whatever the size is: `y.shape[2] / x.shape[2]`."""
    if factor.function is not operator.truediv:
        return False
    above, below = factor.operands
    whole = above.kind is int if isinstance(above, SizeValue) else isinstance(above, int)
    return whole and (below.dim if isinstance(below, SizeValue) else below) == size


def _scaled(g: Emitter, x: Value, axis: int, factor: Any) -> Any:
    """The size that a factor gives, as PyTorch rounds it."""
    size, found = g.dim_size(x, axis), g.out.shape[axis]
    if isinstance(factor, SizeValue) and not isinstance(found, int):
        return SizeValue.of(math.floor, factor * size)
    if isinstance(found, int) or not isinstance(size, SizeValue) or factor is None:
        return found
    return size * int(factor) if factor == int(factor) else SizeValue.of(math.floor, size * factor)


def _resize(g: Emitter, x: Value, sizes: Any, factors: Any, mode: _Mode) -> Value:
    """Resize, or what stands in for it."""
    axes = _axes(g, x, sizes, factors, mode)
    if not any(axis.changes for axis in axes):
        return x
    if _native(g, x, axes, mode):
        return _by_resize(g, x, axes, mode)
    if mode.mode == "nearest" and _upsamples_by_integers(g, x, axes, mode):
        scales = [1.0, 1.0, *(float(axis.factor or 1) for axis in axes)]
        return g.annotate(g.resize(x, scales=scales), g.out.shape)
    for axis in axes:
        if axis.changes:
            x = _along(g, x, axis, mode)
    return x


def _native(g: Emitter, x: Value, axes: Sequence[_Axis], mode: _Mode) -> bool:
    if g.opset < mode.since or g.dtype(x) is torch.float64:  # onnxruntime 1.31 resizes in float32
        return False
    if mode.mode == "nearest":
        return all(_same_neighbours(axis, mode) if axis.static else _rounds_alike(axis, mode) for axis in axes)
    return not (mode.antialias and mode.align)  # onnxruntime 1.31 lays the corners elsewhere


def _upsamples_by_integers(g: Emitter, x: Value, axes: Sequence[_Axis], mode: _Mode) -> bool:
    """What Upsample of opset 9 and Resize of opset 10 do as PyTorch does."""
    if g.opset >= 11 or mode.coordinates != "asymmetric" or g.dtype(x) is torch.float64:
        return False
    return all(axis.factor is not None and axis.factor >= 1 and axis.factor == int(axis.factor) for axis in axes)


def _by_resize(g: Emitter, x: Value, axes: Sequence[_Axis], mode: _Mode) -> Value:
    settings: dict[str, Any] = {
        "mode": mode.mode,
        "coordinates": mode.coordinates,
        "nearest_mode": mode.rounding,
        "cubic": mode.cubic,
        "antialias": mode.antialias,
    }
    if all(axis.factor is not None and axis.factor_gives_size() for axis in axes):
        result = g.resize(x, scales=[1.0, 1.0, *(axis.factor for axis in axes if axis.factor)], **settings)
    else:
        if not mode.align and any(axis.factor is not None and not _is_ratio(axis) for axis in axes):
            raise g.unsupported("scale factors that do not divide the sizes evenly, for some axes only")
        result = g.resize(x, sizes=[*g.known_dims(x)[:2], *(axis.wanted for axis in axes)], **settings)
    return g.annotate(result, g.out.shape)


def _is_ratio(axis: _Axis) -> bool:
    """Whether the factor is the ratio of the sizes, so that the sizes alone say it."""
    wanted = as_dim(axis.wanted)
    sizes = axis.size.values if isinstance(axis.size, SymDim) else (axis.size,)
    results = wanted.values if isinstance(wanted, SymDim) else (wanted,) * len(sizes)
    return all(n * axis.factor == m for n, m in zip(sizes, results, strict=False))  # type: ignore[operator]


def _same_neighbours(axis: _Axis, mode: _Mode) -> bool:
    """Whether onnxruntime's division finds the neighbours that PyTorch's multiplication finds."""
    size, wanted = axis.size, as_dim(axis.wanted)
    given = axis.factor is not None and axis.factor_gives_size()
    scale = np.float32(axis.factor if given else wanted / size)  # type: ignore[operator]
    places = np.arange(wanted, dtype=np.float32)  # type: ignore[arg-type]
    if mode.coordinates == "half_pixel":
        places = (places + np.float32(0.5)) / scale - np.float32(0.5)
        places = np.floor(places + np.float32(0.5))
    else:
        places = np.floor(places / scale)
    return bool(np.array_equal(places.clip(0, size - 1), _neighbours(axis, mode).numpy()))  # type: ignore[operator]


def _rounds_alike(axis: _Axis, mode: _Mode) -> bool:
    """The same for an axis of any size: dividing by 0.6 is not always multiplying by 1 / 0.6.

    Where the sizes say the factor, it has to be a whole number or a power of two at all of them: 9 of 63 is neither.
    """
    if axis.factor is None:
        dims = (axis.size, as_dim(axis.wanted))
        count = max(len(dim.values) for dim in dims if isinstance(dim, SymDim))
        sizes, results = (dim.values if isinstance(dim, SymDim) else (dim,) * count for dim in dims)
        pairs: Any = zip(sizes, results, strict=True)
        return all(n and m and (m % n == 0 or (n % m == 0 and (n // m).bit_count() == 1)) for n, m in pairs)
    places, scale = np.arange(_FAR, dtype=np.float32), np.float32(axis.factor)
    shift = np.float32(0.5 if mode.coordinates == "half_pixel" else 0)
    divided, multiplied = (places + shift) / scale, (places + shift) * np.float32(1 / axis.factor)
    return bool(np.array_equal(np.floor(divided), np.floor(multiplied)))


def _neighbours(axis: _Axis, mode: _Mode) -> torch.Tensor:
    """The element that PyTorch takes for each place of a static axis."""
    numbers = torch.arange(axis.size, dtype=torch.float32)[None, None, None]  # type: ignore[arg-type]
    return mode.kernel(numbers, as_dim(axis.wanted), axis.factor).flatten()  # type: ignore[arg-type]


# One axis at a time


def _along(g: Emitter, x: Value, axis: _Axis, mode: _Mode) -> Value:
    if mode.mode == "nearest":
        if axis.static:
            return g.op.Gather(x, g.const_tensor(_neighbours(axis, mode).long()), axis=axis.place)
        return g.op.Gather(x, _dynamic_neighbours(g, x, axis, mode), axis=axis.place)
    if axis.static:
        dtype = torch.float64 if g.dtype(x) is torch.float64 else torch.float32
        identity = torch.eye(axis.size, dtype=dtype)[None, None]  # type: ignore[arg-type]
        weights = g.const_tensor(mode.kernel(identity, as_dim(axis.wanted), axis.factor)[0, 0])  # type: ignore[arg-type]
    elif mode.mode == "linear" and not mode.antialias:
        weights = _hats(g, x, axis, mode)
    elif mode.antialias:
        weights = _spread(g, x, axis, mode)
    else:
        if g.opset < mode.since:
            raise g.needs_opset(mode.since)
        raise g.unsupported("cubic interpolation of float64 at dynamic sizes")
    return apply_matrix(g, x, g.cast(weights, g.dtype(x)), axis.place)


def _step(g: Emitter, x: Value, axis: _Axis, mode: _Mode, dtype: torch.dtype) -> Value:
    """How far apart in the input two neighbours of the output lie."""
    if axis.factor is not None and not mode.align:
        return g.const([1.0 / axis.factor], dtype)
    size, wanted = g.dim_size(x, axis.place), axis.wanted
    if not mode.align:
        return g.op.Div(g.cast(g.size(size), dtype), g.cast(g.size(wanted), dtype))
    one, count = g.const([1], torch.int64), g.size(wanted)
    gaps = g.op.Where(g.op.Equal(count, one), one, g.op.Sub(count, one))  # one output lies on the first element
    return g.op.Div(g.cast(g.op.Sub(g.size(size), one), dtype), g.cast(gaps, dtype))


def _sources(g: Emitter, x: Value, axis: _Axis, mode: _Mode, dtype: torch.dtype, shift: float) -> Value:
    """Where in the input each output lies, before rounding: (i + shift) * step - shift."""
    places = g.arange(0, axis.wanted, dtype=dtype)
    if shift:
        places = g.op.Add(places, g.const(shift, dtype))
    return g.op.Mul(places, _step(g, x, axis, mode, dtype))


def _dynamic_neighbours(g: Emitter, x: Value, axis: _Axis, mode: _Mode) -> Value:
    shift = 0.5 if mode.coordinates == "half_pixel" else 0.0
    places = g.cast(g.op.Floor(_sources(g, x, axis, mode, torch.float32, shift)), torch.int64)
    return g.min(places, g.size(g.dim_size(x, axis.place) - 1))


def _hats(g: Emitter, x: Value, axis: _Axis, mode: _Mode) -> Value:
    """Linear weights [size, wanted]: 1 at the source position, falling to 0 one element away on both sides."""
    dtype = torch.float64 if g.dtype(x) is torch.float64 else torch.float32
    half = g.const(0.5, dtype)
    sources = _sources(g, x, axis, mode, dtype, 0.0 if mode.align else 0.5)
    sources = sources if mode.align else g.op.Sub(sources, half)
    last = g.cast(g.size(g.dim_size(x, axis.place) - 1), dtype)
    sources = g.max(g.min(sources, last), g.const(0.0, dtype))
    elements = g.unsqueeze(g.arange(0, g.dim_size(x, axis.place), dtype=dtype), [1])
    return _hat(g, g.op.Abs(g.op.Sub(elements, sources)))


def _spread(g: Emitter, x: Value, axis: _Axis, mode: _Mode) -> Value:
    """Antialiasing weights [size, wanted]: the filter, as wide as the step between outputs if that is more than one
    element, around each output's middle; the weights of an output add up to 1."""
    dtype = torch.float64 if g.dtype(x) is torch.float64 else torch.float32
    half, one = g.const(0.5, dtype), g.const(1.0, dtype)
    step = _step(g, x, axis, mode, dtype)
    centers = g.op.Mul(g.op.Add(g.arange(0, axis.wanted, dtype=dtype), half), step)
    elements = g.op.Add(g.unsqueeze(g.arange(0, g.dim_size(x, axis.place), dtype=dtype), [1]), half)
    distance = g.op.Div(g.op.Abs(g.op.Sub(elements, centers)), g.max(step, one))
    weights = _cubic_filter(g, distance, mode.cubic) if mode.mode == "cubic" else _hat(g, distance)
    return g.op.Div(weights, g.reduce("ReduceSum", weights, [0], keepdims=True))


def _hat(g: Emitter, distance: Value) -> Value:
    return g.max(g.op.Sub(g.like(distance, 1.0), distance), g.like(distance, 0.0))


def _cubic_filter(g: Emitter, distance: Value, a: float) -> Value:
    """Two cubics, one up to distance 1 and one up to 2, and nothing beyond."""

    def polynomial(*coefficients: float) -> Value:
        result = g.like(distance, coefficients[0])
        for coefficient in coefficients[1:]:
            result = g.op.Add(g.op.Mul(result, distance), g.like(distance, coefficient))
        return result

    near, far = polynomial(a + 2, -(a + 3), 0, 1), polynomial(a, -5 * a, 8 * a, -4 * a)
    outer = g.where(g.op.Less(distance, g.like(distance, 2.0)), far, g.like(distance, 0.0))
    return g.where(g.op.Less(distance, g.like(distance, 1.0)), near, outer)


# The operators


@by_axes(aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec)
def upsample_nearest_vec(g: Emitter, x: Value, sizes: Any, factors: Any, *, spatial: int) -> Value:
    """upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"""
    return _resize(g, x, sizes, factors, _nearest_mode(exact=False))


@by_axes(aten.upsample_nearest1d.default, aten.upsample_nearest2d.default, aten.upsample_nearest3d.default)
def upsample_nearest(g: Emitter, x: Value, sizes: Any, *factors: float | None, spatial: int) -> Value:
    """upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None) -> Tensor"""
    return _resize(g, x, sizes, factors, _nearest_mode(exact=False))


@by_axes(aten._upsample_nearest_exact1d.vec, aten._upsample_nearest_exact2d.vec, aten._upsample_nearest_exact3d.vec)
def upsample_nearest_exact_vec(g: Emitter, x: Value, sizes: Any, factors: Any, *, spatial: int) -> Value:
    """_upsample_nearest_exact2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor"""
    return _resize(g, x, sizes, factors, _nearest_mode(exact=True))


@by_axes(
    aten._upsample_nearest_exact1d.default,
    aten._upsample_nearest_exact2d.default,
    aten._upsample_nearest_exact3d.default,
)
def upsample_nearest_exact(g: Emitter, x: Value, sizes: Any, *factors: float | None, spatial: int) -> Value:
    """_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None)
    -> Tensor"""
    return _resize(g, x, sizes, factors, _nearest_mode(exact=True))


@by_axes(aten.upsample_linear1d.vec, aten.upsample_bilinear2d.vec, aten.upsample_trilinear3d.vec)
def upsample_linear_vec(g: Emitter, x: Value, sizes: Any, align: bool, factors: Any, *, spatial: int) -> Value:
    """upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)
    -> Tensor"""
    return _resize(g, x, sizes, factors, _linear_mode(align))


@by_axes(aten.upsample_linear1d.default, aten.upsample_bilinear2d.default, aten.upsample_trilinear3d.default)
def upsample_linear(g: Emitter, x: Value, sizes: Any, align: bool, *factors: float | None, spatial: int) -> Value:
    """upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
    float? scales_w=None) -> Tensor"""
    return _resize(g, x, sizes, factors, _linear_mode(align))


@lowers(aten.upsample_bicubic2d.vec)
def upsample_bicubic2d_vec(g: Emitter, x: Value, sizes: Any, align: bool, factors: Any) -> Value:
    """upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)
    -> Tensor"""
    return _resize(g, x, sizes, factors, _cubic_mode(align))


@lowers(aten.upsample_bicubic2d.default)
def upsample_bicubic2d(g: Emitter, x: Value, sizes: Any, align: bool, *factors: float | None) -> Value:
    """upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
    float? scales_w=None) -> Tensor"""
    return _resize(g, x, sizes, factors, _cubic_mode(align))


@lowers(aten._upsample_bilinear2d_aa.vec)
def _upsample_bilinear2d_aa_vec(g: Emitter, x: Value, sizes: Any, align: bool, factors: Any) -> Value:
    """_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)
    -> Tensor"""
    return _resize(g, x, sizes, factors, _linear_mode(align, antialias=True))


@lowers(aten._upsample_bilinear2d_aa.default)
def _upsample_bilinear2d_aa(g: Emitter, x: Value, sizes: Any, align: bool, *factors: float | None) -> Value:
    """_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
    float? scales_w=None) -> Tensor"""
    return _resize(g, x, sizes, factors, _linear_mode(align, antialias=True))


@lowers(aten._upsample_bicubic2d_aa.vec)
def _upsample_bicubic2d_aa_vec(g: Emitter, x: Value, sizes: Any, align: bool, factors: Any) -> Value:
    """_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)
    -> Tensor"""
    return _resize(g, x, sizes, factors, _cubic_mode(align, antialias=True))


@lowers(aten._upsample_bicubic2d_aa.default)
def _upsample_bicubic2d_aa(g: Emitter, x: Value, sizes: Any, align: bool, *factors: float | None) -> Value:
    """_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
    float? scales_w=None) -> Tensor"""
    return _resize(g, x, sizes, factors, _cubic_mode(align, antialias=True))
