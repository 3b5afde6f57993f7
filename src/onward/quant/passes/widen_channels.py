"""Channels of zeros, so many that onnxruntime's direct integer kernels take a convolution.

    y = Conv(x, w)   x, y: [1, 72, 28, 28]            y = Conv(x, w')   x, y: [1, 80, 28, 28]
    w: [72, 1, 3, 3], group 72                 ->     w': [80, 1, 3, 3], group 80, zeros at the end

onnxruntime 1.31 has direct kernels (MlasConvSym) for depthwise convolutions of a multiple of 16 channels, and for
others that make at least 16 channels of a multiple of 4. What is not so goes through a general product of matrices,
with the image unfolded: twice the time, and three times that of float for an image of three channels.

Channels between convolutions are widened together with the weights on both sides: those that make them have rows of
zeros, those that read them have columns of zeros, so that whatever lies in the new channels counts nothing. This
declines where anything else reads or makes the tensors (a Reshape, a Concat, an output of the model). An image of three
channels is padded to four.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx_ir as ir
import torch

from ...passes.constant_tensors import add_constant, as_torch, is_weight

_ALONE = ("Clip", "LeakyRelu", "Sigmoid", "HardSigmoid", "Relu", "QuantizeLinear", "DequantizeLinear", "Tanh", "Gelu")
_WINDOWS = ("MaxPool", "AveragePool", "GlobalAveragePool")
_PAIRS = ("Add", "Mul")
_BLOCK, _DEPTH = 16, 4
_MOST = 1.5  # a third of the new channels may be zeros; more costs the neighbors what it saves here


def widen_channels(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    graph = model.graph
    changed = False
    for node in list(graph):
        if _is_quantized(node) and _groups(node) == _channels(node.outputs[0]) == _channels(node.inputs[0]):
            changed |= _widen(graph, node.outputs[0], _MOST)
        elif _is_quantized(node) and _groups(node) == 1 and _BLOCK // 2 <= (_channels(node.outputs[0]) or 0) < _BLOCK:
            changed |= _widen(graph, node.outputs[0], 2)
    if graph.opset_imports.get("", 0) >= 13:
        deeper: dict[ir.Value, ir.Value] = {}
        for node in list(graph):
            changed |= _is_quantized(node) and _groups(node) == 1 and _deepen(graph, node, deeper)
    return changed


# What is there


def _channels(value: ir.Value | None) -> int | None:
    """The size of the second axis of an image of one to three axes, where it is known."""
    if value is None or value.shape is None or not 3 <= len(value.shape) <= 5:
        return None
    size = value.shape[1]
    return size if isinstance(size, int) else None


def _groups(conv: ir.Node) -> int:
    return conv.attributes["group"].as_int() if "group" in conv.attributes else 1


def _is_quantized(node: ir.Node) -> bool:
    """A convolution whose weight, and bias if there is one, are stored as integers."""
    if node.op_type != "Conv" or node.domain != "" or node.inputs[0] is None:
        return False
    return all(value is None or _stored(value) is not None for value in node.inputs[1:])


def _stored(value: ir.Value | None) -> ir.Node | None:
    """The DequantizeLinear of a constant, with constants for all that it reads."""
    made = value.producer() if value is not None else None
    if made is None or made.op_type != "DequantizeLinear" or made.domain != "":
        return None
    return made if all(map(is_weight, made.inputs)) else None


def _is_single(value: ir.Value | None) -> bool:
    """One number for everything, a constant or the DequantizeLinear of one."""
    if is_weight(value):
        assert value is not None and value.const_value is not None
        return value.const_value.size == 1
    made = _stored(value)
    return made is not None and _is_single(made.inputs[0])


@dataclass
class _Joined:
    """Tensors that have one set of channels: who makes them from other channels, who reads them, who keeps them."""

    channels: int
    values: dict[ir.Value, None] = field(default_factory=dict)
    made: dict[ir.Node, None] = field(default_factory=dict)
    read: dict[ir.Node, None] = field(default_factory=dict)
    kept: dict[ir.Node, None] = field(default_factory=dict)


def _joined(start: ir.Value) -> _Joined | None:
    """All that have the channels of a tensor; None where something is among them that is not understood."""
    found = _Joined(_channels(start) or 0)
    left = [start]
    while left:
        value = left.pop()
        if value in found.values:
            continue
        maker = value.producer()
        if maker is None or value.is_graph_output() or not _may_have(value, maker, found.channels):
            return None
        found.values[value] = None
        for node in (maker, *(use.node for use in value.uses())):
            more = _neighbours(node, value, found)
            if more is None:
                return None
            left += more
    return found


def _may_have(value: ir.Value, maker: ir.Node, channels: int) -> bool:
    """Whether a tensor has so many channels. Some steps within an operation have no shape written at them."""
    known = value.shape is not None or maker.op_type not in (*_ALONE, *_WINDOWS)
    return _channels(value) == channels if known else True


def _neighbours(node: ir.Node, value: ir.Value, found: _Joined) -> list[ir.Value] | None:
    """The tensors of a node that have the same channels as one of them."""
    if node.domain != "" or len(node.outputs) != 1 or node.graph is not value.producer().graph:  # type: ignore[union-attr]
        return None
    if node.op_type == "Conv":
        return _of_convolution(node, value, found)
    result = node.outputs[0]
    if node.op_type in _ALONE or node.op_type in _WINDOWS:
        plain = all(each is None or _is_single(each) for each in node.inputs[1:])
        return [node.inputs[0], result] if plain and node.inputs[0] is not None else None
    if node.op_type in _PAIRS:
        operands = [each for each in node.inputs if each is not None and not _is_single(each)]
        same = all(len(each.shape or ()) == len(result.shape or ()) for each in operands)
        return [*operands, result] if same else None
    return None


def _of_convolution(node: ir.Node, value: ir.Value, found: _Joined) -> list[ir.Value] | None:
    x, y = node.inputs[0], node.outputs[0]
    if not _is_quantized(node) or x is None:
        return None
    if _groups(node) == 1:
        if value is y:
            found.made[node] = None
        if value is x:
            found.read[node] = None
        return [] if value in (x, y) else None
    if not _groups(node) == _channels(x) == _channels(y):
        return None
    found.kept[node] = None
    return [x, y]


# What becomes of it


def _widen(graph: ir.Graph, value: ir.Value, most: float) -> bool:
    """Give a tensor, and all that go with it, a multiple of 16 channels."""
    before = _channels(value) or 0
    more = -before % _BLOCK
    if not more or before + more > most * before:
        return False
    found = _joined(value)
    if found is None:
        return False
    for node in (*found.made, *found.kept):
        for place in range(1, len(node.inputs)):
            _replace(graph, node, place, 0, more)
    for node in found.read:
        _replace(graph, node, 1, 1, more)
    for node in found.kept:
        node.attributes["group"] = ir.AttrInt64("group", before + more)
    for each in found.values:
        if each.shape is not None:
            each.shape = ir.Shape([size if axis != 1 else before + more for axis, size in enumerate(each.shape)])
        each.name = f"{each.name}.wide"  # it is no longer the tensor that the model knows by that name
    return True


def _deepen(graph: ir.Graph, conv: ir.Node, deeper: dict[ir.Value, ir.Value]) -> bool:
    """Pad the integers that a convolution reads to a multiple of 4 channels, where they come from float. `deeper` has
    what was padded for another one."""
    back = conv.inputs[0].producer() if conv.inputs[0] is not None else None
    first = back.inputs[0] if back is not None and back.op_type == "DequantizeLinear" else None
    made = first.producer() if first is not None else None
    before = _channels(conv.inputs[0])
    if back is None or made is None or made.op_type != "QuantizeLinear" or before is None:
        return False
    more = -before % _DEPTH
    if not more or _is_quantized_operation(made.inputs[0]) or (_channels(conv.outputs[0]) or 0) < _BLOCK:
        return False
    integers = made.outputs[0]
    rank = len(integers.shape or ())
    pads = torch.zeros(2 * rank, dtype=torch.int64)
    pads[rank + 1] = more
    shape = ir.Shape([size if axis != 1 else before + more for axis, size in enumerate(integers.shape or ())])

    def in_place_of(like: ir.Value, node: ir.Node) -> ir.Value:
        made_here = node.outputs[0]
        made_here.name, made_here.type, made_here.shape = f"{like.name}.wide", like.type, shape
        node.metadata_props.update(made.metadata_props)
        graph.insert_before(conv, node)
        return made_here

    if integers not in deeper:
        amounts = add_constant(graph, f"{integers.name}.pads", pads)
        deeper[integers] = in_place_of(integers, ir.Node("", "Pad", [integers, amounts], name=f"{made.name}.wide"))
    values = back.outputs[0]
    if values not in deeper:
        inputs = [deeper[integers], *back.inputs[1:]]
        deeper[values] = in_place_of(values, ir.Node("", "DequantizeLinear", inputs, name=f"{back.name}.wide"))
    conv.replace_input_with(0, deeper[values])
    _replace(graph, conv, 1, 1, more)
    return True


def _is_quantized_operation(value: ir.Value | None) -> bool:
    """Whether a tensor is made from integers: then onnxruntime has it in a layout that a Pad would interrupt."""
    made = value.producer() if value is not None else None
    sources = [each.producer() for each in made.inputs if each is not None] if made is not None else []
    return any(each is not None and each.op_type == "DequantizeLinear" for each in sources)


def _replace(graph: ir.Graph, node: ir.Node, place: int, axis: int, more: int) -> None:
    """Let a convolution read a weight or a bias with so many more zeros along an axis."""
    old = _stored(node.inputs[place])
    if old is None:
        return
    inputs = []
    for number, value in enumerate(old.inputs):
        assert value is not None
        content = as_torch(value)
        is_content = number == 0
        if not is_content and (axis != 0 or content.dim() == 0):
            inputs.append(value)  # one scale for all, or one for every row where columns are added
            continue
        if content.is_floating_point():  # scales: onnxruntime wants those of a bias to be the products of the others
            wide = torch.cat([content, content[-1:].expand(more)])
        else:
            wide = torch.nn.functional.pad(content, [0, 0] * (content.dim() - 1 - axis) + [0, more])
        inputs.append(add_constant(graph, f"{value.name}.wide", wide))
    new = ir.Node("", "DequantizeLinear", inputs, old.attributes.values(), name=f"{old.name}.wide")
    new.metadata_props.update(old.metadata_props)
    result, before = new.outputs[0], old.outputs[0]
    result.name, result.type, result.shape = f"{before.name}.wide", before.type or inputs[1].type, inputs[0].shape
    graph.insert_before(node, new)
    node.replace_input_with(place, result)
