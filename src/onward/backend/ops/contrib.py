"""Operators that onnxruntime's optimizer makes (com.microsoft), the common ones."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..registry import implements
from .norm import layer_norm, rms_norm

_DOMAIN = "com.microsoft"


@implements("Gelu", domain=_DOMAIN)
def gelu(x: Tensor) -> Tensor:
    return F.gelu(x)


@implements("BiasGelu", domain=_DOMAIN)
def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias)


@implements("FastGelu", domain=_DOMAIN)
def fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.gelu(x if bias is None else x + bias, approximate="tanh")


@implements("QuickGelu", domain=_DOMAIN)
def quick_gelu(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    return x * torch.sigmoid(alpha * x)


@implements("FusedMatMul", domain=_DOMAIN)
def fused_matmul(a: Tensor, b: Tensor, *, alpha: float = 1.0, transA: int = 0, transB: int = 0) -> Tensor:
    return alpha * torch.matmul(a.mT if transA else a, b.mT if transB else b)


@implements("SimplifiedLayerNormalization")  # onnxruntime has it in ONNX's own domain, where ONNX does not know it
def simplified_layer_norm(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    return rms_norm(x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)


@implements("SkipLayerNormalization", domain=_DOMAIN)
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


@implements("SkipSimplifiedLayerNormalization", domain=_DOMAIN)
def skip_simplified_layer_norm(
    x: Tensor, skip: Tensor, gamma: Tensor, bias: Tensor | None = None, *, epsilon: float = 1e-12
) -> tuple[Any, ...]:
    total = x + skip if bias is None else x + skip + bias
    return rms_norm(total, gamma, epsilon=epsilon), None, None, total
