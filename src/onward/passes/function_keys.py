"""When two stretches of a graph compute the same: equal keys, whatever their values are called.

Values are told by where they come from: an input by its position, a constant by its content, anything else by the node
that makes it. So a key says which nodes there are, in order, with which attributes, and how they are wired.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import onnx_ir as ir


def region_key(
    nodes: Sequence[ir.Node], inputs: Sequence[ir.Value], constants: Sequence[ir.Value], outputs: Sequence[ir.Value]
) -> Hashable:
    """The key of a stretch of a graph with the values that enter it, that it holds, and that leave it."""
    tokens: dict[ir.Value, Hashable] = {value: ("input", index) for index, value in enumerate(inputs)}
    for value in constants:
        assert value.const_value is not None
        tokens[value] = ("constant", _tensor(value.const_value))
    body = _nodes(nodes, tokens)
    return body, len(inputs), tuple(tokens[value] for value in outputs)


def _nodes(nodes: Sequence[ir.Node], tokens: dict[ir.Value, Hashable]) -> Hashable:
    keys: list[Hashable] = []
    for node in nodes:
        read = tuple(None if value is None else tokens[value] for value in node.inputs)
        attributes = tuple(sorted((name, _attribute(each, tokens)) for name, each in node.attributes.items()))
        for place, value in enumerate(node.outputs):
            tokens[value] = ("node", len(tokens), place)
        made = tuple(tokens[value] for value in node.outputs)
        keys.append((node.domain, node.op_type, node.overload, read, attributes, made))
    return tuple(keys)


def _attribute(attribute: ir.Attr, tokens: dict[ir.Value, Hashable]) -> Hashable:
    kind, value = attribute.type, attribute.value
    if attribute.is_ref():
        return ("reference", str(kind), attribute.ref_attr_name)
    if kind == ir.AttributeType.GRAPH:
        return (str(kind), _graph(attribute.as_graph(), tokens))
    if kind == ir.AttributeType.GRAPHS:
        return (str(kind), tuple(_graph(each, tokens) for each in value))
    if kind == ir.AttributeType.TENSOR:
        return (str(kind), _tensor(value))
    if kind == ir.AttributeType.TENSORS:
        return (str(kind), tuple(_tensor(each) for each in value))
    return (str(kind), repr(value))  # by its text: 0.0 == -0.0, 1 == 1.0 and nan != nan


def _graph(graph: ir.Graph, tokens: dict[ir.Value, Hashable]) -> Hashable:
    inner = dict(tokens)
    for value in (*graph.inputs, *graph.initializers.values()):
        inner[value] = ("body", len(inner))
    held = tuple(_tensor(value.const_value) for value in graph.initializers.values() if value.const_value is not None)
    body = _nodes(list(graph), inner)
    types = tuple(repr((value.type, value.shape)) for value in (*graph.inputs, *graph.outputs))
    return body, types, held, tuple(inner[value] for value in graph.outputs)


def _tensor(tensor: ir.TensorProtocol) -> Hashable:
    if tensor.dtype == ir.DataType.STRING:
        return ("strings", tuple(tensor.shape), repr(tensor.numpy().tolist()))
    return (str(tensor.dtype), tuple(tensor.shape), np.ascontiguousarray(tensor.numpy()).tobytes())
