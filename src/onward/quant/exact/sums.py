"""Sums of products, and what becomes of them: exact sums of integers, then one float32 multiplication.

A product (`conv`, `linear`, `matmul`) gives its sums as float32 numbers in units of both scales: an int32 accumulator
turned into a float, which is where onnxruntime's kernels leave the integers too. `requantize` takes sums to the
integers of an output grid, `rescale` to the values that they stand for.

No kernel multiplies activations of sixteen bits as they are. They are multiplied in two parts:

    c = high + low      high = 256 * round(c / 256), low from -128 to 128

A sum of products of one part with weights of eight bits is a whole number that float32 has, up to `2**24`; so is 256
times such a number. Each of the two sums is therefore exact in whatever order it is taken, and their own sum is rounded
once: it is the float32 number next to the whole sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...lower.emitter import Emitter, Value
from ..grids.grid import Grid, dtype_bounds, torch_dtype
from .declare import GridValues, exact
from .integers import ROUNDING_IS_TOLD, dequantized, quantized, rounded_half_up, to_grid

PART = 256
_MIDDLE = 128

# Kernels


def sum_type(x_grid: Grid, w: Tensor, bias: Tensor | None, known_to_fit: bool = False) -> torch.dtype:
    """The float type whose sums of x times w (the weight's integers, an output in each row) are exact, and fastest.

    float32 where no sum reaches 2**24 (`known_to_fit`: for another reason than the grid) and nobody has allowed
    torch to compute float32 with less; float64 otherwise, which is some ten times slower, but autocast, Winograd,
    TF32 and bfloat16 never touch it.
    """
    mkldnn = torch.backends.mkldnn
    strict = (
        w.device.type == "cpu"
        and torch._C._get_mkldnn_enabled()  # without it, NNPACK may take Winograd's way
        and {mkldnn.conv.fp32_precision, mkldnn.matmul.fp32_precision} <= {"none", "ieee"}  # type: ignore[attr-defined]
        and not torch.is_autocast_enabled("cpu")
    )
    if not strict or w.numel() == 0:
        return torch.float64
    if known_to_fit:
        return torch.float32
    low, high = dtype_bounds(x_grid.dtype)
    reach = max(high - x_grid.zero_point, x_grid.zero_point - low)
    largest = int(w.flatten(1).abs().sum(1, dtype=torch.int64).max()) * reach
    if bias is not None:
        largest += int(bias.to(torch.int64).abs().max())
    return torch.float32 if largest < 2**24 else torch.float64


def in_int32(total: Tensor) -> Tensor:
    """Sums of products as the runtime's accumulators of 32 bits have them: beyond one end they go on from the other."""
    if total.dtype is not torch.float64 or total.numel() == 0 or float(total.abs().max()) < 2**31:
        return total
    return torch.remainder(total + 2**31, 2**32) - 2**31


def is_wide(q: Tensor) -> bool:
    """Whether integers are of sixteen bits."""
    return q.dtype in (torch.uint16, torch.int16)


def in_parts(c: Tensor) -> tuple[Tensor, Tensor]:
    """The high part and the negative of the low one, float32: their products are subtracted."""
    c = c.to(torch.float32)
    high = torch.round(c / PART) * PART
    return high, high - c


def parts_fit(w: Tensor) -> bool:
    """Whether the sums of a part, or of a byte, stay below 2**24 with such a weight, an output in each row."""
    if w.numel() == 0:
        return True
    return int(w.flatten(1).to(torch.int64).abs().sum(1).max()) * PART < 2**24


def can_be_split(x: Tensor, x_grid: Grid, w: Tensor) -> bool:
    """Whether sums of sixteen bits are exact in float32 if the two parts of x are multiplied one after the other."""
    return is_wide(x) and sum_type(x_grid, w, None, parts_fit(w)) is torch.float32


# Steps


@exact
def rescale(sums: Tensor, x_grid: Grid, w_grid: Grid, axis: int | None) -> Tensor:
    """The values that sums stand for; `axis` is that of the channels, if the weights have a scale for each."""
    return sums * _along(x_grid.scale * w_grid.scale, axis)


rescale.shape(lambda sums, *_: torch.empty_like(sums))


@rescale.lowers()
def _(g: Emitter, sums: Value, x_grid: GridValues, w_grid: GridValues, axis: int | None) -> Value:
    """In ONNX the scales are part of the operands, and the result has them already."""
    return sums


def _along(factor: Tensor, axis: int | None) -> Tensor:
    """A factor for every index along an axis, which is counted from the end."""
    return factor if axis is None else factor.reshape([-1] + [1] * (-1 - axis))


@exact
def requantize(sums: Tensor, x_grid: Grid, w_grid: Grid, axis: int | None, grid: Grid, rounding: str) -> Tensor:
    """The integers of an output grid for sums; `axis` as in `rescale`. One conversion to float32, one multiplication
    with float32(sx * sw) / sy, half to even."""
    factor = x_grid.scale * w_grid.scale
    if rounding != "half_even":  # arithmetic says it in a file, and begins with the values
        return rounded_half_up(sums * _along(factor, axis) / grid.scale, grid)
    return to_grid(sums.to(torch.float32) * _along(factor / grid.scale, axis), grid)


requantize.shape(lambda sums, x_grid, w_grid, axis, grid, *_: torch.empty_like(sums, dtype=torch_dtype(grid.dtype)))


@requantize.lowers()
def _(
    g: Emitter, sums: Value, x_grid: GridValues, w_grid: GridValues, axis: int | None, grid: GridValues, rounding: str
) -> Value:
    """A Reshape between the product and QuantizeLinear would keep the two from being fused: it goes behind."""
    made = sums.producer()
    rows = made.inputs[0] if made is not None and made.op_type == "Reshape" else None
    product = rows.producer() if rows is not None else None
    if made is not None and rows is not None and product is not None and product.op_type == "Gemm":
        return g.op.Reshape(quantized(g, rows, grid, rounding), made.inputs[1])
    if rounding != "half_even" and not ROUNDING_IS_TOLD.get():
        sums = _added_up_in_integers(g, sums)
    return quantized(g, sums, grid, rounding)


def wide_values(sums: Tensor, x_grid: Grid, w_grid: Grid, bias: Tensor | None = None, axis: int = -1) -> Tensor:
    """The values of sums of sixteen bits, with a bias of their own: each step is one of IEEE 754's, in ONNX too, where
    these sums come without scales. `axis` is that of the channels, counted from the end."""
    if bias is not None:
        sums = torch.add(sums, _along(bias.to(torch.float32), axis))
    factor = x_grid.scale * w_grid.scale
    return torch.mul(sums, _along(factor, axis if factor.dim() else None))


def widened(q: Tensor, grid: Grid) -> tuple[Tensor, Grid]:
    """Integers of eight bits as integers of sixteen, for a product whose result has sixteen."""
    dtype = {"uint8": "uint16", "int8": "int16"}[grid.dtype]
    return q.to(torch_dtype(dtype)), Grid(grid.scale, grid.zero_point, dtype, grid.low, grid.high, grid.axis)


# Nodes


def operands_of(
    g: Emitter, x: Value, x_grid: GridValues, w: Value, w_grid: GridValues, bias: Value | None
) -> list[Value | None]:
    """The three operands of a product with a weight, back in floats."""
    axis = 0 if g.rank(w_grid.scale) else None
    values: list[Value | None] = [dequantized(g, x, x_grid.scale, x_grid.zero_point)]
    values.append(dequantized(g, w, w_grid.scale, 0, axis))
    if bias is not None:
        values.append(dequantized(g, bias, g.op.Mul(x_grid.scale, w_grid.scale), 0, axis))
    return values


def are_wide(g: Emitter, *values: Value) -> bool:
    """Whether one of these has sixteen bits, which ONNX quantizes from opset 21 on, and the file has to say how their
    parts are multiplied."""
    found = any(g.dtype(each) in (torch.uint16, torch.int16) for each in values)
    if found and g.opset < 21:
        raise g.needs_opset(21, "an activation of 16 bits")
    return found and not ROUNDING_IS_TOLD.get()


def whole_numbers(g: Emitter, q: Value, zero: int) -> Value:
    """The integers without their zero point, as floats."""
    return g.op.DequantizeLinear(q, g.const(1.0, torch.float32), g.const(zero, g.dtype(q)))


def bytes_of(g: Emitter, q: Value, zero: int) -> list[tuple[Value, Value]]:
    """The high and the low byte, each with its zero point. A Cast keeps the low bits."""
    wide = q
    if g.dtype(q) is torch.int16:
        zero += 1 << 15
        wide = g.op.Add(g.cast(q, torch.int32), g.const(1 << 15, torch.int32))
    shifted = g.op.BitShift(g.cast(wide, torch.uint32), g.const(8, torch.uint32), direction="RIGHT")
    return [
        (g.cast(shifted, torch.uint8), g.const(zero >> 8, torch.uint8)),
        (g.cast(q, torch.uint8), g.const(zero & 255, torch.uint8)),
    ]


def joined_bytes(g: Emitter, high: Value, low: Value, *, fit: bool) -> Value:
    """high * 256 + low, rounded once: in float64, where float32 does not have both of them."""
    dtype = torch.float32 if fit else torch.float64
    first = g.op.Mul(g.cast(high, dtype), g.const(float(PART), dtype))
    return g.cast(g.op.Add(first, g.cast(low, dtype)), torch.float32)


def integer_sums(g: Emitter, x: Value, x_zero: Value, w: Tensor, dims: Sequence[Any], **settings: Any) -> Value:
    """The sums of a convolution without its bias, int32 of the dimensions `dims`.

    The weights are stored around 128: onnxruntime 1.31 takes five times as long where they are signed."""
    around_middle = g.const_tensor((w.to(torch.int16) + _MIDDLE).to(torch.uint8).contiguous())
    middle = g.const(_MIDDLE, torch.uint8)
    sums = g.op.ConvInteger(x, around_middle, x_zero, middle, kernel_shape=[*w.shape[2:]], **settings)
    return g.annotate(sums, dims, torch.int32)


def values_of_sums(g: Emitter, sums: Value, bias: Value | None, factor: Value) -> Value:
    """What sums and a bias stand for, `factor` being both scales. The second axis is that of the channels."""
    behind = list(range(1, g.rank(sums) - 1))  # the axes that a number for each channel lacks
    if bias is not None:
        sums = g.op.Add(sums, g.unsqueeze(bias, behind))
    return g.op.Mul(g.cast(sums, torch.float32), g.unsqueeze(factor, behind) if g.rank(factor) else factor)


def _added_up_in_integers(g: Emitter, values: Value) -> Value:
    """The result of a Conv, computed from the integers that its operands are made of. onnxruntime makes its integer
    kernels of QuantizeLinear alone; where halves are rounded up, ConvInteger is what adds up integers without it."""
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
