"""What QuantizeLinear and DequantizeLinear say of integers, in linger's terms."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy
import onnx_ir as ir

from ...errors import LoweringError

HINT = (
    "linger's scales are powers of two for whole tensors, and its integers have no zero point: init with "
    "QuantConfig(weights=Weights(per_channel=False, power_of_two=True), "
    'activations=Activations(symmetric=True, power_of_two=True), rounding="half_up")'
)

_BITS = {ir.DataType.UINT8: 8, ir.DataType.INT8: 8, ir.DataType.INT16: 16, ir.DataType.INT32: 32}


@dataclass(frozen=True)
class Side:
    """An operand or a result: the integers, linger's scale for them, and how many bits they have."""

    value: ir.Value
    scale: float
    bits: int


def given(node: ir.Node, place: int) -> ir.Value:
    value = node.inputs[place]
    assert value is not None  # required by the operator
    return value


def side_of(node: ir.Node, integers: ir.Value) -> Side:
    """What a QuantizeLinear or DequantizeLinear says of its integers, in linger's terms."""
    scale = _constant(node, 1)
    zero = _constant(node, 2) if len(node.inputs) > 2 and node.inputs[2] is not None else numpy.zeros(())
    kind = integers.dtype
    wanted = {ir.DataType.UINT8: 128}.get(kind, 0) if kind is not None else 0
    if (
        scale.size == 0
        or not (scale == scale.reshape(-1)[0]).all()
        or math.frexp(float(scale.reshape(-1)[0]))[0] != 0.5
    ):
        raise LoweringError(
            f"{integers.name} has the scale {_told(scale)}, and linger's are powers of two, one for a tensor", hint=HINT
        )
    if not (zero == wanted).all():
        raise LoweringError(f"{integers.name} has the zero point {_told(zero)}, and linger's are 0", hint=HINT)
    bits = _BITS.get(kind) if kind is not None else None
    if bits is None:
        raise LoweringError(f"{integers.name} is of {kind}, and linger's are signed integers", hint=HINT)
    return Side(integers, 1.0 / float(scale.reshape(-1)[0]), bits)


def side_of_readers(value: ir.Value) -> Side | None:
    """The same of integers that are moved before they are read."""
    for use in value.uses():
        if use.node.op_type == "DequantizeLinear" and use.node.domain == "":
            return side_of(use.node, value)
        for moved in use.node.outputs:
            found = side_of_readers(moved) if moved.dtype == value.dtype else None
            if found is not None:
                return found
    return None


def _told(values: numpy.ndarray) -> str:
    return f"{values.reshape(-1)[0]:g}" if values.size == 1 else f"{values.size} values"


def _constant(node: ir.Node, place: int) -> numpy.ndarray:
    held = given(node, place).const_value
    if held is None:
        raise LoweringError(f"{node.name} has a scale that is computed, and linger's are numbers", hint=HINT)
    return held.numpy()


def operand(value: ir.Value | None) -> Side | None:
    """The integers behind a DequantizeLinear."""
    node = value.producer() if value is not None else None
    if node is None or node.op_type != "DequantizeLinear" or node.domain != "":
        return None
    return side_of(node, given(node, 0))
