"""To integers and back, and the two float32 steps that all kernels share."""

from __future__ import annotations

import torch
from torch import Tensor

from ..grids.grid import Grid, dtype_bounds


def quantize(x: Tensor, grid: Grid) -> Tensor:
    """The nearest integers of a float tensor, half to even, bounded.

        QuantizeLinear(x, scale, zero_point[, axis])

    Not fused with anything, and exact for uint8, int8, uint16 and int16 (16 bit needs opset 21, or com.microsoft's
    QuantizeLinear below it), per tensor and per axis (opset 13): x / scale is one float32 division. A scale that is
    multiplied by its reciprocal, as torch.quantize_per_tensor does, differs at ties. Infinities saturate; a NaN becomes
    the lowest integer of the type, as in onnxruntime on x86-64. Bounds narrower than the type are a Clip after it.

    int32, the type of biases, is never quantised by the runtime; here it is done in float64.
    """
    scale = grid.scale_for(x.dim())
    if grid.dtype == "int32":
        return (x.double() / scale.double()).round().add(grid.zero_point).clamp(grid.low, grid.high).to(torch.int32)
    ratio = x.to(torch.float32) / scale
    return to_grid(ratio.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf), grid)


def dequantize(q: Tensor, grid: Grid) -> Tensor:
    """The float32 numbers that integers stand for.

        DequantizeLinear(q, scale, zero_point[, axis])

    Exact for every type: the difference is an integer, then one float32 multiplication.
    """
    return centred(q, grid).to(torch.float32) * grid.scale_for(q.dim())


def centred(q: Tensor, grid: Grid) -> Tensor:
    """q - zero_point, as int32: that is what the kernels sum."""
    wide = q.to(torch.int32)
    return wide - grid.zero_point if grid.zero_point else wide


def sum_type(gx: Grid, w: Tensor, bias: Tensor | None, known_to_fit: bool = False) -> torch.dtype:
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
    low, high = dtype_bounds(gx.dtype)
    largest = int(w.flatten(1).abs().sum(1, dtype=torch.int64).max()) * max(high - gx.zero_point, gx.zero_point - low)
    if bias is not None:
        largest += int(bias.to(torch.int64).abs().max())
    return torch.float32 if largest < 2**24 else torch.float64


def in_int32(total: Tensor) -> Tensor:
    """Sums of products as the runtime's accumulators of 32 bits have them: beyond one end they go on from the other."""
    if total.dtype is not torch.float64 or total.numel() == 0 or float(total.abs().max()) < 2**31:
        return total
    return torch.remainder(total + 2**31, 2**32) - 2**31


def to_grid(steps: Tensor, grid: Grid) -> Tensor:
    """Float32 steps from zero to the integers of the grid: half to even, zero point, bounds.

    The runtime bounds the float number first, so that the conversion cannot overflow. The result is the same.
    """
    low, high = grid.low - grid.zero_point, grid.high - grid.zero_point
    q = steps.round().clamp_(low, high)
    return q.add_(grid.zero_point).to(torch.int32).to(grid.torch_dtype)


def requantize(total: Tensor, factor: Tensor, grid: Grid) -> Tensor:
    """Sums of products to the output's grid: one conversion to float32, one multiplication, half to even."""
    return to_grid(total.to(torch.float32) * factor, grid)


def clip(q: Tensor, grid: Grid) -> Tensor:
    """Tighter bounds for integers that are there already: ReLU, ReLU6, 4 bit activations.

        Clip(q, low, high)      on the integers, behind QuantizeLinear: opset 12, uint8 and int8 (not 16 bit)

    Where the bounds are those of the type, no node at all. A Clip or Relu in float *before* QuantizeLinear is only
    removed by the runtime where the bounds of the type already imply it; otherwise it keeps Conv from being fused.
    """
    if (grid.low, grid.high) == dtype_bounds(grid.dtype):
        return q
    return q.to(torch.int32).clamp(grid.low, grid.high).to(grid.torch_dtype)
