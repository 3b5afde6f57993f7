"""Batch norm: folded into the product before it, in training too, or a factor and a shift of its own."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..product import BatchNorm, compute_exactly, fold
from ..session import Call, Phase, Session
from ..tags import Pending
from .registry import handles


@handles(F.batch_norm)
def batch_norm(
    session: Session,
    func: Any,
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    tag = session.tag(input)
    call = session.call("batch_norm")
    if running_mean is None or running_var is None:
        return NotImplemented
    norm = BatchNorm(running_mean, running_var, weight, bias, eps)
    product = tag.product if isinstance(tag, Pending) and session.controller.config.fold_batch_norm else None
    if product is not None:
        assert isinstance(tag, Pending)
        session.controller.followers[tag.call.label] = norm
        session.joined(tag.call)
    if session.phase is not Phase.EXACT:
        y = func(input, running_mean, running_var, weight, bias, training, momentum, eps)
        return session.wait(y, call)
    if product is not None:
        assert isinstance(tag, Pending)
        if tag.folded is not None and tag.folded.is_same(norm):
            return session.wait(input, call, tag.requantise)
        return compute_exactly(session, call, fold(product, norm))
    return _alone(session, call, input, norm)


def _alone(session: Session, call: Call, x: Tensor, norm: BatchNorm) -> Tensor:
    factor = norm.factor().detach()
    factor, shift = (each.reshape(-1, *[1] * (x.dim() - 2)) for each in (factor, norm.shift(factor).detach()))
    settled = session.settle(x)
    return session.wait(torch.add(torch.mul(settled, factor), shift), call)
