"""Random numbers, from torch's generators: repeatable with a seed, but not the numbers of another runtime."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..registry import implements
from ..values import ONNX_TYPES, holder


def _generator(seed: float | None) -> torch.Generator | None:
    return None if seed is None else torch.Generator().manual_seed(hash(seed) & (2**63 - 1))


def _like(x: Tensor, dtype: int | None) -> int:
    return dtype or ONNX_TYPES[x.dtype]


@implements("RandomUniform")
def random_uniform(
    *, shape: Any, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Tensor:
    return (torch.rand(shape, generator=_generator(seed)) * (high - low) + low).to(holder(dtype))


@implements("RandomUniformLike")
def random_uniform_like(
    x: Tensor, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Tensor:
    return random_uniform(shape=x.shape, dtype=_like(x, dtype), high=high, low=low, seed=seed)


@implements("RandomNormal")
def random_normal(
    *, shape: Any, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    return (torch.randn(shape, generator=_generator(seed)) * scale + mean).to(holder(dtype))


@implements("RandomNormalLike")
def random_normal_like(
    x: Tensor, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Tensor:
    return random_normal(shape=x.shape, dtype=_like(x, dtype), mean=mean, scale=scale, seed=seed)


@implements("Bernoulli")
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    return torch.bernoulli(x, generator=_generator(seed)).to(holder(_like(x, dtype)))


@implements("Multinomial")
def multinomial(x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Tensor:
    drawn = torch.multinomial(torch.softmax(x, -1), sample_size, replacement=True, generator=_generator(seed))
    return drawn.to(holder(dtype))
