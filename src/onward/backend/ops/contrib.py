"""Operators that onnxruntime's optimizer makes of several (com.microsoft): activations, norms and products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import BackendError
from ..registry import implements
from .conv import conv
from .linear import gemm
from .norm import layer_norm, rms_norm
from .pool import max_pool

_MS = "com.microsoft"


# Activations


@implements("Gelu", domain=_MS)
def gelu(x: Tensor) -> Tensor:
    return F.gelu(x)


@implements("BiasGelu", domain=_MS)
def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias)


@implements("FastGelu", domain=_MS)
def fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.gelu(x if bias is None else x + bias, approximate="tanh")


@implements("QuickGelu", domain=_MS)
def quick_gelu(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    return x * torch.sigmoid(alpha * x)


@implements("ScaledSiLU", domain=_MS)
def scaled_silu(x: Tensor, scale: Tensor | None = None, *, alpha: float = 1.0) -> Tensor:
    return F.silu(alpha * x if scale is None else alpha * scale.to(x.dtype) * x)


@implements("BiasSplitGelu", domain=_MS)
def bias_split_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """One half of the last axis, gated by the gelu of the other."""
    left, right = (x + bias).chunk(2, -1)
    return left * F.gelu(right)


@implements("BiasAdd", domain=_MS)
def bias_add(x: Tensor, bias: Tensor, skip: Tensor) -> Tensor:
    return x + bias + skip


# What an operator fused with another one does last: a name and up to three numbers
_ACTIVATIONS: dict[str, Callable[..., Tensor]] = {
    "": lambda x: x,
    "Clip": lambda x, low=float("-inf"), high=float("inf"): x.clamp(low, high),
    "Elu": lambda x, alpha=1.0: F.elu(x, alpha),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: (alpha * x + beta).clamp(0, 1),
    "LeakyRelu": lambda x, alpha=0.01: F.leaky_relu(x, alpha),
    "Relu": F.relu,
    "Selu": F.selu,
    "Sigmoid": torch.sigmoid,
    "Softplus": F.softplus,
    "Softsign": F.softsign,
    "Tanh": torch.tanh,
    "ThresholdedRelu": lambda x, alpha=1.0: torch.where(x > alpha, x, 0.0),
}


def _activated(x: Tensor, name: str, numbers: Sequence[float]) -> Tensor:
    if name not in _ACTIVATIONS:
        raise BackendError(f"there is no activation {name!r}", hint=f"known are {', '.join(sorted(_ACTIVATIONS))[2:]}")
    return _ACTIVATIONS[name](x, *numbers)


# Convolutions and products


@implements("FusedConv", domain=_MS)
def fused_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    total: Tensor | None = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    **attributes: Any,
) -> Tensor:
    result = conv(x, weight, bias, **attributes)
    return _activated(result if total is None else result + total, activation, activation_params)


@implements("NhwcConv", "NhwcFusedConv", domain=_MS)
def nhwc_fused_conv(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, total: Tensor | None = None, **attributes: Any
) -> Tensor:
    """The same with channels last."""
    total = None if total is None else total.movedim(-1, 1)
    return fused_conv(x.movedim(-1, 1), weight.movedim(-1, 1), bias, total, **attributes).movedim(1, -1)


@implements("NhwcMaxPool", domain=_MS)
def nhwc_max_pool(x: Tensor, **attributes: Any) -> Tensor:
    result: Tensor = max_pool(x.movedim(-1, 1), outputs=1, **attributes)
    return result.movedim(1, -1)


def _numbers(*given: float | None) -> list[float]:
    return [each for each in given if each is not None]


@implements("FusedGemm", domain=_MS)
def fused_gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    **attributes: Any,
) -> Tensor:
    numbers = _numbers(activation_alpha, activation_beta, activation_gamma)
    return _activated(gemm(a, b, c, **attributes), activation, numbers)


@implements("FusedMatMul", "TransposeMatMul", domain=_MS)
def fused_matmul(
    a: Tensor,
    b: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    """`transBatch` is for an operand whose rows are its first axis, and whose batch axes come after."""
    a, b = a.movedim(0, -2) if transBatchA else a, b.movedim(0, -2) if transBatchB else b
    # As Transpose nodes would, an operand that is a vector stays as it is.
    a, b = a.mT if transA and a.dim() > 1 else a, b.mT if transB and b.dim() > 1 else b
    return alpha * torch.matmul(a, b)


@implements("FusedMatMulActivation", domain=_MS)
def fused_matmul_activation(
    a: Tensor,
    b: Tensor,
    *,
    activation: str,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    activation_axis: int | None = None,
    **attributes: Any,
) -> Tensor:
    result = fused_matmul(a, b, **attributes)
    if activation == "Softmax":
        return torch.softmax(result, -1 if activation_axis is None else activation_axis)
    return _activated(result, activation, _numbers(activation_alpha, activation_beta, activation_gamma))


# Norms


@implements("SimplifiedLayerNormalization")  # onnxruntime has it in ONNX's own domain, where ONNX does not know it
@implements("SimplifiedLayerNormalization", domain=_MS)
def simplified_layer_norm(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1, outputs: int
) -> Any:
    result = rms_norm(x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)
    if outputs == 1:
        return result
    axes = list(range(axis % x.dim(), x.dim()))
    return result, torch.rsqrt((x.float() ** 2).mean(axes, keepdim=True) + epsilon)


@implements("SkipLayerNormalization", domain=_MS)
def skip_layer_norm(
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Any, ...]:
    """The norm of a sum; the sum is the fourth output, the two between are for training."""
    total = x + skip if bias is None else x + skip + bias
    return layer_norm(total, gamma, beta, epsilon=epsilon, outputs=1), None, None, total


@implements("SkipSimplifiedLayerNormalization", domain=_MS)
def skip_simplified_layer_norm(
    x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None, *, epsilon: float = 1e-12
) -> tuple[Any, ...]:
    total = x + skip if bias is None else x + skip + bias
    return rms_norm(total, gamma, epsilon=epsilon), None, None, total


@implements("EmbedLayerNormalization", domain=_MS)
def embed_layer_norm(
    ids: Tensor,
    segments: Tensor | None,
    words: Tensor,
    positions: Tensor,
    of_segments: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int | None = None,
    outputs: int,
) -> Any:
    """The first layer of BERT. Next to it: how many tokens of each row are not padding, and the sum before the norm."""
    places = torch.arange(ids.shape[1]) if position_ids is None else position_ids.long()
    total = words[ids.long()] + positions[places]
    if segments is not None and of_segments is not None:
        total = total + of_segments[segments.long()]
    result = layer_norm(total, gamma, beta, epsilon=epsilon, outputs=1)
    lengths = torch.zeros(ids.shape[0], dtype=torch.int32) if mask is None else mask.sum(1, dtype=torch.int32)
    return (result, lengths, total)[:outputs] if outputs > 1 else result


@implements("GroupNorm", domain=_MS)
def group_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    *,
    groups: int,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Channels are last unless it says otherwise; `activation` 1 is SiLU."""
    if activation not in (0, 1):
        raise BackendError(f"GroupNorm has no activation {activation}")
    first = x.movedim(-1, 1) if channels_last else x
    result = F.group_norm(first.float(), groups, gamma.float(), beta.float(), epsilon)
    result = (F.silu(result) if activation else result).to(x.dtype)
    return result.movedim(1, -1) if channels_last else result


@implements("SkipGroupNorm", domain=_MS)
def skip_group_norm(
    x: Tensor, gamma: Tensor, beta: Tensor, skip: Tensor, bias: Tensor | None = None, **attributes: Any
) -> tuple[Tensor, Tensor]:
    if skip.dim() == 2:  # one number for each picture and channel
        skip = skip[:, None, None] if attributes.get("channels_last", 1) else skip[..., None, None]
    total = x + skip if bias is None else x + skip + bias
    return group_norm(total, gamma, beta, **attributes), total
