"""Faults to plant in a file: each takes the protobuf and a random source, changes one node, and says which."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import numpy_helper

Fault = Callable[[onnx.GraphProto, random.Random], str | None]

_NOT_COMMUTATIVE = ("Sub", "Div", "MatMul", "Concat", "Pow", "Gather")
_SAME_SHAPE = (
    "Relu", "Tanh", "Sigmoid", "Gelu", "Softmax", "LogSoftmax", "LayerNormalization", "Mul", "Add", "Clip", "Sqrt",
    "Erf", "InstanceNormalization", "Neg", "RMSNormalization", "Div", "Sub", "Where", "Cast",
)  # fmt: skip
_AXES = ("axis", "axes", "perm")


def wrong_attribute(graph: onnx.GraphProto, rng: random.Random) -> str | None:
    """A number among the attributes that are no axes."""
    places = [
        (node, attribute)
        for node in graph.node
        for attribute in node.attribute
        if attribute.name not in _AXES and attribute.type in (onnx.AttributeProto.FLOAT, onnx.AttributeProto.INTS)
    ]
    if not places:
        return None
    node, attribute = rng.choice(places)
    if attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = attribute.f * 1.5 + 0.1
    else:
        place = rng.randrange(len(attribute.ints))
        attribute.ints[place] = attribute.ints[place] + 1
    return node.name


def wrong_axis(graph: onnx.GraphProto, rng: random.Random) -> str | None:
    places = [(node, each) for node in graph.node for each in node.attribute if each.name in ("axis", "perm")]
    if not places:
        return None
    node, attribute = rng.choice(places)
    if attribute.name == "axis":
        attribute.i = {-1: -2, 0: 1}.get(attribute.i, attribute.i - 1)
    else:
        first, second = rng.sample(range(len(attribute.ints)), 2)
        ints = list(attribute.ints)
        ints[first], ints[second] = ints[second], ints[first]
        attribute.ints[:] = ints
    return node.name


def swapped_inputs(graph: onnx.GraphProto, rng: random.Random) -> str | None:
    places = [node for node in graph.node if node.op_type in _NOT_COMMUTATIVE and len(set(node.input[:2])) == 2]
    if not places:
        return None
    node = rng.choice(places)
    node.input[0], node.input[1] = node.input[1], node.input[0]
    return node.name


def _weights(graph: onnx.GraphProto, *, small: bool) -> Iterator[tuple[onnx.NodeProto, int, onnx.TensorProto]]:
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name in found and (int(np.prod(found[name].dims)) <= 8) is small:
                yield node, place, found[name]


def perturbed_weight(graph: onnx.GraphProto, rng: random.Random) -> str | None:
    """A part of a weight of one node is off by its own size; other readers keep what they had."""
    places = [each for each in _weights(graph, small=False) if each[2].data_type == onnx.TensorProto.FLOAT]
    return _replace(graph, rng, *rng.choice(places)) if places else None


def wrong_constant(graph: onnx.GraphProto, rng: random.Random) -> str | None:
    places = list(_weights(graph, small=True))
    return _replace(graph, rng, *rng.choice(places)) if places else None


def _replace(
    graph: onnx.GraphProto, rng: random.Random, node: onnx.NodeProto, place: int, tensor: onnx.TensorProto
) -> str:
    content = numpy_helper.to_array(tensor).copy()
    flat = content.reshape(-1)
    count = max(1, flat.size // 50)
    for at in rng.sample(range(flat.size), count):
        flat[at] = flat[at] * 2 + 1 if content.dtype != np.bool_ else not flat[at]
    name = f"{tensor.name}.planted"
    graph.initializer.append(numpy_helper.from_array(content, name))
    node.input[place] = name
    return node.name


def dropped_node(graph: onnx.GraphProto, rng: random.Random) -> str | None:
    """What reads it reads its first input instead."""
    outputs = {value.name for value in graph.output}
    weights = {tensor.name for tensor in graph.initializer}
    places = [
        node
        for node in graph.node
        if node.op_type in _SAME_SHAPE and node.output[0] not in outputs and node.input[0] not in weights
    ]
    if not places:
        return None
    node = rng.choice(places)
    for other in graph.node:
        for place, name in enumerate(other.input):
            if name == node.output[0]:
                other.input[place] = node.input[0]
    name = node.name
    graph.node.remove(node)
    return name


FAULTS: tuple[Fault, ...] = (
    wrong_attribute,
    wrong_axis,
    swapped_inputs,
    perturbed_weight,
    wrong_constant,
    dropped_node,
)
