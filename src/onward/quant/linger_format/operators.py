"""The operators that linger has, each made of a standard one between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import onnx_ir as ir

from ...errors import LoweringError
from ..exact.integers import LINGER

ROUNDING = {"quant_mode": "floor_add"}
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
    """What the readers of integers say of them, also where they are moved before they are read."""
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


# Operators


@dataclass(frozen=True)
class Chip:
    """Makes the nodes of linger's domain for one of its chips; its exporter writes attributes in alphabetical order."""

    platform: str

    def node(self, op: str, inputs: Sequence[ir.Value | None], attributes: dict[str, Any]) -> ir.Node:
        """One that says which chip it is for."""
        return ir.Node(LINGER, op, inputs, sorted_attributes({**attributes, "platform": self.platform}))

    def operation(self, op: str, inputs: Sequence[ir.Value | None], **attributes: Any) -> ir.Node:
        """One that computes: it says how it rounds, too."""
        return self.node(op, inputs, {**attributes, **ROUNDING})


def sorted_attributes(values: dict[str, Any]) -> list[ir.Attr]:
    return [ir.convenience.convert_attribute(name, values[name]) for name in sorted(values)]


Converter = Callable[[Chip, ir.Node, Side], ir.Node | None]
CONVERTERS: dict[str, Converter] = {}


def converts(*ops: str) -> Callable[[Converter], Converter]:
    def register(converter: Converter) -> Converter:
        CONVERTERS.update(dict.fromkeys(ops, converter))
        return converter

    return register


def ints_of(node: ir.Node, name: str, default: list[int]) -> list[int]:
    return list(node.attributes[name].as_ints()) if name in node.attributes else default


def int_of(node: ir.Node, name: str, default: int) -> int:
    return node.attributes[name].as_int() if name in node.attributes else default


def _bits(x: Side, result: Side) -> dict[str, Any]:
    return {"x_bits": x.bits, "scale_x": x.scale, "o_bits": result.bits, "scale_o": result.scale}


def _of_weight(w: Side) -> dict[str, Any]:
    """The attributes of a weight. Weights of four bits are stored in eight, too, and known by how large they are."""
    known = w.value.const_value
    numbers = known.numpy() if known is not None else numpy.zeros(0)
    is_short = numbers.any() and numbers.min() >= -8 and numbers.max() <= 7
    return {"scale_w": w.scale, "w_bits": 4 if is_short else w.bits}


@converts("Conv", "ConvTranspose")
def _conv(to: Chip, made: ir.Node, result: Side) -> ir.Node | None:
    x, w = (operand(value) for value in made.inputs[:2])
    bias = operand(made.inputs[2]) if len(made.inputs) > 2 else None
    if x is None or w is None or (len(made.inputs) > 2 and bias is None):
        return None
    shape = w.value.shape
    assert shape is not None
    rank = len(shape) - 2
    if rank > 2:
        return None  # linger has 1-d and 2-d ones
    attributes = {
        "dilations": ints_of(made, "dilations", [1] * rank),
        "group": int_of(made, "group", 1),
        "kernel_shape": [int(each) for each in list(shape)[2:]],  # type: ignore[arg-type]
        "pads": ints_of(made, "pads", [0] * (2 * rank)),
        "strides": ints_of(made, "strides", [1] * rank),
        **_of_weight(w),
    }
    if made.op_type == "ConvTranspose":
        attributes["output_padding"] = ints_of(made, "output_padding", [0] * rank)
    inputs = [x.value, w.value, *([bias.value] if bias is not None else [])]
    return to.operation(f"Q{made.op_type}{rank}d", inputs, **attributes, **_bits(x, result))


@converts("Gemm")
def _gemm(to: Chip, made: ir.Node, result: Side) -> ir.Node | None:
    x, w = (operand(value) for value in made.inputs[:2])
    bias = operand(made.inputs[2]) if len(made.inputs) > 2 else None
    if x is None or w is None or (len(made.inputs) > 2 and bias is None) or not int_of(made, "transB", 0):
        return None
    inputs = [x.value, w.value, *([bias.value] if bias is not None else [])]
    return to.operation("QLinear", inputs, **_of_weight(w), **_bits(x, result))


@converts("Add", "Mul", "MatMul")
def _binary(to: Chip, made: ir.Node, result: Side) -> ir.Node | None:
    x, y = (operand(value) for value in made.inputs)
    if x is None or y is None:
        return _of_one_chip(to, made, result)
    if made.op_type == "MatMul" and 16 in (x.bits, y.bits):
        return None  # evaluation adds these up in float, as it does for layers with inputs of 16 bits
    op = {"Add": "QAdd", "Mul": "QMul", "MatMul": "QMatmul"}[made.op_type]
    return to.operation(op, [x.value, y.value], scale_y=y.scale, y_bits=y.bits, **_bits(x, result))


def _of_one_chip(to: Chip, made: ir.Node, result: Side) -> ir.Node | None:
    """x * sigmoid(x), and before opset 20 x * (erf(x / sqrt(2)) + 1) * 0.5: one chip has tables for them."""
    if made.op_type != "Mul" or to.platform != "venusA":
        return None
    first, second = made.inputs
    if _comes_from(second, "Sigmoid", first):
        op, x = "QSwish", operand(first)
    else:
        product = _made_by(first, "Mul")
        x = operand(product.inputs[0]) if product is not None and _is_number(second, 0.5) else None
        total = _made_by(product.inputs[1], "Add") if x is not None and product is not None else None
        curve = _made_by(total.inputs[0], "Erf") if total is not None and _is_number(total.inputs[1], 1) else None
        ratio = _made_by(curve.inputs[0], "Div") if curve is not None else None
        if ratio is None or product is None or ratio.inputs[0] is not product.inputs[0]:
            return None
        op, x = "QGelu", x if _is_number(ratio.inputs[1], math.sqrt(2)) else None
    return None if x is None else to.operation(op, [x.value], **_bits(x, result))


def _made_by(value: ir.Value | None, op: str) -> ir.Node | None:
    node = value.producer() if value is not None else None
    return node if node is not None and (node.domain, node.op_type) == ("", op) else None


def _comes_from(value: ir.Value | None, op: str, x: ir.Value | None) -> bool:
    node = _made_by(value, op)
    return node is not None and node.inputs[0] is x


def _is_number(value: ir.Value | None, number: float) -> bool:
    held = value.const_value if value is not None else None
    return held is not None and held.size == 1 and math.isclose(float(held.numpy()), number, rel_tol=1e-6)


@converts("Concat")
def _concat(to: Chip, made: ir.Node, result: Side) -> ir.Node | None:
    sides = [operand(value) for value in made.inputs]
    known = [side for side in sides if side is not None]
    if len(known) != len(sides):
        return None
    each = {f"scale_x_{place}": side.scale for place, side in enumerate(known)}
    each.update({f"x_{place}_bits": side.bits for place, side in enumerate(known)})
    inputs: list[ir.Value | None] = [side.value for side in known]
    return to.operation("QCat", inputs, axis=int_of(made, "axis", 0), o_bits=result.bits, scale_o=result.scale, **each)


@converts("Sigmoid", "Tanh", "Softmax", "Gelu")
def _unary(to: Chip, made: ir.Node, result: Side) -> ir.Node | None:
    x = operand(made.inputs[0])
    if x is None or (made.op_type == "Gelu" and ("approximate" in made.attributes or to.platform != "venusA")):
        return None  # one chip has a table for it, and of the exact function
    axis = {"axis": int_of(made, "axis", -1)} if made.op_type == "Softmax" else {}
    return to.operation(f"Q{made.op_type}", [x.value], **axis, **_bits(x, result))


@converts("AveragePool")
def _average_pool(to: Chip, made: ir.Node, result: Side) -> ir.Node | None:
    x = operand(made.inputs[0])
    kernel = ints_of(made, "kernel_shape", [])
    if x is None or len(kernel) > 2:
        return None
    pads = ints_of(made, "pads", [0] * (2 * len(kernel)))
    attributes = {
        "ceil_mode": int_of(made, "ceil_mode", 0),
        "count_include_pad": int_of(made, "count_include_pad", 0) if any(pads) else 1,  # as PyTorch's modules have it
        "kernel_shape": kernel,
        "pads": pads,
        "strides": ints_of(made, "strides", [1] * len(kernel)),
    }
    if len(kernel) == 2:
        attributes["divisor_override"] = -1
    return to.operation(f"QAvgPool{len(kernel)}d", [x.value], **attributes, **_bits(x, result))


@converts("GlobalAveragePool", "ReduceMean")
def _global_average_pool(to: Chip, made: ir.Node, result: Side) -> ir.Node | None:
    """The mean of every channel of an image, whose axes stay."""
    x = operand(made.inputs[0])
    if x is None or x.value.shape is None or len(x.value.shape) != 4:
        return None
    if made.op_type == "ReduceMean" and (_axes(made) not in ([2, 3], [-2, -1]) or not int_of(made, "keepdims", 1)):
        return None
    return to.operation("QGlobalAveragePool2d", [x.value], **_bits(x, result))


def _axes(made: ir.Node) -> list[int]:
    """Of a reduction: an input since opset 18."""
    if len(made.inputs) > 1 and made.inputs[1] is not None and made.inputs[1].const_value is not None:
        return [int(each) for each in made.inputs[1].const_value.numpy()]
    return ints_of(made, "axes", [])
