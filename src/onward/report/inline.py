"""A model with its functions written out, and where each of its nodes is in the original: times are told by node.

onnxruntime writes functions out too, under names of its own that lead nowhere.
"""

from __future__ import annotations

import onnx_ir as ir

from .call_shapes import bind_attributes, bodies, called
from .common_cuts import unique_names

Path = tuple[int, ...]  # the place in the graph, then in the function that is called there, and so on


def inlined(model: ir.Model) -> tuple[ir.Model, dict[ir.Node, Path]]:
    """A copy without calls in the main graph, its nodes with names of their own, and the path of each of them."""
    copy = model.clone()
    for node, name in unique_names(copy.graph).items():
        node.name = name
    paths: dict[ir.Node, Path] = {node: (place,) for place, node in enumerate(copy.graph)}
    waiting = list(copy.graph)
    while waiting:
        call = waiting.pop()
        function = called(call, copy)
        if function is None:
            continue
        nodes = _written_out(call, function)
        if nodes is None:
            continue
        for place, node in enumerate(nodes):
            paths[node] = (*paths[call], place)
        copy.graph.insert_after(call, nodes)
        copy.graph.remove(call, safe=True)
        for domain, version in function.opset_imports.items():
            copy.graph.opset_imports.setdefault(domain, version)
        del paths[call]
        waiting += nodes
    return copy, paths


def _written_out(call: ir.Node, function: ir.Function) -> list[ir.Node] | None:
    """The nodes of a function in the place of a call; None of one that hands an input on as it is."""
    body = function.clone()
    graph = body.graph
    if any(value.producer() is None for value in graph.outputs) or len(set(graph.outputs)) < len(graph.outputs):
        return None
    bind_attributes(graph, call, function)
    nodes = list(graph)
    for node, name in unique_names(graph).items():
        node.name = f"{call.name}/{name}"
        for value in node.outputs:
            value.name = f"{call.name}/{value.name}" if value.name else value.name
        for inner in bodies(node):
            for value in (*inner.inputs, *list(inner.initializers.values())):
                value.name = f"{call.name}/{value.name}"
    for place, value in enumerate(list(graph.inputs)):
        given = call.inputs[place] if place < len(call.inputs) else None
        for user, index in tuple(value.uses()):
            user.replace_input_with(index, given)
    results = list(graph.outputs)
    graph.outputs.clear()
    graph.remove(nodes)
    for old, new in zip(call.outputs, results, strict=False):
        new.name, new.type, new.shape = old.name, old.type, old.shape
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    return nodes
