"""Indices among equal values: `topk`, `sort` and `argmax` may name any of them.

PyTorch does not say which of several equal values comes first, and neither does ONNX. Two answers agree if the values
that they name do. What a model does to the indices afterwards may move them (a transpose, a slice, a concatenation):
each is followed to its place in the output by moving numbers of places in the same way.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from onward.capture.program.execute import run_node, steps
from onward.capture.program.facts import CapturedProgram
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

# What leaves every index as it is, at its place.
_AS_THEY_ARE = frozenset({
    aten.clone.default, aten.contiguous.default, aten.alias.default, aten.detach.default, aten._to_copy.default,
    aten.to.dtype, aten.to.dtype_layout, aten.to.device, aten.to.other, aten.type_as.default,
})  # fmt: skip

# What moves the elements of its first argument, repeats them or leaves some out, and computes nothing.
_MOVING = frozenset({
    aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default, aten.view.default,
    aten.view_as.default, aten.reshape.default, aten.reshape_as.default, aten.flatten.using_ints,
    aten.unflatten.int, aten.transpose.int, aten.t.default, aten.permute.default, aten.movedim.int,
    aten.movedim.intlist, aten.swapaxes.default, aten.swapdims.default, aten.mT.default, aten.numpy_T.default,
    aten.slice.Tensor, aten.select.int, aten.narrow.default, aten.diagonal.default, aten.unfold.default,
    aten.as_strided.default, aten.expand.default, aten.expand_as.default, aten.repeat.default, aten.tile.default,
    aten.repeat_interleave.self_int, aten.flip.default, aten.roll.default, aten.rot90.default,
    aten.split.Tensor, aten.split_with_sizes.default, aten.chunk.default, aten.tensor_split.sections,
    aten.tensor_split.indices, aten.unbind.int, aten.index.Tensor, aten.index_select.default, aten.gather.default,
    aten.take_along_dim.default, aten.masked_select.default,
    operator.getitem,
})  # fmt: skip
# What joins elements of several arguments, and where these stand; a number among them is no index.
_JOINING = {
    aten.cat.default: slice(0, 1),
    aten.stack.default: slice(0, 1),
    aten.where.self: slice(1, 3),
    aten.where.ScalarOther: slice(1, 3),
    aten.where.ScalarSelf: slice(1, 3),
    aten.masked_fill.Scalar: slice(0, 1),
    aten.masked_fill.Tensor: slice(0, 3, 2),
}
_WITH_NUMBERS = frozenset({aten.where.ScalarOther, aten.where.ScalarSelf, aten.masked_fill.Scalar})


@dataclass(frozen=True)
class _Choice:
    """Indices that an operator gave in a run: the tensor that it chose from, and the axis (None: all elements)."""

    operand: torch.Tensor
    axis: int | None
    shape: torch.Size
    first: int  # the number of the first place; the others follow

    def agree(self, places: torch.Tensor, wanted: torch.Tensor, got: torch.Tensor) -> bool:
        """Whether two answers name equal values, and each of them no element twice where the other does not."""
        rows, row_of = self._rows()
        if not len(places):
            return True
        row, size = row_of[places - self.first], rows.size(1)
        if not size or not bool(((got >= -size) & (got < size)).all()):
            return False
        wanted, got = wanted % size, got % size
        if not torch.equal(_distinct(row * size + wanted, rows), _distinct(row * size + got, rows)):
            return False
        return compare(rows[row, wanted], rows[row, got], "values").ok

    def _rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The values as rows of which every index names one element, and the row of every place."""
        count = self.shape.numel()
        if self.axis is None or not self.operand.dim():
            return self.operand.reshape(1, -1), torch.zeros(count, dtype=torch.int64)
        axis, shape = self.axis % self.operand.dim(), list(self.shape)
        if len(shape) < self.operand.dim():  # the axis was dropped
            shape.insert(axis, 1)
        rows = self.operand.movedim(axis, -1)
        rows = rows.reshape(-1, rows.size(-1)) if rows.numel() else rows.new_empty(0, 0)
        places = torch.arange(count).reshape(shape).movedim(axis, -1)
        row_of = torch.arange(count) // max(places.size(-1), 1)
        return rows, torch.empty(count, dtype=torch.int64).scatter_(0, places.reshape(-1), row_of)


def _distinct(elements: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """How many elements of each row are named."""
    return (elements.unique() // rows.size(1)).bincount(minlength=len(rows))


def judge_of(program: CapturedProgram) -> Callable[[Sequence[torch.Tensor]], Any] | None:
    """What judges the indices that a program returns, for the inputs of a run; None if it returns no indices."""
    chosen, moved = _indices(program.graph)
    nodes: Any = next(node for node in reversed(program.graph.nodes) if node.op == "output").args[0]
    outputs = {port.name: node for port, node in zip(program.outputs, nodes, strict=True) if node in moved}
    if not outputs:
        return None

    def judge(inputs: Sequence[torch.Tensor]) -> Callable[[str, torch.Tensor, torch.Tensor], bool]:
        found: list[tuple[list[_Choice], dict[fx.Node, Any]]] = []

        def name_equal_values(name: str, wanted: torch.Tensor, got: torch.Tensor) -> bool:
            if name not in outputs:
                return False
            if not found:
                found.append(_followed(program, inputs, chosen, moved))
            choices, places = found[0]
            return _agree(choices, places.get(outputs[name]), wanted, got)

        return name_equal_values

    return judge


def _agree(choices: list[_Choice], places: torch.Tensor | None, wanted: torch.Tensor, got: torch.Tensor) -> bool:
    if places is None or not places.shape == wanted.shape == got.shape:
        return False
    places, first, second = places.reshape(-1), wanted.reshape(-1).long(), got.reshape(-1).long()
    if not torch.equal(first[places < 0], second[places < 0]):  # these are no indices
        return False
    for choice in choices:
        ours = (places >= choice.first) & (places < choice.first + choice.shape.numel())
        if not choice.agree(places[ours], first[ours], second[ours]):
            return False
    return True


def _indices(graph: fx.Graph) -> tuple[dict[fx.Node, fx.Node], set[fx.Node]]:
    """The nodes that hold the indices of an operator, with that operator, and all nodes that hold such indices."""
    chosen: dict[fx.Node, fx.Node] = {}
    moved: set[fx.Node] = set()
    for node in graph.nodes:
        maker = node.args[0] if node.target is operator.getitem else node
        row = _row(maker)
        if row is not None and row[0] == (node.args[1] if maker is not node else None):
            chosen[node] = maker
            moved.add(node)
        elif row is None and (sources := _moved_by(node)):
            others = [each for each in node.all_input_nodes if each not in sources]
            if any(each in moved for each in sources) and not any(each in moved for each in others):
                moved.add(node)
    return chosen, moved


def _row(node: Any) -> tuple[int | None, int, Any] | None:
    """What is known of an operator that chooses."""
    if not isinstance(node, fx.Node) or not isinstance(node.target, OpOverload):
        return None
    if node.target in _UNSTABLE_SORTS:
        return None if _argument(node, "stable", 1, False) else _UNSTABLE_SORTS[node.target]
    return _CHOOSING.get(node.target)


def _moved_by(node: fx.Node) -> list[fx.Node]:
    """The arguments whose elements a node moves."""
    if node.target in _AS_THEY_ARE or node.target in _MOVING:
        return [each for each in node.args[:1] if isinstance(each, fx.Node)]
    found: list[fx.Node] = []
    if node.target in _JOINING:
        fx.map_arg(node.args[_JOINING[node.target]], found.append)
    return found


def _argument(node: fx.Node, name: str, place: int, default: Any) -> Any:
    return node.kwargs.get(name, node.args[place] if place < len(node.args) else default)


def _followed(
    program: CapturedProgram, inputs: Sequence[torch.Tensor], chosen: dict[fx.Node, fx.Node], moved: set[fx.Node]
) -> tuple[list[_Choice], dict[fx.Node, Any]]:
    """What was chosen in a run, and, of every node that holds indices, the place that each element comes from; -1 for
    what is no index."""
    wanted = {each for node in moved for each in node.all_input_nodes} | {maker.args[0] for maker in chosen.values()}
    values: dict[fx.Node, Any] = {}
    places: dict[fx.Node, Any] = {}
    choices: list[_Choice] = []
    count = 0
    for node, value in steps(program, [each.clone() for each in inputs]):
        if node in wanted:
            values[node] = value
        if node in chosen:
            maker = chosen[node]
            place, default = _row(maker)[1:]  # type: ignore[index]
            axis = _argument(maker, "dim", place, default)
            choices.append(_Choice(values[maker.args[0]], axis, value.shape, count))  # type: ignore[index]
            places[node] = torch.arange(count, count + value.numel()).reshape(value.shape)
            count += value.numel()
        elif node in moved and node.target in _AS_THEY_ARE:
            places[node] = places[node.args[0]]  # type: ignore[index]
        elif node in moved:
            places[node] = _move(node, {**values, **places}, moved)
    return choices, places


def _move(node: fx.Node, values: dict[fx.Node, Any], moved: set[fx.Node]) -> Any:
    """What a node makes of numbers of places."""
    no_indices = [each for each in _moved_by(node) if each not in moved]
    values |= {each: torch.full_like(values[each], -1, dtype=torch.int64) for each in no_indices}
    if node.target not in _WITH_NUMBERS:
        return run_node(node, values)
    args = [-1 if isinstance(each, (bool, int, float)) else each for each in node.args]
    return node.target(*fx.map_arg(args, values.__getitem__))
