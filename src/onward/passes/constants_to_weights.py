"""Turn every Constant node into an initializer of its graph, so that every other pass finds constants in one place.

    s = Constant<value = {1, 2}>(); y = Reshape(x, s)     ->     initializer s; y = Reshape(x, s)

Declines for results of the graph, for strings and sparse tensors, and inside functions, which have no initializers.
onnx_ir's LiftConstantsToInitializersPass raises an error for sparse tensors, and lifts strings, which no pass reads.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

_PLAIN = {
    "value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32,
}  # fmt: skip


def constants_to_weights(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    changed = False
    for graph in model.graphs():
        for node in list(graph):
            if node.op_type == "Constant" and node.domain == "":
                changed |= _lift(graph, node)
    return changed


def _lift(graph: ir.Graph, node: ir.Node) -> bool:
    old = node.outputs[0]
    tensor = _tensor(node)
    if tensor is None or old.is_graph_output() or not old.name:
        return False
    shape = ir.Shape(tensor.shape.numpy())
    new = ir.Value(name=old.name, shape=shape, type=ir.TensorType(tensor.dtype), const_value=tensor)
    old.replace_all_uses_with(new)
    graph.remove(node, safe=True)
    graph.register_initializer(new)
    return True


def _tensor(node: ir.Node) -> ir.TensorProtocol | None:
    ((name, attribute),) = node.attributes.items()
    if attribute.is_ref():
        return None
    if name == "value":
        tensor = attribute.as_tensor()
        return None if tensor.dtype == ir.DataType.STRING else tensor
    return ir.tensor(np.array(attribute.value, dtype=_PLAIN[name])) if name in _PLAIN else None
