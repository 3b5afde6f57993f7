"""The exact steps of evaluation as operators of PyTorch, each one node of a captured program (see lowerings/core.py).

`conv`, `linear` and `matmul` give their sums as float32 numbers in units of both scales: an int32 accumulator turned
into a float, which is where onnxruntime's kernels leave the integers too. `requantize` takes them to the integers of an
output grid, `rescale` to the values that they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import kernels
from ..grids.grid import Grid, torch_dtype

_LIBRARY = torch.library.Library("onward", "DEF")


def define(schema: str, real: Callable[..., Any], fake: Callable[..., Any]) -> None:
    name = schema.partition("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, real, "CompositeExplicitAutograd")
    torch.library.register_fake(f"onward::{name}", fake, lib=_LIBRARY)


# Onto a grid and back

GRID = "Tensor {0}scale, int {0}zero_point, str {0}dtype, int {0}low, int {0}high, int? {0}axis"


def _quantize(
    x: Tensor, scale: Tensor, zero: int, dtype: str, low: int, high: int, axis: int | None, how: str
) -> Tensor:
    grid = Grid(scale, zero, dtype, low, high, axis)
    return kernels.quantize(x, grid) if how == "half_even" else _half_up(x / grid.scale_for(x.dim()), grid)


def _half_up(steps: Tensor, grid: Grid) -> Tensor:
    """floor(x + 0.5), as linger's chips round; float64, because the sum of the two may need one more bit"""
    return kernels.to_grid(torch.floor(steps.double() + 0.5).float(), grid)


def _dequantize(q: Tensor, scale: Tensor, zero: int, dtype: str, low: int, high: int, axis: int | None) -> Tensor:
    return kernels.dequantize(q, Grid(scale, zero, dtype, low, high, axis))


def _quantized_like(x: Tensor, scale: Tensor, zero: int, dtype: str, *_: object) -> Tensor:
    return torch.empty_like(x, dtype=torch_dtype(dtype))


define(f"quantize(Tensor x, {GRID.format('')}, str rounding) -> Tensor", _quantize, _quantized_like)
define(
    f"dequantize(Tensor q, {GRID.format('')}) -> Tensor",
    _dequantize,
    lambda q, *_: torch.empty_like(q, dtype=torch.float32),
)


def fields(grid: Grid) -> tuple[Tensor, int, str, int, int, int | None]:
    return grid.scale, grid.zero_point, grid.dtype, grid.low, grid.high, grid.axis


def quantize(x: Tensor, grid: Grid, rounding: str = "half_even") -> Tensor:
    """The integers that a grid has for the values of a tensor."""
    result: Tensor = torch.ops.onward.quantize(x, *fields(grid), rounding)
    return result


def dequantize(q: Tensor, grid: Grid) -> Tensor:
    """The values of integers on a grid."""
    result: Tensor = torch.ops.onward.dequantize(q, *fields(grid))
    return result


def centred(q: Tensor, grid: Grid) -> Tensor:
    """The integers without their zero point, as floats."""
    return dequantize(q, Grid(torch.ones(()), grid.zero_point, grid.dtype, grid.low, grid.high))


# Sums of products

_NAMES = {torch_dtype(name): name for name in ("uint8", "int8", "uint16", "int16", "int32")}


def grid_of(q: Tensor, scale: Tensor, zero: int = 0) -> Grid:
    return Grid(scale, zero, _NAMES[q.dtype], axis=0 if scale.dim() else None)


def _conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero: int,
    w: Tensor,
    w_scale: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    grids = grid_of(x, x_scale, x_zero), grid_of(w, w_scale)
    return kernels.conv_sums(x, grids[0], w, grids[1], bias, stride, pads, dilation, groups).to(torch.float32)


def _conv_fake(
    x: Tensor,
    x_scale: Tensor,
    x_zero: int,
    w: Tensor,
    w_scale: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    rank = len(stride)
    sizes = [
        (x.shape[axis + 2] + pads[axis] + pads[axis + rank] - dilation[axis] * (w.shape[axis + 2] - 1) - 1)
        // stride[axis]
        + 1
        for axis in range(rank)
    ]
    return x.new_empty([x.shape[0], w.shape[0], *sizes], dtype=torch.float32)


define(
    "conv(Tensor x, Tensor x_scale, int x_zero_point, Tensor w, Tensor w_scale, Tensor? bias, int[] stride, "
    "int[] pads, int[] dilation, int groups) -> Tensor",
    _conv,
    _conv_fake,
)


def _linear(x: Tensor, x_scale: Tensor, x_zero: int, w: Tensor, w_scale: Tensor, bias: Tensor | None) -> Tensor:
    grids = grid_of(x, x_scale, x_zero), grid_of(w, w_scale)
    return kernels.linear_sums(x, grids[0], w, grids[1], bias).to(torch.float32)


define(
    "linear(Tensor x, Tensor x_scale, int x_zero_point, Tensor w, Tensor w_scale, Tensor? bias) -> Tensor",
    _linear,
    lambda x, x_scale, x_zero, w, *_: x.new_empty([*x.shape[:-1], w.shape[0]], dtype=torch.float32),
)


def _matmul(x: Tensor, x_scale: Tensor, x_zero: int, y: Tensor, y_scale: Tensor, y_zero: int) -> Tensor:
    grids = grid_of(x, x_scale, x_zero), grid_of(y, y_scale, y_zero)
    return kernels.matmul_sums(x, grids[0], y, grids[1]).to(torch.float32)


define(
    "matmul(Tensor x, Tensor x_scale, int x_zero_point, Tensor y, Tensor y_scale, int y_zero_point) -> Tensor",
    _matmul,
    lambda x, x_scale, x_zero, y, *_: torch.matmul(x.float(), y.float()),
)


def conv(
    x: Tensor,
    x_grid: Grid,
    w: Tensor,
    w_grid: Grid,
    bias: Tensor | None,
    stride: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """The sums of a convolution; `pads` are those at the begin of every axis, then those at the end."""
    result: Tensor = torch.ops.onward.conv(
        x, x_grid.scale, x_grid.zero_point, w, w_grid.scale, bias, list(stride), list(pads), list(dilation), groups
    )
    return result


def linear(x: Tensor, x_grid: Grid, w: Tensor, w_grid: Grid, bias: Tensor | None) -> Tensor:
    """The sums of x @ w.T + bias."""
    result: Tensor = torch.ops.onward.linear(x, x_grid.scale, x_grid.zero_point, w, w_grid.scale, bias)
    return result


def matmul(x: Tensor, x_grid: Grid, y: Tensor, y_grid: Grid) -> Tensor:
    """The sums of x @ y, two activations."""
    result: Tensor = torch.ops.onward.matmul(x, x_grid.scale, x_grid.zero_point, y, y_grid.scale, y_grid.zero_point)
    return result


# What becomes of sums


def _rescale(sums: Tensor, x_scale: Tensor, w_scale: Tensor, axis: int | None) -> Tensor:
    return sums * _along(x_scale * w_scale, axis)


def _along(factor: Tensor, axis: int | None) -> Tensor:
    """A factor for every index along an axis, which is counted from the end."""
    return factor if axis is None else factor.reshape([-1] + [1] * (-1 - axis))


def _requantize(
    sums: Tensor,
    x_scale: Tensor,
    w_scale: Tensor,
    sums_axis: int | None,
    scale: Tensor,
    zero: int,
    dtype: str,
    low: int,
    high: int,
    axis: int | None,
    rounding: str,
) -> Tensor:
    grid = Grid(scale, zero, dtype, low, high, axis)
    if rounding != "half_even":  # arithmetic says it in a file, and begins with the values
        return _half_up(_rescale(sums, x_scale, w_scale, sums_axis) / scale, grid)
    return kernels.requantize(sums, _along(x_scale * w_scale / scale, sums_axis), grid)


define(
    "rescale(Tensor sums, Tensor x_scale, Tensor w_scale, int? sums_axis) -> Tensor",
    _rescale,
    lambda sums, *_: torch.empty_like(sums),
)
define(
    f"requantize(Tensor sums, Tensor x_scale, Tensor w_scale, int? sums_axis, {GRID.format('')}, str rounding) "
    "-> Tensor",
    _requantize,
    lambda sums, x_scale, w_scale, sums_axis, scale, zero, dtype, *_: torch.empty_like(sums, dtype=torch_dtype(dtype)),
)


def rescale(sums: Tensor, x_grid: Grid, w_grid: Grid, axis: int | None) -> Tensor:
    """The values that sums stand for."""
    result: Tensor = torch.ops.onward.rescale(sums, x_grid.scale, w_grid.scale, axis)
    return result


def wide_values(sums: Tensor, x_grid: Grid, w_grid: Grid, bias: Tensor | None = None, axis: int = -1) -> Tensor:
    """The same of sixteen bits, with a bias of their own: each step is one of IEEE 754's, in ONNX too, where sums of
    these come without scales. `axis` is that of the channels, counted from the end."""
    if bias is not None:
        sums = torch.add(sums, _along(bias.to(torch.float32), axis))
    factor = x_grid.scale * w_grid.scale
    return torch.mul(sums, _along(factor, axis if factor.dim() else None))


def widened(q: Tensor, grid: Grid) -> tuple[Tensor, Grid]:
    """Integers of eight bits as such of sixteen, for a product whose result has sixteen."""
    dtype = {"uint8": "uint16", "int8": "int16"}[grid.dtype]
    return q.to(torch_dtype(dtype)), Grid(grid.scale, grid.zero_point, dtype, grid.low, grid.high, grid.axis)


def requantize(sums: Tensor, x_grid: Grid, w_grid: Grid, axis: int | None, grid: Grid, rounding: str) -> Tensor:
    """The integers of an output grid for sums; `axis` is that of the channels, if the weights have a scale for each."""
    result: Tensor = torch.ops.onward.requantize(sums, x_grid.scale, w_grid.scale, axis, *fields(grid), rounding)
    return result


# Two operands, each on its grid


def _binary(kernel: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(
        x: Tensor,
        x_scale: Tensor,
        x_zero: int,
        x_dtype: str,
        y: Tensor,
        y_scale: Tensor,
        y_zero: int,
        y_dtype: str,
        *grid: object,
    ) -> Tensor:
        return kernel(x, Grid(x_scale, x_zero, x_dtype), y, Grid(y_scale, y_zero, y_dtype), Grid(*grid))  # type: ignore[arg-type]

    return run


def _binary_fake(
    x: Tensor,
    x_scale: Tensor,
    x_zero: int,
    x_dtype: str,
    y: Tensor,
    y_scale: Tensor,
    y_zero: int,
    y_dtype: str,
    scale: Tensor,
    zero: int,
    dtype: str,
    *_: object,
) -> Tensor:
    return x.new_empty(torch.broadcast_shapes(x.shape, y.shape), dtype=torch_dtype(dtype))


def _add_half_up(x: Tensor, x_grid: Grid, y: Tensor, y_grid: Grid, grid: Grid) -> Tensor:
    """As linger's chips add: each operand is brought to the scale of the result first, floor(x + 0.5)."""
    values = (kernels.dequantize(x, x_grid), kernels.dequantize(y, y_grid))
    first, second = (torch.floor(each / grid.scale + 0.5) for each in values)
    return kernels.to_grid(first + second, grid)


for _name, _kernel in (("add", kernels.add), ("add_half_up", _add_half_up), ("mul", kernels.mul)):
    define(
        f"{_name}(Tensor x, Tensor x_scale, int x_zero_point, str x_dtype, Tensor y, Tensor y_scale, int y_zero_point, "
        f"str y_dtype, {GRID.format('')}) -> Tensor",
        _binary(_kernel),
        _binary_fake,
    )


def binary(name: str, x: Tensor, x_grid: Grid, y: Tensor, y_grid: Grid, grid: Grid) -> Tensor:
    """`add`, `add_half_up` or `mul` of two activations."""
    one, other = ((each.scale, each.zero_point, each.dtype) for each in (x_grid, y_grid))
    result: Tensor = getattr(torch.ops.onward, name)(x, *one, y, *other, *fields(grid))
    return result
