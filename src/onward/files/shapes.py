"""Types and shapes of every value in a file, as far as they can be known without running it.

onnx's own inference comes first and last. In between, one walk over the graph with the tables of lowering
(`lower/dims.py`) sees what onnx does not: a name is given three large numbers as its sizes, so that `[n, 6]` reshaped
to `[-1, 3]` has an axis of twice those, and reshaped to `[-1, 2, 3]` it has `n` again.

Nothing is claimed that could be wrong at some size: two names that meet in a broadcast, or a slice of a named axis,
give an axis without a name, since either may be 1 or short of the slice when the model runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import onnx
import onnx_ir as ir
import torch

from ..capture.program.facts import Dim, SymDim
from ..lower import dims as tables
from ..parameters import OLDEST_OPSET
from ..passes.weights import as_torch
from ..write.skeleton import initializers, make_skeleton
from ..write.tensors import pieces
from .inference import infer_by_onnx

_READ_BYTES = 4096  # what a shape or a list of axes may take; anything larger is a weight, and stays where it is
_WRONG_IN_ONNX = ("STFT",)  # onnx 1.23 counts both sides of a one-sided spectrum
_EXACT = frozenset({
    "Transpose", "Unsqueeze", "Squeeze", "Reshape", "Concat", "Gemm", "Gather", "GatherElements", "Flatten", "Split",
    "Tile", "Shape", "Size", "TopK", "ConstantOfShape", "ArgMax", "ArgMin", "ReduceSum", "ReduceMean", "ReduceMax",
    "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
})  # fmt: skip


Told = dict[ir.Value, ir.Shape | None]


def infer(model: ir.Model) -> None:
    """Write what can be known onto the values of a model, in place. Names that the file gives to axes stay."""
    told = forget_shapes(model)
    infer_from_inputs(model)
    for value, shape in told.items():
        value.shape = _merged(shape, value.shape)


def forget_shapes(model: ir.Model) -> Told:
    """Take the shapes off everything that ONNX's own operators compute; returns what was there.

    Files declare sizes of outputs that only the example had, runtimes forgive it, and whoever believes it is wrong at
    any other size. What follows from the inputs will be found again.
    """
    told: Told = {}
    for graph in model.graphs():
        for node in graph:
            for value in node.outputs if node.domain == "" else ():
                if isinstance(value.type, ir.TensorType):
                    told[value], value.shape = value.shape, None
    return told


def infer_from_inputs(model: ir.Model) -> None:
    """Add what follows from the shapes that are there."""
    _infer_by_onnx(model)
    # Before opset 9 some operators broadcast, or count their axes, in ways that the tables do not know.
    if model.graph.opset_imports.get("", 0) >= OLDEST_OPSET and _Walk(model).run():
        _infer_by_onnx(model)


# onnx's inference


def _infer_by_onnx(model: ir.Model) -> None:
    """On the model without its weights: they may be larger than a protobuf message, and say nothing about shapes."""
    named = set(_names(model))
    suspects = [node for node in model.graph if node.op_type in _WRONG_IN_ONNX and node.domain == ""]
    if suspects:
        _take_over(model.graph, infer_by_onnx(_without_weights(model)), None)
    proto = _without_weights(model)
    for node in proto.graph.node if suspects else ():
        if node.op_type in _WRONG_IN_ONNX and node.domain == "":
            node.op_type = "Unknown"
    _take_over(model.graph, infer_by_onnx(proto), named)


def _without_weights(model: ir.Model) -> onnx.ModelProto:
    skeleton = make_skeleton(model, merge_ties=False)
    for initializer in initializers(skeleton.proto):
        tensor = skeleton.redeem(initializer)
        if tensor is not None and tensor.nbytes <= _READ_BYTES and _is_at_hand(tensor):
            initializer.raw_data = b"".join(bytes(piece) for piece in pieces(tensor))
    return skeleton.proto


def _is_at_hand(tensor: ir.TensorProtocol) -> bool:
    return not isinstance(tensor, ir.ExternalTensor) or bool(tensor.base_dir)


def _names(model: ir.Model) -> Iterator[str]:
    """The names of axes that the file has. onnx's inference makes up others, which nobody could ask for."""
    for graph in model.graphs():
        for value in (*graph.inputs, *graph.outputs, *(value for node in graph for value in node.outputs)):
            for size in value.shape or ():
                if not isinstance(size, int) and size.value:
                    yield size.value


def _take_over(graph: ir.Graph, proto: onnx.GraphProto, named: set[str] | None) -> None:
    """Types and, if the names of axes are given, shapes."""
    known = {info.name: info for info in (*proto.value_info, *proto.output)}
    for node, node_proto in zip(graph, proto.node, strict=True):
        for value in node.outputs:
            info = known.get(value.name or "")
            if info is not None:
                _describe(value, info, named)
        attributes = {attribute.name: attribute for attribute in node_proto.attribute}
        for name, attribute in node.attributes.items():
            if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
                _take_over(attribute.as_graph(), attributes[name].g, named)


def _describe(value: ir.Value, info: onnx.ValueInfoProto, named: set[str] | None) -> None:
    described = ir.serde.deserialize_value_info_proto(info, None)
    if value.type is None:
        value.type = described.type
    if described.shape is not None and named is not None:
        sizes = [size if isinstance(size, int) or size.value in named else None for size in described.shape]
        _refine(value, sizes)


def _refine(value: ir.Value, sizes: Sequence[int | ir.SymbolicDim | str | None]) -> bool:
    """Fill in what is not known yet. A number says more than a name; a name of the file stays."""
    if value.shape is None:
        value.shape = ir.Shape(sizes)
        return True
    if len(value.shape) != len(sizes):
        return False
    old = list(value.shape)
    new = [_finer(first, second) for first, second in zip(old, sizes, strict=True)]
    if new == old:
        return False
    value.shape = ir.Shape(new)
    return True


def _merged(told: ir.Shape | None, found: ir.Shape | None) -> ir.Shape | None:
    """What the file said, corrected by what was found: a size that is an input's axis is no number."""
    if told is None or found is None or len(told) != len(found):
        return told if found is None else found
    return ir.Shape([_truer(first, second) for first, second in zip(told, found, strict=True)])


def _truer(told: Any, found: Any) -> Any:
    if isinstance(found, int) or not found.value:
        return found if isinstance(found, int) else told
    return found if isinstance(told, int) or not told.value else told


def _finer(old: Any, new: Any) -> Any:
    if isinstance(old, int) or new is None:
        return old
    return new if isinstance(new, int) or not old.value else old


# Our own


class _Walk:
    """One pass over the main graph, in order, with sizes as fingerprints."""

    def __init__(self, model: ir.Model) -> None:
        self.model, self.changed = model, False
        self.fingerprints: dict[str, SymDim] = {}
        self.names: dict[SymDim, str] = {}
        self.shapes: dict[ir.Value, tuple[Dim, ...] | None] = {}
        self.sizes = torch.Generator().manual_seed(0)

    def run(self) -> bool:
        for value in (*self.model.graph.inputs, *self.model.graph.initializers.values()):
            self.shapes[value] = self._shape(value)
        for node in self.model.graph:
            self._node(node)
        return self.changed

    def _fresh(self, name: str = "") -> SymDim:
        values = torch.randint(1 << 20, 1 << 30, (3,), generator=self.sizes).tolist()
        return SymDim(tuple(values), name)

    def _shape(self, value: ir.Value) -> tuple[Dim, ...] | None:
        if value.shape is None:
            return None
        return tuple(size if isinstance(size, int) else self._named(size.value) for size in value.shape)

    def _named(self, name: str | None) -> SymDim:
        if not name:
            return self._fresh()
        if name not in self.fingerprints:
            self.fingerprints[name] = made = self._fresh(name)
            self.names[made] = name
        return self.fingerprints[name]

    def _node(self, node: ir.Node) -> None:
        found = self._propagate(node)
        for value, shape in zip(node.outputs, found, strict=False):
            told = self._shape(value)
            if shape is not None and (told is None or len(told) == len(shape)):
                self.changed |= _refine(value, [self._said(size) for size in shape])
                known = self._shape(value) or ()
                told = tuple(_better(first, second) for first, second in zip(known, shape, strict=True))
            self.shapes[value] = told

    def _said(self, size: Dim) -> int | str | None:
        return size if isinstance(size, int) else self.names.get(size)

    def _propagate(self, node: ir.Node) -> list[tuple[Dim, ...] | None]:
        shapes = [self.shapes.get(value) if value is not None else None for value in node.inputs]
        unknown: list[tuple[Dim, ...] | None] = [None] * len(node.outputs)
        if node.domain != "" or not shapes:
            return unknown
        if node.op_type in tables.BROADCAST:
            return [_broadcast(shapes)]
        if node.op_type == "MatMul":
            return [_matmul(shapes)]
        if node.op_type in tables.LIKE_FIRST:
            return [shapes[0], *unknown[1:]]
        if node.op_type not in _EXACT or shapes[0] is None:
            return unknown
        if node.op_type == "Concat" and None in shapes:
            return unknown
        constants = [_constant(value) for value in node.inputs]
        settings = {name: attribute.value for name, attribute in node.attributes.items() if not attribute.is_ref()}
        try:
            return tables.propagate(node.op_type, shapes, constants, settings, len(node.outputs))
        except (IndexError, KeyError, ValueError, TypeError):  # a malformed node is for the checker to tell of
            return unknown


def _better(told: Dim, found: Dim) -> Dim:
    """A number, else what was worked out: an axis without a name keeps its fingerprint from node to node."""
    return told if isinstance(told, int) or told.name else found


def _constant(value: ir.Value | None) -> torch.Tensor | None:
    if value is None or value.is_graph_input() or value.const_value is None:
        return None
    tensor = value.const_value
    if math.prod(tensor.shape.numpy()) > _READ_BYTES // 8 or tensor.dtype not in (ir.DataType.INT64, ir.DataType.INT32):
        return None
    return as_torch(value) if _is_at_hand(tensor) else None


def _broadcast(shapes: Sequence[tuple[Dim, ...] | None]) -> tuple[Dim, ...] | None:
    """Only what holds at every size: an axis where two different names meet stays unknown, and with it the shape."""
    known = [shape for shape in shapes if shape is not None]
    if not known or len(known) != len(shapes):
        return None
    rank = max(map(len, known))
    result: list[Dim] = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in known if len(shape) >= -axis} - {1}
        numbers = {size for size in sizes if isinstance(size, int)}
        if len(numbers) > 1 or (not numbers and len(sizes) > 1):
            return None
        result.append(numbers.pop() if numbers else sizes.pop() if sizes else 1)
    return tuple(result)


def _matmul(shapes: Sequence[tuple[Dim, ...] | None]) -> tuple[Dim, ...] | None:
    left, right = shapes
    if not left or not right:
        return None
    batch = _broadcast([left[:-2], right[:-2]])
    return None if batch is None else (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))
