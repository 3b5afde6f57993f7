"""Remove nodes that only repeat an input.

    y = Identity(x); z = Relu(y)                           ->     z = Relu(x)
    y = Cast<to = float>(x) of a float; ...                       likewise
    y = Reshape(x, {0, 4}) of x [n, 4]; ...
    y = Add(x, 0); Mul(x, 1); Dropout(x); Slice(x, 0, end); Transpose<perm = [0, 1]>(x); Concat(x); Pad(x, {0, 0})
    y = Cast<to = T>(Cast<to = wider>(x)) of x of type T; Not(Not(x))

The records of the operators decide (`onnx_operators`), for the emitter as well as here. The result of a graph keeps its
name: its node goes only if what it repeats is a value of the same graph that is no result itself. Declines where shapes
that would have to be the same are not known to be. onnx_ir's IdentityEliminationPass knows only the first line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from ..onnx_operators.record import find
from .constant_tensors import as_torch, is_weight
from .for_onnxruntime.part_casts_from_layer_norm import is_cast_of_norm
from .for_onnxruntime.part_scales_of_matmul import is_scaled_twice
from .for_onnxruntime.part_transpose_from_matmul import moves_first_axis
from .for_onnxruntime.round_before_comparing import rounds_for_a_comparison

_MOST_NUMBERS = 64  # in a constant that a rule may want to read


def drop_no_ops(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    opset = model.graph.opset_imports.get("", 0)
    changed = False
    for graph in model.graphs():
        for node in list(graph):
            record = find(node.op_type) if node.domain == "" else None
            if record is None or not record.may_repeat or not node.inputs or node.inputs[0] is None:
                continue
            repeated = record.repeats(_GraphNode(node, opset))
            if repeated is not None and not _keeps_apart(node, opset):
                changed |= _drop(graph, node, repeated)
    return changed


def _drop(graph: ir.Graph, node: ir.Node, before: ir.Value) -> bool:
    after = node.outputs[0]
    if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
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


def _keeps_apart(node: ir.Node, opset: int) -> bool:
    """Whether a Reshape keeps a Transpose, a scale, a Cast or what is not rounded yet away from what follows."""
    if node.op_type != "Reshape":
        return False
    given = node.inputs[0].producer() if node.inputs[0] is not None else None
    if is_cast_of_norm(given, node.outputs[0]):
        return True
    if given is not None and given.op_type == "Cast" and given.inputs[0] is not None:
        given = given.inputs[0].producer()
    return moves_first_axis(given) or is_scaled_twice(given) or rounds_for_a_comparison(node, opset)


class _GraphNode:
    """A node of a graph, as the records look at it."""

    def __init__(self, node: ir.Node, opset: int) -> None:
        self._node, self.opset = node, opset

    @property
    def inputs(self) -> Sequence[ir.Value | None]:
        return self._node.inputs

    def attribute(self, name: str) -> Any:
        found = self._node.attributes.get(name)
        return found.value if found is not None and not found.is_ref() else None

    def numbers(self, value: ir.Value | None) -> list[Any] | None:
        if value is None or not is_weight(value) or value.const_value is None:
            return None
        kind = value.const_value.dtype
        if value.const_value.size > _MOST_NUMBERS:
            return None
        if not (kind.is_floating_point() or kind.is_integer() or kind == ir.DataType.BOOL):
            return None
        return [float(item) for item in as_torch(value).reshape(-1).tolist()]

    def element_type(self, value: ir.Value | None) -> int | None:
        return int(value.dtype) if value is not None and value.dtype is not None else None

    def dims(self, value: ir.Value | None) -> tuple[Any, ...] | None:
        """An axis without a name is like no other."""
        if value is None or value.shape is None:
            return None
        return tuple(size if isinstance(size, int) else size.value or object() for size in value.shape)

    def result_dims(self) -> tuple[Any, ...] | None:
        return self.dims(self._node.outputs[0])
