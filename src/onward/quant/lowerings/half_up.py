"""Halves rounded up in a standard file: integers that are added up, and arithmetic that rounds as linger's chips do.

No operator of ONNX rounds so, and onnxruntime makes its integer kernels of QuantizeLinear alone. What adds up integers
without one are ConvInteger, and the kernels that it makes of a Gemm or a MatMul whose result is float.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...lower.emitter import Emitter, Value
from ..grids.grid import torch_dtype

_MIDDLE = 128


def quantized_half_up(
    g: Emitter, x: Value, scale: Value, zero: int, dtype: str, low: int, high: int, axis: int | None
) -> Value:
    """floor(x / scale + 0.5), between the bounds"""
    if axis is not None:
        scale = g.unsqueeze(scale, [each for each in range(g.rank(x)) if each != axis])
    steps = g.op.Floor(g.op.Add(g.op.Div(x, scale), g.like(x, 0.5)))
    return g.cast(g.clip(g.op.Add(steps, g.like(x, zero)), low, high), torch_dtype(dtype))


def integer_sums(g: Emitter, x: Value, x_zero: Value, w: torch.Tensor, dims: Sequence[Any], **settings: Any) -> Value:
    """The sums of a convolution without its bias, int32 of the dimensions `dims`.

    The weights are stored around 128: onnxruntime 1.31 takes five times as long where they are signed."""
    stored = g.const_tensor((w.to(torch.int16) + _MIDDLE).to(torch.uint8).contiguous())
    middle = g.const(_MIDDLE, torch.uint8)
    sums = g.op.ConvInteger(x, stored, x_zero, middle, kernel_shape=[*w.shape[2:]], **settings)
    return g.annotate(sums, dims, torch.int32)


def values_of_sums(g: Emitter, sums: Value, bias: Value | None, factor: Value) -> Value:
    """What sums and a bias stand for, `factor` being both scales. The second axis is that of the channels."""
    behind = list(range(1, g.rank(sums) - 1))  # the axes that a number for each channel lacks
    if bias is not None:
        sums = g.op.Add(sums, g.unsqueeze(bias, behind))
    return g.op.Mul(g.cast(sums, torch.float32), g.unsqueeze(factor, behind) if g.rank(factor) else factor)


def added_up_in_integers(g: Emitter, values: Value) -> Value:
    """The result of a Conv, computed from the integers that its operands are made of."""
    conv = values.producer()
    if conv is None or conv.op_type != "Conv":
        return values
    (x, x_scale, x_zero), (w, w_scale, *_), *rest = ([*each.producer().inputs] for each in conv.inputs)  # type: ignore[union-attr]
    weight = g.value_of(w)
    if weight is None or g.dtype(x) is not torch.uint8:
        return values
    settings = {name: each.value for name, each in conv.attributes.items() if name != "kernel_shape"}
    sums = integer_sums(g, x, x_zero, weight, g.known_dims(values), **settings)
    result = values_of_sums(g, sums, rest[0][0] if rest else None, g.op.Mul(x_scale, w_scale))
    g.read_sizes_from(values, result)  # who asks for a size would keep the Conv
    return result
