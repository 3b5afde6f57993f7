"""Quantisation that a model does itself: fake (round and come back) and real (a tensor of integers with a scale)."""

from __future__ import annotations

from typing import Any

import torch

from onward.capture.program.facts import STORED

from ..emitter import Emitter, Value
from ..registry import lowers

aten = torch.ops.aten

_RANGES = {(0, 255): torch.uint8, (-128, 127): torch.int8}  # those of ONNX's quantised types before opset 21


def _rounded(g: Emitter, x: Value, scale: Value, zero: Value, low: int, high: int) -> Value:
    """x in steps of a scale, to even at halves, moved and clipped; all as x's dtype."""
    steps = g.round(g.op.Mul(x, g.op.Reciprocal(scale)))
    return g.clip(g.op.Add(steps, g.cast(zero, g.dtype(x))), low, high)


def _fake(g: Emitter, x: Value, scale: Value, zero: Value, low: int, high: int, axis: int | None) -> Value:
    """There and back: by QuantizeLinear and DequantizeLinear where they have the range, by arithmetic elsewhere."""
    stored = _RANGES.get((low, high))
    if stored is None or g.opset < (10 if axis is None else 13) or g.dtype(x) is not torch.float32:
        if axis is not None:
            scale, zero = (_along(g, each, axis, g.rank(x)) for each in (scale, zero))
        moved = g.op.Sub(_rounded(g, x, scale, zero, low, high), g.cast(zero, g.dtype(x)))
        return g.op.Mul(moved, scale)
    zero = g.cast(zero, stored)
    settings = {} if axis is None else {"axis": axis}
    return g.op.DequantizeLinear(g.op.QuantizeLinear(x, scale, zero, **settings), scale, zero, **settings)


def _along(g: Emitter, per_channel: Value, axis: int, rank: int) -> Value:
    return g.unsqueeze(per_channel, [place for place in range(rank) if place != axis])


def _number(g: Emitter, value: Any, dtype: torch.dtype) -> Value:
    """A scale or a zero point as a number without axes: it may come as a tensor of one element."""
    found = g.cast(g.as_value(value, dtype), dtype)
    return g.reshape(found, []) if g.rank(found) else found


@lowers(aten.fake_quantize_per_tensor_affine.default, aten.fake_quantize_per_tensor_affine.tensor_qparams)
def fake_quantize_per_tensor_affine(g: Emitter, x: Value, scale: Any, zero: Any, low: int, high: int) -> Value:
    """fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max)"""
    return _fake(g, x, _number(g, scale, g.dtype(x)), _number(g, zero, torch.int64), low, high, None)


@lowers(aten.fake_quantize_per_channel_affine.default)
def fake_quantize_per_channel_affine(
    g: Emitter, x: Value, scale: Value, zero: Value, axis: int, low: int, high: int
) -> Value:
    """fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min,
    int quant_max) -> Tensor"""
    if g.dtype(zero).is_floating_point:
        raise g.unsupported("a zero point that is no integer")
    return _fake(g, x, g.cast(scale, g.dtype(x)), zero, low, high, axis % g.rank(x))


# Tensors of integers with a scale. In ONNX the scale belongs to the operators, not to the value: it is found again at
# the QuantizeLinear that made the value.


@lowers(aten.quantize_per_tensor.default, aten.quantize_per_tensor.tensor_qparams)
def quantize_per_tensor(g: Emitter, x: Value, scale: Any, zero: Any, dtype: torch.dtype) -> Value:
    """quantize_per_tensor(Tensor self, float scale, int zero_point, ScalarType dtype) -> Tensor"""
    return _quantized(g, x, _number(g, scale, g.dtype(x)), _number(g, zero, torch.int64), dtype, {})


@lowers(aten.quantize_per_channel.default)
def quantize_per_channel(g: Emitter, x: Value, scales: Value, zeros: Value, axis: int, dtype: torch.dtype) -> Value:
    """quantize_per_channel(Tensor self, Tensor scales, Tensor zero_points, int axis, ScalarType dtype) -> Tensor"""
    if g.opset < 13:
        raise g.needs_opset(13)
    return _quantized(g, x, g.cast(scales, g.dtype(x)), zeros, dtype, {"axis": axis % g.rank(x)})


def _quantized(g: Emitter, x: Value, scale: Value, zero: Value, dtype: torch.dtype, settings: dict[str, Any]) -> Value:
    if dtype not in (torch.quint8, torch.qint8):
        raise g.unsupported(f"{dtype}: QuantizeLinear makes uint8 and int8")
    if g.opset < 10:
        raise g.needs_opset(10)
    return g.op.QuantizeLinear(x, scale, g.cast(zero, STORED[dtype]), **settings)


@lowers(aten.dequantize.self)
def dequantize(g: Emitter, x: Value) -> Value:
    """dequantize.self(Tensor self) -> Tensor"""
    made = x.producer()
    if made is None or made.op_type != "QuantizeLinear":
        raise g.unsupported("a quantised tensor that comes from elsewhere than quantize_per_tensor or _per_channel")
    settings = {name: made.attributes[name].as_int() for name in ("axis",) if name in made.attributes}
    return g.op.DequantizeLinear(x, made.inputs[1], made.inputs[2], **settings)


@lowers(aten.int_repr.default)
def int_repr(g: Emitter, x: Value) -> Value:
    """int_repr(Tensor self) -> Tensor"""
    return x


@lowers("onward::onnx_quantize_linear")
def onnx_quantize_linear(
    g: Emitter, x: Value, scale: Value, zero: Value | None, axis: int, block: int, dtype: torch.dtype
) -> Value:
    """onnx_quantize_linear(Tensor x, Tensor scale, Tensor? zero, int axis, int block, ScalarType dtype) -> Tensor"""
    if zero is None and dtype is not torch.uint8:
        zero = g.const(0, dtype) if g.rank(scale) == 0 else g.expand(g.const(0, dtype), list(g.known_dims(scale)))
    return g.op.QuantizeLinear(x, scale, zero, **_one_per(g, scale, axis, block, dtype))


@lowers("onward::onnx_dequantize_linear")
def onnx_dequantize_linear(
    g: Emitter, x: Value, scale: Value, zero: Value | None, axis: int, block: int, dtype: torch.dtype
) -> Value:
    """onnx_dequantize_linear(Tensor x, Tensor scale, Tensor? zero, int axis, int block, ScalarType dtype) -> Tensor"""
    return g.op.DequantizeLinear(x, scale, zero, **_one_per(g, scale, axis, block, g.dtype(x)))


def _one_per(g: Emitter, scale: Value, axis: int, block: int, dtype: torch.dtype) -> dict[str, int]:
    """The axis along which scales differ, if they do, and after how many elements."""
    wide = block or dtype in (torch.int16, torch.uint16)
    least = 21 if wide else 10 if g.rank(scale) == 0 else 13
    if g.opset < least:
        raise g.needs_opset(least)
    settings = {"axis": axis} if g.rank(scale) else {}
    return {**settings, "block_size": block} if block else settings
