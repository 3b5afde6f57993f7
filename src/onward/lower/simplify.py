"""Nodes that need not exist: identities, and pairs that undo each other. Decided before a node is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch

from onward.lower import dims, dtypes
from onward.tables import registrar

if TYPE_CHECKING:
    from onward.lower.core import Core

Inputs = list[ir.Value | None]
Rule = Callable[["Core", Any, dict[str, Any]], ir.Value | None]
_RULES: dict[str, Rule] = {}
_FAR = 2**31 - 1  # "to the end", in a Slice


def simplify(g: Core, op: str, inputs: Inputs, attributes: dict[str, Any]) -> tuple[ir.Value] | None:
    """The value that the node would only repeat, or None."""
    rule = _RULES.get(op)
    found = rule(g, inputs, attributes) if rule is not None else None
    return None if found is None else (found,)


_rule = registrar(_RULES)


def _producer(value: ir.Value | None, op: str) -> ir.Node | None:
    node = value.producer() if value is not None else None
    return node if node is not None and node.op_type == op and node.domain == "" else None


@_rule("Identity")
def _identity(g: Core, inputs: Any, attributes: dict[str, Any]) -> ir.Value | None:
    return inputs[0]


@_rule("Concat", "Max", "Min", "Sum", "Mean")
def _of_one(g: Core, inputs: Any, attributes: dict[str, Any]) -> ir.Value | None:
    return inputs[0] if len(inputs) == 1 else None


@_rule("Not")
def _not(g: Core, inputs: Any, attributes: dict[str, Any]) -> ir.Value | None:
    inner = _producer(inputs[0], "Not")
    return inner.inputs[0] if inner else None


@_rule("Cast")
def _cast(g: Core, inputs: Any, attributes: dict[str, Any]) -> ir.Value | None:
    """Cast to the type it has; Cast to a type that holds every value and back."""
    x, target = inputs[0], dtypes.to_torch(attributes["to"])
    if g._session.dtypes.get(x) is target:
        return x
    inner = _producer(x, "Cast")
    origin = inner.inputs[0] if inner else None
    if origin is None or g._session.dtypes.get(origin) is not target:
        return None
    return origin if holds(g.dtype(x), target) else None


def holds(wide: torch.dtype, narrow: torch.dtype) -> bool:
    """Whether every value of the narrow type survives a trip through the wide one."""
    if narrow is torch.bool:
        return True
    if wide.is_floating_point and narrow.is_floating_point:
        w, n = torch.finfo(wide), torch.finfo(narrow)
        return w.eps <= n.eps and w.max >= n.max and w.tiny <= n.tiny
    if wide.is_floating_point:
        return torch.iinfo(narrow).bits < -torch.log2(torch.tensor(torch.finfo(wide).eps)).item()
    if narrow.is_floating_point or wide is torch.bool:
        return False
    w_int, n_int = torch.iinfo(wide), torch.iinfo(narrow)
    return w_int.min <= n_int.min and w_int.max >= n_int.max


@_rule("Transpose")
def _transpose(g: Core, inputs: Any, attributes: dict[str, Any]) -> ir.Value | None:
    """The identity permutation; two transposes in a row are one."""
    perm = attributes.get("perm")
    if perm is None:
        return None
    if list(perm) == list(range(len(perm))):
        return inputs[0]
    inner = _producer(inputs[0], "Transpose")
    if inner is None or "perm" not in inner.attributes:
        return None
    first = inner.attributes["perm"].as_ints()
    return g.op.Transpose(inner.inputs[0], perm=[first[axis] for axis in perm])


@_rule("Gather")
def _gather(g: Core, inputs: Any, attributes: dict[str, Any]) -> ir.Value | None:
    """One tensor out of those that were just stacked."""
    stacked, place = _producer(inputs[0], "Concat"), g.value_of(inputs[1])
    if stacked is None or place is None or place.dim():
        return None
    rank, axis = len(g.dims(inputs[0]) or ()), attributes.get("axis", 0)
    if not rank or stacked.attributes["axis"].as_int() % rank != axis % rank:
        return None
    count = len(stacked.inputs)
    part = stacked.inputs[int(place) % count] if -count <= int(place) < count else None
    sizes = [None if each is None else g.dims(each) for each in stacked.inputs]
    if any(size is None or size[axis % rank] != 1 for size in sizes):
        return None
    added = _producer(part, "Unsqueeze")
    before = g.dims(added.inputs[0]) if added is not None and added.inputs[0] is not None else None
    whole = g.dims(inputs[0]) or ()
    alone = (*whole[: axis % rank], *whole[axis % rank + 1 :])
    return added.inputs[0] if added is not None and before == alone and _axes_of(g, added) == [axis % rank] else None


def _axes_of(g: Core, node: ir.Node) -> list[int] | None:
    """The axes of an Unsqueeze, counted from the front of its result."""
    if "axes" in node.attributes:
        axes = list(node.attributes["axes"].as_ints())
    else:
        given = g.value_of(node.inputs[1]) if len(node.inputs) > 1 else None
        if given is None:
            return None
        axes = given.reshape(-1).tolist()
    rank = len(g.dims(node.inputs[0]) or ()) + len(axes) if node.inputs[0] is not None else 0
    return [axis % rank for axis in axes] if rank else None


def _keeps_dims(op: str) -> Rule:
    def rule(g: Core, inputs: Any, attributes: dict[str, Any]) -> ir.Value | None:
        shape = g.dims(inputs[0])
        if shape is None:
            return None
        shapes = [None if value is None else g.dims(value) for value in inputs]
        after = dims.propagate(op, shapes, [g.value_of(value) for value in inputs], attributes, 1)[0]
        return inputs[0] if after == shape else _undone(g, op, inputs[0], after)

    return rule


_KEEP_ORDER = ("Reshape", "Unsqueeze", "Squeeze")  # of the elements: what has the same dimensions again is the same


def _undone(g: Core, op: str, x: ir.Value, after: Any) -> ir.Value | None:
    """What x was before a step that this one takes back."""
    inner = next((node for each in _KEEP_ORDER if (node := _producer(x, each)) is not None), None)
    origin = inner.inputs[0] if inner is not None and op in _KEEP_ORDER else None
    return origin if origin is not None and after is not None and g.dims(origin) == after else None


for _op in ("Reshape", "Expand", "Unsqueeze", "Squeeze", "Tile"):
    _RULES[_op] = _keeps_dims(_op)


@_rule("Slice")
def _slice(g: Core, inputs: Any, attributes: dict[str, Any]) -> ir.Value | None:
    """A slice from the first to the last element of each axis."""
    if "starts" in attributes:
        starts, ends = attributes["starts"], attributes["ends"]
    else:
        tensors = [g.value_of(value) for value in inputs[1:]]
        if any(tensor is None for tensor in tensors):
            return None
        lists = [tensor.tolist() for tensor in tensors if tensor is not None]
        starts, ends = lists[0], lists[1]
        if len(lists) > 3 and any(step != 1 for step in lists[3]):
            return None
    return inputs[0] if not any(starts) and all(end >= _FAR for end in ends) else None


def _neutral(number: int, *, first: bool) -> Rule:
    """x op number, and number op x if `first`, where the result is x itself."""

    def rule(g: Core, inputs: Any, attributes: dict[str, Any]) -> ir.Value | None:
        x, y = inputs
        if _is_neutral(g, x, y, number):
            return x
        return y if first and _is_neutral(g, y, x, number) else None

    return rule


def _is_neutral(g: Core, x: ir.Value, scalar: ir.Value, number: int) -> bool:
    tensor = g.value_of(scalar)
    if tensor is None or tensor.numel() != 1 or tensor.device.type == "meta":
        return False
    if g._session.dtypes.get(x) is not tensor.dtype:
        return False
    shape = g.dims(x)
    wide_enough = tensor.dim() == 0 or (shape is not None and len(shape) >= tensor.dim())
    return wide_enough and tensor.item() == number


_RULES |= {
    "Add": _neutral(0, first=True),
    "Sub": _neutral(0, first=False),
    "Mul": _neutral(1, first=True),
    "Div": _neutral(1, first=False),
    "Pow": _neutral(1, first=False),
}
