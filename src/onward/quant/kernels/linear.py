"""Products of matrices: exact sums of integers, then one float32 multiplication."""

from __future__ import annotations

import torch
from torch import Tensor

from ..grids.grid import Grid
from .basic import centred, in_int32, requantize, sum_type
from .parts import in_parts, is_wide, parts_fit


def linear(x: Tensor, gx: Grid, w: Tensor, gw: Grid, bias: Tensor | None, gy: Grid | None) -> Tensor:
    """x @ w.T + bias with w as torch.nn.Linear keeps it, (out, in); x of any rank. float32 where there is no gy.

        Reshape to (-1, in) -> Gemm(DequantizeLinear(x), DequantizeLinear(w, axis=0), DequantizeLinear(bias), transB=1)
        [-> QuantizeLinear] -> Reshape back
        -> QGemm

    x of rank 2 needs no Reshape. Fused where x and y are uint8 and w uint8 or int8, or all three int8; one scale or one
    for each row of w; beta is 1, and the bias is absent or int32 behind a DequantizeLinear with scale sx*sw (the
    runtime looks at its type, not at its scale).
    With gy the factor is float32(sx * sw) / sy; without, the result is float32(sum) * float32(sx * sw).
    """
    total = linear_sums(x, gx, w, gw, bias)
    factor = gx.scale * gw.scale
    return total.to(torch.float32) * factor if gy is None else requantize(total, factor / gy.scale, gy)


def linear_sums(x: Tensor, gx: Grid, w: Tensor, gw: Grid, bias: Tensor | None) -> Tensor:
    """The sums alone, as int32 has them, in float32 or float64; of sixteen bits, without a bias, next to exact in
    float32.

    MatMulInteger(high byte of x, w) * 256 + MatMulInteger(low byte of x, w)     as floats, for sixteen bits
    """
    weight = centred(w, gw)
    if is_wide(x) and bias is None and sum_type(gx, weight, None, parts_fit(weight)) is torch.float32:
        high, low = in_parts(centred(x, gx))
        matrix = weight.to(torch.float32).mT
        return torch.matmul(high, matrix) - torch.matmul(low, matrix)
    dtype = sum_type(gx, weight, bias)
    total = torch.matmul(centred(x, gx).to(dtype), weight.to(dtype).mT)
    total = total if bias is None else total + bias
    return total if is_wide(x) else in_int32(total)


def matmul(a: Tensor, ga: Grid, b: Tensor, gb: Grid, gy: Grid | None) -> Tensor:
    """torch.matmul of two activations, batches broadcast. float32 where there is no gy.

        MatMul(DequantizeLinear(a), DequantizeLinear(b)) -> QuantizeLinear      -> QLinearMatMul
        MatMul(DequantizeLinear(a), DequantizeLinear(b))                        -> MatMulIntegerToFloat (com.microsoft)

    Fused where a and y are uint8 and b uint8 or int8; int8 a stays in float on x86-64.
    """
    total = matmul_sums(a, ga, b, gb)
    factor = ga.scale * gb.scale
    return total.to(torch.float32) * factor if gy is None else requantize(total, factor / gy.scale, gy)


def matmul_sums(a: Tensor, ga: Grid, b: Tensor, gb: Grid) -> Tensor:
    """The sums alone, as int32 has them unless they are of sixteen bits, in float64."""
    total = torch.matmul(centred(a, ga).to(torch.float64), centred(b, gb).to(torch.float64))
    return total if is_wide(a) or is_wide(b) else in_int32(total)
