"""Shortcuts for what the most common ops do to sizes.

PyTorch's meta kernels know all of this, but many are Python that imports the symbolic-shape machinery or the compiler
on first use: seconds that an export does not have. A rule here is a few lines, and it is believed only where it gives
the example's own result (`layouts.py` checks that every time), so a wrong rule costs time and never correctness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from ...tables import registrar

aten = torch.ops.aten
Size = tuple[int, ...]


class ProbeFailure(Exception):
    """An op that works on the example refuses the sizes of another probe."""


Rule = Callable[..., "Size | list[Size] | None"]
_RULES: dict[OpOverload, Rule] = {}


def rule_for(op: OpOverload) -> Rule | None:
    """The rule for an op, called with its arguments where every tensor is a Layout; None if there is none."""
    rule = _RULES.get(op)
    return _broadcast if rule is None and torch.Tag.pointwise in op.tags else rule


_rule = registrar(_RULES)


def _broadcast(*args: Any, **kwargs: Any) -> Size | None:
    sizes = [value.size for value in args if hasattr(value, "size")]
    result: list[int] = []
    for size in sizes:
        if len(size) > len(result):
            result[:0] = [1] * (len(size) - len(result))
        for axis in range(-len(size), 0):
            if size[axis] != 1:
                if result[axis] not in (1, size[axis]):
                    raise ProbeFailure(f"sizes {result[axis]} and {size[axis]} meet on one axis")
                result[axis] = size[axis]
    return tuple(result)


@_rule(aten.batch_norm.default, aten.instance_norm.default)
def _by_channel(x: Any, *parameters: Any, **kwargs: Any) -> Size:
    for each in parameters:
        if hasattr(each, "size") and tuple(each.size) != tuple(x.size[1:2]):
            raise ProbeFailure(f"sizes {x.size} and {each.size} do not go together")
    return tuple(x.size)


@_rule(aten.native_batch_norm.default)
def _native_batch_norm(x: Any, *parameters: Any) -> list[Size]:
    """PyTorch checks nothing here, and reads beyond the end of parameters that are too short."""
    size = _by_channel(x, *parameters)
    saved = (x.size[1] if parameters[4] else 0,)
    return [size, saved, saved]


@_rule(
    aten.layer_norm.default,
    aten.group_norm.default,
    aten.rms_norm.default,
    aten.dropout.default,
    aten.softmax.int,
    aten.log_softmax.int,
    aten.gelu.default,
    aten.cumsum.default,
    aten.quantize_per_tensor.default,
    aten.quantize_per_tensor.tensor_qparams,
    aten.quantize_per_channel.default,
    aten.dequantize.self,
    aten.int_repr.default,
)
def _same(x: Any, *args: Any, **kwargs: Any) -> Size:
    return tuple(x.size)


@_rule(aten.tril.default, aten.triu.default, aten.roll.default)
def _same_of_matrices(x: Any, *args: Any, **kwargs: Any) -> Size | None:
    return tuple(x.size) if len(x.size) > 1 else None


@_rule(aten.cat.default, aten.concat.default)
def _cat(tensors: Any, dim: int = 0) -> Size | None:
    """Of tensors that all have the same number of axes: PyTorch passes over empty ones with a single axis."""
    sizes = [tuple(each.size) for each in tensors]
    axis = dim % len(sizes[0]) if sizes and sizes[0] else None
    if axis is None or any(len(each) != len(sizes[0]) for each in sizes) or 0 in map(len, sizes):
        return None
    rests = {(*each[:axis], *each[axis + 1 :]) for each in sizes}
    if len(rests) > 1 or (len(sizes[0]) == 1 and (0,) in sizes):
        return None
    return (*sizes[0][:axis], sum(each[axis] for each in sizes), *sizes[0][axis + 1 :])


@_rule(aten.stack.default)
def _stack(tensors: Any, dim: int = 0) -> Size | None:
    sizes = [tuple(each.size) for each in tensors]
    if len(set(sizes)) != 1:
        return None
    axis = dim % (len(sizes[0]) + 1)
    return (*sizes[0][:axis], len(sizes), *sizes[0][axis:])


@_rule(aten.mean.dim, aten.logsumexp.default)
def _reduced(x: Any, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Size | None:
    rank = len(x.size)
    dims = range(rank) if dim is None or dim == [] else (dim,) if isinstance(dim, int) else dim
    if rank == 0 or 0 in x.size or any(not -rank <= each < rank for each in dims):
        return None
    gone = {each % rank for each in dims}
    if keepdim:
        return tuple(1 if axis in gone else size for axis, size in enumerate(x.size))
    return tuple(size for axis, size in enumerate(x.size) if axis not in gone)


@_rule(aten.addmm.default)
def _addmm(bias: Any, x: Any, y: Any, **kwargs: Any) -> Size | None:
    result = (x.size[0], y.size[1])
    if x.size[1] != y.size[0] or len(bias.size) > 2:
        return None
    fits = all(own in (1, size) for own, size in zip(reversed(bias.size), reversed(result), strict=False))
    return result if fits else None


def _window(sizes: Sequence[int], kernel: Any, stride: Any, padding: Any, dilation: Any) -> list[int] | None:
    count = len(sizes)
    parts = [list(each) * count if len(each) == 1 else list(each) for each in (stride, padding, dilation)]
    if any(len(each) != count for each in parts):
        return None
    result = []
    for size, window, step, pad, spread in zip(sizes, kernel, *parts, strict=True):
        room = size + 2 * pad - spread * (window - 1) - 1
        if room < 0:
            return None
        result.append(room // step + 1)
    return result


@_rule(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)
def _convolution(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = (1,),
    padding: Any = (0,),
    dilation: Any = (1,),
    groups: int = 1,
) -> Size | None:
    spatial = len(weight.size) - 2
    if len(x.size) != spatial + 2 or x.size[1] != weight.size[1] * groups:
        return None
    result = _window(x.size[2:], weight.size[2:], stride, padding, dilation)
    return None if result is None else (x.size[0], weight.size[0], *result)


@_rule(aten.linear.default)
def _linear(x: Any, weight: Any, bias: Any = None) -> Size | None:
    return (*x.size[:-1], weight.size[0]) if len(weight.size) == 2 and x.size[-1] == weight.size[1] else None


@_rule(aten._grouped_mm.default)
def _grouped_mm(x: Any, y: Any, offs: Any = None, *args: Any, **kwargs: Any) -> Size | None:
    """The meta kernel takes bfloat16 alone, and the real one other types too."""
    if x.size[-1] != y.size[-2] or (offs is None) is not (len(x.size) == len(y.size) == 3):
        return None
    groups = (offs.size[0],) if len(x.size) == len(y.size) == 2 else x.size[:1] if offs is None else ()
    return (*groups, x.size[-2], y.size[-1])


@_rule(aten.pixel_shuffle.default)
def _pixel_shuffle(x: Any, factor: int) -> Size | None:
    *lead, channels, height, width = x.size
    return (*lead, channels // factor**2, height * factor, width * factor) if channels % factor**2 == 0 else None


@_rule(aten.embedding.default)
def _embedding(weight: Any, indices: Any, *args: Any) -> Size:
    return (*indices.size, weight.size[1])


@_rule(aten.scaled_dot_product_attention.default)
def _attention(query: Any, key: Any, value: Any, mask: Any = None, *args: Any, **kwargs: Any) -> Size | None:
    if query.size[-1] != key.size[-1] or key.size[-2] != value.size[-2] or len(query.size) != len(value.size):
        return None
    if query.size[:-3] != key.size[:-3] or query.size[:-3] != value.size[:-3]:
        return None
    if mask is not None:
        scores = (*query.size[:-1], key.size[-2])
        for axis in range(1, len(mask.size) + 1):
            if axis > len(scores) or mask.size[-axis] not in (1, scores[-axis]):
                return None
    return (*query.size[:-1], value.size[-1])


@_rule(aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input)
def _recurrent(
    x: Any, state: Any, weights: Any, has_biases: bool, layers: int, dropout: float, train: bool, bidirectional: bool,
    batch_first: bool,
) -> list[Size] | None:  # fmt: skip
    states = [state] if hasattr(state, "size") else list(state)
    batch = x.size[:-1][0 if batch_first else 1] if len(x.size) == 3 else None
    if batch is not None and any(each.size[1] != batch for each in states):
        return None
    features = states[0].size[-1] * (2 if bidirectional else 1)
    return [(*x.size[:-1], features), *(tuple(each.size) for each in states)]
