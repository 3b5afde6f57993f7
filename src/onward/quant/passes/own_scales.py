"""Every weight in blocks has scales of its own, also where another has the same.

    MatMul(x, DequantizeLinear(q, s))                 MatMul(x, DequantizeLinear(q, s))
    MatMul(y, DequantizeLinear(r, s))         ->      MatMul(y, DequantizeLinear(r, copy of s))

onnxruntime 1.31 makes no MatMulNBits of products whose scales something else reads, and computes them in float. A layer
that runs twice has such, and so have the layers of a transformer that were made as copies of one.
"""

from __future__ import annotations

import onnx_ir as ir

from ...passes.constant_tensors import add_constant, as_torch, is_weight


def own_scales(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    changed = False
    seen: set[ir.Value] = set()
    for node in model.graph:
        if node.op_type != "DequantizeLinear" or node.domain != "" or "block_size" not in node.attributes:
            continue
        for place, value in enumerate(node.inputs[1:], 1):
            if value is None or not is_weight(value):
                continue
            if value in seen:
                node.replace_input_with(place, add_constant(model.graph, f"{value.name}.own", as_torch(value).clone()))
                changed = True
            seen.add(value)
    return changed
