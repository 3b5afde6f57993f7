"""From DequantizeLinear and QuantizeLinear around an operator to one operator of linger's domain.

    y = QuantizeLinear(Conv(DequantizeLinear(x), DequantizeLinear(w), DequantizeLinear(b)))
    ->  y = linger::QConv2d(x, w, b, scale_x=..., scale_w=..., scale_o=..., x_bits=8, w_bits=8, o_bits=8, ...)

linger's integers are signed and have no zero point, so uint8 around 128 becomes int8 around 0: the types of values
change, and constants among the integers move by 128. Its scales multiply where ONNX's divide, and are powers of two.
What is left of the pairs becomes linger::Quant and linger::Dequant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import onnx_ir as ir

from ...errors import LoweringError
from ..lowerings.core import LINGER

HINT = (
    "linger's scales are powers of two for whole tensors, and its integers have no zero point: init with "
    "QuantConfig(weights=Weights(per_channel=False, power_of_two=True), "
    'activations=Activations(symmetric=True, power_of_two=True), rounding="half_up")'
)


_BITS = {ir.DataType.UINT8: 8, ir.DataType.INT8: 8, ir.DataType.INT16: 16, ir.DataType.INT32: 32}


@dataclass(frozen=True)
class _Side:
    """An operand or a result: the integers, linger's scale for them, and how many bits they have."""

    value: ir.Value
    scale: float
    bits: int


def rewrite(model: ir.Model, *, platform: str) -> None:
    """Rewrite a graph in place."""
    _Rewriting(model.graph, platform).run()
    model.graph.opset_imports[LINGER] = 1


class _Rewriting:
    def __init__(self, graph: ir.Graph, platform: str) -> None:
        self.graph, self.platform = graph, platform

    def run(self) -> None:
        for node in list(self.graph):
            if node.op_type == "QuantizeLinear" and node.domain == "":
                self._quantize(node)
        for node in list(self.graph):
            if node.op_type == "DequantizeLinear" and node.domain == "" and _is_read(node):
                self._dequantize(node)
        _drop_unread(self.graph)
        _drop_casts(self.graph)
        _make_signed(self.graph)

    # Nodes

    def _quantize(self, node: ir.Node) -> None:
        result = _side(node, node.outputs[0])
        made = _given(node, 0).producer()
        convert = CONVERTERS.get(made.op_type) if made is not None and made.domain == "" else None
        new = convert(self, made, result) if convert is not None and made is not None else None
        if new is None:
            attributes = {"data_bits": result.bits, "scale_x": result.scale, "zero_point": 0}
            new = self.node("Quant", [_given(node, 0)], attributes)
        self._replace(node, new, origin=made if convert is not None and new.op_type != "Quant" else node)

    def _dequantize(self, node: ir.Node) -> None:
        side = _side(node, _given(node, 0))
        self._replace(node, ir.Node(LINGER, "Dequant", [side.value], _attributes({"scale_o": side.scale})), origin=node)

    def node(self, op: str, inputs: Sequence[ir.Value | None], attributes: dict[str, Any]) -> ir.Node:
        """A node of linger's domain; its exporter writes attributes in alphabetical order."""
        return ir.Node(LINGER, op, inputs, _attributes({**attributes, "platform": self.platform}))

    def operation(self, op: str, made: ir.Node, inputs: Sequence[ir.Value | None], **attributes: Any) -> ir.Node:
        """One that computes: it says how it rounds."""
        return self.node(op, inputs, {**attributes, "quant_mode": "floor_add"})

    def _replace(self, old: ir.Node, new: ir.Node, origin: ir.Node | None) -> None:
        before, after = old.outputs[0], new.outputs[0]
        new.name = old.name
        new.metadata_props.update((origin or old).metadata_props)
        after.name, after.type, after.shape = before.name, before.type, before.shape
        self.graph.insert_before(old, new)
        ir.convenience.replace_all_uses_with(before, after, replace_graph_outputs=True)
        self.graph.remove(old, safe=True)


def _is_read(node: ir.Node) -> bool:
    return any(value.uses() or value.is_graph_output() for value in node.outputs)


def _drop_unread(graph: ir.Graph) -> None:
    for node in reversed(list(graph)):
        if not _is_read(node):
            graph.remove(node, safe=True)
    used = {value for node in graph for value in node.inputs}
    for name in [name for name, value in graph.initializers.items() if value not in used]:
        if not graph.initializers[name].is_graph_output():
            del graph.initializers[name]


# Scales


def _given(node: ir.Node, place: int) -> ir.Value:
    value = node.inputs[place]
    assert value is not None  # required by the operator
    return value


def _side(node: ir.Node, integers: ir.Value) -> _Side:
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
    return _Side(integers, 1.0 / float(scale.reshape(-1)[0]), bits)


def _told(values: numpy.ndarray) -> str:
    return f"{values.reshape(-1)[0]:g}" if values.size == 1 else f"{values.size} values"


def _constant(node: ir.Node, place: int) -> numpy.ndarray:
    held = _given(node, place).const_value
    if held is None:
        raise LoweringError(f"{node.name} has a scale that is computed, and linger's are numbers", hint=HINT)
    return held.numpy()


def _operand(value: ir.Value | None) -> _Side | None:
    """The integers behind a DequantizeLinear."""
    node = value.producer() if value is not None else None
    if node is None or node.op_type != "DequantizeLinear" or node.domain != "":
        return None
    return _side(node, _given(node, 0))


def _attributes(values: dict[str, Any]) -> list[ir.Attr]:
    return [ir.convenience.convert_attribute(name, values[name]) for name in sorted(values)]


# Operators

Converter = Callable[[_Rewriting, ir.Node, _Side], ir.Node | None]
CONVERTERS: dict[str, Converter] = {}


def converts(*ops: str) -> Callable[[Converter], Converter]:
    def register(converter: Converter) -> Converter:
        CONVERTERS.update(dict.fromkeys(ops, converter))
        return converter

    return register


def _ints(node: ir.Node, name: str, default: list[int]) -> list[int]:
    return list(node.attributes[name].as_ints()) if name in node.attributes else default


def _int(node: ir.Node, name: str, default: int) -> int:
    return node.attributes[name].as_int() if name in node.attributes else default


def _bits(x: _Side, result: _Side) -> dict[str, Any]:
    return {"x_bits": x.bits, "scale_x": x.scale, "o_bits": result.bits, "scale_o": result.scale}


@converts("Conv", "ConvTranspose")
def _conv(to: _Rewriting, made: ir.Node, result: _Side) -> ir.Node | None:
    x, w = (_operand(value) for value in made.inputs[:2])
    bias = _operand(made.inputs[2]) if len(made.inputs) > 2 else None
    if x is None or w is None or (len(made.inputs) > 2 and bias is None):
        return None
    shape = w.value.shape
    assert shape is not None
    rank = len(shape) - 2
    if rank > 2:
        return None  # linger has 1-d and 2-d ones
    attributes = {
        "dilations": _ints(made, "dilations", [1] * rank),
        "group": _int(made, "group", 1),
        "kernel_shape": [int(each) for each in list(shape)[2:]],  # type: ignore[arg-type]
        "pads": _ints(made, "pads", [0] * (2 * rank)),
        "strides": _ints(made, "strides", [1] * rank),
        "scale_w": w.scale,
        "w_bits": w.bits,
    }
    if made.op_type == "ConvTranspose":
        attributes["output_padding"] = _ints(made, "output_padding", [0] * rank)
    inputs = [x.value, w.value, *([bias.value] if bias is not None else [])]
    return to.operation(f"Q{made.op_type}{rank}d", made, inputs, **attributes, **_bits(x, result))


@converts("Gemm")
def _gemm(to: _Rewriting, made: ir.Node, result: _Side) -> ir.Node | None:
    x, w = (_operand(value) for value in made.inputs[:2])
    bias = _operand(made.inputs[2]) if len(made.inputs) > 2 else None
    if x is None or w is None or (len(made.inputs) > 2 and bias is None) or not _int(made, "transB", 0):
        return None
    inputs = [x.value, w.value, *([bias.value] if bias is not None else [])]
    return to.operation("QLinear", made, inputs, scale_w=w.scale, w_bits=w.bits, **_bits(x, result))


@converts("Add", "Mul", "MatMul")
def _binary(to: _Rewriting, made: ir.Node, result: _Side) -> ir.Node | None:
    x, y = (_operand(value) for value in made.inputs)
    if x is None or y is None:
        return None
    op = {"Add": "QAdd", "Mul": "QMul", "MatMul": "QMatmul"}[made.op_type]
    return to.operation(op, made, [x.value, y.value], scale_y=y.scale, y_bits=y.bits, **_bits(x, result))


@converts("Concat")
def _concat(to: _Rewriting, made: ir.Node, result: _Side) -> ir.Node | None:
    sides = [_operand(value) for value in made.inputs]
    known = [side for side in sides if side is not None]
    if len(known) != len(sides):
        return None
    each = {f"scale_x_{place}": side.scale for place, side in enumerate(known)}
    each.update({f"x_{place}_bits": side.bits for place, side in enumerate(known)})
    inputs: list[ir.Value | None] = [side.value for side in known]
    return to.operation(
        "QCat", made, inputs, axis=_int(made, "axis", 0), o_bits=result.bits, scale_o=result.scale, **each
    )


@converts("Sigmoid", "Tanh", "Softmax", "Gelu")
def _unary(to: _Rewriting, made: ir.Node, result: _Side) -> ir.Node | None:
    x = _operand(made.inputs[0])
    if x is None or (made.op_type == "Gelu" and "approximate" in made.attributes):
        return None
    axis = {"axis": _int(made, "axis", -1)} if made.op_type == "Softmax" else {}
    return to.operation(f"Q{made.op_type}", made, [x.value], **axis, **_bits(x, result))


@converts("AveragePool")
def _average_pool(to: _Rewriting, made: ir.Node, result: _Side) -> ir.Node | None:
    x = _operand(made.inputs[0])
    kernel = _ints(made, "kernel_shape", [])
    if x is None or len(kernel) > 2:
        return None
    attributes = {
        "ceil_mode": _int(made, "ceil_mode", 0),
        "count_include_pad": _int(made, "count_include_pad", 0),
        "kernel_shape": kernel,
        "pads": _ints(made, "pads", [0] * (2 * len(kernel))),
        "strides": _ints(made, "strides", [1] * len(kernel)),
    }
    if len(kernel) == 2:
        attributes["divisor_override"] = -1
    return to.operation(f"QAvgPool{len(kernel)}d", made, [x.value], **attributes, **_bits(x, result))


@converts("GlobalAveragePool")
def _global_average_pool(to: _Rewriting, made: ir.Node, result: _Side) -> ir.Node | None:
    x = _operand(made.inputs[0])
    if x is None or x.value.shape is None or len(x.value.shape) != 4:
        return None
    return to.operation("QAdaptiveAvgPool2d", made, [x.value], **_bits(x, result))


# Signed integers


def _drop_casts(graph: ir.Graph) -> None:
    """Before opset 12 a MaxPool of integers stands between two Casts; linger's tools take integers always."""
    for node in list(graph):
        before = node.inputs[0].producer() if node.op_type == "MaxPool" and node.inputs[0] is not None else None
        after = [use.node for use in node.outputs[0].uses()]
        if before is None or before.op_type != "Cast" or _given(before, 0).dtype != ir.DataType.UINT8:
            continue
        if len(node.outputs) > 1 or any(
            each.op_type != "Cast" or each.outputs[0].dtype != ir.DataType.UINT8 for each in after
        ):
            continue
        node.replace_input_with(0, before.inputs[0])
        node.outputs[0].type = ir.TensorType(ir.DataType.UINT8)
        for each in after:
            ir.convenience.replace_all_uses_with(each.outputs[0], node.outputs[0], replace_graph_outputs=True)
    _drop_unread(graph)


def _make_signed(graph: ir.Graph) -> None:
    """Every value that descends from integers around 128 is int8 around 0, and so are the constants that it meets."""
    moved: dict[ir.Value, ir.Value] = {}
    grids: set[ir.Value] = set()
    for node in graph:
        starts = (node.domain == LINGER and node.op_type != "Dequant") or _is_table(node)
        if not starts and not any(value in grids for value in node.inputs):
            continue
        for place, value in enumerate(node.inputs):
            if value is not None and value.const_value is not None and value.dtype == ir.DataType.UINT8:
                if value not in moved:
                    moved[value] = _signed(graph, value)
                node.replace_input_with(place, moved[value])
        for value in node.outputs:
            if value.dtype == ir.DataType.UINT8:
                value.type = ir.TensorType(ir.DataType.INT8)
                grids.add(value)
        _as_relu(node)
    _drop_unread(graph)


def _is_table(node: ir.Node) -> bool:
    """Whether integers are gathered from a constant for one of linger's operators, or a shape operation before it."""
    if node.op_type != "Gather" or node.domain or _given(node, 0).dtype != ir.DataType.UINT8:
        return False
    return _given(node, 0).const_value is not None and _reaches_linger(node.outputs[0])


def _reaches_linger(value: ir.Value) -> bool:
    readers = [use.node for use in value.uses()]
    if any(node.domain == LINGER for node in readers):
        return True
    return any(_reaches_linger(each) for node in readers for each in node.outputs if each.dtype == value.dtype)


def _signed(graph: ir.Graph, value: ir.Value) -> ir.Value:
    assert value.const_value is not None
    numbers = (value.const_value.numpy().astype(numpy.int16) - 128).astype(numpy.int8)
    name = f"{value.name}_signed"
    made = ir.Value(name=name, type=ir.TensorType(ir.DataType.INT8), shape=value.shape)
    made.const_value = ir.tensor(numbers, name=name)
    graph.initializers[name] = made
    return made


def _as_relu(node: ir.Node) -> None:
    """A Relu of signed integers is a standard one; so is Clip(x, 0, 127) of int8."""
    if node.op_type == "Relu":
        node.domain = ""
    if node.op_type != "Clip" or node.domain or len(node.inputs) < 3:
        return
    bounds = [value.const_value for value in node.inputs[1:] if value is not None]
    if [int(each.numpy()) for each in bounds if each is not None] == [0, 127]:
        node.op_type = "Relu"
        node.resize_inputs(1)
