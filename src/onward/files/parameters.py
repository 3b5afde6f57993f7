"""How many of the numbers in a file are parameters of the model.

Weights and biases are, as float or as integers. What only says how to read them is not: scales and zero points of
quantised tensors, sizes and indices, masks, and the channels of zeros that a quantised convolution was widened by.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import onnx_ir as ir

_NEVER = (ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.STRING)  # sizes, masks, texts
_PAIRS = {1, 2, 4, 5, 6, 7}  # x, scale, zero point, w, scale, zero point, scale and zero point of the result
_BESIDE = {  # by operator: the inputs that are no weights, whatever their type
    "QuantizeLinear": {1, 2},
    "DequantizeLinear": {1, 2},
    "ConvInteger": {2, 3},
    "MatMulInteger": {2, 3},
    "QLinearConv": _PAIRS,
    "QLinearMatMul": _PAIRS,
    "QLinearAdd": _PAIRS,
    "QLinearMul": _PAIRS,
    "QGemm": {1, 2, 4, 5, 7, 8},
    "QAttention": {3, 4, 5, 6, 7},
    "QLinearAveragePool": {1, 2, 3, 4},
    "QLinearGlobalAveragePool": {1, 2, 3, 4},
    "QLinearLeakyRelu": {1, 2, 3, 4},
    "QLinearReduceMean": {1, 2, 3, 4},
    "QLinearSigmoid": {1, 2, 3, 4},
    "QLinearSoftmax": {1, 2, 3, 4},
    "DynamicQuantizeMatMul": {2, 3},
    "DynamicQuantizeLSTM": {4, 8, 9, 10, 11},
    "MatMulIntegerToFloat": {2, 3, 4, 5},
    "MatMulNBits": {2, 3, 4},
    "GatherBlockQuantized": {1, 2, 3},
    "Resize": {1, 2, 3},
    "Upsample": {1},
    "Slice": {1, 2, 3, 4},
    "Gather": {1},
    "GatherElements": {1},
    "GatherND": {1},
    "ScatterElements": {1},
    "ScatterND": {1},
}
_INTEGER_PRODUCTS = ("ConvInteger", "MatMulInteger")
_WIDENED, _BLOCK = ".wide", 16  # as quantisation names weights with more channels; fewer than a block are added


def held(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    """What a model stores, by name, in bodies too: weights, and all that is stored with them."""
    for value in _stored(model):
        if value.const_value is not None:
            yield str(value.name), value.const_value


def all_parameters(model: ir.Model) -> int:
    """How many parameters a model has."""
    return sum(map(parameters, _stored(model)))


def _stored(model: ir.Model) -> Iterator[ir.Value]:
    return (value for graph in model.graphs() for value in graph.initializers.values())


def parameters(value: ir.Value) -> int:
    """How many parameters a stored tensor has; 0 of what is none."""
    tensor = value.const_value
    if tensor is None or tensor.dtype in _NEVER or len(tensor.shape) == 0:
        return 0
    uses = value.uses()
    if uses and all(_beside(use.node, use.idx) for use in uses):
        return 0
    packed = next((use.node for use in uses if use.node.op_type == "MatMulNBits" and use.idx == 1), None)
    if packed is not None:  # several numbers in a byte
        return packed.attributes.get_int("K", 0) * packed.attributes.get_int("N", 0)
    sizes = [int(size) for size in tensor.shape.numpy()]
    if str(value.name).endswith(_WIDENED) and not tensor.dtype.is_floating_point():
        sizes = _without_zeros(tensor, sizes)
    return math.prod(sizes)


def _beside(node: ir.Node, place: int) -> bool:
    """Whether a node reads a scale, a zero point, a size or an index there."""
    if node.op_type == "QLinearConcat":  # scale and zero point of the result, then tensor, scale, zero point of each
        return place < 2 or (place - 2) % 3 != 0
    if node.op_type == "Mul":
        return _is_rescaled(node.inputs[1 - place])
    return place in _BESIDE.get(node.op_type, ())


def _is_rescaled(other: ir.Value | None) -> bool:
    """Whether a tensor is the scale of a dynamic quantisation, an integer product, or a weight that is stored in
    integers: its factor is a scale then."""
    made = other.producer() if other is not None else None
    if made is not None and made.op_type == "DynamicQuantizeLinear":
        return other is made.outputs[1]
    if made is not None and made.op_type == "Cast" and made.inputs[0] is not None:
        stored = made.inputs[0].const_value
        if stored is not None:
            return stored.dtype in (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT32)
        made = made.inputs[0].producer()
    return made is not None and made.op_type in _INTEGER_PRODUCTS


def _without_zeros(tensor: ir.TensorProtocol, sizes: list[int]) -> list[int]:
    """The sizes without the rows and columns of zeros at the end."""
    content = tensor.numpy() != 0

    def used(axis: int) -> int:
        rest = tuple(other for other in range(content.ndim) if other != axis)
        filled = content.any(axis=rest).nonzero()[0]
        last = int(filled[-1]) + 1 if filled.size else 0
        return max(last, sizes[axis] - _BLOCK + 1)

    return [used(axis) if axis < 2 else size for axis, size in enumerate(sizes)]
