"""onnxruntime's operators on quantised tensors (com.microsoft), to the bit.

A result that falls between two integers is decided by how the numbers before were rounded, so the arithmetic here goes
through float32 in the order of onnxruntime 1.31's x64 kernels: `_fma` where they multiply and add in one step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import BackendError
from ..registry import implements
from .conv import torch_pads
from .linear import less_zero
from .pool import frame, windows
from .quantize import dequantize_linear, dynamic_quantize_linear, qlinear_conv, quantize_linear, requantized

_MS = "com.microsoft"

implements("QuantizeLinear", domain=_MS)(quantize_linear)
implements("DequantizeLinear", domain=_MS)(dequantize_linear)


def _fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """a * b + c with one rounding: the product of a float32 and an integer of 8 bits is exact in float64."""
    return (a.double() * b.double() + c.double()).float()


def _zero(zero: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros((), dtype=like.dtype) if zero is None else zero.reshape(())


def _one(parameter: Tensor) -> Tensor:
    """A scale that is one number: these operators know no others."""
    if parameter.numel() != 1:
        raise BackendError(f"a scale of shape {list(parameter.shape)} where one number is expected")
    return parameter.reshape(())


def _to_integers(value: Tensor, dtype: torch.dtype) -> Tensor:
    info = torch.iinfo(dtype)
    return torch.round(value).clamp(info.min, info.max).to(dtype)


# Elementwise


@implements("QLinearAdd", domain=_MS)
def qlinear_add(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor | None,
    c_scale: Tensor,
    c_zero: Tensor | None = None,
) -> Tensor:
    """What is repeated along the last axis is taken as the second."""
    if _repeated(a, b):
        a, a_scale, a_zero, b, b_scale, b_zero = b, b_scale, b_zero, a, a_scale, a_zero
    ratio_a, ratio_b = _one(a_scale) / _one(c_scale), _one(b_scale) / _one(c_scale)
    zeros = [_zero(zero, a).float() for zero in (a_zero, b_zero, c_zero)]
    fixed = zeros[2] - _fma(ratio_a, zeros[0], ratio_b * zeros[1])
    return _to_integers(_fma(a.float(), ratio_a, _fma(b.float(), ratio_b, fixed)), a.dtype)


def _repeated(a: Tensor, b: Tensor) -> bool:
    """Whether a is one number along the last axis that has more than one."""
    rank = max(a.dim(), b.dim())
    pairs = zip([1] * (rank - a.dim()) + list(a.shape), [1] * (rank - b.dim()) + list(b.shape), strict=True)
    return next((x for x, y in reversed(list(pairs)) if (x, y) != (1, 1)), 1) == 1


@implements("QLinearMul", domain=_MS)
def qlinear_mul(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor | None,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor | None,
    c_scale: Tensor,
    c_zero: Tensor | None = None,
) -> Tensor:
    product = (less_zero(a, _zero(a_zero, a)) * less_zero(b, _zero(b_zero, b))).float()
    ratio = _one(a_scale) * _one(b_scale) / _one(c_scale)
    return _to_integers(product * ratio + _zero(c_zero, a).float(), a.dtype)


def _through(
    x: Tensor, x_scale: Tensor, x_zero: Tensor | None, y_scale: Tensor, y_zero: Tensor | None, f: Callable[..., Tensor]
) -> Tensor:
    """A function of real numbers, between scales."""
    wide = _one(x_scale) * less_zero(x, _zero(x_zero, x)).float()
    to = _zero(y_zero, x)
    info = torch.iinfo(to.dtype)
    return (torch.round(f(wide) / _one(y_scale)) + to.float()).clamp(info.min, info.max).to(to.dtype)


@implements("QLinearLeakyRelu", domain=_MS)
def qlinear_leaky_relu(
    x: Tensor, x_scale: Tensor, x_zero: Any, y_scale: Tensor, y_zero: Any = None, *, alpha: float = 0.01
) -> Tensor:
    return _through(x, x_scale, x_zero, y_scale, y_zero, lambda wide: torch.where(wide >= 0, wide, wide * alpha))


@implements("QLinearSigmoid", domain=_MS)
def qlinear_sigmoid(x: Tensor, x_scale: Tensor, x_zero: Any, y_scale: Tensor, y_zero: Any = None) -> Tensor:
    return _through(x, x_scale, x_zero, y_scale, y_zero, torch.sigmoid)


@implements("QLinearConcat", domain=_MS)
def qlinear_concat(y_scale: Tensor, y_zero: Tensor, *inputs: Tensor, axis: int) -> Tensor:
    """The inputs come in threes: a tensor, its scale, its zero point."""
    if not inputs or len(inputs) % 3:
        raise BackendError(f"QLinearConcat has {len(inputs)} inputs: three for each tensor are needed")
    triples = [inputs[place : place + 3] for place in range(0, len(inputs), 3)]
    return torch.cat([_through(x, scale, zero, y_scale, y_zero, _same) for x, scale, zero in triples], axis)


@implements("QLinearWhere", domain=_MS)
def qlinear_where(
    condition: Tensor,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    z_scale: Tensor,
    z_zero: Tensor,
) -> Tensor:
    first = _through(x, x_scale, x_zero, z_scale, z_zero, _same)
    return torch.where(condition, first, _through(y, y_scale, y_zero, z_scale, z_zero, _same))


def _same(x: Tensor) -> Tensor:
    return x


@implements("QLinearSoftmax", domain=_MS)
def qlinear_softmax(
    x: Tensor, x_scale: Tensor, x_zero: Any, y_scale: Tensor, y_zero: Tensor, **attributes: Any
) -> Tensor:
    """Exponentials from a table that starts so high that their sum almost fills float32.

    Its attribute `opset` is that of the Softmax that it was: before 13 all axes from `axis` on are one.
    """
    opset, axis = attributes["opset"], attributes.get("axis")
    axis = (1 if opset < 13 else -1) if axis is None else axis
    rows = x.flatten(axis % x.dim()) if opset < 13 else x.transpose(axis, -1)
    scale, size = float(_one(x_scale)), rows.shape[-1]
    head = max(0.0, math.log(float(np.finfo(np.float32).max / np.float32(size))) - 5) / scale
    table = torch.exp((torch.arange(256, dtype=torch.float64) - 255 + head) * scale).float()
    below = rows.amax(-1, keepdim=True).int() - rows.int()
    powers = table[(255 - below).long()]
    # One after the other in float32, as torch's own sums are not.
    total = torch.from_numpy(np.add.accumulate(powers.numpy(), axis=-1)[..., -1:].copy())
    whole = torch.round(powers * torch.floor(1 / _one(y_scale)) / total).int() + y_zero.int()
    result = whole.clamp(max=torch.iinfo(x.dtype).max).to(x.dtype)
    return result.reshape(x.shape) if opset < 13 else result.transpose(axis, -1).contiguous()


# Pools


@implements("QLinearAveragePool", domain=_MS)
def qlinear_average_pool(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    y_scale: Tensor,
    y_zero: Tensor | None = None,
    *,
    kernel_shape: list[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    x = x.movedim(-1, 1) if channels_last else x
    rank = x.dim() - 2
    strides, ones = strides or [1] * rank, [1] * rank
    begins, ends, beyond = frame(x, kernel_shape, strides, ones, pads, auto_pad, ceil_mode)
    if kernel_shape == list(x.shape[2:]) and not any(begins) and not any(ends):
        result = qlinear_global_average_pool(x, x_scale, _zero(x_zero, x), y_scale, _zero(y_zero, x))
        return result.movedim(1, -1) if channels_last else result
    around = torch_pads(begins + [end + more for end, more in zip(ends, beyond, strict=True)])
    wide = _one(x_scale) * less_zero(x, _zero(x_zero, x)).float()
    taps = windows(F.pad(wide, around), kernel_shape, strides, ones)
    total = torch.zeros_like(taps[..., 0])
    for place in range(taps.shape[-1]):
        total = total + taps[..., place]
    counts: Any = math.prod(kernel_shape)
    if not count_include_pad:
        counts = windows(F.pad(torch.ones_like(wide[:1, :1]), around), kernel_shape, strides, ones).sum(-1)
    to = _zero(y_zero, x)
    result = _to_integers(total / counts / _one(y_scale) + to.float(), to.dtype)
    return result.movedim(1, -1) if channels_last else result


@implements("QLinearGlobalAveragePool", domain=_MS)
def qlinear_global_average_pool(
    x: Tensor, x_scale: Tensor, x_zero: Tensor, y_scale: Tensor, y_zero: Tensor, *, channels_last: int = 0
) -> Tensor:
    axes = list(range(1, x.dim() - 1)) if channels_last else list(range(2, x.dim()))
    total = less_zero(x, _zero(x_zero, x)).sum(axes, keepdim=True).float()
    count = math.prod(x.shape[axis] for axis in axes)
    return requantized(total, _one(x_scale) / (_one(y_scale) * count), y_zero.reshape(()))


# Products


@implements("QLinearConv", domain=_MS)
def qlinear_conv_of_either_order(x: Tensor, *inputs: Any, channels_last: int = 0, **attributes: Any) -> Tensor:
    if not channels_last:
        return qlinear_conv(x, *inputs, **attributes)
    return qlinear_conv(x.movedim(-1, 1), *inputs, **attributes).movedim(1, -1)


@implements("QGemm", domain=_MS)
def qgemm(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    c: Tensor | None = None,
    y_scale: Tensor | None = None,
    y_zero: Tensor | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Without a scale of the result it is float32. b may have a scale and zero point for each column of the result."""
    left = less_zero(a, a_zero)
    right = less_zero(b, b_zero, 0 if transB else 1)
    total = (left.t() if transA else left).double() @ (right.t() if transB else right).double()
    total = total if c is None else total + c.double()
    factor = alpha * _one(a_scale) * (b_scale.reshape(()) if b_scale.numel() == 1 else b_scale)
    if y_scale is None:
        return total.float() * factor
    return requantized(total.float(), factor / _one(y_scale), _zero(y_zero, a))


@implements("MatMulIntegerToFloat", domain=_MS)
def matmul_integer_to_float(
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    total = torch.matmul(less_zero(a, a_zero).double(), less_zero(b, b_zero, -1).double())
    result = total.float() * (a_scale * b_scale)
    return result if bias is None else result + bias


@implements("DynamicQuantizeMatMul", domain=_MS)
def dynamic_quantize_matmul(
    a: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    whole, scale, zero = dynamic_quantize_linear(a)
    return matmul_integer_to_float(whole, b, scale, b_scale, zero, b_zero, bias)


@implements("MatMulInteger16", domain=_MS)
def matmul_integer16(a: Tensor, b: Tensor) -> Tensor:
    return torch.matmul(a.int(), b.int())


@implements("MulInteger", domain=_MS)
def mul_integer(a: Tensor, a_zero: Tensor | None, b: Tensor, b_zero: Tensor | None = None) -> Tensor:
    return less_zero(a, a_zero) * less_zero(b, b_zero)


@implements("ReduceSumInteger", domain=_MS)
def reduce_sum_integer(x: Tensor, *, axes: list[int], keepdims: int) -> Tensor:
    return x.int().sum(axes, bool(keepdims), dtype=torch.int32)


@implements("QLinearReduceMean", domain=_MS)
def qlinear_reduce_mean(
    x: Tensor, x_scale: Tensor, x_zero: Any, y_scale: Tensor, y_zero: Any = None, *, axes: list[int], keepdims: int
) -> Tensor:
    """onnxruntime declares it and has no kernel for it: this is the declaration."""
    return _through(x, x_scale, x_zero, y_scale, y_zero, lambda wide: wide.mean(axes, bool(keepdims)))
