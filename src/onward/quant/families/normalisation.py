"""Batch norm: folded into the product before it, in training too, or a factor and a shift of its own."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import QuantizationError
from .. import ops
from ..run.handlers import handles
from ..run.session import Call, Phase, Session
from ..run.tags import Pending
from .product import BatchNorm, Product, compute_exactly, fold, in_training
from .statistics import normalised, scaled


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
    if training and session.phase is Phase.EXACT:
        raise QuantizationError(
            f"{call.told} is in training mode, and the model around it is not: a file has the running statistics",
            hint="call eval() of the whole model, or train() of it",
        )
    norm = BatchNorm(running_mean, running_var, weight, bias, eps)
    product = tag.product if isinstance(tag, Pending) and session.controller.config.fold_batch_norm else None
    if product is not None and product.result_axis % input.dim() != 1:
        product = None  # a linear layer of sequences, whose channels are the last axis, and not those of the norm
    if product is not None:
        assert isinstance(tag, Pending)
        known = session.controller.followers.get(tag.call.label)
        session.controller.followers[tag.call.label] = norm
        if session.phase is Phase.TRAIN and (known is None or not known.is_same(norm)):
            input = in_training(tag.call, product, norm)  # the first time: its weights were rounded without the norm
        session.joined(tag.call, call.site("output"))
    if product is None:
        input = session.settle(input)
    if session.phase is not Phase.EXACT:
        y = func(input, running_mean, running_var, weight, bias, training, momentum, eps)
        return session.wait(y, call)
    if product is not None:
        assert isinstance(tag, Pending)
        if tag.folded is not None and tag.folded.is_same(norm):
            # another tensor of the same values: what comes before the batch norm may be used elsewhere, too
            return session.wait(input.view_as(input), call, tag.requantise)
        return compute_exactly(session, call, fold(product, norm))
    return _alone(session, call, input, norm)


def _alone(session: Session, call: Call, x: Tensor, norm: BatchNorm) -> Tensor:
    """A factor and a shift for each channel. Of images in eight bits that is a convolution of single pixels, one
    channel each: the runtime has an integer kernel for it, and the factor is exact, being the scale of its weight."""
    factor = norm.factor().detach()
    shift = norm.shift(factor).detach()
    found = session.integers(x)
    rank = x.dim() - 2
    if found is None or found[1].dtype != "uint8" or not 1 <= rank <= 3:
        shape = [-1] + [1] * rank
        return session.wait(torch.add(torch.mul(x, factor.reshape(shape)), shift.reshape(shape)), call)
    channels, ones, zeros = factor.numel(), [1] * rank, [0] * rank
    product = Product(
        x,
        factor.reshape(-1, 1, *ones),
        shift,
        0,
        -1 - rank,
        lambda values, weight, bias: F.conv2d(values, weight, bias, groups=channels),
        lambda q, grid, w, w_grid, bias: ops.conv(q, grid, w, w_grid, bias, ones, zeros * 2, ones, channels),
    )
    return compute_exactly(session, call.with_weights(per_channel=True, bits=8), product)


# Others: in float from grid to grid


@handles(F.group_norm)
def group_norm(
    session: Session,
    func: Any,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Any:
    """An instance norm of the groups, and a factor and a shift for each channel."""
    if not session.has_grid(input):
        return NotImplemented
    call = session.call("group_norm")
    x = session.settle(input)
    found = session.wide_integers(x, call.settings)
    if found is not None:
        q, grid = found
        y = normalised(q.unflatten(1, (num_groups, -1)), grid, list(range(2, x.dim() + 1)), eps).flatten(1, 2)
    elif session.is_exact(x):
        ones, zeros = torch.ones(num_groups, device=x.device), torch.zeros(num_groups, device=x.device)
        y = ops.instance_norm(x.reshape(x.shape[0], num_groups, -1), ones, zeros, eps).reshape(x.shape)
    else:
        return session.wait(F.group_norm(x, num_groups, weight, bias, eps), call)
    return session.wait(scaled(y, weight, bias, x.dim() - 2), call)


@handles(F.instance_norm)
def instance_norm(
    session: Session,
    func: Any,
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """The sums of such a norm are float numbers, which two runtimes add up in their own order: evaluation does it as
    onnxruntime, and of sixteen bits whole numbers are added up."""
    if not session.has_grid(input):
        return NotImplemented
    call = session.call("instance_norm")
    x = session.settle(input)
    found = session.wide_integers(x, call.settings)
    if not use_input_stats or (found is None and not session.is_exact(x)):
        how = (running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
        return session.wait(F.instance_norm(x, *how), call)
    if found is not None:
        y = normalised(*found, list(range(2, x.dim())), eps)
        return session.wait(scaled(y, weight, bias, x.dim() - 2), call)
    factors = torch.ones(x.shape[1], device=x.device) if weight is None else weight
    shifts = torch.zeros(x.shape[1], device=x.device) if bias is None else bias
    return session.wait(ops.instance_norm(x, factors, shifts, eps), call)


@handles(F.local_response_norm)
def local_response_norm(session: Session, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """In float from grid to grid."""
    if not session.has_grid(input):
        return NotImplemented
    call = session.call("local_response_norm")
    return session.wait(func(session.settle(input), *args, **kwargs), call)
