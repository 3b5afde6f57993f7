"""Nodes that only repeat their input go.

    y = Identity(x); z = Relu(y)                           ->     z = Relu(x)
    y = Cast<to = float>(x) of a float; ...                       likewise
    y = Reshape(x, {0, 4}) of x [n, 4]; ...
    y = Add(x, 0); Mul(x, 1); Dropout(x); Slice(x, 0, end); Transpose<perm = [0, 1]>(x); Concat(x); Pad(x, {0, 0})

The result of a graph keeps its name: its node goes only if what it repeats is a value of the same graph that is no
result itself. Declines where shapes that would have to be the same are not known to be.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from ..tables import registrar
from .part_casts_from_layer_norm import is_cast_of_norm
from .part_scales_of_matmul import is_scaled_twice
from .part_transpose_from_matmul import moves_first_axis
from .round_before_comparing import rounds_for_a_comparison
from .weights import as_torch, is_weight

_FAR = 2**31 - 1  # "to the end", in a Slice
Rule = Callable[[ir.Node, int], "ir.Value | bool | None"]  # the value that is repeated; True for the first input
_RULES: dict[str, Rule] = {}


def drop_no_ops(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    opset = model.graph.opset_imports.get("", 0)
    changed = False
    for graph in model.graphs():
        for node in list(graph):
            rule = _RULES.get(node.op_type) if node.domain == "" else None
            repeated = rule(node, opset) if rule is not None and node.inputs and node.inputs[0] is not None else None
            if repeated:
                changed |= _drop(graph, node, node.inputs[0] if repeated is True else repeated)
    return changed


def _drop(graph: ir.Graph, node: ir.Node, before: ir.Value | None) -> bool:
    after = node.outputs[0]
    if before is None or any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        return False
    if after.is_graph_output():
        producer = before.producer()
        if producer is None or producer.graph is not graph or before.is_graph_output():
            return False
        name = after.name
        ir.convenience.replace_all_uses_with(after, before, replace_graph_outputs=True)
        graph.remove(node, safe=True)
        before.name, before.type = name, before.type or after.type
        before.shape = after.shape or before.shape
        return True
    after.replace_all_uses_with(before)
    graph.remove(node, safe=True)
    return True


_rule = registrar(_RULES)


@_rule("Identity")
def _identity(node: ir.Node, opset: int) -> bool:
    return True


@_rule("Concat", "Max", "Min", "Sum", "Mean")
def _of_one(node: ir.Node, opset: int) -> bool:
    return len(node.inputs) == 1


@_rule("Dropout")
def _dropout(node: ir.Node, opset: int) -> bool:
    """Without training there is nothing to drop; up to opset 11 a file cannot ask for training at all."""
    if opset < 7:
        return False
    return opset < 12 or len(node.inputs) < 3 or node.inputs[2] is None or _numbers(node.inputs[2]) == [0]


@_rule("Cast")
def _cast(node: ir.Node, opset: int) -> bool:
    dtype = node.inputs[0].dtype if node.inputs[0] is not None else None
    return dtype is not None and "to" in node.attributes and node.attributes["to"].as_int() == int(dtype)


@_rule("CastLike")
def _cast_like(node: ir.Node, opset: int) -> bool:
    first, second = (value.dtype if value is not None else None for value in node.inputs)
    return first is not None and first == second


@_rule("Transpose")
def _transpose(node: ir.Node, opset: int) -> bool:
    perm = node.attributes.get("perm")
    return perm is not None and list(perm.as_ints()) == list(range(len(perm.as_ints())))


@_rule("Reshape", "Flatten", "Expand", "Squeeze", "Unsqueeze", "Tile")
def _same_shape(node: ir.Node, opset: int) -> bool:
    """Both shapes are known, and every axis is the same number or has the same name."""
    before, after = (value.shape if value is not None else None for value in (node.inputs[0], node.outputs[0]))
    if before is None or after is None or len(before) != len(after) or _parts(node, opset):
        return False
    if node.op_type == "Tile":
        return len(node.inputs) > 1 and set(_numbers(node.inputs[1]) or [0]) == {1}
    return all(_same_size(first, second) for first, second in zip(before, after, strict=True))


def _parts(node: ir.Node, opset: int) -> bool:
    """Whether it keeps a Transpose, a scale, a Cast or what is not rounded yet away from what follows."""
    if node.op_type != "Reshape":
        return False
    given = node.inputs[0].producer() if node.inputs[0] is not None else None
    if is_cast_of_norm(given, node.outputs[0]):
        return True
    if given is not None and given.op_type == "Cast" and given.inputs[0] is not None:
        given = given.inputs[0].producer()
    return moves_first_axis(given) or is_scaled_twice(given) or rounds_for_a_comparison(node, opset)


def _same_size(first: object, second: object) -> bool:
    if isinstance(first, int) or isinstance(second, int):
        return first == second
    return getattr(first, "value", None) is not None and first == second


@_rule("Slice")
def _slice(node: ir.Node, opset: int) -> bool:
    """From the first to the last element of each axis."""
    starts, ends = (
        _attribute(node, name) if opset < 10 else _numbers(node.inputs[place])
        for place, name in ((1, "starts"), (2, "ends"))
    )
    steps = _numbers(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else [1]
    if starts is None or ends is None or steps is None:
        return False
    return not any(starts) and all(end >= _FAR for end in ends) and set(steps) == {1}


@_rule("Pad")
def _pad(node: ir.Node, opset: int) -> bool:
    pads = _attribute(node, "pads") if opset < 11 else _numbers(node.inputs[1])
    return pads is not None and not any(pads)


def _neutral(number: float, *, either: bool) -> Rule:
    """x op number, and number op x if `either`, where the result is x itself."""

    def rule(node: ir.Node, opset: int) -> ir.Value | None:
        if opset < 7:  # another kind of broadcasting
            return None
        x, y = node.inputs
        if _is_number(y, number, x):
            return x
        return y if either and _is_number(x, number, y) else None

    return rule


def _is_number(scalar: ir.Value | None, number: float, x: ir.Value | None) -> bool:
    if scalar is None or x is None or is_weight(x) or scalar.dtype != x.dtype or _numbers(scalar) != [number]:
        return False
    rank = len(scalar.shape) if scalar.shape is not None else 0
    return rank == 0 or (x.shape is not None and len(x.shape) >= rank)


_RULES |= {
    "Add": _neutral(0, either=True),
    "Sub": _neutral(0, either=False),
    "Mul": _neutral(1, either=True),
    "Div": _neutral(1, either=False),
    "Pow": _neutral(1, either=False),
}


def _numbers(value: ir.Value | None) -> list[float] | None:
    """The elements of a short constant of numbers."""
    if value is None or not is_weight(value) or value.const_value is None or value.const_value.size > 64:
        return None
    if not (value.const_value.dtype.is_floating_point() or value.const_value.dtype.is_integer() or _is_bool(value)):
        return None
    return [float(item) for item in as_torch(value).reshape(-1).tolist()]


def _is_bool(value: ir.Value) -> bool:
    return value.dtype == ir.DataType.BOOL


def _attribute(node: ir.Node, name: str) -> list[float] | None:
    return list(node.attributes[name].as_ints()) if name in node.attributes else None
