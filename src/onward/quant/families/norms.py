"""Norms.

A batch norm is folded into the product before it, in training too, or is a factor and a shift of its own. For the other
norms the runtime has no integer kernel: they run in float, and what they give lies on a grid. What a layer norm reads
is rounded only where something else wants it so.

The sums of such a norm are float numbers, which two runtimes add up in their own order. With eight bits evaluation lets
onnxruntime compute the norm. Sixteen bits would show the difference, and have exact sums: the mean and the mean square
of integers are sums of whole numbers, which float64 has up to `2**53`. What is done with the two, a few numbers for
each row, is done in float64 as well and rounded to float32 at the end; every value is then shifted and multiplied, one
operation of IEEE 754 each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import QuantizationError
from ..exact.declare import exact
from ..exact.integers import centered
from ..exact.runtime import is_elsewhere, runtime_function
from ..grids.grid import Grid
from ..run.float_values import remember, unrounded
from ..run.handlers import INSIDE, handles
from ..run.session import Call, Phase, QuantSession
from ..run.states import BatchNorm, Pending, Product
from .convolution import Sliding, conv
from .product import compute_exactly, fold, in_training

# Exact steps


@exact
def layer_norm(x: Tensor, shape: list[Any], weight: Tensor | None, bias: Tensor | None, epsilon: float) -> Tensor:
    """F.layer_norm as onnxruntime computes it: LayerNormalization(x, weight, bias, axis=-n), opset 17."""
    if is_elsewhere(x):
        return F.layer_norm(x, list(shape), weight, bias, epsilon)
    scale = torch.ones(list(shape)) if weight is None else weight
    more = () if bias is None else (bias,)
    return runtime_function("LayerNormalization", 17, axis=-len(shape), epsilon=epsilon)(x, scale, *more)


layer_norm.shape(lambda x, *_: torch.empty_like(x, memory_format=torch.contiguous_format))


layer_norm.lowers()(lambda g, x, shape, weight, bias, epsilon: g.layer_norm(x, len(shape), weight, bias, epsilon))


@exact
def instance_norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """F.instance_norm as onnxruntime computes it, with the statistics of x: InstanceNormalization(x, weight, bias)."""
    if is_elsewhere(x):
        return F.instance_norm(x, None, None, weight, bias, eps=epsilon)
    return runtime_function("InstanceNormalization", 13, epsilon=epsilon)(x, weight, bias)


instance_norm.shape(lambda x, *_: torch.empty_like(x, memory_format=torch.contiguous_format))


instance_norm.lowers()(lambda g, x, weight, bias, epsilon: g.op.InstanceNormalization(x, weight, bias, epsilon=epsilon))


# Norms of integers, whose sums are exact


def normalized(q: Tensor, grid: Grid, axes: list[int], epsilon: float, *, center: bool = True) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) over some axes; without `center`, x / sqrt(mean square + epsilon)."""
    whole = centered(q, grid)
    wide = whole.to(torch.float64)
    scale = float(grid.scale)
    square = torch.mean(wide * wide, axes, keepdim=True)
    if center:
        mean = torch.mean(wide, axes, keepdim=True)
        square = torch.clamp(square - mean * mean, min=0.0)
        whole = whole - mean.to(torch.float32)
    return whole * (scale / torch.sqrt(square * scale**2 + epsilon)).to(torch.float32)


def scaled(y: Tensor, weight: Tensor | None, bias: Tensor | None, behind: int = 0) -> Tensor:
    """y * weight + bias. Both have one number for each index of an axis that has so many axes `behind` it, or of the
    last axes."""
    if weight is not None:
        y = y * weight.reshape([*weight.shape, *[1] * behind])
    return y if bias is None else y + bias.reshape([*bias.shape, *[1] * behind])


# Functions


@handles(F.batch_norm)
def batch_norm(
    session: QuantSession,
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
    product = tag.product if isinstance(tag, Pending) and session.config.fold_batch_norm else None
    if product is not None and product.result_axis % input.dim() != 1:
        product = None  # a linear layer of sequences, whose channels are the last axis, and not those of the norm
    if product is not None:
        assert isinstance(tag, Pending)
        known = session.controller.follower_of(tag.call)
        session.controller.set_follower(tag.call, norm)
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
        if product.folded is not None and product.folded.is_same(norm):
            # another tensor of the same values: what comes before the batch norm may be used elsewhere, too
            return session.wait(input.view_as(input), call, tag.requantize)
        return compute_exactly(session, call, fold(product, norm))
    return _alone(session, call, input, norm)


def _alone(session: QuantSession, call: Call, x: Tensor, norm: BatchNorm) -> Tensor:
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
        lambda q, grid, w, w_grid, bias: conv(q, grid, w, w_grid, bias, Sliding(ones, zeros * 2, ones, channels)),
    )
    return compute_exactly(session, call.with_weights(per_channel=True, bits=8), product)


@handles(F.group_norm)
def group_norm(
    session: QuantSession,
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
        y = normalized(q.unflatten(1, (num_groups, -1)), grid, list(range(2, x.dim() + 1)), eps).flatten(1, 2)
    elif session.is_exact(x):
        ones, zeros = torch.ones(num_groups, device=x.device), torch.zeros(num_groups, device=x.device)
        y = instance_norm(x.reshape(x.shape[0], num_groups, -1), ones, zeros, eps).reshape(x.shape)
    else:
        return session.wait(F.group_norm(x, num_groups, weight, bias, eps), call)
    return session.wait(scaled(y, weight, bias, x.dim() - 2), call)


@handles(F.instance_norm)
def norm_of_instances(
    session: QuantSession,
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
    if not session.has_grid(input):
        return NotImplemented
    call = session.call("instance_norm")
    x = session.settle(input)
    found = session.wide_integers(x, call.settings)
    if not use_input_stats or (found is None and not session.is_exact(x)):
        how = (running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
        return session.wait(F.instance_norm(x, *how), call)
    if found is not None:
        y = normalized(*found, list(range(2, x.dim())), eps)
        return session.wait(scaled(y, weight, bias, x.dim() - 2), call)
    factors = torch.ones(x.shape[1], device=x.device) if weight is None else weight
    shifts = torch.zeros(x.shape[1], device=x.device) if bias is None else bias
    return session.wait(instance_norm(x, factors, shifts, eps), call)


@handles(F.local_response_norm)
def local_response_norm(session: QuantSession, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """In float from grid to grid."""
    if not session.has_grid(input):
        return NotImplemented
    call = session.call("local_response_norm")
    return session.wait(func(session.settle(input), *args, **kwargs), call)


@handles(F.layer_norm, torch.layer_norm)
def norm_of_last_axes(
    session: QuantSession,
    func: Any,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    if input.dtype is not torch.float32:
        return NotImplemented
    call = session.call("layer_norm")
    bits = call.bits
    x = unrounded(session, input) if bits <= 8 else session.settle(input)
    found = session.wide_integers(x, call.settings)
    if found is not None:
        y = scaled(normalized(*found, _last(normalized_shape), eps), weight, bias)
    else:
        is_exact = session.phase is Phase.EXACT and not session.for_a_chip
        y = (layer_norm if is_exact else F.layer_norm)(x, list(normalized_shape), weight, bias, eps)
    return remember(session, session.finish(y, call.site("output")), y, bits)


@handles(F.rms_norm, torch.rms_norm)
def rms_norm(
    session: QuantSession,
    func: Any,
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Any:
    """Several nodes below opset 23: onnxruntime makes one of them where all read the same values
    (`QuantSession.apart`)."""
    if input.dtype is not torch.float32:
        return NotImplemented
    call = session.call("rms_norm")
    x = session.settle(input)
    found = session.wide_integers(x, call.settings)
    if found is None:
        y = F.rms_norm(session.apart(x), list(normalized_shape), weight, eps)
    else:
        epsilon = torch.finfo(torch.float32).eps if eps is None else eps
        y = scaled(normalized(*found, _last(normalized_shape), epsilon, center=False), weight, None)
    return session.finish(y, call.site("output"))


def _last(shape: Sequence[int]) -> list[int]:
    return list(range(-len(shape), 0))


_IN_FLOAT64 = [
    getattr(home, name)
    for name in ("mean", "sum", "var", "std", "sqrt", "rsqrt", "pow", "reciprocal")
    for home in (torch, Tensor)
]


@handles(*_IN_FLOAT64, Tensor.__pow__, table=INSIDE)
def in_float64(session: QuantSession, func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """What norms that are written out (`calls.is_one_function`) compute along their way, where the result has sixteen
    bits. Means depend on the order of a sum, and onnxruntime's roots of floats are not always the nearest number: both
    are computed in float64 and rounded once, which gives the same float32 number on either side."""
    if not isinstance(input, Tensor) or input.dtype is not torch.float32 or kwargs.get("dtype") is not None:
        return NotImplemented
    return session.in_float(func, input.to(torch.float64), *args, **kwargs).to(torch.float32)
