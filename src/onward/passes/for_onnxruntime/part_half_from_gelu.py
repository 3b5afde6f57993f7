"""A GELU by tanh gets a half of its own where others read the half as well, which onnxruntime cannot load otherwise.

    h = Mul(x, 0.5)                                 h = Mul(x, 0.5)
    y = Mul(h, Add(Tanh(...), 1))           ->      k = Mul(0.5, x)
    z = Neg(h)                                      y = Mul(k, Add(Tanh(...), 1))
                                                    z = Neg(h)

onnxruntime 1.31 makes one FastGelu of such a GELU and takes the half away, even if others read it. It shares equal
nodes before that, so a second Mul has to be another one: its inputs change places. If the model has that one as well,
the half becomes Div(x, 2), which is the same number and is not fused. Declines where nothing else reads the half.
"""

from __future__ import annotations

import onnx_ir as ir
import torch

from ..constant_tensors import add_constant, as_torch, is_weight


def part_half_from_gelu(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    changed = False
    for graph in model.graphs():
        for node in list(graph):
            if node.op_type == "Mul" and node.domain == "":
                changed |= _part(graph, node)
    return changed


def _part(graph: ir.Graph, gelu: ir.Node) -> bool:
    """Give a product a half of its own, if it is the end of a GELU, and others read the half."""
    for place in (0, 1):
        half, gate = gelu.inputs[place], gelu.inputs[1 - place]
        if half is None or not _is_gate(gate) or not _is_half(half.producer()) or not _is_read_by_others(half, gelu):
            continue
        made = _another(graph, half)
        graph.insert_before(gelu, made)
        gelu.replace_input_with(place, made.outputs[0])
        return True
    return False


def _is_gate(value: ir.Value | None) -> bool:
    """`tanh(...) + 1`"""
    node = value.producer() if value is not None else None
    if node is None or node.op_type != "Add" or node.domain != "":
        return False
    makers = [each.producer() for each in node.inputs if each is not None]
    return any(each is not None and each.op_type == "Tanh" and each.domain == "" for each in makers)


def _is_half(node: ir.Node | None) -> bool:
    """Whether a node is a product with 0.5."""
    if node is None or node.op_type != "Mul" or node.domain != "":
        return False
    return any(_is_number(value, 0.5) for value in node.inputs)


def _is_number(value: ir.Value | None, number: float) -> bool:
    if value is None or not is_weight(value):
        return False
    content = as_torch(value)
    return content.numel() == 1 and content.is_floating_point() and content.item() == number


def _is_read_by_others(half: ir.Value, gelu: ir.Node) -> bool:
    return any(use.node is not gelu for use in half.uses())


def _another(graph: ir.Graph, half: ir.Value) -> ir.Node:
    """The half once more, by a node that is not equal to any that there is."""
    old = half.producer()
    assert old is not None, "checked by _is_half"
    first, second = old.inputs
    assert first is not None and second is not None
    if any(use.node.op_type == "Mul" and tuple(use.node.inputs) == (second, first) for use in first.uses()):
        x, constant = (second, first) if _is_number(first, 0.5) else (first, second)
        two = add_constant(graph, "two", torch.full_like(as_torch(constant), 2))
        made = ir.node("Div", [x, two], name=f"{half.name}.Div")
    else:
        made = ir.node("Mul", [second, first], name=f"{half.name}.Mul")
    made.metadata_props.update(old.metadata_props)
    result = made.outputs[0]
    result.name, result.type, result.shape = made.name, half.type, half.shape
    return made
