"""A Reshape to the same shape between a Transpose and a product that onnxruntime cannot load otherwise.

    t = Transpose<perm = [1, 0, 2]>(x)              t = Transpose<perm = [1, 0, 2]>(x)
    y = MatMul(t, w) of float16             ->      r = Reshape(t, {0, 0, 0})
                                                    y = MatMul(r, w)

A Transpose of this kind and the Cast behind it change places in onnxruntime 1.24 to 1.31, to make one operator of
Transpose and MatMul. On x86 the process then dies while it loads the file (microsoft/onnxruntime#28392). The Cast may
be in the file, or one that onnxruntime puts before products of float16, for which it has no kernel. A Reshape costs
nothing when it runs. Declines at other types, and where anything else is between the two.
"""

from __future__ import annotations

import onnx_ir as ir

from ..constant_tensors import reshaped_to_itself

_CAST = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE})


def part_transpose_from_matmul(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    changed = False
    for graph in model.graphs():
        parted: dict[ir.Value, ir.Value] = {}
        for node in graph:
            if node.op_type == "MatMul" and node.domain == "":
                for place, value in enumerate(node.inputs):
                    if value is not None and _comes_transposed(value):
                        node.replace_input_with(place, _reshaped(graph, node, value, parted))
                        changed = True
    return changed


def moves_first_axis(node: ir.Node | None) -> bool:
    """Whether a node is a Transpose that makes the first of three or more axes the last or the last but one, and
    leaves the others in their order."""
    if node is None or node.op_type != "Transpose" or node.domain != "" or "perm" not in node.attributes:
        return False
    order = list(node.attributes["perm"].as_ints())
    last = len(order) - 1
    return last > 1 and order[:-2] == list(range(1, last)) and set(order[-2:]) == {0, last}


def _comes_transposed(value: ir.Value) -> bool:
    producer = value.producer()
    if value.dtype is ir.DataType.FLOAT16:
        return moves_first_axis(producer)
    is_cast = producer is not None and producer.op_type == "Cast" and producer.domain == ""
    if not is_cast or value.dtype not in _CAST:
        return False
    assert producer is not None
    given = producer.inputs[0]
    return given is not None and moves_first_axis(given.producer())


def _reshaped(graph: ir.Graph, reader: ir.Node, value: ir.Value, parted: dict[ir.Value, ir.Value]) -> ir.Value:
    if value not in parted:
        producer = value.producer()
        assert producer is not None
        transpose = producer if producer.op_type == "Transpose" else producer.inputs[0].producer()  # type: ignore[union-attr]
        assert transpose is not None
        rank = len(transpose.attributes["perm"].as_ints())
        parted[value] = reshaped_to_itself(graph, reader, value, rank)
    return parted[value]
