"""A Reshape to the same shape behind a Cast to float16 of what is compared, which onnxruntime does not round otherwise.

    h = Cast<to = float16>(x)                       h = Cast<to = float16>(x)
    y = Less(Relu(h), h[:1])                ->      r = Reshape(h, {0, 0})
                                                    y = Less(Relu(r), r[:1])

onnxruntime 1.31 has float16 kernels on the CPU for few operators. It computes the others in float32, and puts a Cast in
front of and behind each. Of a Cast to float16 and a Cast of its own back to float32 it makes nothing, so that the value
is never rounded. Most results differ by no more than the rounding. But a comparison finds that `x.half()` is not
`x.half()[:1]`, because the slice is rounded, and that of two numbers, equal in float16, one is larger. Reshape has a
float16 kernel: what it reads is rounded. Declines where nothing but arithmetic follows, whose results are rounded
anyhow.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir
import torch

from ...lower.schemas import find, kernel_types
from ..constant_tensors import reshaped_to_itself

# A small change of an operand may change their whole result.
_COMPARE = frozenset({
    "ArgMax", "ArgMin", "Ceil", "Equal", "Floor", "Greater", "GreaterOrEqual", "IsInf", "Less", "LessOrEqual", "Mod",
    "NonZero", "Round", "Sign", "TopK", "Unique",
})  # fmt: skip
# They move or choose values, which stay what they are.
_CHOOSE = frozenset({
    "Abs", "Clip", "Compress", "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "GatherElements",
    "GatherND", "Identity", "Max", "MaxPool", "Min", "Neg", "Pad", "ReduceMax", "ReduceMin", "Relu", "Reshape",
    "ReverseSequence", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile",
    "Transpose", "Trilu", "Unsqueeze", "Where",
})  # fmt: skip


def round_before_comparing(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    opset = model.graph.opset_imports.get("", 0)
    changed = False
    for graph in model.graphs():
        for node in list(graph):
            value = node.outputs[0]
            if _casts_to_half(node) and value.shape is not None and _is_compared(value, graph, opset):
                uses = [use for use in value.uses() if use.node.graph is graph]
                first = next(each for each in graph if any(each is use.node for use in uses))
                made = reshaped_to_itself(graph, first, value, len(value.shape))
                for use in uses:
                    use.node.replace_input_with(use.idx, made)
                changed = True
    return changed


def rounds_for_a_comparison(reshape: ir.Node, opset: int) -> bool:
    """Whether a Reshape stands between a Cast to float16 and a comparison."""
    value, graph = reshape.inputs[0], reshape.graph
    if value is None or graph is None or not _casts_to_half(value.producer()):
        return False
    return _is_compared(reshape.outputs[0], graph, opset)


def _casts_to_half(node: ir.Node | None) -> bool:
    if node is None or node.op_type != "Cast" or node.domain != "":
        return False
    return node.outputs[0].dtype is ir.DataType.FLOAT16


def _is_compared(value: ir.Value, graph: object, opset: int) -> bool:
    """Whether a comparison of the same graph reads what a Cast has made, and reads it unrounded."""
    # Two Casts of the file's own stay as they are, and a kernel for float16 reads what is rounded.
    waiting = [
        (reader, place)
        for reader, place in _readers(value, graph)
        if reader.op_type != "Cast" and not _has_kernel(reader, place, opset)
    ]
    seen: set[ir.Node] = set()
    while waiting:
        node, place = waiting.pop()
        made = node.outputs[0]
        to_integers = node.op_type == "Cast" and made.dtype is not None and not made.dtype.is_floating_point()
        if to_integers or (node.op_type in _COMPARE and not _has_kernel(node, place, opset)):
            return True
        if node not in seen and (node.op_type in _CHOOSE or node.op_type == "Cast"):
            seen.add(node)
            waiting += [each for result in node.outputs for each in _readers(result, graph)]
    return False


def _readers(value: ir.Value, graph: object) -> Iterable[tuple[ir.Node, int]]:
    return ((use.node, use.idx) for use in value.uses() if use.node.graph is graph and use.node.domain == "")


def _has_kernel(node: ir.Node, place: int, opset: int) -> bool:
    """Whether onnxruntime's kernel of an operator takes float16."""
    schema = find(node.op_type, opset)
    kernel = kernel_types(node.op_type, schema.since) if schema is not None else None
    formal = schema.input(place) if schema is not None else None
    return kernel is not None and formal is not None and torch.float16 in kernel.get(formal.variable, {torch.float16})
