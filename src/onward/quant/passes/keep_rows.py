"""What is computed row by row between two linear layers stays in the form of rows.

    q = QuantizeLinear(Gemm(...))                          q = QuantizeLinear(Gemm(...))
    a = Reshape(q, [n, 20, 64])                            g = QuantizeLinear(Gelu(DequantizeLinear(q)))
    g = QuantizeLinear(Gelu(DequantizeLinear(a)))   ->     y = Gemm(DequantizeLinear(g), ...)
    y = Gemm(DequantizeLinear(Reshape(g, [-1, 64])), ...)

Integer products with a bias are Gemms of two axes, so that every linear layer has a Reshape before it and one behind
it: at a batch of one a tenth of the time of a small transformer. Norms over the last axis, functions of one number and
sums of tensors of one shape do not mind the form. They are taken together as far as they reach, and rewritten where
that needs fewer Reshapes than before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir
import torch

from ...passes.constant_tensors import add_constant, is_weight
from ...passes.node_replacement import ASKS
from .quantize_later import is_of_all

_ALONE = (
    *("Gelu", "Relu", "Clip", "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Elu", "Softplus", "Erf"),
    *("Neg", "Abs", "Sqrt", "Exp", "Identity", "Cast"),
)
_SEVERAL = ("Add", "Sum", "Sub", "Mul", "Div", "Pow")
_Use = Any  # a node and the place at which it reads


@dataclass
class _Region:
    """Tensors of one shape that nodes row by row make of one another.

    nodes  these
    begin  Reshapes that make one of them from rows: rows -> [..., size]
    end    Reshapes that make rows of one of them
    """

    values: dict[ir.Value, None] = field(default_factory=dict)
    nodes: dict[ir.Node, None] = field(default_factory=dict)
    begin: dict[ir.Node, None] = field(default_factory=dict)
    end: dict[ir.Node, None] = field(default_factory=dict)


def keep_rows(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    changed, seen = False, set[ir.Value]()
    for node in list(model.graph):
        if node.graph is None or not _makes_rows(node):
            continue
        start = node.inputs[0]
        if start is None or start in seen:
            continue
        region = _region(start)
        seen.update(region.values)
        changed |= _rewrite(model.graph, region)
    if changed:
        model.graph.sort()
    return changed


# What is there


def _region(start: ir.Value) -> _Region:
    found = _Region()
    left = [start]
    while left:
        value = left.pop()
        if value in found.values:
            continue
        found.values[value] = None
        made = value.producer()
        if made is not None and made not in found.nodes and _is_by_row(made):
            found.nodes[made] = None
            left += _whole(made)
        elif made is not None and _splits_rows(made):
            found.begin[made] = None
        for use in value.uses():
            if use.node in found.nodes:
                continue
            if _is_by_row(use.node) and value in _whole(use.node):
                found.nodes[use.node] = None
                left += [*_whole(use.node), use.node.outputs[0]]
            elif _makes_rows(use.node):
                found.end[use.node] = None
    return found


def _whole(node: ir.Node) -> list[ir.Value]:
    """The inputs that have the shape of the result; the others are a number, or one for each place in a row."""
    shape = node.outputs[0].shape
    return [each for each in node.inputs if each is not None and each.shape == shape and not is_weight(each)]


def _is_by_row(node: ir.Node) -> bool:
    shape = node.outputs[0].shape
    if node.domain != "" or shape is None or len(shape) < 3 or len(node.outputs) != 1 or not _whole(node):
        return False
    if any(not isinstance(each, int) and each.value is None for each in shape):  # sizes that cannot be compared
        return False
    if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        return is_of_all(node)
    if node.op_type == "LayerNormalization":
        axis = node.attributes["axis"].as_int() if "axis" in node.attributes else -1
        return axis in (-1, len(shape) - 1)
    if node.op_type in _ALONE:
        return True
    whole = _whole(node)
    return node.op_type in _SEVERAL and all(each in whole or _is_of_a_row(each) for each in node.inputs)


def _is_of_a_row(value: ir.Value | None) -> bool:
    return value is not None and value.shape is not None and len(value.shape) <= 1


def _makes_rows(node: ir.Node) -> bool:
    """Whether it is a Reshape of a tensor to two axes, of which the second is the tensor's last."""
    return _is_reshape(node) and _shares_last(node.inputs[0], node.outputs[0])


def _splits_rows(node: ir.Node) -> bool:
    """Whether it is a Reshape the other way."""
    return _is_reshape(node) and _shares_last(node.outputs[0], node.inputs[0])


def _is_reshape(node: ir.Node) -> bool:
    return node.op_type == "Reshape" and node.domain == "" and len(node.inputs) == 2


def _shares_last(long: ir.Value | None, rows: ir.Value | None) -> bool:
    if long is None or rows is None or long.shape is None or rows.shape is None:
        return False
    if len(long.shape) < 3 or len(rows.shape) != 2:
        return False
    return isinstance(long.shape[-1], int) and long.shape[-1] == rows.shape[-1]


# What becomes of it


def _rewrite(graph: ir.Graph, region: _Region) -> bool:
    made = {node.outputs[0] for node in region.nodes}
    before = {node.outputs[0]: node.inputs[0] for node in region.begin}
    given = [value for value in region.values if value not in made and value not in before]
    outside = {value: _readers(region, value) for value in region.values if value not in given}
    wanted = [value for value, uses in outside.items() if uses or value.is_graph_output()]
    gone = len(region.end) + sum(value not in wanted for value in before)
    new = [value for value in wanted if value not in before]
    if gone <= len(given) + len(new) or any(node.outputs[0].is_graph_output() for node in region.end):
        return False
    sizes = [use for value in (*made, *before) for use in value.uses() if use.node.op_type in ASKS]
    origin = next((value for value in given if not _comes_from(value, region)), None)
    form = _form(graph, region) if new else None
    if (new and form is None) or (sizes and origin is None):
        return False
    end = next(iter(region.end))
    rows = end.outputs[0].shape
    mapped = {value: each for value, each in before.items() if each is not None}
    for value in given:
        mapped[value] = _reshape(graph, value, end.inputs[1], rows, f"{value.name}.rows")
    for use in sizes:  # all have the same
        use.node.replace_input_with(use.idx, origin)
    for value in new:
        _give_back(graph, value, outside[value], form)
    for node in region.nodes:
        for place, each in enumerate(node.inputs):
            if each in mapped:
                node.replace_input_with(place, mapped[each])
        if node.op_type == "LayerNormalization":
            node.attributes["axis"] = ir.AttrInt64("axis", -1)
        node.outputs[0].shape = rows
    for node in region.end:
        last = node.inputs[0]
        assert last is not None
        ir.convenience.replace_all_uses_with(node.outputs[0], mapped.get(last, last))
        graph.remove(node, safe=True)
    return True


def _readers(region: _Region, value: ir.Value) -> list[_Use]:
    """The readers outside, but for those that ask for its size alone."""
    known = region.nodes, region.end
    return [use for use in value.uses() if not any(use.node in each for each in known) and use.node.op_type not in ASKS]


def _form(graph: ir.Graph, region: _Region) -> ir.Value | None:
    """The shape of the tensors, for a Reshape: that of a Reshape that is there, or a constant where one will do."""
    for node in region.begin:
        form = node.inputs[1]
        if form is not None and not _comes_from(form, region):
            return form
    value = next(iter(region.values))
    assert value.shape is not None
    if sum(not isinstance(each, int) for each in value.shape) > 1:
        return None
    sizes = [each if isinstance(each, int) else -1 for each in value.shape]
    return add_constant(graph, f"{value.name}.shape", torch.tensor(sizes))


def _comes_from(value: ir.Value, region: _Region) -> bool:
    """Whether a tensor is computed from one that the region makes."""
    left, seen = [value], set[ir.Node]()
    while left:
        made = left.pop().producer()
        if made is None or made in seen:
            continue
        if made in region.nodes:
            return True
        seen.add(made)
        left += [each for each in made.inputs if each is not None]
    return False


def _reshape(graph: ir.Graph, x: ir.Value, form: ir.Value | None, shape: ir.Shape | None, name: str) -> ir.Value:
    node = ir.Node("", "Reshape", [x, form])
    made = x.producer()
    node.name, node.outputs[0].name = f"{name}.Reshape", name
    node.outputs[0].type, node.outputs[0].shape = x.type, shape
    if made is None:
        graph.insert_before(graph[0], node)
    else:
        node.metadata_props.update(made.metadata_props)
        graph.insert_after(made, node)
    return node.outputs[0]


def _give_back(graph: ir.Graph, value: ir.Value, uses: list[_Use], form: ir.Value | None) -> None:
    """The tensor in its old form, under its old name, for those who want it so."""
    name = str(value.name)
    value.name = f"{name}.rows"
    copy = _reshape(graph, value, form, value.shape, name)
    for use in uses:
        use.node.replace_input_with(use.idx, copy)
    if value.is_graph_output():
        for place, each in enumerate(graph.outputs):
            if each is value:
                graph.outputs[place] = copy
