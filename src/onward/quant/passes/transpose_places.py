"""Rows of a table are gathered in the order in which they are wanted.

    y = Gather(table, x)     x: [n, 20]               t = Transpose(x, [1, 0])
    z = Transpose(y, [1, 0, 2])                ->     z = Gather(table, t)

A number moves instead of a row. A DequantizeLinear between the two, with one scale for all, stays behind the Gather.
Declines where anything else reads the rows in their old order, and where the Transpose moves what is inside a row.
"""

from __future__ import annotations

import onnx_ir as ir

from ...passes.node_replacement import change_nodes, maker_for_one
from .quantize_later import is_of_all


def transpose_places(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    return change_nodes(model, "Transpose", _move)


def _move(graph: ir.Graph, turn: ir.Node) -> bool:
    between = maker_for_one(turn.inputs[0], "DequantizeLinear")
    if between is not None and not is_of_all(between):
        return False
    gather = maker_for_one(turn.inputs[0] if between is None else between.inputs[0], "Gather")
    if gather is None or "perm" not in turn.attributes or turn.outputs[0].is_graph_output():
        return False
    table, places = gather.inputs[:2]
    if table is None or table.shape is None or places is None or places.shape is None:
        return False
    axis = gather.attributes["axis"].as_int() if "axis" in gather.attributes else 0
    order, rank = list(turn.attributes["perm"].as_ints()), len(places.shape)
    if axis != 0 or len(order) != rank + len(table.shape) - 1 or order[rank:] != list(range(rank, len(order))):
        return False
    moved = ir.Node("", "Transpose", [places], [ir.AttrInt64s("perm", order[:rank])])
    moved.name = turn.name
    moved.metadata_props.update(turn.metadata_props)
    value, rows, after = moved.outputs[0], turn.inputs[0], turn.outputs[0]
    assert rows is not None
    value.name, value.type = f"{after.name}.places", places.type
    value.shape = ir.Shape([places.shape[each] for each in order[:rank]])
    graph.insert_before(gather, moved)
    gather.replace_input_with(1, value)
    gather.outputs[0].shape = rows.shape = after.shape
    ir.convenience.replace_all_uses_with(after, rows)
    graph.remove(turn, safe=True)
    return True
