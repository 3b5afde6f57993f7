"""To few bits and back."""

from __future__ import annotations

from typing import Any

import onnx
import torch
from torch import Tensor

from ...capture.attempt.session import followed, is_capturing
from ..registry import implements
from ..values import ONNX_TYPES, holder, is_narrow
from ._recorded import record
from .conv import conv
from .linear import less_zero
from .types import cast, to_float8

_T = onnx.TensorProto
_RANGES: dict[int, tuple[int, int]] = {_T.INT4: (-8, 7), _T.UINT4: (0, 15)}
for _name, _range in (("INT2", (-2, 1)), ("UINT2", (0, 3))):
    if hasattr(_T, _name):
        _RANGES[getattr(_T, _name)] = _range


def _along(x: Tensor, parameter: Tensor, axis: int, block: int) -> Tensor:
    """A scale or zero point in a shape that goes with x."""
    if block:
        return parameter.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])
    if parameter.dim() == 0 or parameter.numel() == 1:
        return parameter.reshape(())
    return parameter.reshape([-1 if each == axis % x.dim() else 1 for each in range(x.dim())])


@implements("QuantizeLinear")
def quantize_linear(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
    types: tuple[int, ...],
    opset: int,
) -> Tensor:
    known = types[2] if len(types) > 2 else 0
    to = output_dtype or known or (_T.UINT8 if zero is None else ONNX_TYPES[zero.dtype])
    plain = not precision and x.dtype == scale.dtype == torch.float32
    if plain and to in _RECORDED and is_capturing():
        return _QUANTIZE(x, scale, zero, axis, block_size, holder(to))
    # The division is in the scale's type since opset 23. onnxruntime 1.31 divides in float32 where that is float16.
    kind = torch.bfloat16 if opset >= 23 and scale.dtype == torch.bfloat16 else torch.float32
    kind = holder(precision) if precision else kind
    wide = (x.to(kind) / _along(x, scale, axis, block_size).to(kind)).float()
    if holder(to).is_floating_point:
        if zero is not None:
            wide = wide + _along(x, zero, axis, block_size).float()
        return cast(wide, to=to, saturate=saturate) if is_narrow(to) else to_float8(wide, holder(to), bool(saturate))
    shift = None if zero is None else _along(x, zero.to(torch.float32), axis, block_size)
    return _stepped(wide, shift, to)


def _stepped(wide: Tensor, zero: Tensor | None, to: int) -> Tensor:
    wide = torch.round(wide) if zero is None else torch.round(wide) + zero
    info = torch.iinfo(holder(to))
    low, high = _RANGES.get(to, (info.min, info.max))
    return wide.clamp(low, high).to(torch.int32).to(holder(to))


@implements("DequantizeLinear")
def dequantize_linear(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Tensor:
    plain = not output_dtype and scale.dtype == torch.float32
    if plain and ONNX_TYPES.get(x.dtype) in (*_RECORDED, _T.INT32) and is_capturing():
        return _DEQUANTIZE(followed(x), scale, zero, axis, block_size, scale.dtype)
    return _dequantized(x, scale, zero, axis, block_size, holder(output_dtype) if output_dtype else scale.dtype)


def _dequantized(x: Tensor, scale: Tensor, zero: Tensor | None, axis: int, block_size: int, dtype: Any) -> Tensor:
    wide = x.to(torch.float32)
    if zero is not None:
        wide = wide - _along(x, zero.to(torch.float32), axis, block_size)
    return (wide * _along(x, scale.to(torch.float32), axis, block_size)).to(dtype)


def _quantized(x: Tensor, scale: Tensor, zero: Tensor | None, axis: int, block: int, dtype: torch.dtype) -> Tensor:
    shift = None if zero is None else _along(x, zero.to(torch.float32), axis, block)
    return _stepped(x / _along(x, scale, axis, block), shift, ONNX_TYPES[dtype])


_RECORDED = (_T.INT8, _T.UINT8, _T.INT16, _T.UINT16)
_QUANTIZE = record("onnx_quantize_linear", _quantized, lambda x, scale, zero, axis, block, dtype: dtype)
_DEQUANTIZE = record(
    "onnx_dequantize_linear",
    _dequantized,
    lambda x, scale, zero, axis, block, dtype: dtype,
)


@implements("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    low, high = x.min().clamp(max=0), x.max().clamp(min=0)
    scale = torch.where(high == low, torch.ones_like(high), (high - low) / 255)
    zero = torch.round((-low / scale).clamp(0, 255))
    return (torch.round(x / scale) + zero).clamp(0, 255).to(torch.uint8), scale, zero.to(torch.uint8)


def requantized(total: Tensor, factor: Tensor, zero: Tensor) -> Tensor:
    """Sums of products at the scale of the result, in float32: results between two integers depend on that."""
    scaled = total.float() * factor.float()
    if zero.dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz):
        return to_float8(scaled + zero.float(), zero.dtype, True)
    info = torch.iinfo(zero.dtype)
    return (torch.round(scaled) + zero.float()).clamp(info.min, info.max).to(zero.dtype)


def _rows(parameter: Tensor, from_end: int) -> Tensor:
    """One scale for each row or column of the last two axes."""
    return parameter if parameter.dim() != 1 or from_end == 1 else parameter.unsqueeze(-1)


@implements("QLinearMatMul")
def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:
    total = torch.matmul(less_zero(a, a_zero, -2).double(), less_zero(b, b_zero, -1).double())
    factor = _rows(a_scale, 2) * _rows(b_scale, 1) / _rows(y_scale, 2)
    return requantized(total, factor, y_zero)


@implements("QLinearConv")
def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    b: Tensor | None = None,
    **attributes: Any,
) -> Tensor:
    total = conv(
        less_zero(x, x_zero).double(),
        less_zero(w, w_zero, 0).double(),
        None if b is None else b.double(),
        **attributes,
    )
    factor = x_scale * w_scale / y_scale
    if factor.dim() == 1 and factor.numel() > 1:
        factor = factor.reshape(-1, *[1] * (x.dim() - 2))
    return requantized(total, factor.reshape(()) if factor.numel() == 1 else factor, y_zero)
