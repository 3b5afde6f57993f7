"""What reading and writing at indices share: signs, masks, several index tensors at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onward.capture.program.facts import Dim
from onward.onnx_operators import dimension_math as dimensions

from ..emitter import Emitter, Value

# Operators whose (given) output is never negative, and operators that only move elements around.
_COUNTS = {"NonZero": 0, "ArgMax": 0, "ArgMin": 0, "TopK": 1, "Shape": 0, "Size": 0}
_MOVES = frozenset({"Squeeze", "Unsqueeze", "Reshape", "Transpose", "Gather", "Slice", "Expand", "Flatten", "Split"})


def never_negative(g: Emitter, index: Value) -> bool:
    """Whether the graph itself says that an index counts from the front."""
    while True:
        tensor = g.value_of(index)
        if tensor is not None:
            return tensor.device.type != "meta" and not bool((tensor < 0).any())
        node = index.producer()
        if node is None or node.domain != "":
            return False
        if node.op_type in _COUNTS:
            return node.outputs[_COUNTS[node.op_type]] is index
        source = node.inputs[0] if node.op_type in _MOVES else None
        if source is None:
            return False
        index = source


def from_front(g: Emitter, x: Value, index: Value, axis: int | None) -> Value:
    """An index of an axis (None: of the flattened x) with negative places counted from the front."""
    if never_negative(g, index):
        return index
    size = g.numel(x) if axis is None else g.dim_size(x, axis)
    extent = g.cast(g.scalar(size), g.dtype(index))
    return g.where(g.op.Less(index, g.like(index, 0)), g.op.Add(index, extent), index)


def readable(g: Emitter, x: Value, index: Value, axis: int | None) -> Value:
    """An index as Gather and Scatter take it: they know negative places from opset 11 on."""
    index = index if g.dtype(index) in (torch.int32, torch.int64) else g.cast(index, torch.int64)
    return index if g.opset >= 11 else from_front(g, x, index, axis)


def nonzero_rows(g: Emitter, x: Value) -> Value:
    """`NonZero`: one row per axis. Types without a kernel are asked `!= 0`, since a detour could round to zero."""
    direct = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.float32)
    return g.op.NonZero(x if g.dtype(x) in direct else g.cast(x, torch.bool))


def as_bool(g: Emitter, mask: Value) -> Value:
    return g.cast(mask, torch.bool)


def is_mask(g: Emitter, index: Value) -> bool:
    return g.dtype(index) in (torch.bool, torch.uint8)


def unmasked(g: Emitter, indices: Sequence[Value | None], count: Dim | None = None) -> list[Value | None]:
    """Masks replaced by the places where they are true, `count` of them: one index per axis of the mask."""
    result: list[Value | None] = []
    for index in indices:
        if index is None or not is_mask(g, index):
            result.append(index)
            continue
        rows = nonzero_rows(g, index)
        if count is not None:
            g.annotate(rows, (g.rank(index), count))
        for axis in range(g.rank(index)):
            result.append(g.op.Gather(rows, g.const(axis), axis=0))
    return result


@dataclass(frozen=True)
class Plan:
    """Which axes of x are indexed, by what, and where the indexed part lies in `x[indices]`."""

    axes: tuple[int, ...]
    indices: tuple[Value, ...]
    shape: tuple[Dim, ...]  # of the indices, broadcast together
    first: int  # where their axes begin in the result
    rank: int  # of x

    @property
    def others(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(self.rank) if axis not in self.axes)

    @property
    def to_front(self) -> list[int]:
        """The permutation of x that brings the indexed axes to the front."""
        return [*self.axes, *self.others]

    @property
    def back(self) -> list[int]:
        """The permutation that undoes `to_front`."""
        order = self.to_front
        return [order.index(axis) for axis in range(self.rank)]

    @property
    def into_place(self) -> list[int]:
        """The permutation of [indices..., other axes...] that gives the result's order."""
        count = len(self.shape)
        rest = [count + place for place in range(len(self.others))]
        return [*rest[: self.first], *range(count), *rest[self.first :]]


def plan(g: Emitter, x: Value, indices: Sequence[Value | None]) -> Plan:
    """The rule of NumPy: neighbouring indices replace their axes in place, others go to the front."""
    named = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    axes = tuple(axis for axis, _ in named)
    shape = dimensions.broadcast(*(g.known_dims(index) for _, index in named)) if named else ()
    adjacent = bool(axes) and axes == tuple(range(axes[0], axes[0] + len(axes)))
    return Plan(axes, tuple(index for _, index in named), shape, axes[0] if adjacent else 0, g.rank(x))


def linear_index(g: Emitter, x: Value, how: Plan) -> Value:
    """Several indices as one into the axes they index, flattened together."""
    total: Value | None = None
    for place, (axis, index) in enumerate(zip(how.axes, how.indices, strict=True)):
        index = from_front(g, x, g.cast(index, torch.int64), axis)
        stride = g.scalar(g.numel(x, how.axes[place + 1 :]))
        step = g.op.Mul(index, stride)
        total = step if total is None else g.op.Add(total, step)
    if total is None:
        raise g.unsupported("no index at all")
    return total


def tuple_index(g: Emitter, how: Plan) -> Value:
    """Several indices side by side along a new last axis, as GatherND and ScatterND take them."""
    parts = []
    for index in how.indices:
        rank = g.rank(index)
        spread = g.unsqueeze(g.cast(index, torch.int64), [rank])
        parts.append(g.expand(spread, [*how.shape, 1]) if len(how.indices) > 1 else spread)
    return g.op.Concat(*parts, axis=-1)


def merged(g: Emitter, x: Value, how: Plan) -> Value:
    """x with its neighbouring indexed axes flattened into one."""
    return g.flatten(x, how.axes[0], how.axes[-1])
