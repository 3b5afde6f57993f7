"""Element by element: arithmetic, functions of one number, activations."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..registry import implements
from ..values import number
from ._wide import widened

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": torch.abs, "Acos": torch.acos, "Acosh": torch.acosh, "Asin": torch.asin, "Asinh": torch.asinh,
    "Atan": torch.atan, "Atanh": torch.atanh, "Ceil": torch.ceil, "Cos": torch.cos, "Cosh": torch.cosh,
    "Erf": torch.erf, "Exp": torch.exp, "Floor": torch.floor, "Log": torch.log, "Neg": torch.neg,
    "Reciprocal": torch.reciprocal, "Relu": torch.relu, "Round": torch.round, "Sigmoid": torch.sigmoid,
    "Sign": torch.sign, "Sin": torch.sin, "Sinh": torch.sinh, "Sqrt": torch.sqrt, "Tan": torch.tan,
    "Tanh": torch.tanh, "Softplus": F.softplus, "Softsign": F.softsign, "Mish": F.mish, "HardSwish": F.hardswish,
    "BitwiseNot": torch.bitwise_not, "IsNaN": torch.isnan,
}  # fmt: skip


def _one(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    @widened
    def run(x: Tensor) -> Tensor:
        return function(x)

    return run


for _name, _function in _UNARY.items():
    implements(_name)(_one(_function))


# Arithmetic. Before opset 7 the second operand was fitted to an axis of the first, if asked for.


def _fitted(x: Tensor, y: Tensor, axis: int | None) -> Tensor:
    if axis is None or y.dim() == 0:
        return y
    start = axis % x.dim()
    return y.reshape(*y.shape, *[1] * (x.dim() - start - y.dim()))


def _legacy(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    @widened
    def run(x: Tensor, y: Tensor, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
        return function(x, _fitted(x, y, axis) if broadcast else y)

    return run


def divide(x: Tensor, y: Tensor) -> Tensor:
    return x / y if x.is_floating_point() or x.is_complex() else torch.div(x, y, rounding_mode="trunc")


_ARITHMETIC: dict[str, Any] = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": divide}
for _op, _binary in _ARITHMETIC.items():
    implements(_op)(_legacy(_binary))


@implements("Pow")
def power(x: Tensor, y: Tensor, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
    y = _fitted(x, y, axis) if broadcast else y
    if x.is_floating_point() or y.is_floating_point():
        wide = torch.promote_types(x.dtype, y.dtype)
        return torch.pow(x.to(wide), y.to(wide)).to(x.dtype)
    return torch.pow(x.to(torch.int64), y.to(torch.int64)).to(x.dtype)


@implements("Mod")
@widened
def mod(x: Tensor, y: Tensor, *, fmod: int = 0) -> Tensor:
    return torch.fmod(x, y) if fmod else torch.remainder(x, y)


def _fold(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    @widened
    def run(*xs: Tensor) -> Tensor:
        return functools.reduce(function, xs)

    return run


implements("Sum")(_fold(torch.add))
implements("Max")(_fold(torch.maximum))
implements("Min")(_fold(torch.minimum))


@implements("Mean")
def mean(*xs: Tensor) -> Tensor:
    return functools.reduce(torch.add, xs) / len(xs)


@implements("Clip", scalars=("min", "max"))
@widened
def clip(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """The upper bound wins where the two cross, as in torch."""
    if min is None and max is None:
        return x
    if not isinstance(min, Tensor) and not isinstance(max, Tensor):
        return torch.clamp(x, min, max)
    if min is not None:
        x = torch.maximum(x, torch.as_tensor(min, dtype=x.dtype, device=x.device))
    return x if max is None else torch.minimum(x, torch.as_tensor(max, dtype=x.dtype, device=x.device))


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
