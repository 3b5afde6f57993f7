"""A Reshape to the same shape between two scales of one factor of a product, which onnxruntime cannot load otherwise.

    m = Mul(x, {2})                                 m = Mul(x, {2})
    s = Mul(m, {0.5})                               s = Mul(m, {0.5})
    p = MatMul(s, w)                        ->      r = Reshape(s, {0, 0})
    y = MatMul(p, m)                                p = MatMul(r, w)
                                                    y = MatMul(p, m)

onnxruntime 1.31 makes scales part of the products that read them. Where a factor is scaled twice, and another product
reads it after the first scale, the first scale is taken away from under that product, and the file is refused. So it is
for attention of a scaled tensor with itself. A Reshape costs nothing when it runs. Declines where nothing but the
second scale reads the first.
"""

from __future__ import annotations

import onnx_ir as ir

from ..constant_tensors import reshaped_to_itself


def part_scales_of_matmul(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    changed = False
    for graph in model.graphs():
        for node in list(graph):
            if node.op_type != "MatMul" or node.domain != "":
                continue
            for place, value in enumerate(node.inputs):
                if value is not None and is_scaled_twice(value.producer()) and value.shape is not None:
                    node.replace_input_with(place, reshaped_to_itself(graph, node, value, len(value.shape)))
                    changed = True
    return changed


def is_scaled_twice(node: ir.Node | None) -> bool:
    """Whether a node scales what was scaled before, and is read so by others as well."""
    if not _is_scale(node):
        return False
    assert node is not None
    scaled = [value for value in node.inputs if value is not None and _is_scale(value.producer())]
    return any(len({id(use.node) for use in value.uses()}) > 1 for value in scaled)


def _is_scale(node: ir.Node | None) -> bool:
    """A product with, or a quotient by, one constant number."""
    if node is None or node.op_type not in ("Mul", "Div") or node.domain != "":
        return False
    return any(
        value is not None
        and (value.is_initializer() or (value.producer() is not None and value.producer().op_type == "Constant"))  # type: ignore[union-attr]
        and value.shape is not None
        and all(dim == 1 for dim in value.shape)
        for value in node.inputs
    )
