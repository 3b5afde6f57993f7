"""Weights of few bits (com.microsoft): blocks along an axis that have a scale and a zero point each."""

from __future__ import annotations

from typing import Any

import onnx
import torch
from torch import Tensor

from ...errors import BackendError
from ..registry import implements
from ..values import is_narrow

_MS = "com.microsoft"
_T = onnx.TensorProto


def _unpacked(x: Tensor, bits: int) -> Tensor:
    """The numbers of a tensor of bytes along its last axis, the low bits first."""
    if bits == 8:
        return x
    if bits not in (2, 4):
        raise BackendError(f"numbers of {bits} bits: there are 2, 4 and 8")
    parts = [(x >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return torch.stack(parts, -1).flatten(-2)


@implements("MatMulNBits", domain=_MS)
def matmul_nbits(
    a: Tensor,
    b: Tensor,
    scales: Tensor,
    zeros: Tensor | None = None,
    g_idx: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    K: int,
    N: int,
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Tensor:
    """`accuracy_level` allows a runtime to compute less precisely; here it is computed as the inputs are."""
    if weight_prepacked:
        raise BackendError("the weight is packed for one kind of hardware (weight_prepacked)")
    if min(K, N, block_size) < 1 or b.numel() * 8 < N * K * bits:
        raise BackendError(f"a weight of {list(b.shape)} bytes has no {N} rows of {K} numbers of {bits} bits")
    blocks = -(-K // block_size)
    numbers = _unpacked(b.reshape(N, -1), bits)[:, :K].to(scales.dtype)
    scale = scales.reshape(N, blocks)
    place = torch.arange(K) // block_size if g_idx is None else g_idx.long()
    if zeros is None:
        zero = torch.full((N, blocks), 2.0 ** (bits - 1), dtype=scales.dtype)
    elif zeros.is_floating_point():
        zero = zeros.reshape(N, blocks)
    else:
        zero = _unpacked(zeros.reshape(N, -1), bits)[:, :blocks].to(scales.dtype)
    weight = (numbers - zero[:, place]) * scale[:, place]
    return torch.nn.functional.linear(a, weight.to(a.dtype), bias)


@implements("GatherBlockQuantized", domain=_MS)
def gather_block_quantized(
    x: Tensor,
    indices: Tensor,
    scales: Tensor,
    zeros: Tensor | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
    types: tuple[int, ...],
) -> Tensor:
    """Rows of a quantised table. Bytes hold `bits` bits each, around the middle of their range if there is no zero."""
    in_bytes = not is_narrow(types[0])
    if in_bytes:
        x = _unpacked(x, bits)
        zeros = None if zeros is None else _unpacked(zeros, bits)
    axis, gathered = quantize_axis % x.dim(), gather_axis % x.dim()
    middle = 2.0 ** (bits - 1) if in_bytes else 0.0

    def spread(parameter: Tensor) -> Tensor:
        return parameter.repeat_interleave(block_size, axis).narrow(axis, 0, x.shape[axis])

    zero: Any = middle if zeros is None else spread(zeros.to(scales.dtype).narrow(axis, 0, scales.shape[axis]))
    table = (x.to(scales.dtype) - zero) * spread(scales)
    places = torch.where(indices < 0, indices + x.shape[gathered], indices).long()
    picked = table.index_select(gathered, places.reshape(-1))
    return picked.reshape(*x.shape[:gathered], *indices.shape, *x.shape[gathered + 1 :])


# The sixteen values of the two formats of bitsandbytes, as its paper (QLoRA, 2023) gives them.
_FP4 = (0.0, 0.00520833333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip


@implements("MatMulBnb4", domain=_MS)
def matmul_bnb4(
    a: Tensor,
    b: Tensor,
    absmax: Tensor,
    *,
    K: int,
    N: int,
    block_size: int,
    quant_type: int,
    training_mode: int = 0,
    transB: int = 1,
) -> Tensor:
    """The high bits first; `quant_type` 0 is FP4, 1 is NF4."""
    if quant_type not in (0, 1):
        raise BackendError(f"quant_type is 0 (FP4) or 1 (NF4), not {quant_type}")
    values = torch.tensor(_NF4 if quant_type else [*_FP4, *(-each for each in _FP4)], dtype=a.dtype)
    codes = torch.stack([b >> 4, b & 15], -1).reshape(-1)[: N * K].long()
    weight = (values[codes] * absmax.repeat_interleave(block_size)[: N * K]).reshape(N, K)
    return torch.matmul(a, weight.t() if transB else weight)
