"""A Concat whose result only goes into another Concat on the same axis is part of it.

    t = Concat<axis>(a, b)
    y = Concat<axis>(c, t, d)     ->     y = Concat<axis>(c, a, b, d)

Declines where the inner result is read elsewhere or is an output, and where one axis is counted from the end and the
rank is not known to compare them.
"""

from __future__ import annotations

import onnx_ir as ir


def flatten_concats(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    changed = False
    for graph in model.graphs():
        for node in list(graph):
            while node.op_type == "Concat" and node.domain == "" and _flatten(graph, node):
                changed = True
    return changed


def _flatten(graph: ir.Graph, outer: ir.Node) -> bool:
    for position, value in enumerate(outer.inputs):
        inner = value.producer() if value is not None else None
        if value is None or inner is None or inner.op_type != "Concat" or inner.domain != "":
            continue
        if inner.graph is not graph or value.is_graph_output() or len(value.uses()) != 1:
            continue
        if not _same_axis(inner, outer, value):
            continue
        parts = [*outer.inputs[:position], *inner.inputs, *outer.inputs[position + 1 :]]
        outer.resize_inputs(len(parts))
        for index, part in enumerate(parts):
            outer.replace_input_with(index, part)
        graph.remove(inner, safe=True)
        return True
    return False


def _same_axis(inner: ir.Node, outer: ir.Node, value: ir.Value) -> bool:
    first, second = (node.attributes["axis"].as_int() for node in (inner, outer))
    if first == second:
        return True
    return value.shape is not None and (first - second) % len(value.shape) == 0
