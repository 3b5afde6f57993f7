"""Convolutions and transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..emitter import Emitter, Value
from ..registry import lowers
from . import conv_float64
from ._spatial import batched, per_axis, unbatched

aten = torch.ops.aten


def _kernel(g: Emitter, weight: Value) -> list[int]:
    """The spatial sizes of a weight [outputs, inputs, *kernel]."""
    sizes = g.known_dims(weight)[2:]
    if not all(isinstance(size, int) for size in sizes):
        raise g.unsupported("a kernel whose size is dynamic")
    return list(sizes)  # type: ignore[arg-type]


def _convolve(
    g: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """One Conv; pads are all begins, then all ends."""
    kernel = _kernel(g, weight)
    steps, gaps = per_axis(stride, len(kernel)), per_axis(dilation, len(kernel))
    x, added = batched(g, x, len(kernel))
    if g.dtype(x) is torch.float64:
        result = conv_float64.convolve(g, x, weight, bias, steps, pads, gaps, groups)
    else:
        result = g.op.Conv(
            x, weight, bias, kernel_shape=kernel, strides=steps, pads=list(pads), dilations=gaps, group=groups
        )
    return unbatched(g, result, added, g.out.shape)


@lowers(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)
def conv(
    g: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Value:
    """conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0,
    SymInt[2] dilation=1, SymInt groups=1) -> Tensor"""
    pads = per_axis(padding, len(_kernel(g, weight))) * 2
    return _convolve(g, x, weight, bias, stride, pads, dilation, groups)


@lowers(aten.conv1d.padding, aten.conv2d.padding, aten.conv3d.padding)
def conv_padding(
    g: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sequence[int] = (1,),
    padding: str = "valid",
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Value:
    """conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, str padding="valid",
    SymInt[2] dilation=1, SymInt groups=1) -> Tensor"""
    kernel = _kernel(g, weight)
    totals = [0] * len(kernel)
    if padding == "same":  # an odd total goes to the end
        totals = [d * (k - 1) for k, d in zip(kernel, per_axis(dilation, len(kernel)), strict=True)]
    pads = [total // 2 for total in totals] + [total - total // 2 for total in totals]
    return _convolve(g, x, weight, bias, stride, pads, dilation, groups)


def _convolve_transposed(
    g: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
) -> Value:
    kernel = _kernel(g, weight)
    steps, pads = per_axis(stride, len(kernel)), per_axis(padding, len(kernel))
    extra, gaps = per_axis(output_padding, len(kernel)), per_axis(dilation, len(kernel))
    x, added = batched(g, x, len(kernel))
    if g.dtype(x) is torch.float64:
        result = conv_float64.convolve_transposed(g, x, weight, bias, steps, pads, extra, groups, gaps)
    else:
        # onnxruntime 1.31 refuses an output_padding beyond the stride: zeros after the input make room instead.
        more = [extra_size // step for extra_size, step in zip(extra, steps, strict=True)]
        extra = [size - step * count for size, step, count in zip(extra, steps, more, strict=True)]
        result = g.op.ConvTranspose(
            g.pad(x, [0] * (4 + len(kernel)) + more),
            weight,
            bias,
            kernel_shape=kernel,
            strides=steps,
            pads=pads * 2,
            output_padding=extra if any(extra) else None,
            dilations=gaps,
            group=groups,
        )
    return unbatched(g, result, added, g.out.shape)


@lowers(aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input)
def conv_transpose(
    g: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    output_padding: Sequence[int] = (0,),
    groups: int = 1,
    dilation: Sequence[int] = (1,),
) -> Value:
    """conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0,
    SymInt[2] output_padding=0, SymInt groups=1, SymInt[2] dilation=1) -> Tensor"""
    return _convolve_transposed(g, x, weight, bias, stride, padding, output_padding, groups, dilation)


@lowers(aten.convolution.default)
def convolution(
    g: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    """convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation,
    bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"""
    if transposed:
        return _convolve_transposed(g, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(g, x, weight, bias, stride, padding, dilation, groups)


@lowers(aten._convolution.default, aten._convolution.deprecated)
def _convolution(
    g: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *choice_of_kernel: bool,
) -> Value:
    """_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation,
    bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled,
    bool allow_tf32) -> Tensor"""
    return convolution(g, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@lowers(aten.conv_tbc.default)
def conv_tbc(g: Emitter, x: Value, weight: Value, bias: Value, pad: int = 0) -> Value:
    """conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor"""
    channels_second, weight = g.op.Transpose(x, perm=[1, 2, 0]), g.op.Transpose(weight, perm=[2, 1, 0])
    result = _convolve(g, channels_second, weight, bias, [1], [pad, pad], [1], 1)
    time, batch, channels = g.out.shape
    return g.op.Transpose(g.annotate(result, (batch, channels, time)), perm=[2, 0, 1])
