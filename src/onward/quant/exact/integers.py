"""From float values to integers on a grid, and back: what all families share."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

import torch
from torch import Tensor

from ...lower.emitter import Emitter, Value
from ..grids.grid import Grid, dtype_bounds, torch_dtype
from .declare import GridValues, exact

LINGER = "linger"  # the domain of what no standard operator says
ROUNDING_IS_TOLD = ContextVar("ROUNDING_IS_TOLD", default=False)
"""Whether the file says elsewhere how QuantizeLinear rounds, so that one node does for every way."""

# Kernels


def rounded(x: Tensor, grid: Grid) -> Tensor:
    """The nearest integers of a float tensor, half to even, bounded: QuantizeLinear(x, scale, zero_point[, axis]).

    Exact for uint8, int8, uint16 and int16 (16 bits need opset 21, or com.microsoft's QuantizeLinear below it), per
    tensor and per axis (opset 13): x / scale is one float32 division. A scale that is multiplied by its reciprocal, as
    torch.quantize_per_tensor does, differs at ties. Infinities saturate. NaN becomes the lowest integer of the type, as
    in onnxruntime on x86-64. Bounds narrower than the type are a Clip behind the node.

    The runtime never quantizes to int32, the type of biases; that is done in float64 here.
    """
    scale = grid.scale_for(x.dim())
    if grid.dtype == "int32":
        return (x.double() / scale.double()).round().add(grid.zero_point).clamp(grid.low, grid.high).to(torch.int32)
    ratio = x.to(torch.float32) / scale
    return to_grid(ratio.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf), grid)


def values_of(q: Tensor, grid: Grid) -> Tensor:
    """The float32 numbers that integers stand for: DequantizeLinear(q, scale, zero_point[, axis]).

    Exact for every type: the difference is an integer, then comes one float32 multiplication.
    """
    return around_zero(q, grid).to(torch.float32) * grid.scale_for(q.dim())


def around_zero(q: Tensor, grid: Grid) -> Tensor:
    """q - zero_point, as int32: that is what the kernels sum."""
    wide = q.to(torch.int32)
    return wide - grid.zero_point if grid.zero_point else wide


def to_grid(steps: Tensor, grid: Grid) -> Tensor:
    """Float32 steps from zero to the integers of the grid: half to even, zero point, bounds.

    The runtime bounds the float number first, so that the conversion cannot overflow. The result is the same.
    """
    low, high = grid.low - grid.zero_point, grid.high - grid.zero_point
    q = steps.round().clamp_(low, high)
    return q.add_(grid.zero_point).to(torch.int32).to(grid.torch_dtype)


def rounded_half_up(steps: Tensor, grid: Grid) -> Tensor:
    """floor(x + 0.5), as linger's chips round; in float64, because the sum of the two may need one more bit."""
    return to_grid(torch.floor(steps.double() + 0.5).float(), grid)


# Nodes


def check_type(g: Emitter, dtype: str) -> None:
    """16 bits exist from opset 21 on."""
    if dtype in ("uint16", "int16") and g.opset < 21:
        raise g.needs_opset(21, "an activation of 16 bits")
    if g.opset < 10:
        raise g.needs_opset(10, "a quantized model")


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


def quantized(g: Emitter, x: Value, grid: GridValues, rounding: str) -> Value:
    """QuantizeLinear, and a Clip where the bounds are tighter than the type's."""
    scale, zero, dtype, low, high, axis = grid
    check_type(g, dtype)
    if rounding != "half_even" and not ROUNDING_IS_TOLD.get():
        return _quantized_half_up(g, x, grid)
    zeros = _zero(g, zero, torch_dtype(dtype), scale, axis)
    q = g.op.QuantizeLinear(_kept_apart(g, x), scale, zeros, **_settings(g, axis))
    g.read_sizes_from(x, q)
    if (low, high) == dtype_bounds(dtype):
        return q
    if ROUNDING_IS_TOLD.get() and (low, high) == (zero, dtype_bounds(dtype)[1]):
        # The name of what it will be once integers are signed; ONNX has no Relu of uint8, nor Clip before opset 12.
        return g.annotate(g.node("Relu", [q], domain=LINGER), g.dims(q), g.dtype(q))
    return g.clip(q, low, high)


def _quantized_half_up(g: Emitter, x: Value, grid: GridValues) -> Value:
    """floor(x / scale + 0.5), between the bounds. No operator of ONNX rounds so, and this is arithmetic in float."""
    scale, zero, dtype, low, high, axis = grid
    if axis is not None:
        scale = g.unsqueeze(scale, [each for each in range(g.rank(x)) if each != axis])
    steps = g.op.Floor(g.op.Add(g.op.Div(x, scale), g.like(x, 0.5)))
    return g.cast(g.clip(g.op.Add(steps, g.like(x, zero)), low, high), torch_dtype(dtype))


def _kept_apart(g: Emitter, x: Value) -> Value:
    """A function that changes nothing, between two grids: onnxruntime 1.31 makes one pair of two pairs of
    QuantizeLinear and DequantizeLinear in a row, on a third grid, and four in ten integers are another."""
    made = x.producer()
    if made is None or made.op_type != "DequantizeLinear" or ROUNDING_IS_TOLD.get():
        return x
    return g.op.LeakyRelu(x, alpha=1.0)


def dequantized(g: Emitter, q: Value, scale: Value, zero: int, axis: int | None = None) -> Value:
    """DequantizeLinear of integers. A zero point of 0 is written too: without one, onnxruntime 1.31 fuses no Gemm."""
    settings = _settings(g, axis)
    if g.dtype(q) is torch.int32:
        return g.op.DequantizeLinear(q, scale, **settings)
    return g.op.DequantizeLinear(q, scale, _zero(g, zero, g.dtype(q), scale, axis), **settings)


# Steps


@exact
def quantize(x: Tensor, grid: Grid, rounding: str = "half_even") -> Tensor:
    """The integers that a grid has for the values of a tensor."""
    return rounded(x, grid) if rounding == "half_even" else rounded_half_up(x / grid.scale_for(x.dim()), grid)


quantize.shape(lambda x, grid, *_: torch.empty_like(x, dtype=torch_dtype(grid.dtype)))


@quantize.lowers()
def _(g: Emitter, x: Value, grid: GridValues, rounding: str) -> Value:
    return quantized(g, _not_of_product(g, x), grid, rounding)


def _not_of_product(g: Emitter, x: Value) -> Value:
    """The floats that a product gives because something else reads them so, kept apart from QuantizeLinear: onnxruntime
    1.31 makes no integer kernel of a Gemm that a QuantizeLinear reads, and others too."""
    made = x.producer()
    if made is not None and made.op_type == "Reshape" and made.inputs[0] is not None:
        made = made.inputs[0].producer()
    if made is None or made.op_type not in ("Gemm", "MatMul") or made.inputs[0] is None or ROUNDING_IS_TOLD.get():
        return x
    first = made.inputs[0].producer()
    return g.op.LeakyRelu(x, alpha=1.0) if first is not None and first.op_type == "DequantizeLinear" else x


@exact
def dequantize(q: Tensor, grid: Grid) -> Tensor:
    """The values of integers on a grid."""
    return values_of(q, grid)


dequantize.shape(lambda q, *_: torch.empty_like(q, dtype=torch.float32))


@dequantize.lowers()
def _(g: Emitter, q: Value, grid: GridValues) -> Value:
    check_type(g, grid.dtype)
    return dequantized(g, q, grid.scale, grid.zero_point, grid.axis)


def centered(q: Tensor, grid: Grid) -> Tensor:
    """The integers without their zero point, as floats."""
    return dequantize(q, Grid(torch.ones(()), grid.zero_point, grid.dtype, grid.low, grid.high))


@exact
def stored(q: Tensor, grid: Grid, near: Tensor) -> Tensor:
    """The values of a weight that float arithmetic uses, stored as integers with a Cast and a Mul behind them.

    `dequantize` of a constant is a constant, and floats would be stored. `near`, an activation, makes this a step of
    the program. It must not be multiplied with what comes from a DequantizeLinear (`QuantSession.apart`): onnxruntime
    1.31 would make integers of it on its own account, with one scale for all."""
    return values_of(q, grid)


stored.shape(lambda q, *_: torch.empty_like(q, dtype=torch.float32))


@stored.lowers()
def _(g: Emitter, q: Value, grid: GridValues, near: Value) -> Value:
    """Cast and Mul, which onnxruntime works out when it loads the file. A DequantizeLinear would run every time, and an
    LSTM whose weights are no constants is not packed beforehand."""
    values, scale = g.value_of(q), grid.scale
    if values is None or grid.zero_point:
        check_type(g, grid.dtype)
        return dequantized(g, q, scale, grid.zero_point, grid.axis)
    if grid.axis is not None:
        scale = g.unsqueeze(scale, [each for each in range(g.rank(q)) if each != grid.axis])
    return g.op.Mul(g.cast(g.const_kept(values), torch.float32), scale)


# Tables, for functions that two runtimes compute differently in the last bit

_FIRST = {torch.uint8: 0, torch.int8: -128, torch.uint16: 0, torch.int16: -(1 << 15)}


@exact
def lookup(q: Tensor, table: Tensor) -> Tensor:
    """The entries of a table, whose first is that of the smallest integer of the type."""
    places = q.to(torch.int64) - _FIRST[q.dtype]
    return table.to(torch.int32)[places].to(table.dtype)  # torch cannot index integers of sixteen bits


lookup.shape(lambda q, table: torch.empty_like(q, dtype=table.dtype))


@lookup.lowers()
def _(g: Emitter, q: Value, table: Value) -> Value:
    """By GatherElements: Gather copies piece by piece, and takes eight times as long for numbers (onnxruntime 1.31)."""
    places, first = g.cast(q, torch.int32), _FIRST[g.dtype(q)]
    if first:
        places = g.op.Sub(places, g.const(first, torch.int32))
    if g.rank(q) == 1:
        return g.op.GatherElements(table, places, axis=0)
    found = g.op.GatherElements(table, g.reshape(places, [-1]), axis=0)
    return g.reshape(found, [g.dim_size(q, axis) for axis in range(g.rank(q))])


def table_of(function: Callable[[Tensor], Tensor], x: Grid, y: Grid) -> Tensor:
    """The integers on the grid `y` that a function has for all integers of the grid `x`."""
    low, high = dtype_bounds(x.dtype)
    every = torch.arange(low, high + 1, dtype=torch.int32, device=x.scale.device).to(x.torch_dtype)
    return rounded(function(values_of(every, x).to(torch.float64)).to(torch.float32), y)
