"""Losses. ONNX defines them by other operators too, but not at every version."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..registry import implements

_NOT_A_CLASS = -(2**62)  # what is ignored where nothing is


@implements("NegativeLogLikelihoodLoss")
def nll_loss(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int | None = None, reduction: str = "mean"
) -> Tensor:
    """Classes are the second axis. The mean is weighted by what the targets weigh."""
    ignored = _NOT_A_CLASS if ignore_index is None else ignore_index
    return F.nll_loss(x, target.long(), weight, ignore_index=ignored, reduction=reduction)


@implements("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    outputs: int,
) -> Any:
    logs = torch.log_softmax(scores, 1)
    loss = nll_loss(logs, labels, weights, ignore_index=ignore_index, reduction=reduction)
    return (loss, logs) if outputs > 1 else loss
