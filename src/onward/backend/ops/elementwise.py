"""Activations with parameters, softmax, dropout and running sums."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...onnx_operators.python_numbers import number
from ...onnx_operators.unsigned_integers import widened
from ..registry import implements


@implements("Mean")
def mean(*xs: Tensor) -> Tensor:
    return functools.reduce(torch.add, xs) / len(xs)


# Activations


@implements("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float) -> Tensor:
    return F.leaky_relu(x, alpha)


@implements("PRelu")
@widened
def prelu(x: Tensor, slope: Tensor, *, opset: int) -> Tensor:
    if opset < 7 and slope.dim() == 1 and slope.numel() > 1:
        slope = slope.reshape(-1, *[1] * (x.dim() - 2))
    elif slope.dim() == 1 and slope.numel() > 1 and x.dim() > 2 and slope.numel() == x.shape[1] != x.shape[-1]:
        slope = slope.reshape(-1, *[1] * (x.dim() - 2))  # PyTorch's exporter of 2018 wrote it so for later opsets too
    return torch.where(x < 0, x * slope, x)


@implements("Elu")
def elu(x: Tensor, *, alpha: float) -> Tensor:
    return F.elu(x, alpha)


@implements("Celu")
def celu(x: Tensor, *, alpha: float) -> Tensor:
    return F.celu(x, alpha)


@implements("Selu")
def selu(x: Tensor, *, alpha: float, gamma: float) -> Tensor:
    return gamma * torch.where(x > 0, x, alpha * torch.expm1(x))


@implements("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float, beta: float) -> Tensor:
    if beta == 0.5 and abs(alpha - 1 / 6) < 1e-7:
        return F.hardsigmoid(x)  # whose slope no float32 attribute holds
    return (alpha * x + beta).clamp(0, 1)


@implements("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float) -> Tensor:
    return torch.where(x > alpha, x, torch.zeros_like(x))


@implements("Shrink")
def shrink(x: Tensor, *, bias: float, lambd: float) -> Tensor:
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, 0)).to(x.dtype)


@implements("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return F.gelu(x, approximate=approximate)


@implements("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return x * torch.sigmoid(alpha * x)


@implements("Hardmax", since=13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return torch.zeros_like(x).scatter_(axis, x.argmax(axis, keepdim=True), 1)


def _flattened(function: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """Before opset 13: on the matrix that the axis splits the tensor into."""

    def run(x: Tensor, *, axis: int = 1) -> Tensor:
        axis = axis % max(x.dim(), 1)
        return function(x.reshape(math.prod(x.shape[:axis]), -1), 1).reshape(x.shape)

    return run


implements("Hardmax")(_flattened(lambda x, axis: hardmax(x, axis=axis)))
implements("Softmax")(_flattened(lambda x, axis: torch.softmax(x, axis)))
implements("LogSoftmax")(_flattened(lambda x, axis: torch.log_softmax(x, axis)))


@implements("Softmax", since=13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return torch.softmax(x, axis)


@implements("LogSoftmax", since=13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return torch.log_softmax(x, axis)


@implements("Dropout", numbers=("ratio", "training_mode"))
def dropout(
    x: Tensor,
    ratio: Any = 0.5,
    training_mode: Any = None,
    *,
    outputs: int,
    seed: int | None = None,
    is_test: int = 1,
) -> Any:
    """Training comes by the input `training_mode` alone: models before opset 12 are for inference."""
    ratio = 0.5 if ratio is None else number(ratio)
    if training_mode is None or not number(training_mode) or ratio == 0:
        return x if outputs == 1 else (x, torch.ones_like(x, dtype=torch.bool))
    generator = None if seed is None else torch.Generator(x.device).manual_seed(seed)
    mask = torch.rand(x.shape, generator=generator, device=x.device) >= ratio
    result = x * mask / (1 - ratio)
    return result if outputs == 1 else (result, mask)


@implements("CumSum", numbers=("axis",))
@widened
def cumsum(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _running(lambda t, dim: torch.cumsum(t, dim, dtype=t.dtype), 0, x, int(number(axis)), exclusive, reverse)


@implements("CumProd", numbers=("axis",))
@widened
def cumprod(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return _running(lambda t, dim: torch.cumprod(t, dim, dtype=t.dtype), 1, x, int(number(axis)), exclusive, reverse)


def _running(
    function: Callable[[Tensor, int], Tensor], start: int, x: Tensor, axis: int, exclusive: int, reverse: int
) -> Tensor:
    x = x.flip(axis) if reverse else x
    if exclusive:
        first = torch.full_like(x.narrow(axis, 0, 1), start)
        x = torch.cat([first, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
    result = function(x, axis)
    return result.flip(axis) if reverse else result
