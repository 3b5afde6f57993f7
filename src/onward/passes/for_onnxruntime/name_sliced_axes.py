"""At opset 10, an axis of unknown size that leaves a Slice gets a name of its own.

    x : Float(n)                       x : Float(n)
    y : Float(?) = Slice(x, 0, -1) ->  y : Float(y_axis_0) = Slice(x, 0, -1)

The shape inference of onnx 1.22 and of onnxruntime 1.31 gives the result of this version of Slice the names of its
input: y would be as long as x, and onnxruntime lets values of equal names share memory. A name in the file comes
first. Declines at other opsets, which infer nothing here.
"""

from __future__ import annotations

import onnx_ir as ir


def name_sliced_axes(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    if model.graph.opset_imports.get("") != 10:
        return False
    changed = False
    for graph in model.graphs():
        for node in graph:
            if node.op_type == "Slice" and node.domain == "":
                changed |= _name(node)
    return changed


def _name(node: ir.Node) -> bool:
    taken, result = node.inputs[0], node.outputs[0]
    shape = result.shape
    if shape is None:
        if taken is None or taken.shape is None:
            return False
        shape = ir.Shape([None] * len(taken.shape))
    if not any(_is_unknown(size) for size in shape):
        return False
    result.shape = ir.Shape(
        [f"{result.name}_axis_{axis}" if _is_unknown(size) else size for axis, size in enumerate(shape)]
    )
    return True


def _is_unknown(size: int | ir.SymbolicDim) -> bool:
    return isinstance(size, ir.SymbolicDim) and size.value is None
