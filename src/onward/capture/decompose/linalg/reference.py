"""PyTorch's own answers, which the algorithms are held against.

The example of a trace is what verification believes, so it must not come from the algorithm that is to be verified: the
operator itself runs on the example. Eigenvectors and singular vectors are the exception, which are not unique: there
the algorithm's remain, and where a model runs eagerly to be compared, its vectors are given the signs of our rule.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from ...memory.tensor import Traced
from ...sizes.sizes import SYMBOLIC

aten = torch.ops.aten
# By operator, which of the results are vectors.
VECTORS: dict[OpOverload, tuple[int, ...]] = {aten._linalg_eigh.default: (1,), aten._linalg_svd.default: (0, 2)}


def refer(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], results: Any) -> None:
    """Give the results the values that PyTorch's operator has for the example."""
    answer = op(*map(_example, args), **{name: _example(value) for name, value in kwargs.items()})
    made = results if isinstance(results, tuple) else (results,)
    for place, (result, value) in enumerate(zip(made, answer if isinstance(answer, tuple) else (answer,), strict=True)):
        if not isinstance(result, Traced) or place in VECTORS.get(op, ()):
            continue
        if result.example.shape != value.shape or result.example.dtype is not value.dtype:
            raise ValueError(f"result {place} of {op} is {list(result.example.shape)}, and {list(value.shape)} eagerly")
        result.example.copy_(value)


def _example(value: Any) -> Any:
    if isinstance(value, SYMBOLIC):
        return value.node.values[0]
    if isinstance(value, (list, tuple)):
        return [_example(each) for each in value]
    return value.example if isinstance(value, Traced) else value


def with_signs(is_needed: bool) -> Any:
    """Inside, a model that runs eagerly gets vectors with the signs that ours have."""
    return _Signs() if is_needed else contextlib.nullcontext()


class _Signs(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        results = func(*args, **(kwargs or {}))
        sign = _BY_RULE.get(func)
        return results if sign is None else sign(*results)


def signs_of(vectors: torch.Tensor) -> torch.Tensor:
    """Of the largest entry in every column."""
    largest = vectors.gather(-2, vectors.abs().argmax(-2, keepdim=True))
    return torch.where(largest < 0, -1, 1).to(vectors.dtype)


def _eigh(values: torch.Tensor, vectors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return values, vectors * signs_of(vectors) if vectors.numel() and vectors.dim() > 1 else vectors


def _svd(left: torch.Tensor, values: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, ...]:
    if not values.numel() or left.dim() < 2:
        return left, values, right
    signs, count = signs_of(left), values.shape[-1]
    flipped = right[..., :count, :] * signs[..., :count].mT
    return left * signs, values, torch.cat([flipped, right[..., count:, :]], -2)


_BY_RULE: dict[OpOverload, Callable[..., tuple[torch.Tensor, ...]]] = {
    aten._linalg_eigh.default: _eigh,
    aten._linalg_svd.default: _svd,
}
