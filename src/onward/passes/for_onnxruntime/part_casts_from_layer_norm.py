"""A Reshape to the same shape behind a Cast in a spelled-out layer norm, which onnxruntime cannot load otherwise.

    c = Cast(x)                                     c = Cast(x)
    m = ReduceMean(c)                               r = Reshape(c, {0, 0})
    s = Sub(c, m)                           ->      m = ReduceMean(r)
    v = ReduceMean(Pow(s, 2))                       s = Sub(r, m)
    y = Add(Mul(Div(s, Sqrt(Add(v, e))), w), b)     ... as before

onnxruntime 1.31 makes one LayerNormalization of such a norm, and takes a Cast in front of it, behind the difference or
behind the quotient for a part of it. The operator then gets inputs of different types, for which there is no kernel,
and the file is refused. So it is for any norm below opset 17 whose input was converted, and for one that the model
spells out at any opset. A Reshape costs nothing when it runs. Declines where nothing is squared by Pow, and where the
number of axes is not known.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from ..constant_tensors import reshaped_to_itself


def part_casts_from_layer_norm(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    changed = False
    for graph in model.graphs():
        for node in list(graph):
            if is_cast_of_norm(node, node.outputs[0]) and node.outputs[0].shape is not None:
                changed |= _part(graph, node.outputs[0], len(node.outputs[0].shape))
    return changed


def _part(graph: ir.Graph, value: ir.Value, rank: int) -> bool:
    uses = [use for use in value.uses() if use.node.graph is graph]
    if not uses:  # nodes of a subgraph read it, and nothing is fused across the border
        return False
    first = next(node for node in graph if any(node is use.node for use in uses))
    made = reshaped_to_itself(graph, first, value, rank)
    for use in uses:
        use.node.replace_input_with(use.idx, made)
    return True


def is_cast_of_norm(node: ir.Node | None, value: ir.Value) -> bool:
    """Whether a Cast is what onnxruntime takes for a part of a layer norm, where `value` is the result of the Cast as
    other nodes read it."""
    if node is None or node.op_type != "Cast" or node.domain != "" or node.inputs[0] is None:
        return False
    given = node.inputs[0].producer()
    readers = list(_readers(value))
    if _is_centred(given):
        return any(reader.op_type == "Pow" for reader in readers)
    if given is not None and given.op_type == "Div" and given.domain == "" and given.inputs[0] is not None:
        return any(reader.op_type == "Mul" for reader in readers) and _is_squared(given.inputs[0])
    return any(
        _is_centred(reader) and reader.inputs[0] is value and _is_squared(reader.outputs[0]) for reader in readers
    )


def _is_centred(node: ir.Node | None) -> bool:
    """`x - mean(x)`"""
    if node is None or node.op_type != "Sub" or node.domain != "" or node.inputs[1] is None:
        return False
    mean = node.inputs[1].producer()
    return mean is not None and mean.op_type == "ReduceMean" and mean.inputs[0] is node.inputs[0]


def _is_squared(value: ir.Value) -> bool:
    """Whether a value, or what a Cast makes of it, is squared by Pow."""
    beyond = [reader.outputs[0] for reader in _readers(value) if reader.op_type == "Cast"]
    return any(reader.op_type == "Pow" for each in (value, *beyond) for reader in _readers(each))


def _readers(value: ir.Value) -> Iterable[ir.Node]:
    return (use.node for use in value.uses() if use.node.domain == "")
