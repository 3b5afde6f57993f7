"""ONNX's quantisation as operators of PyTorch, for models of the backend that are exported again.

PyTorch's own multiply by the reciprocal of the scale, where ONNX divides: results between two integers differ. So the
arithmetic is ours, and is written down as the one node that it came from (`lower/ops/quantize.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_LIBRARY = torch.library.Library("onward", "FRAGMENT")


def record(name: str, run: Callable[..., Tensor], dtype_of: Callable[..., torch.dtype]) -> Any:
    """An operator of a tensor, its scale and its zero point; the result has the tensor's sizes."""

    def sizes_alone(x: Tensor, *rest: Any) -> Tensor:
        return torch.empty_like(x, dtype=dtype_of(x, *rest))

    _LIBRARY.define(f"{name}(Tensor x, Tensor scale, Tensor? zero, int axis, int block, ScalarType dtype) -> Tensor")
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    _LIBRARY.impl(name, sizes_alone, "Meta")
    return getattr(torch.ops.onward, name).default
