"""Changes that know what a model is: other numbers, names, types and wires, in a file that still can be read."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import onnx
import torch
from onnx import numpy_helper

from onward.backend.registry import implemented
from tests.opsets import NEWEST

INTS = (0, 1, -1, 2, 3, 7, 16, 255, 1000, 2**15, 2**20, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), -2, -100)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, 3e38, float("inf"), float("-inf"), float("nan"), 1e6, -3.7)
TEXTS = (
    "",
    "x",
    "NOTSET",
    "SAME_UPPER",
    "linear",
    "cubic",
    "reflect",
    "wrap",
    "\N{SNOWMAN}",
    "ij,jk->ik",
    "aten::view",
    "a" * 300,
)


def changed(content: bytes, chance: random.Random) -> bytes:
    """One to three changes."""
    model = onnx.ModelProto.FromString(content)
    for _ in range(chance.choice((1, 1, 2, 3))):
        change = chance.choice(CHANGES)
        change(model, chance)
    return model.SerializeToString()


def graphs(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    found = [model.graph]
    for graph in found:
        for node in graph.node:
            found.extend(attribute.g for attribute in node.attribute if attribute.HasField("g"))
    return found


def nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    inside = [node for graph in graphs(model) for node in graph.node]
    return inside + [node for function in model.functions for node in function.node]


def names(model: onnx.ModelProto) -> list[str]:
    found = [name for node in nodes(model) for name in (*node.input, *node.output)]
    return [*found, *(value.name for value in model.graph.input), "", "nobody"]


def tensors(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    found = [tensor for graph in graphs(model) for tensor in graph.initializer]
    return found + [each.t for node in nodes(model) for each in node.attribute if each.HasField("t")]


def attribute(model: onnx.ModelProto, chance: random.Random) -> None:
    every = [each for node in nodes(model) for each in node.attribute]
    if not every:
        return
    one = chance.choice(every)
    kind = chance.randrange(8)
    if kind == 0:
        one.type = chance.randrange(15)
    elif kind == 1:
        one.name = chance.choice([each.name for each in every] + list(TEXTS))
    elif one.ints:
        if chance.random() < 0.3:
            one.ints.append(chance.choice(INTS))
        elif chance.random() < 0.2:
            del one.ints[-1]
        else:
            one.ints[chance.randrange(len(one.ints))] = chance.choice(INTS)
    elif one.floats:
        one.floats[chance.randrange(len(one.floats))] = chance.choice(FLOATS)
    elif one.strings:
        one.strings[chance.randrange(len(one.strings))] = _text(model, chance).encode()
    elif one.type == onnx.AttributeProto.INT:
        one.i = chance.choice(INTS)
    elif one.type == onnx.AttributeProto.FLOAT:
        one.f = chance.choice(FLOATS)
    elif one.type == onnx.AttributeProto.STRING:
        one.s = _text(model, chance).encode()


def _text(model: onnx.ModelProto, chance: random.Random) -> str:
    own = [
        text.decode(errors="replace")
        for node in nodes(model)
        for each in node.attribute
        for text in (each.s, *each.strings)
    ]
    kinds = (
        "self=tensor",
        "size=ints",
        "self=none",
        "dim=int",
        "self=[tensor, tensor]",
        "x=[[1, 2], size]",
        "other=size",
    )
    return chance.choice([*TEXTS, *own, *kinds, chance.choice(operators())])


def drop_attribute(model: onnx.ModelProto, chance: random.Random) -> None:
    node = chance.choice(nodes(model) or [onnx.NodeProto()])
    if node.attribute:
        del node.attribute[chance.randrange(len(node.attribute))]


def tensor(model: onnx.ModelProto, chance: random.Random) -> None:
    every = tensors(model)
    if not every:
        return
    one = chance.choice(every)
    kind = chance.randrange(5)
    if kind == 0 and one.dims:
        one.dims[chance.randrange(len(one.dims))] = chance.choice(INTS)
    elif kind == 1:
        one.dims.append(chance.choice(INTS))
    elif kind == 2:
        one.data_type = chance.randrange(28)
    elif kind == 3 and one.raw_data:
        one.raw_data = one.raw_data[: chance.randrange(len(one.raw_data))]
    elif kind == 3 and one.external_data:
        chance.choice(one.external_data).value = chance.choice(
            ("-1", "0", "8", "x", "../m.onnx", "m.onnx", "/dev/zero", str(2**70))
        )
    else:
        _other_numbers(one, chance)


def _other_numbers(one: onnx.TensorProto, chance: random.Random) -> None:
    """Values: those of shapes, axes, pads and counts say how much is to be done."""
    if (
        one.data_type not in (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.FLOAT)
        or one.external_data
    ):
        return
    try:
        array = numpy_helper.to_array(one).copy()
    except ValueError:  # an earlier change was to its shape
        return
    if not array.size:
        return
    options: Any = FLOATS if one.data_type == onnx.TensorProto.FLOAT else INTS
    value = chance.choice(options)
    if one.data_type == onnx.TensorProto.INT32:
        value %= 2**31
    array.reshape(-1)[chance.randrange(array.size)] = value
    one.CopyFrom(numpy_helper.from_array(array, one.name))


def declared(model: onnx.ModelProto, chance: random.Random) -> None:
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    if not values:
        return
    type_ = chance.choice(values).type
    if chance.random() < 0.5:
        type_.tensor_type.elem_type = chance.randrange(28)
    elif type_.tensor_type.shape.dim:
        chance.choice(type_.tensor_type.shape.dim).dim_value = chance.choice(INTS)
    else:
        type_.tensor_type.shape.dim.add(dim_value=chance.choice(INTS))


def wires(model: onnx.ModelProto, chance: random.Random) -> None:
    node = chance.choice(nodes(model) or [onnx.NodeProto()])
    kind = chance.randrange(6)
    if kind == 0 and len(node.input) > 1:
        first, second = chance.sample(range(len(node.input)), 2)
        node.input[first], node.input[second] = node.input[second], node.input[first]
    elif kind == 1 and node.input:
        node.input[chance.randrange(len(node.input))] = chance.choice(names(model))
    elif kind == 2 and node.input:
        del node.input[chance.randrange(len(node.input))]
    elif kind == 3:
        node.input.append(chance.choice(names(model)))
    elif kind == 4 and node.output:
        node.output[chance.randrange(len(node.output))] = chance.choice(names(model))
    elif kind == 5:
        node.output.append("more")


def rename(model: onnx.ModelProto, chance: random.Random) -> None:
    node = chance.choice(nodes(model) or [onnx.NodeProto()])
    if chance.random() < 0.15:
        node.domain = chance.choice(
            ("", "my", "ai.onnx", "ai.onnx.ml", "com.microsoft", "org.pytorch.aten", "aten", "operator")
        )
        return
    node.domain, node.op_type = chance.choice(implemented())
    known = {each.domain for each in model.opset_import}
    if node.domain not in known:
        model.opset_import.add(domain=node.domain, version=1)


def call(model: onnx.ModelProto, chance: random.Random) -> None:
    """Another operator of PyTorch, with the arguments of the one that was there."""
    calls = [node for node in nodes(model) if any(each.name == "arguments" for each in node.attribute)]
    if not calls:
        return rename(model, chance)
    node = chance.choice(calls)
    namespace, _, name = chance.choice(operators()).partition("::")
    name, _, overload = name.partition(".")
    values = {"operator": f"{namespace}::{name}", "overload_name": overload}
    for each in node.attribute:
        if each.name in values:
            each.s = values[each.name].encode()
    if node.domain not in ("org.pytorch.aten", "operator"):
        node.domain, node.op_type = namespace, name


@functools.cache
def operators() -> tuple[str, ...]:
    return tuple(
        sorted(name for name in torch._C._dispatch_get_all_op_names() if name.startswith(("aten::", "prims::")))
    )


def rearrange(model: onnx.ModelProto, chance: random.Random) -> None:
    graph = chance.choice(graphs(model))
    if not graph.node:
        return
    kind = chance.randrange(4)
    place = chance.randrange(len(graph.node))
    if kind == 0:
        del graph.node[place]
    elif kind == 1:
        copy = onnx.NodeProto()
        copy.CopyFrom(graph.node[place])
        graph.node.append(copy)
    elif kind == 2:
        order = list(graph.node)
        chance.shuffle(order)
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in order]
        del graph.node[:]
        graph.node.extend(copies)
    else:
        del graph.output[chance.randrange(len(graph.output) + 1) :]


def opset(model: onnx.ModelProto, chance: random.Random) -> None:
    if model.opset_import:
        chance.choice(model.opset_import).version = chance.choice((*range(1, NEWEST + 1), 0, -1, 10**6, 2**62))


CHANGES: tuple[Callable[[onnx.ModelProto, random.Random], None], ...] = (
    attribute, attribute, attribute, drop_attribute, tensor, tensor, declared, wires, wires, rename, call, rearrange,
    opset,
)  # fmt: skip
