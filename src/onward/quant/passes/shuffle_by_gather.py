"""Channels that are shuffled are gathered in their new order.

    a = Reshape(x, [n, 2, 24, h, w])
    b = Transpose(a, [0, 2, 1, 3, 4])      ->     y = Gather(x, [0, 24, 1, 25, ...], axis=1)
    y = Reshape(b, [n, 48, h, w])

Integers only. onnxruntime 1.31 runs convolutions of integers with channels last, and moves its own Transposes past the
three nodes, where they become one over five axes that copies byte by byte: ten times as long as what it replaces.
"""

from __future__ import annotations

import onnx_ir as ir
import torch

from ...passes.constant_tensors import add_constant
from ...passes.node_replacement import change_nodes, maker_for_one, take_place

_INTEGERS = (ir.DataType.UINT8, ir.DataType.INT8)


def shuffle_by_gather(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    return change_nodes(model, "Reshape", _gather)


def _gather(graph: ir.Graph, last: ir.Node) -> bool:
    turn = maker_for_one(last.inputs[0], "Transpose")
    first = maker_for_one(turn.inputs[0], "Reshape") if turn is not None else None
    x = first.inputs[0] if first is not None else None
    if turn is None or first is None or x is None or x.dtype not in _INTEGERS:
        return False
    shape, middle = x.shape, first.outputs[0].shape
    if shape is None or middle is None or len(middle) != len(shape) + 1 or last.outputs[0].shape != shape:
        return False
    groups, each = middle[1], middle[2]
    order = [0, 2, 1, *range(3, len(middle))]
    if (
        not isinstance(groups, int)
        or not isinstance(each, int)
        or shape[1] != groups * each
        or [shape[0], *shape[2:]] != [middle[0], *middle[3:]]
        or list(turn.attributes["perm"].as_ints() if "perm" in turn.attributes else ()) != order
    ):
        return False
    places = add_constant(graph, f"{x.name}.order", torch.arange(groups * each).reshape(groups, each).T.flatten())
    take_place(graph, last, ir.Node("", "Gather", [x, places], [ir.AttrInt64("axis", 1)]))
    return True
