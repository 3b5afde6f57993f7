"""Merge two steps that amount to one.

    Transpose<p>(Transpose<q>(x))                          ->     Transpose<q then p>(x)
    Reshape(Reshape(x, s), {-1, 8})                        ->     Reshape(x, {-1, 8})

Squeeze, Unsqueeze and Flatten before a Reshape go as well. The inner step stays where others read it. Declines where
the outer Reshape copies axes of its input (0). Steps that take each other back are for drop_no_ops.
"""

from __future__ import annotations

import onnx_ir as ir

from .constant_tensors import as_torch, is_weight

_RESHAPING = ("Reshape", "Squeeze", "Unsqueeze", "Flatten")


def merge_steps(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    changed = False
    for graph in model.graphs():
        for node in list(graph):
            inner = _inner(node)
            if inner is not None and node.op_type == "Transpose":
                changed |= _transposes(node, inner)
            elif inner is not None and node.op_type == "Reshape":
                changed |= _reshapes(node, inner)
    return changed


def _inner(node: ir.Node) -> ir.Node | None:
    """The node before, if both are of ONNX's own domain. Bodies may read from outside, which changes nothing."""
    first = node.inputs[0] if node.inputs and node.domain == "" else None
    inner = first.producer() if first is not None else None
    return inner if inner is not None and inner.domain == "" and inner.inputs and inner.inputs[0] is not None else None


def _transposes(outer: ir.Node, inner: ir.Node) -> bool:
    if inner.op_type != "Transpose" or "perm" not in outer.attributes or "perm" not in inner.attributes:
        return False
    first, second = inner.attributes["perm"].as_ints(), outer.attributes["perm"].as_ints()
    outer.attributes["perm"] = ir.AttrInt64s("perm", [first[axis] for axis in second])
    outer.replace_input_with(0, inner.inputs[0])
    return True


def _reshapes(outer: ir.Node, inner: ir.Node) -> bool:
    if inner.op_type not in _RESHAPING or len(outer.inputs) < 2 or not is_weight(outer.inputs[1]):
        return False
    if 0 in as_torch(outer.inputs[1]).tolist():  # type: ignore[arg-type]
        return False
    outer.replace_input_with(0, inner.inputs[0])
    return True
