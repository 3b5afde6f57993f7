"""The functions of `torch.fft` as they are called: sizes to crop or pad to, axes, norms.

PyTorch would take them apart by itself, but asks on the way whether an axis is longer than what is asked for; for an
axis whose size is not known, both have to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..bridge import as_dim
from ..complex import Complex, lift, lowers_complex
from ..emitter import Emitter, SizeValue, Value
from ..registry import lowers
from .complex_math import conjugate
from .fft import NONE, ROOT, WHOLE, Count, to_real, transform, transform_all

aten = torch.ops.aten

Sizes = Count | Sequence[Count] | None
Axes = int | Sequence[int] | None


def _both(*packets: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a lowering for real and for complex numbers."""
    ops = [packet.default for packet in packets]
    return lambda function: lowers_complex(*ops)(lowers(*ops)(function))


@_both(aten.fft_fft, aten.fft_fft2, aten.fft_fftn, aten.fft_ifft, aten.fft_ifft2, aten.fft_ifftn)
def fft(g: Emitter, x: Complex | Value, n: Sizes = None, dim: Axes = None, norm: str | None = None) -> Complex:
    """fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"""
    forward = not _name(g).startswith("i")
    z, axes, sizes = _wanted(g, x, n, dim)
    z = _resized(g, z, axes, sizes)
    return transform_all(g, z, axes, _divisor(norm, forward), forward)


@_both(aten.fft_rfft, aten.fft_rfft2, aten.fft_rfftn)
def rfft(g: Emitter, x: Value, n: Sizes = None, dim: Axes = None, norm: str | None = None) -> Complex:
    """fft_rfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"""
    z, axes, sizes = _wanted(g, x, n, dim)
    z = _resized(g, z, axes, sizes)
    half = transform(g, z, axes[-1], _divisor(norm, True), forward=True, onesided=True)
    return transform_all(g, half, axes[:-1], _divisor(norm, True), forward=True)


@_both(aten.fft_ihfft, aten.fft_ihfft2, aten.fft_ihfftn)
def ihfft(g: Emitter, x: Value, n: Sizes = None, dim: Axes = None, norm: str | None = None) -> Complex:
    """fft_ihfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"""
    z, axes, sizes = _wanted(g, x, n, dim)
    z = _resized(g, z, axes, sizes)
    half = transform(g, z, axes[-1], _divisor(norm, False), forward=True, onesided=True)
    return transform_all(g, conjugate(g, half), axes[:-1], _divisor(norm, False), forward=False)


@_both(
    aten.fft_irfft, aten.fft_irfft2, aten.fft_irfftn, aten.fft_hfft, aten.fft_hfft2, aten.fft_hfftn
)  # fmt: skip
def irfft(g: Emitter, x: Complex | Value, n: Sizes = None, dim: Axes = None, norm: str | None = None) -> Value:
    """fft_irfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"""
    forward = _name(g).startswith("h")
    z, axes, sizes = _wanted(g, x, n, dim)
    length = (g.dim_size(z.real, axes[-1]) - 1) * 2 if sizes[-1] is None else sizes[-1]
    z = _resized(g, z, axes, [*sizes[:-1], None if sizes[-1] is None else length // 2 + 1])
    z = transform_all(g, z, axes[:-1], _divisor(norm, forward), forward)
    return to_real(g, conjugate(g, z) if forward else z, axes[-1], _divisor(norm, forward), length)


def _name(g: Emitter) -> str:
    """`ifft2` of `aten.fft_ifft2.default`."""
    return g.place.op.split(".")[1].removeprefix("fft_")


def _wanted(g: Emitter, x: Complex | Value, n: Sizes, dim: Axes) -> tuple[Complex, list[int], list[Count | None]]:
    """The tensor in the type that is computed in, the axes, and for each the size that it gets; None for its own."""
    z = lift(g, x)
    rank = g.rank(z.real)
    sizes = [n] if isinstance(n, (int, SizeValue)) else None if n is None else list(n)
    axes = [dim] if isinstance(dim, int) else None if dim is None else list(dim)
    if axes is None:
        axes = list(range(rank)) if sizes is None else list(range(rank - len(sizes), rank))
    wanted = [None] * len(axes) if sizes is None else [None if size == -1 else size for size in sizes]
    return z, [axis % rank for axis in axes], wanted  # type: ignore[return-value]


def _divisor(norm: str | None, forward: bool) -> int:
    if norm == "ortho":
        return ROOT
    return WHOLE if (norm == "forward") == forward else NONE


def _resized(g: Emitter, z: Complex, axes: Sequence[int], sizes: Sequence[Count | None]) -> Complex:
    """Axes cropped or filled up with zeros."""
    for axis, size in zip(axes, sizes, strict=True):
        if size is not None:
            z = Complex(*(_resized_part(g, part, axis, size) for part in z.parts))
    return z


def _resized_part(g: Emitter, x: Value, axis: int, size: Count) -> Value:
    present, rank = g.dim_size(x, axis), g.rank(x)
    if isinstance(present, int) and isinstance(size, int):
        missing: Any = max(size - present, 0)
        if present > size:
            return g.slice(x, [0], [size], [axis])
    elif isinstance(present, SizeValue) and isinstance(size, SizeValue) and present.values == size.values:
        return x
    else:
        missing = size  # more than enough, whatever the size; the rest is cut off again
    pads: list[Any] = [0] * (2 * rank)
    pads[rank + axis] = missing
    padded = g.pad(x, pads)
    if missing is not size:
        return padded
    dims = list(g.known_dims(x))
    dims[axis] = as_dim(size) or dims[axis]
    return g.annotate(g.slice(padded, [0], [size], [axis]), dims)
