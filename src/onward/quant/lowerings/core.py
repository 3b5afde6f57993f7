"""The exact steps of evaluation in ONNX: integers between nodes, and around every operator the DequantizeLinear and
QuantizeLinear from which onnxruntime makes its integer kernels."""

from __future__ import annotations

from contextvars import ContextVar

import torch

from ...lower import lowers
from ...lower.emitter import Emitter, Value
from ..grids.grid import dtype_bounds, torch_dtype
from . import wide
from .half_up import added_up_in_integers, quantized_half_up

onward = torch.ops.onward

LINGER = "linger"  # the domain of what no standard operator says
ROUNDING_IS_TOLD = ContextVar("ROUNDING_IS_TOLD", default=False)
"""Whether the file says elsewhere how QuantizeLinear rounds, so that one node does for every way."""


def check_type(g: Emitter, dtype: str) -> None:
    """16 bits are there from opset 21 on."""
    if dtype in ("uint16", "int16") and g.opset < 21:
        raise g.needs_opset(21, "an activation of 16 bits")
    if g.opset < 10:
        raise g.needs_opset(10, "a quantised model")


def _settings(g: Emitter, axis: int | None) -> dict[str, int]:
    if axis is None:
        return {}
    if g.opset < 13:
        raise g.needs_opset(13, "a scale for each channel, as Weights(per_channel=True) has it,")
    return {"axis": axis}


def _zero(g: Emitter, zero: int, dtype: torch.dtype, scale: Value, axis: int | None) -> Value:
    """A zero point for each scale."""
    if axis is None:
        return g.const(zero, dtype)
    return g.const_tensor(torch.full([int(g.known_dims(scale)[0])], zero, dtype=dtype))  # type: ignore[arg-type]


def quantized(
    g: Emitter, x: Value, scale: Value, zero: int, dtype: str, low: int, high: int, axis: int | None, rounding: str
) -> Value:
    """QuantizeLinear, and a Clip where the bounds are tighter than the type's."""
    check_type(g, dtype)
    if rounding != "half_even" and not ROUNDING_IS_TOLD.get():
        return quantized_half_up(g, x, scale, zero, dtype, low, high, axis)
    zeros = _zero(g, zero, torch_dtype(dtype), scale, axis)
    q = g.op.QuantizeLinear(_kept_apart(g, x), scale, zeros, **_settings(g, axis))
    g.read_sizes_from(x, q)
    if (low, high) == dtype_bounds(dtype):
        return q
    if ROUNDING_IS_TOLD.get() and (low, high) == (zero, dtype_bounds(dtype)[1]):
        # The name of what it will be once integers are signed; ONNX has no Relu of uint8, nor Clip before opset 12.
        return g.annotate(g.node("Relu", [q], domain=LINGER), g.dims(q), g.dtype(q))
    return g.clip(q, low, high)


def _kept_apart(g: Emitter, x: Value) -> Value:
    """A change of grid, with a function between that changes nothing: of two pairs of QuantizeLinear and
    DequantizeLinear in a row onnxruntime 1.31 makes one, on a third grid, and four in ten integers are another."""
    made = x.producer()
    if made is None or made.op_type != "DequantizeLinear" or ROUNDING_IS_TOLD.get():
        return x
    return g.op.LeakyRelu(x, alpha=1.0)


def dequantized(g: Emitter, q: Value, scale: Value, zero: int, axis: int | None = None) -> Value:
    """DequantizeLinear of integers. A zero point of 0 is written too: without, onnxruntime 1.31 fuses no Gemm."""
    settings = _settings(g, axis)
    if g.dtype(q) is torch.int32:
        return g.op.DequantizeLinear(q, scale, **settings)
    return g.op.DequantizeLinear(q, scale, _zero(g, zero, g.dtype(q), scale, axis), **settings)


@lowers(onward.quantize.default)
def quantize(
    g: Emitter, x: Value, scale: Value, zero: int, dtype: str, low: int, high: int, axis: int | None, rounding: str
) -> Value:
    """quantize(Tensor x, Tensor scale, int zero_point, str dtype, int low, int high, int? axis, str rounding)"""
    return quantized(g, _not_of_product(g, x), scale, zero, dtype, low, high, axis, rounding)


def _not_of_product(g: Emitter, x: Value) -> Value:
    """The same for what a product gives as floats, since something else reads it so: of a Gemm that a QuantizeLinear
    reads, and others too, onnxruntime 1.31 makes no integer kernel."""
    made = x.producer()
    if made is not None and made.op_type == "Reshape" and made.inputs[0] is not None:
        made = made.inputs[0].producer()
    if made is None or made.op_type not in ("Gemm", "MatMul") or made.inputs[0] is None or ROUNDING_IS_TOLD.get():
        return x
    first = made.inputs[0].producer()
    return g.op.LeakyRelu(x, alpha=1.0) if first is not None and first.op_type == "DequantizeLinear" else x


@lowers(onward.dequantize.default)
def dequantize(
    g: Emitter, q: Value, scale: Value, zero: int, dtype: str, low: int, high: int, axis: int | None
) -> Value:
    """dequantize(Tensor q, Tensor scale, int zero_point, str dtype, int low, int high, int? axis) -> Tensor"""
    check_type(g, dtype)
    return dequantized(g, q, scale, zero, axis)


def _operands(
    g: Emitter, x: Value, x_scale: Value, x_zero: int, w: Value, w_scale: Value, bias: Value | None
) -> list[Value | None]:
    """The three of a product with a weight, back in floats."""
    axis = 0 if g.rank(w_scale) else None
    values: list[Value | None] = [dequantized(g, x, x_scale, x_zero), dequantized(g, w, w_scale, 0, axis)]
    if bias is not None:
        values.append(dequantized(g, bias, g.op.Mul(x_scale, w_scale), 0, axis))
    return values


@lowers(onward.conv.default)
def conv(
    g: Emitter,
    x: Value,
    x_scale: Value,
    x_zero: int,
    w: Value,
    w_scale: Value,
    bias: Value | None,
    stride: list[int],
    pads: list[int],
    dilation: list[int],
    groups: int,
) -> Value:
    """conv(Tensor x, Tensor x_scale, int x_zero_point, Tensor w, Tensor w_scale, Tensor? bias, int[] stride,
    int[] pads, int[] dilation, int groups) -> Tensor"""
    kernel = list(g.known_dims(w))[2:]
    how = dict(strides=stride, pads=pads, dilations=dilation, group=groups, kernel_shape=kernel)
    if wide.is_wide(g, x) and not ROUNDING_IS_TOLD.get():
        return wide.conv_sums(g, x, x_zero, w, **how)
    operands = _operands(g, x, x_scale, x_zero, w, w_scale, bias)
    return g.op.Conv(*operands, **how)


@lowers(onward.linear.default)
def linear(g: Emitter, x: Value, x_scale: Value, x_zero: int, w: Value, w_scale: Value, bias: Value | None) -> Value:
    """linear(Tensor x, Tensor x_scale, int x_zero_point, Tensor w, Tensor w_scale, Tensor? bias) -> Tensor

    As a Gemm of two axes: onnxruntime has no integer MatMul with a bias. The Reshape before it moves integers."""
    if wide.is_wide(g, x) and not ROUNDING_IS_TOLD.get():
        return wide.linear_sums(g, x, x_zero, w)
    rows = x if g.rank(x) == 2 else g.reshape(x, [-1, g.dim_size(x, -1)])
    if bias is None and g.opset < 11:  # until then a Gemm has to have one
        bias = g.const_tensor(torch.zeros(int(g.known_dims(w)[0]), dtype=torch.int32))  # type: ignore[arg-type]
    y = g.op.Gemm(*_operands(g, rows, x_scale, x_zero, w, w_scale, bias), transB=1)
    return (
        y
        if g.rank(x) == 2
        else g.reshape(y, [*(g.dim_size(x, axis) for axis in range(g.rank(x) - 1)), g.dim_size(w, 0)])
    )


@lowers(onward.matmul.default)
def matmul(g: Emitter, x: Value, x_scale: Value, x_zero: int, y: Value, y_scale: Value, y_zero: int) -> Value:
    """matmul(Tensor x, Tensor x_scale, int x_zero_point, Tensor y, Tensor y_scale, int y_zero_point) -> Tensor"""
    if wide.is_wide(g, x, y) and not ROUNDING_IS_TOLD.get():
        return wide.matmul_sums(g, x, x_zero, y, y_zero)
    return g.op.MatMul(dequantized(g, x, x_scale, x_zero), dequantized(g, y, y_scale, y_zero))


@lowers(onward.rescale.default)
def rescale(g: Emitter, sums: Value, x_scale: Value, w_scale: Value, sums_axis: int | None) -> Value:
    """rescale(Tensor sums, Tensor x_scale, Tensor w_scale, int? sums_axis) -> Tensor

    In ONNX the scales are part of the operands, and the result has them already."""
    return sums


@lowers(onward.requantize.default)
def requantize(
    g: Emitter,
    sums: Value,
    x_scale: Value,
    w_scale: Value,
    sums_axis: int | None,
    scale: Value,
    zero: int,
    dtype: str,
    low: int,
    high: int,
    axis: int | None,
    rounding: str,
) -> Value:
    """requantize(Tensor sums, Tensor x_scale, Tensor w_scale, int? sums_axis, Tensor scale, int zero_point, str dtype,
    int low, int high, int? axis, str rounding) -> Tensor

    A Reshape between the product and QuantizeLinear would keep the two from being fused: it goes after."""
    made = sums.producer()
    rows = made.inputs[0] if made is not None and made.op_type == "Reshape" else None
    product = rows.producer() if rows is not None else None
    if made is not None and rows is not None and product is not None and product.op_type == "Gemm":
        q = quantized(g, rows, scale, zero, dtype, low, high, axis, rounding)
        return g.op.Reshape(q, made.inputs[1])
    if rounding != "half_even" and not ROUNDING_IS_TOLD.get():
        sums = added_up_in_integers(g, sums)
    return quantized(g, sums, scale, zero, dtype, low, high, axis, rounding)


def _binary(op: str) -> None:
    @lowers(getattr(onward, op).default)
    def lower(
        g: Emitter,
        x: Value,
        x_scale: Value,
        x_zero: int,
        x_dtype: str,
        y: Value,
        y_scale: Value,
        y_zero: int,
        y_dtype: str,
        scale: Value,
        zero: int,
        dtype: str,
        low: int,
        high: int,
        axis: int | None,
    ) -> Value:
        """x + y or x * y, each on its grid"""
        operands = dequantized(g, x, x_scale, x_zero), dequantized(g, y, y_scale, y_zero)
        check_type(g, dtype)
        if op == "add_half_up" and not ROUNDING_IS_TOLD.get():
            steps = [g.op.Floor(g.op.Add(g.op.Div(each, scale), g.like(each, 0.5))) for each in operands]
            total = g.op.Add(g.op.Add(*steps), g.like(steps[0], zero))
            return g.cast(g.clip(total, low, high), torch_dtype(dtype))
        joined = g.node("Mul" if op == "mul" else "Add", operands)
        return quantized(g, joined, scale, zero, dtype, low, high, axis, "half_even")


_binary("add")
_binary("add_half_up")
_binary("mul")

__all__ = ["dequantized", "quantized"]
