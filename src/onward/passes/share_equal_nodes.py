"""Merge nodes that compute the same from the same inputs.

    a = Exp(x); b = Exp(x); y = Add(a, b)     ->     a = Exp(x); y = Add(a, a)

A body may use what a node outside of it computes, never the reverse, and of floating point numbers it does not:
onnxruntime fuses nodes outside (a GELU) and forgets that a body uses what one of them made. Declines for operators that
draw random numbers, have bodies or come from other domains (what they do is not known), and for results of a graph.
onnx_ir's CommonSubexpressionEliminationPass merges Dropout and Bernoulli as well, takes 0.0 and -0.0 for one attribute,
and does not look into bodies.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Hashable, Iterator
from typing import Any

import onnx_ir as ir

from ..onnx_operators.random_numbers import RANDOM
from .constant_tensors import content_key


def share_equal_nodes(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    return _share(model.graph, ChainMap())


def _share(graph: ir.Graph, known: ChainMap[Hashable, ir.Node]) -> bool:
    changed = False
    for node in list(graph):
        for body in _bodies(node):
            changed |= _share(body, ChainMap({}, {key: each for key, each in known.items() if not _is_float(each)}))
        key = _key(node)
        if key is None:
            continue
        kept = known.setdefault(key, node)
        if kept is node or any(value.is_graph_output() for value in node.outputs):
            continue
        for old, new in zip(node.outputs, kept.outputs, strict=True):
            old.replace_all_uses_with(new)
            new.type, new.shape = new.type or old.type, new.shape or old.shape
        graph.remove(node, safe=True)
        changed = True
    return changed


def _is_float(node: ir.Node) -> bool:
    """Whether a node makes floating point numbers, as far as it is known."""
    if node.op_type in ("Shape", "Size"):
        return False
    return any(value.dtype is None or value.dtype.is_floating_point() for value in node.outputs)


def _bodies(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def _key(node: ir.Node) -> Hashable | None:
    if node.domain != "" or node.op_type in RANDOM:
        return None
    settings = []
    for name in sorted(node.attributes):
        frozen = _frozen(node.attributes[name])
        if frozen is None:
            return None
        settings.append((name, frozen))
    # An optional output that is left out has no name, and a node without it is not the same as one with it.
    made = tuple(bool(value.name) for value in node.outputs)
    return node.op_type, tuple(id(value) if value is not None else None for value in node.inputs), tuple(settings), made


def _frozen(attribute: ir.Attr) -> Hashable | None:
    """An attribute as part of a key: numbers by their text, since 0.0 == -0.0 and nan != nan."""
    if attribute.is_ref():
        return None
    value: Any = attribute.value
    if attribute.type == ir.AttributeType.TENSOR:
        return content_key(value)
    plain = (
        ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.FLOAT, ir.AttributeType.FLOATS,
        ir.AttributeType.STRING, ir.AttributeType.STRINGS,
    )  # fmt: skip
    return repr(value) if attribute.type in plain else None
