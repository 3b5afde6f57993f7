"""What an exported file is made of: nodes, constants, bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx


def describe(path: Path) -> dict[str, Any]:
    """Counts over the main graph, every subgraph and every model-local function.

    `nodes` are the nodes that compute: all but Constant, which is another spelling of an initializer.
    """
    model = onnx.load(str(path), load_external_data=False)
    kinds = Counter(node.op_type for node in _nodes(model))
    constants = kinds.pop("Constant", 0)
    return {
        "nodes": sum(kinds.values()),
        "constant_nodes": constants,
        "initializers": sum(len(graph.initializer) for graph in _graphs(model.graph)),
        "node_kinds": dict(kinds.most_common()),
        "opset": next((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")), None),
        "file_bytes": sum(file.stat().st_size for file in path.parent.iterdir() if file.is_file()),
        "dynamic_outputs": [_shape(value) for value in model.graph.output],
    }


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    for graph in _graphs(model.graph):
        yield from graph.node
    for function in model.functions:
        for node in function.node:
            yield node
            for graph in _subgraphs(node):
                for inner in _graphs(graph):
                    yield from inner.node


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for subgraph in _subgraphs(node):
            yield from _graphs(subgraph)


def _subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def _shape(value: onnx.ValueInfoProto) -> list[int | str]:
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
