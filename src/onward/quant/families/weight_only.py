"""Weights in integers, activations in float: which functions have a weight, and how it is stored.

Linear layers have theirs in blocks, each with a scale: onnxruntime's MatMulNBits computes with them as they are. One
scale for a channel is the same scale for each of its blocks. Convolutions and recurrent layers have 8 bits that
become floats when the file is loaded, tables are gathered as integers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .. import ops
from ..config.settings import Weights
from ..grids.grid import weight_scale, weight_steps
from ..kernels import transposed
from ..ranges.methods import weight_range
from ..run.handlers import SWITCHED_OFF, WEIGHT_ONLY, handles
from ..run.session import Phase, Session
from ..run.study_requests import is_rounded, show_weight
from ..training.rounded import fake_quantize_weight
from .activation import clamp, hardtanh, relu
from .attention import multi_head_attention_forward
from .embedding import embedding
from .linear import MATMUL, in_order, is_layers_weight, is_weight
from .recurrent import CELLS, LAYERS, cells, layers, rounded

BLOCK = 128  # of channels with one scale

handles(F.embedding, table=WEIGHT_ONLY)(embedding)
handles(F.multi_head_attention_forward, table=WEIGHT_ONLY)(multi_head_attention_forward)
handles(*LAYERS, table=WEIGHT_ONLY)(layers)
handles(*CELLS, table=WEIGHT_ONLY)(cells)


def _in_float(handler: Callable[..., Any]) -> Callable[..., Any]:
    """For modules that are switched off: what lies on a grid, or waits for one, is bounded in float behind it."""

    @functools.wraps(handler)
    def handle(session: Session, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        return NotImplemented if session.has_grid(input) else handler(session, func, input, *args, **kwargs)

    return handle


for bounds, functions in (
    (relu, (F.relu, torch.relu, Tensor.relu)),
    (hardtanh, (F.relu6, F.hardtanh)),
    (clamp, (torch.clamp, Tensor.clamp, torch.clip, Tensor.clip)),
):
    handles(*functions, table=WEIGHT_ONLY)(bounds)
    handles(*functions, table=SWITCHED_OFF)(_in_float(bounds))


@handles(F.linear, table=WEIGHT_ONLY)
def linear(session: Session, func: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    if input.dtype is not torch.float32 or weight.dim() != 2 or not is_layers_weight(session, weight):
        return NotImplemented
    return linear_with(session, input, weight, bias)


def linear_with(session: Session, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x @ weight.T + bias"""
    call = session.call("linear")
    spec = call.settings.weights
    x = session.apart(input)
    rounds = session.phase is Phase.TRAIN or is_rounded(session, call.path)
    if session.phase is Phase.CALIBRATE and not rounds:
        return F.linear(x, weight, bias)
    if rounds:
        return F.linear(x, fake_quantize_weight(weight, spec, axis=0), bias)
    show_weight(session, call.path, call.name, weight, functools.partial(fake_quantize_weight, weight, spec, axis=0))
    y = ops.linear_blocks(x, *_in_blocks(weight.detach(), spec))
    return y if bias is None else y + bias


def _in_blocks(weight: Tensor, spec: Weights) -> tuple[Tensor, Tensor, int, int]:
    """The integers of [outputs, inputs], their scales [outputs, blocks], how many bits each is stored in, and the size
    of a block."""
    outputs, inputs = weight.shape
    block = spec.block_size or BLOCK
    scale = weight_scale(weight_range(weight, spec, 0), spec)
    if spec.block_size is None:
        scale = scale.reshape(-1, 1).expand(outputs, -(-inputs // block))
    steps = weight_steps(spec)
    each = scale.repeat_interleave(block, 1)[:, :inputs]
    q = torch.round(weight.float() / each).clamp(-steps - int(spec.power_of_two), steps).to(torch.int8)
    return q, scale.contiguous(), 4 if spec.bits <= 4 else 8, block


@handles(*MATMUL, table=WEIGHT_ONLY)
def matmul(session: Session, func: Any, input: Tensor, other: Tensor | None = None, **named: Tensor) -> Any:
    operands = in_order(func, input, other, **named)
    if operands is None:
        return NotImplemented
    input, second = operands
    if second.dim() != 2 or not is_weight(session, second) or is_weight(session, input):
        return NotImplemented
    return linear_with(session, input, second.t(), None)


@handles(torch.addmm, table=WEIGHT_ONLY)
def addmm(session: Session, func: Any, input: Tensor, mat1: Tensor, mat2: Tensor, **kwargs: Any) -> Any:
    if kwargs or mat1.dtype is not torch.float32 or not is_weight(session, mat2):
        return NotImplemented
    return linear_with(session, mat1, mat2.t(), input)


@handles(F.conv1d, F.conv2d, F.conv3d, table=WEIGHT_ONLY)
def conv(session: Session, func: Any, input: Tensor, weight: Tensor, *args: Any, **kwargs: Any) -> Any:
    return _with_stored(session, func, input, weight, args, kwargs, session.call("conv").settings.weights)


@handles(F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d, table=WEIGHT_ONLY)
def conv_transpose(session: Session, func: Any, input: Tensor, weight: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Stored with its output channels first, which are spread over the second axis and the groups, so that each has a
    scale."""
    spec = session.call("conv_transpose").settings.weights
    groups = args[4] if len(args) > 4 else kwargs.get("groups", 1)  # bias, stride, padding, output_padding, groups
    turn = functools.partial(transposed.turned, groups=groups)
    return _with_stored(session, func, input, weight, args, kwargs, spec, turn)


def _with_stored(
    session: Session,
    func: Any,
    input: Tensor,
    weight: Tensor,
    args: Any,
    kwargs: Any,
    spec: Weights,
    turn: Callable[[Tensor], Tensor] = lambda weight: weight,
) -> Any:
    """`turn` gives the weight its output channels first, and of such a one what it was before."""
    if input.dtype is not torch.float32 or session.has_grid(weight):
        return NotImplemented
    x = session.apart(input)
    return func(x, turn(rounded(session, turn(weight), spec, x)), *args, **kwargs)
