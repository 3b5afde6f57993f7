"""Norms that the runtime computes in float."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import kernels
from .core import define

define(
    "layer_norm(Tensor x, SymInt[] shape, Tensor? weight, Tensor? bias, float epsilon) -> Tensor",
    kernels.layer_norm,
    lambda x, *_: torch.empty_like(x, memory_format=torch.contiguous_format),
)


def layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, epsilon: float) -> Tensor:
    """F.layer_norm as onnxruntime computes it."""
    result: Tensor = torch.ops.onward.layer_norm(x, list(shape), weight, bias, epsilon)
    return result


define(
    "instance_norm(Tensor x, Tensor weight, Tensor bias, float epsilon) -> Tensor",
    kernels.instance_norm,
    lambda x, *_: torch.empty_like(x, memory_format=torch.contiguous_format),
)


def instance_norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """F.instance_norm as onnxruntime computes it, with the statistics of x."""
    result: Tensor = torch.ops.onward.instance_norm(x, weight, bias, epsilon)
    return result
