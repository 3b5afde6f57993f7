"""Convolution in float64, as a matrix product.

onnxruntime 1.31 convolves in float32 only. In float64 the elements under each window are gathered, one Gather per
spatial axis, and multiplied with the weights. A transposed convolution is a convolution of the input with zeros between
its elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..emitter import Emitter, Value


def convolve(
    g: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """Conv on [batch, channels, *spatial]; pads are all begins, then all ends."""
    outputs, inputs, *kernel = g.known_dims(weight)
    spatial = len(kernel)
    x = g.pad(x, [0, 0, *pads[:spatial], 0, 0, *pads[spatial:]])
    batch, lengths = g.dim_size(x, 0), []
    for i in range(spatial):
        axis = 2 + 2 * i  # every axis before has become two: [place in the window, window]
        count = (g.dim_size(x, axis) - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1  # type: ignore[operator]
        x = g.op.Gather(x, _places(g, kernel[i], count, stride[i], dilation[i]), axis=axis)
        lengths.append(count)
    order = [0, 1, *range(2, 2 * spatial + 2, 2), *range(3, 2 * spatial + 3, 2)]
    x = g.op.Transpose(x, perm=order)
    area = torch.Size(kernel).numel()  # type: ignore[arg-type]
    columns = g.reshape(x, [batch, groups, inputs * area, _product(lengths)])  # type: ignore[operator]
    rows = g.reshape(weight, [groups, outputs // groups, inputs * area])  # type: ignore[operator]
    result = g.reshape(g.matmul(rows, columns), [batch, outputs, *lengths])
    return result if bias is None else g.op.Add(result, g.unsqueeze(bias, list(range(1, spatial + 1))))


def _places(g: Emitter, kernel: Any, count: Any, stride: int, dilation: int) -> Value:
    """Which element of the input lies at each place of each window: [kernel, count]."""
    starts = g.op.Mul(g.arange(0, count), g.const(stride))
    return g.op.Add(g.const_tensor(torch.arange(kernel)[:, None] * dilation), starts)


def _product(sizes: Sequence[Any]) -> Any:
    result: Any = 1
    for size in sizes:
        result = size * result
    return result


def convolve_transposed(
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
    """ConvTranspose on [batch, channels, *spatial]."""
    spatial = g.rank(x) - 2
    kernel: list[Any] = list(g.known_dims(weight)[2:])
    for i in range(spatial):
        x = _spread(g, x, 2 + i, stride[i])
    begins = [d * (k - 1) - p for k, d, p in zip(kernel, dilation, padding, strict=True)]
    ends = [begin + extra for begin, extra in zip(begins, output_padding, strict=True)]
    flipped = _flipped(g, weight, groups)
    return convolve(g, x, flipped, bias, [1] * spatial, [*begins, *ends], dilation, groups)


def _spread(g: Emitter, x: Value, axis: int, stride: int) -> Value:
    """x with stride - 1 zeros between neighbours along an axis."""
    if stride == 1:
        return x
    shape = [g.dim_size(x, a) for a in range(g.rank(x))]
    pads = [0] * (2 * len(shape) + 2)
    pads[len(shape) + 1 + axis + 1] = stride - 1
    wide = g.pad(g.unsqueeze(x, [axis + 1]), pads)
    joined = g.reshape(wide, [*shape[:axis], shape[axis] * stride, *shape[axis + 1 :]])
    return g.slice(joined, [0], [1 - stride], [axis])


def _flipped(g: Emitter, weight: Value, groups: int) -> Value:
    """[inputs, outputs / groups, *kernel] as [outputs, inputs / groups, *kernel], the kernel turned around."""
    tensor = g.value_of(weight)
    if tensor is None:
        return _flipped_at_run(g, weight, groups)
    inputs, outputs, *kernel = tensor.shape

    def flip() -> torch.Tensor:
        parts = tensor.detach().reshape(groups, inputs // groups, outputs, *kernel).transpose(1, 2)
        return parts.reshape(groups * outputs, inputs // groups, *kernel).flip(list(range(2, 2 + len(kernel))))

    return g.const_from(f"flipped_in_{groups}", [weight], flip)


def _flipped_at_run(g: Emitter, weight: Value, groups: int) -> Value:
    """The same for weights that are computed."""
    inputs, outputs, *kernel = (g.dim_size(weight, axis) for axis in range(g.rank(weight)))
    parts = g.reshape(weight, [groups, inputs // groups, outputs, *kernel])
    parts = g.op.Transpose(parts, perm=[0, 2, 1, *range(3, 3 + len(kernel))])
    result = g.reshape(parts, [outputs * groups, inputs // groups, *kernel])
    for axis, size in enumerate(kernel, 2):
        result = g.op.Gather(result, g.arange(size - 1, -1, -1), axis=axis)
    return result
