"""Norms and softmaxes of float32 numbers, by the runtime's own kernels.

Exact, because the runtime computes them: its sums and exponentials are not torch's to the last bit, and where results
are rounded to a grid, a few elements in 100,000 of 16 bits, and 256 times fewer of 8, would lie on the other side of a
tie. Every row is computed for itself, so that neither the batch nor the threads matter; the processor does, by the
length of its vectors. On other devices than the processor they are torch's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .functions import is_elsewhere, runtime_function


def layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, epsilon: float) -> Tensor:
    """A norm over the last axes.

    LayerNormalization(x, weight, bias, axis=-n)        opset 17
    """
    if is_elsewhere(x):
        return F.layer_norm(x, list(shape), weight, bias, epsilon)
    scale = torch.ones(list(shape)) if weight is None else weight
    more = () if bias is None else (bias,)
    return runtime_function("LayerNormalization", 17, axis=-len(shape), epsilon=epsilon)(x, scale, *more)


def instance_norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """A norm over all axes behind the second.

    InstanceNormalization(x, weight, bias)
    """
    if is_elsewhere(x):
        return F.instance_norm(x, None, None, weight, bias, eps=epsilon)
    return runtime_function("InstanceNormalization", 13, epsilon=epsilon)(x, weight, bias)


def float_softmax(x: Tensor, axis: int) -> Tensor:
    """Softmax(x, axis)        opset 13"""
    return torch.softmax(x, axis) if is_elsewhere(x) else runtime_function("Softmax", 13, axis=axis)(x)


def float_log_softmax(x: Tensor, axis: int) -> Tensor:
    """LogSoftmax(x, axis)     opset 13"""
    return torch.log_softmax(x, axis) if is_elsewhere(x) else runtime_function("LogSoftmax", 13, axis=axis)(x)
