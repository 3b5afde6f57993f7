"""The optimizers of ai.onnx.preview.training: one step for any number of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ..registry import implements

_DOMAIN = "ai.onnx.preview.training"


def _grouped(tensors: tuple[Any, ...], kinds: int) -> list[tuple[Any, ...]]:
    """All of the first kind, then all of the second, ..., as one tuple for each tensor to optimize."""
    count = len(tensors) // kinds
    return list(zip(*(tensors[kind * count : (kind + 1) * count] for kind in range(kinds)), strict=True))


def _regrouped(rows: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(each for column in zip(*rows, strict=True) for each in column)


@implements("Adagrad", domain=_DOMAIN)
def adagrad(
    rate: Tensor,
    count: Tensor,
    *tensors: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:
    step = rate / (1 + count * decay_factor)
    rows = []
    for x, gradient, squares in _grouped(tensors, 3):
        gradient = norm_coefficient * x + gradient
        squares = squares + gradient * gradient
        rows.append((x - step * gradient / (squares.sqrt() + epsilon), squares))
    return _regrouped(rows)


@implements("Adam", domain=_DOMAIN)
def adam(
    rate: Tensor,
    count: Tensor,
    *tensors: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:
    turn = count.item()
    step = rate * (1 - beta**turn) ** 0.5 / (1 - alpha**turn) if turn > 0 else rate
    rows = []
    for x, gradient, mean, squares in _grouped(tensors, 4):
        gradient = norm_coefficient * x + gradient
        mean = alpha * mean + (1 - alpha) * gradient
        squares = beta * squares + (1 - beta) * gradient * gradient
        new = x - step * mean / (squares.sqrt() + epsilon)
        rows.append(((1 - norm_coefficient_post) * new, mean, squares))
    return _regrouped(rows)


@implements("Momentum", domain=_DOMAIN)
def momentum(
    rate: Tensor, count: Tensor, *tensors: Tensor, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> tuple[Tensor, ...]:
    factor = beta if count.item() > 0 else 1.0
    rows = []
    for x, gradient, velocity in _grouped(tensors, 3):
        gradient = norm_coefficient * x + gradient
        velocity = alpha * velocity + factor * gradient
        change = gradient + alpha * velocity if mode == "nesterov" else velocity
        rows.append((x - rate * change, velocity))
    return _regrouped(rows)
