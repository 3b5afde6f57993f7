"""A square of float64 that a mean is taken of is spelled as a product.

    s = Pow(x, {2}) of float64            s = Mul(x, x)
    m = ReduceMean(s)               ->    m = ReduceMean(s)

onnxruntime 1.31 makes one operator, SimplifiedLayerNormalization, of a root mean square norm that is spelled with Pow.
For float64 that operator takes 1e-5 for any epsilon, and its results are wrong for every other one. onnxruntime does
not look for a product. Declines at other types, for other powers, and where no mean follows.
"""

from __future__ import annotations

import onnx_ir as ir

from ..constant_tensors import as_torch, is_weight
from ..node_replacement import take_place


def multiply_squares_of_doubles(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    changed = False
    for graph in model.graphs():
        for node in list(graph):
            if node.op_type == "Pow" and node.domain == "" and _is_square_under_mean(node):
                take_place(graph, node, ir.Node("", "Mul", [node.inputs[0], node.inputs[0]]))
                changed = True
    return changed


def _is_square_under_mean(power: ir.Node) -> bool:
    base, exponent = power.inputs
    if base is None or exponent is None or not is_weight(exponent):
        return False
    if ir.DataType.DOUBLE not in (base.dtype, power.outputs[0].dtype) or len(exponent.shape or ()) > 1:
        return False
    number = as_torch(exponent)
    if number.numel() != 1 or float(number) != 2 or (number.dim() and not base.shape):
        return False
    return any(use.node.op_type == "ReduceMean" and use.node.domain == "" for use in power.outputs[0].uses())
