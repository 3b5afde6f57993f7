"""Indices among equal values: `topk`, `sort` and `argmax` may name any of them.

PyTorch does not say which of several equal values comes first, and neither does ONNX. Two answers agree if the values
that they name do.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from onward.capture.execute import steps
from onward.capture.facts import CapturedProgram
from onward.verify import compare

aten = torch.ops.aten

# Operators that answer with indices along an axis: the place of the indices among their results (None if they are the
# only result), and the place of the axis among the arguments with its default.
_CHOOSING: dict[OpOverload, tuple[int | None, int, Any]] = {
    aten.topk.default: (1, 2, -1),
    aten.sort.default: (1, 1, -1),
    aten.argsort.default: (None, 1, -1),
    aten.max.dim: (1, 1, None),
    aten.min.dim: (1, 1, None),
    aten.argmax.default: (None, 1, None),
    aten.argmin.default: (None, 1, None),
    aten.median.dim: (1, 1, None),
    aten.nanmedian.dim: (1, 1, None),
    aten.mode.default: (1, 1, -1),
    aten.kthvalue.default: (1, 2, -1),
    aten.cummax.default: (1, 1, None),
    aten.cummin.default: (1, 1, None),
}
_UNSTABLE_SORTS = {
    aten.sort.stable: (1, 2, -1),
    aten.argsort.stable: (None, 2, -1),
}  # unless they are told to be stable

# What leaves every index as it is, in the same order.
_AS_THEY_ARE = frozenset({
    aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default, aten.view.default,
    aten.reshape.default, aten.flatten.using_ints, aten.clone.default, aten.contiguous.default, aten.alias.default,
    aten._to_copy.default, aten.to.dtype, aten.to.device, aten.to.other, aten.detach.default, aten.type_as.default,
})  # fmt: skip


def judge_of(program: CapturedProgram) -> Callable[[Sequence[torch.Tensor]], Any] | None:
    """What judges the indices that a program returns, for the inputs of a run; None if it returns no indices."""
    nodes: Any = next(node for node in reversed(program.graph.nodes) if node.op == "output").args[0]
    choosing = {port.name: found for port, node in zip(program.outputs, nodes, strict=True) if (found := _chosen(node))}
    if not choosing:
        return None

    def judge(inputs: Sequence[torch.Tensor]) -> Callable[[str, torch.Tensor, torch.Tensor], bool]:
        def name_equal_values(name: str, wanted: torch.Tensor, got: torch.Tensor) -> bool:
            if name not in choosing:
                return False
            maker, axis = choosing[name]
            operand, indices = _values_of(program, inputs, maker)
            return operand is not None and _equal_by_value(operand, indices, axis, wanted, got)

        return name_equal_values

    return judge


def _chosen(node: fx.Node) -> tuple[fx.Node, int | None] | None:
    """The operator whose indices an output holds, and the axis that they count along (None: all elements)."""
    place: int | None = None
    while node.op == "call_function" and (node.target in _AS_THEY_ARE or node.target is operator.getitem):
        if node.target is operator.getitem:
            place = node.args[1]  # type: ignore[assignment]
        node = node.args[0]  # type: ignore[assignment]
    if not isinstance(node.target, OpOverload):
        return None
    row = _CHOOSING.get(node.target)
    if row is None and node.target in _UNSTABLE_SORTS and not _argument(node, "stable", 1, False):
        row = _UNSTABLE_SORTS[node.target]
    if row is None or row[0] != place:
        return None
    return node, _argument(node, "dim", row[1], row[2])


def _argument(node: fx.Node, name: str, place: int, default: Any) -> Any:
    return node.kwargs.get(name, node.args[place] if place < len(node.args) else default)


def _values_of(
    program: CapturedProgram, inputs: Sequence[torch.Tensor], maker: fx.Node
) -> tuple[torch.Tensor | None, torch.Size]:
    """The tensor that an operator chose from in a run, and the shape of its indices."""
    operand: torch.Tensor | None = None
    for node, value in steps(program, [each.clone() for each in inputs]):
        if node is maker.args[0]:
            operand = value.clone()
        if node is maker:
            indices = value if isinstance(value, torch.Tensor) else value[1]
            return operand, indices.shape
    return None, torch.Size()


def _equal_by_value(
    operand: torch.Tensor, shape: torch.Size, axis: int | None, wanted: torch.Tensor, got: torch.Tensor
) -> bool:
    """Whether two answers name equal values, and each of them no element twice where the other does not."""
    if wanted.numel() != shape.numel() or got.numel() != shape.numel() or wanted.shape != got.shape:
        return False
    first, second = wanted.long(), got.long()
    if axis is None or not operand.dim():
        operand, axis, shape = operand.reshape(-1), 0, torch.Size([first.numel()])
    elif len(shape) < operand.dim():  # the axis was dropped
        axis %= operand.dim()
        shape = torch.Size([*shape[:axis], 1, *shape[axis:]])
    first, second = first.reshape(shape), second.reshape(shape)
    size = operand.size(axis)
    if not size or not bool(((second >= -size) & (second < size)).all()):
        return False
    if not torch.equal(_repeats(first % size, axis), _repeats(second % size, axis)):
        return False
    return compare(operand.gather(axis, first % size), operand.gather(axis, second % size), "values").ok


def _repeats(indices: torch.Tensor, axis: int) -> torch.Tensor:
    """How many indices along the axis are named more than once."""
    ordered = indices.sort(axis).values
    count = ordered.size(axis)
    same = ordered.narrow(axis, 1, count - 1) == ordered.narrow(axis, 0, count - 1) if count > 1 else ordered[..., :0]
    return same.sum(axis)
