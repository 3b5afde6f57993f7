"""Which outputs of a graph depend on random numbers: no two runs agree on these, and no comparison can."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from ..onnx_operators.record import find


def random_outputs(model: ir.Model) -> dict[str, str]:
    """The outputs that a random operator has a part in, each with the operator's name."""
    functions: dict[tuple[str, str], str] = {}
    for key, function in model.functions.items():  # those that are called come first
        drawn = _reached(function, functions)
        used = [drawn[value] for value in function.outputs if value in drawn]
        if used:
            functions[key[0], key[1]] = used[0]
    drawn = _reached(model.graph, functions)
    return {str(value.name): drawn[value] for value in model.graph.outputs if value in drawn}


def _reached(nodes: Iterable[ir.Node], functions: dict[tuple[str, str], str]) -> dict[ir.Value, str]:
    drawn: dict[ir.Value, str] = {}
    for node in nodes:
        origin = _origin(node, drawn, functions)
        if origin is not None:
            drawn.update(dict.fromkeys(node.outputs, origin))
    return drawn


def _origin(node: ir.Node, drawn: dict[ir.Value, str], functions: dict[tuple[str, str], str]) -> str | None:
    """The random operator behind what a node gives; None if there is none."""
    if (node.domain, node.op_type) in functions:
        return functions[node.domain, node.op_type]
    record = find(node.op_type, node.domain)
    if record is not None and record.draws(node):
        return node.op_type
    for value in node.inputs:
        if value in drawn:
            return drawn[value]
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            body = attribute.as_graph()
            for inner in body:
                origin = _origin(inner, drawn, functions)
                if origin is not None:
                    return origin
            for value in body.outputs:
                if value in drawn:
                    return drawn[value]
    return None
