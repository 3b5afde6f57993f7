"""Elements picked and placed by index."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor

from .call_sizes import CallSizes
from .dimension_math import Operands
from .record import record, register
from .seen_node import SeenNode, maker
from .shared_rules import MAX_BYTES, Keeps, Moves


@record("Gather")
class Gather(Moves):
    """Parts of an axis by their numbers, which may count from the end."""

    scalars = ("indices",)

    @staticmethod
    def evaluate(x: Any, indices: Any, *, axis: int = 0) -> Any:
        if isinstance(x, np.ndarray):
            return np.asarray(np.take(x, np.asarray(indices), axis), dtype=object)
        axis = axis % x.dim()
        if not isinstance(indices, Tensor):
            return x.select(axis, indices)
        # Unlike index_select, it counts from the end by itself, and unlike x[...] it never reads indices on the host.
        return torch.ops.aten.index.Tensor(x, [None] * axis + [indices.to(torch.int64)])

    def fold(self, inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        """One part is a view; several are copied, if they are few."""
        x, indices = inputs
        if indices.dim() == 0:
            return self.evaluate(x, int(indices), **attributes)
        axis = attributes.get("axis", 0) % x.dim()
        if x.numel() and x.nbytes // max(x.shape[axis], 1) * indices.numel() > MAX_BYTES:
            return None
        return self.evaluate(x, indices, **attributes)

    def dimensions(self, operands: Operands) -> Any:
        x, indices = operands.shapes[0], operands.shapes[1]
        if indices is None:
            return None
        axis = operands.attributes.get("axis", 0) % len(x)
        return (*x[:axis], *indices, *x[axis + 1 :])

    def repeats(self, node: SeenNode) -> ir.Value | None:
        """One tensor out of those that were just stacked."""
        x, indices = node.inputs
        stacked, place, whole = maker(x, "Concat"), node.numbers(indices), node.dims(x)
        if stacked is None or not whole or place is None or node.dims(indices) != ():
            return None
        axis = (node.attribute("axis") or 0) % len(whole)
        count, wanted = len(stacked.inputs), int(place[0])
        if stacked.attributes.get_int("axis", 1) % len(whole) != axis or not -count <= wanted < count:
            return None
        sizes = [node.dims(each) for each in stacked.inputs]
        if any(size is None or size[axis] != 1 for size in sizes):
            return None
        added = maker(stacked.inputs[wanted], "Unsqueeze")
        origin = added.inputs[0] if added is not None else None
        if added is None or origin is None or node.dims(origin) != (*whole[:axis], *whole[axis + 1 :]):
            return None
        return origin if _added_axes(node, added, len(whole)) == [axis] else None


def _added_axes(node: SeenNode, unsqueeze: ir.Node, rank: int) -> list[int] | None:
    """The axes that an Unsqueeze adds, counted from the front of its result."""
    axes: Any = unsqueeze.attributes.get_ints("axes")
    if axes is None:
        axes = node.numbers(unsqueeze.inputs[1]) if len(unsqueeze.inputs) > 1 else None
    return None if axes is None else [int(axis) % rank for axis in axes]


@record("GatherElements")
class GatherElements(Moves):
    """An element for each index, in the shape of the indices."""

    def dimensions(self, operands: Operands) -> Any:
        return operands.shapes[1]


@record("ScatterElements", "ScatterND")
class Scatter(Keeps):
    """Elements put into a copy: a reduction computes with each of them."""

    def flops(self, call: CallSizes) -> int | None:
        return 0 if call.text("reduction", "none") == "none" else call.read(2)


@record("TopK")
class TopK(Keeps):
    """The largest or smallest elements of an axis, and where they are. Nobody has counted what sorting takes."""

    def dimensions(self, operands: Operands) -> Any:
        shape = operands.shapes[0]
        count = [operands.attributes["k"]] if "k" in operands.attributes else operands.ints(1)
        if count is None:
            return None
        axis = operands.attributes.get("axis", -1) % len(shape)
        return [(*shape[:axis], count[0], *shape[axis + 1 :])] * 2


class KeepsAndMoves(Moves, Keeps):
    """Elements are moved within sizes that stay."""


register(KeepsAndMoves(), "EyeLike", "ReverseSequence", "Scatter", "Trilu")
register(
    Moves(), "BitCast", "CenterCropPad", "Compress", "ConcatFromSequence", "Constant", "DepthToSpace", "GatherND",
    "OneHot", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt", "SequenceConstruct",
    "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SpaceToDepth", "SplitToSequence",
    "TensorScatter",
)  # fmt: skip
