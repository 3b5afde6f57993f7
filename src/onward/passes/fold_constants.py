"""Nodes that compute the same thing every time are replaced by what they compute.

    initializers a, b; c = Mul(a, b); y = Add(x, c)     ->     initializer c; y = Add(x, c)
    s = Shape(x) of x [2, n, 4]; t = Gather(s, 2)       ->     initializer t = 4

The records of the operators do the arithmetic, as they do for the emitter (`onnx_operators/folding.py`), and nothing is
folded that makes the model larger. Sizes come from the shapes that inference gave to values. Declines for results of a
graph and for constants that may be fed from outside. An Identity is for drop_no_ops, which leaves a weight where it
lies. A weight that is stored in short integers, for a runtime to make floats of when it loads the file, stays in them:

    y = MatMul(x, Mul(Cast(w), scale)), w of int8       ->     the same
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from ..lower.constants import initializer
from ..onnx_operators.folding import fold
from ..onnx_operators.record import find
from .constant_tensors import as_torch, is_weight

_TYPES = frozenset({
    ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.BOOL,
    ir.DataType.INT64, ir.DataType.INT32, ir.DataType.INT16, ir.DataType.INT8, ir.DataType.UINT8,
})  # fmt: skip

_SHORT = frozenset({ir.DataType.INT16, ir.DataType.INT8, ir.DataType.UINT8})
_FEW = 256  # numbers that are no weight whose size anybody would care about


def fold_constants(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    opset = model.graph.opset_imports.get("", 0)
    changed = False
    for graph in model.graphs():
        for node in list(graph):
            if node.domain == "" and not any(value.is_graph_output() for value in node.outputs):
                results = _sizes(node, opset) or _evaluate(node, opset)
                if results is not None:
                    _replace(graph, node, results)
                    changed = True
    return changed


def _evaluate(node: ir.Node, opset: int) -> list[torch.Tensor] | None:
    """The node's results, if everything it reads is a constant."""
    if node.op_type == "CastLike":
        return _cast_like(node, opset)
    record = find(node.op_type)
    if record is None or not record.can_fold or node.op_type == "Identity" or not node.inputs:
        return None
    if not all(value is None or _is_readable(value) for value in node.inputs):
        return None
    settings = _settings(node)
    if settings is None or (node.op_type == "Cast" and not _may_be_cast(node.inputs[0], ir.DataType(settings["to"]))):
        return None
    tensors = [None if value is None else as_torch(value) for value in node.inputs]
    try:
        results = fold(node.op_type, tensors, settings, opset)
    except Exception:  # a node that cannot be computed: whoever runs the model is told by the runtime
        return None
    return results if results is not None and len(results) >= len(node.outputs) else None


def _may_be_cast(value: ir.Value | None, to: ir.DataType) -> bool:
    """Whether the type is one that is known here, and the constant does not become several times as large by it."""
    held = value.const_value if value is not None else None
    return to in _TYPES and (held is None or held.dtype not in _SHORT or held.size <= _FEW or to in _SHORT)


def _cast_like(node: ir.Node, opset: int) -> list[torch.Tensor] | None:
    """A constant in the type of something that is computed: the type is enough."""
    x, like = node.inputs
    if x is None or like is None or not _is_readable(x) or like.dtype is None or node.attributes:
        return None
    if not _may_be_cast(x, like.dtype):
        return None
    return fold("Cast", [as_torch(x)], {"to": int(like.dtype)}, opset)


def _is_readable(value: ir.Value) -> bool:
    return is_weight(value) and value.const_value is not None and value.const_value.dtype in _TYPES


def _settings(node: ir.Node) -> dict[str, Any] | None:
    """Attributes as the table takes them; None if one is a body or a function's own parameter."""
    settings: dict[str, Any] = {}
    for name, attribute in node.attributes.items():
        if attribute.is_ref() or attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
            return None
        settings[name] = attribute.value
        if attribute.type == ir.AttributeType.TENSOR:
            if attribute.value.dtype not in _TYPES:
                return None
            settings[name] = as_torch(ir.Value(name=name, const_value=attribute.value))
    return settings


# Sizes


def _sizes(node: ir.Node, opset: int) -> list[torch.Tensor] | None:
    """Shape and Size of what has only fixed axes, and what Gather and Slice take of the fixed axes of others."""
    if node.op_type == "Shape":
        sizes = _of_shape(node)
        return None if sizes is None or -1 in sizes else [torch.tensor(sizes, dtype=torch.int64)]
    if node.op_type == "Size" and node.inputs[0] is not None and node.inputs[0].shape is not None:
        shape = node.inputs[0].shape
        return [torch.tensor(shape.numpy(), dtype=torch.int64).prod()] if shape.is_static() else None
    if node.op_type not in ("Gather", "Slice") or node.inputs[0] is None:
        return None
    producer = node.inputs[0].producer()
    sizes = (
        _of_shape(producer) if producer is not None and (producer.op_type, producer.domain) == ("Shape", "") else None
    )
    settings = _settings(node)
    if sizes is None or settings is None or not all(value is None or _is_readable(value) for value in node.inputs[1:]):
        return None
    rest = [None if value is None else as_torch(value) for value in node.inputs[1:]]
    try:
        results = fold(node.op_type, [torch.tensor(sizes, dtype=torch.int64), *rest], settings, opset)
    except Exception:  # an index out of range: the runtime tells of it
        return None
    return results if results is not None and all(bool((result >= 0).all()) for result in results) else None


def _of_shape(node: ir.Node) -> list[int] | None:
    """What a Shape node gives, with -1 for axes that are not fixed."""
    value = node.inputs[0]
    if value is None or value.shape is None:
        return None
    sizes = [size if isinstance(size, int) else -1 for size in value.shape]
    start, end = (node.attributes[name].as_int() if name in node.attributes else None for name in ("start", "end"))
    return sizes[start:end]


def _replace(graph: ir.Graph, node: ir.Node, results: list[torch.Tensor]) -> None:
    olds = list(node.outputs)
    news = [initializer(result, str(old.name)) for old, result in zip(olds, results, strict=False)]
    for old, new in zip(olds, news, strict=True):
        old.replace_all_uses_with(new)
    graph.remove(node, safe=True)
    for new in news:
        if new.name and new.uses():
            graph.register_initializer(new)
