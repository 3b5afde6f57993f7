"""Bytes: of a value, through a node, and of all activations that are alive at once."""

from __future__ import annotations

import math
from collections.abc import Iterable

import onnx_ir as ir

from .call_shapes import Sized, bodies

RENAMES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"})
"""Operators whose result is their first input in another shape: runtimes copy nothing."""

_READ_AS_MUCH_AS_THEY_GIVE = frozenset({"Gather", "GatherElements", "GatherND", "Slice", "Expand"})
_READ_NO_DATA = frozenset({"Shape", "Size", "ConstantOfShape", "Constant"})


def bytes_of(value: ir.Value, sized: Sized) -> int | None:
    """At the sizes of the example; None of a list, of text, and of what is not known."""
    sizes = sized.sizes.get(value)
    if sizes is None or value.dtype is None or not isinstance(value.type, ir.TensorType):
        return None
    if value.dtype in (ir.DataType.STRING, ir.DataType.UNDEFINED):
        return None
    return math.ceil(math.prod(sizes) * value.dtype.bitwidth / 8)


def traffic(node: ir.Node, sized: Sized) -> int | None:
    """What a node reads and writes; nodes that hold graphs have nodes for that."""
    if any(True for _ in bodies(node)):
        return None
    if node.domain == "" and node.op_type in RENAMES:
        return 0
    written = _sum(bytes_of(value, sized) for value in node.outputs if value.name or value.uses())
    read: dict[ir.Value, None] = {value: None for value in node.inputs if value is not None}
    if node.domain == "" and node.op_type in _READ_NO_DATA:
        read = {}
    moved: int | None = 0
    if node.domain == "" and node.op_type in _READ_AS_MUCH_AS_THEY_GIVE:
        read.pop(next(iter(read)), None)
        moved = written
    parts = [written, moved, _sum(bytes_of(value, sized) for value in read)]
    return _sum(parts)


def _sum(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def peak_memory(sized: Sized) -> int | None:
    """The most bytes of inputs and intermediate values that are alive at once, if nodes run in the order of the file
    and a value is let go after its last reader. Weights are not among them, nor what is computed of weights alone."""
    return _peak(sized.model.graph, sized)


def _peak(graph: ir.Graph, sized: Sized) -> int | None:
    nodes = list(graph)
    owner: dict[ir.Value, ir.Value] = {}  # what a renamed value is the memory of

    def root(value: ir.Value) -> ir.Value:
        return owner.get(value, value)

    last: dict[ir.Value, int] = {}
    fixed = of_weights_alone(graph)
    for place, node in enumerate(nodes):
        if node.domain == "" and node.op_type in RENAMES and node.inputs and node.inputs[0] is not None:
            owner[node.outputs[0]] = root(node.inputs[0])
        for value in reads(node):
            last[root(value)] = place
    for value in graph.outputs:
        last[root(value)] = len(nodes)
    alive: dict[ir.Value, int] = {}
    for value in graph.inputs:
        size = bytes_of(value, sized)
        if value.is_initializer():
            continue
        if size is None:
            return None
        alive[value] = size
    most = now = sum(alive.values())
    for place, node in enumerate(nodes):
        for value in node.outputs:
            if value in owner or value not in last or value in fixed:
                continue
            size = bytes_of(value, sized)
            if size is None:
                return None
            alive[value] = size
            now += size
        inner = [_peak(body, sized) for body in bodies(node)]
        if None in inner:
            return None
        most = max(most, now + max((each for each in inner if each is not None), default=0))
        for value in {root(value) for value in reads(node)}:
            if last.get(value) == place:
                now -= alive.pop(value, 0)
    return most


def of_weights_alone(graph: ir.Graph) -> set[ir.Value]:
    """What does not depend on any input: runtimes compute it once."""
    fixed: set[ir.Value] = set()
    for node in graph:
        if any(True for _ in bodies(node)) or (not node.inputs and node.op_type != "Constant"):
            continue
        if all(value is None or value in fixed or _is_weight(value) for value in node.inputs):
            fixed.update(node.outputs)
    return fixed


def _is_weight(value: ir.Value) -> bool:
    return value.is_initializer() and not value.is_graph_input()


def reads(node: ir.Node) -> set[ir.Value]:
    """What a node reads, in its bodies too."""
    found = {value for value in node.inputs if value is not None}
    for body in bodies(node):
        found.update(body.outputs)
        for inner in body:
            found |= reads(inner)
    return found
