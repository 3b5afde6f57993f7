"""Operators that onnxruntime does not run on a tensor without elements (docs/known-defects.md).

A tensor may have none though no input is empty: `x[1:]` of a batch of one. Where the points of a trace show that, a row
of zeros is added in front of the operator, and taken off its result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..memory.tensor import Traced
from ..program.facts import SymDim
from ..sizes.sizes import SizeTrace

aten = torch.ops.aten


def _pools(count: int) -> list[Any]:
    packets = ("max_pool{}d", "max_pool{}d_with_indices", "avg_pool{}d", "adaptive_avg_pool{}d", "adaptive_max_pool{}d")
    names = (name.format(count) for name in packets)
    return [getattr(aten, name).default for name in names if hasattr(aten, name)]


# How many axes at the end the operator works along; those before them are independent of each other.
_ALONG: dict[Any, int] = {op: count for count in (1, 2, 3) for op in _pools(count)}
_CHANNELS_TOO: dict[Any, int] = {
    aten.conv_transpose1d.default: 1,
    aten.conv_transpose2d.input: 2,
    aten.conv_transpose3d.input: 3,
}
_RECURRENT = frozenset({aten.lstm.input, aten.gru.input})  # they end the process


def refuses_empties(op: Any) -> bool:
    return op in _ALONG or op in _CHANNELS_TOO or op in _RECURRENT


def with_a_row(tracer: SizeTrace, op: Any, args: tuple, call: Callable[..., Any]) -> Any:
    """The result of an operator on a tensor that may be empty; NotImplemented where it never is."""
    if op in _RECURRENT:
        return _with_a_sequence(tracer, args, call)
    along = _ALONG.get(op) or _CHANNELS_TOO.get(op, -1) + 1
    if not along or not args or not isinstance(args[0], Traced):
        return NotImplemented
    x = args[0]
    if op in _CHANNELS_TOO:
        longer = _with_a_step(tracer, args, _CHANNELS_TOO[op], call)
        if longer is not NotImplemented:
            return longer
    for axis, dim in enumerate(x.fact.shape[: x.fact.rank - along]):
        if _may_be_empty(tracer, dim):
            result = call(_longer(x, axis), *args[1:])
            size = x.shape[axis]
            if isinstance(result, torch.Tensor):
                return _first(result, axis, size)
            return type(result)(_first(each, axis, size) for each in result)
    return NotImplemented


def _with_a_sequence(tracer: SizeTrace, args: tuple, call: Callable[..., Any]) -> Any:
    """A recurrent layer of a batch that may be empty; NotImplemented where it never is."""
    if len(args) != 9 or not isinstance(args[0], Traced) or args[0].fact.rank != 3:
        return NotImplemented
    x, states, *rest, batch_first = args
    axis = 0 if batch_first else 1
    if not _may_be_empty(tracer, x.fact.shape[axis]):
        return NotImplemented
    longer = [_longer(each, 1) for each in states] if isinstance(states, (list, tuple)) else _longer(states, 1)
    output, *last = call(_longer(x, axis), longer, *rest, batch_first)
    size = x.shape[axis]
    return (_first(output, axis, size), *(_first(each, 1, size) for each in last))


def _may_be_empty(tracer: SizeTrace, dim: Any) -> bool:
    return isinstance(dim, SymDim) and 0 in tracer.dims.live(dim.values)


def _longer(x: torch.Tensor, axis: int) -> torch.Tensor:
    """With a row of zeros at the end of an axis."""
    return torch.cat([x, x.new_zeros([1 if place == axis else size for place, size in enumerate(x.shape)])], axis)


def _first(x: torch.Tensor, axis: int, size: Any) -> torch.Tensor:
    """The first elements of an axis, in memory of their own that has no gaps, as the operator's result has."""
    return x.narrow(axis, 0, size).clone()


def _with_a_step(tracer: SizeTrace, args: tuple, spatial: int, call: Callable[..., Any]) -> Any:
    """A transposed convolution whose result may be empty: a step of zeros behind the tensor makes it longer, and
    changes nothing of what it was before; NotImplemented where the result never is empty."""
    x, weight, numbers = args[0], args[1], args[3:]
    defaults = ([1], [0], [0], [1], [1])  # stride, padding, more of it at the end, groups, dilation
    filled = [*numbers, *defaults[len(numbers) :]]
    stride, padding, extra, spread = (_each(filled[place], spatial) for place in (0, 1, 2, 4))
    for place in range(spatial):
        axis = x.fact.rank - spatial + place
        window = weight.shape[2 + place]
        shorter = 2 * padding[place] - spread[place] * (window - 1) - extra[place] - 1
        dim = x.fact.shape[axis]
        step = stride[place]
        if isinstance(dim, SymDim) and any((n - 1) * step - shorter == 0 for n in tracer.dims.live(dim.values)):
            result = call(_longer(x, axis), *args[1:])
            return _first(result, axis, (x.shape[axis] - 1) * step - shorter)
    return NotImplemented


def _each(numbers: list[int], count: int) -> list[int]:
    return list(numbers) * count if len(numbers) == 1 else list(numbers)
