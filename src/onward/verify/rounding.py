"""Which outputs of a graph go through QuantizeLinear, and how wide a step of their grid is.

Where a value lies between two integers of a grid, the last bit of a float decides which one it becomes. Integer kernels
leave nothing to decide, float operations between two grids (a softmax, a layer norm) do: PyTorch and the runtime may
then differ by a whole step, which no float tolerance covers.
"""

from __future__ import annotations

import onnx_ir as ir

# They move values, so the grid of their input is that of their output.
_MOVES = frozenset({
    "Reshape", "Transpose", "Slice", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Gather", "Split", "Expand",
})  # fmt: skip
OF_ITS_RANGE = 0.0


def output_steps(model: ir.Model) -> dict[str, float]:
    """The step of every output that depends on QuantizeLinear; OF_ITS_RANGE where its last operation is in float."""
    rounded: set[ir.Value] = set()
    for node in model.graph:
        if node.op_type == "QuantizeLinear" or any(value in rounded for value in node.inputs):
            rounded.update(node.outputs)
    return {str(value.name): _step(value) for value in model.graph.outputs if value in rounded}


def _step(value: ir.Value) -> float:
    node = value.producer()
    while node is not None and node.op_type in _MOVES and node.inputs and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    scale = node.inputs[1] if node is not None and node.op_type == "DequantizeLinear" else None
    if scale is None or scale.const_value is None or scale.const_value.size != 1:
        return OF_ITS_RANGE
    return float(scale.const_value.numpy().reshape(-1)[0])
