"""A file cut into pieces, each of which computes one known value from other known values.

    known: a, c      b = Conv(a, w); c = Relu(b); d = Shape(c); e = Reshape(c, d)
    piece of c:      Conv, Relu        fed with a
    piece of e:      Shape, Reshape    fed with c

Any number of pieces run together in one session, each on PyTorch's values and not on those of the pieces before it: a
result that is wrong there was made wrong by the piece's own nodes. Nothing is left for an optimizer to fuse, and none
is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import from_torch_dtype, to_torch_dtype

from onward.errors import VerifyError
from onward.passes.constant_tensors import as_torch
from onward.verify import Session

_COMPUTED = ":computed"
_FED_BYTES = 1 << 16  # weights from this size on are fed from their own memory instead of being copied into the model


@dataclass(frozen=True)
class Piece:
    """The nodes that compute the value `name`, in order, and the known values that they read."""

    name: str
    nodes: tuple[ir.Node, ...]
    feeds: tuple[str, ...]
    weights: tuple[str, ...]

    @property
    def maker(self) -> ir.Node:
        return self.nodes[-1]

    @property
    def op_types(self) -> set[str]:
        inner = (each for node in self.nodes for each in with_bodies(node))
        return {node.op_type for node in inner}


class FileGraph:
    """The main graph of a file, by the names of its values."""

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.nodes = list(model.graph)
        self.makers = {str(value.name): node for node in self.nodes for value in node.outputs if value.name}
        self.values = {str(value.name): value for node in self.nodes for value in node.outputs if value.name}
        self.inputs = {str(value.name): value for value in model.graph.inputs}
        self.weights = {
            name: value.const_value for name, value in model.graph.initializers.items() if value.const_value is not None
        }
        self._order = {node: place for place, node in enumerate(self.nodes)}
        self._reads = {node: tuple(self._names(node)) for node in self.nodes}

    def _names(self, node: ir.Node) -> Iterator[str]:
        """What a node reads, in its bodies too; names of values inside of bodies are of no interest to anybody."""
        seen: dict[str, None] = {}
        for each in with_bodies(node):
            seen.update((str(value.name), None) for value in each.inputs if value is not None and value.name)
            for attribute in each.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
                    seen.update((str(value.name), None) for value in attribute.as_graph().outputs)
        yield from (name for name in seen if name in self.makers or name in self.inputs or name in self.weights)

    def reads(self, node: ir.Node) -> tuple[str, ...]:
        return self._reads[node]

    def piece(self, name: str, known: Collection[str]) -> Piece:
        """What computes a value from known ones."""
        nodes: dict[ir.Node, None] = {}
        feeds: dict[str, None] = {}
        weights: dict[str, None] = {}
        waiting = [self.makers[name]]
        while waiting:
            node = waiting.pop()
            if node in nodes:
                continue
            nodes[node] = None
            for read in self._reads[node]:
                if read in known or (read in self.inputs and read not in self.weights):
                    feeds[read] = None
                elif read in self.makers:
                    waiting.append(self.makers[read])
                else:
                    weights[read] = None
        ordered = sorted(nodes, key=self._order.__getitem__)
        return Piece(name, tuple(ordered), tuple(feeds), tuple(weights))

    def needed(self, names: Collection[str]) -> set[str]:
        """The values that have a part in these, and they themselves."""
        found: set[str] = set()
        waiting = [name for name in names if name in self.makers]
        while waiting:
            node = self.makers[waiting.pop()]
            new = {str(value.name) for value in node.outputs if value.name} - found
            if new:
                found |= new
                waiting += [read for read in self._reads[node] if read in self.makers and read not in found]
        return found


def with_bodies(node: ir.Node) -> Iterator[ir.Node]:
    """A node, and those in its bodies."""
    yield node
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
            for inner in attribute.as_graph():
                yield from with_bodies(inner)


def run_pieces(
    file: FileGraph, pieces: Sequence[Piece], known: Collection[str], values: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor | VerifyError]:
    """What each piece computes from the values it is fed with. One that onnxruntime refuses has its error, and takes
    the others no further down: halves of the pieces are tried until it is alone."""
    try:
        return _run_together(file, pieces, known, values)
    except VerifyError as error:
        if len(pieces) == 1:
            return {pieces[0].name: error}
    half = len(pieces) // 2
    return {
        **run_pieces(file, pieces[:half], known, values),
        **run_pieces(file, pieces[half:], known, values),
    }


def _run_together(
    file: FileGraph, pieces: Sequence[Piece], known: Collection[str], values: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor | VerifyError]:
    nodes = {node: None for piece in pieces for node in piece.nodes}
    ordered = sorted(nodes, key=file._order.__getitem__)
    feeds = {name: _as_declared(file, name, values[name]) for piece in pieces for name in piece.feeds}
    kept = []
    for name in {name: None for piece in pieces for name in piece.weights}:
        tensor = file.weights[name]
        if tensor.nbytes >= _FED_BYTES and _has_torch_type(tensor.dtype):
            feeds[name] = as_torch(ir.Value(name=name, const_value=tensor))
        else:
            kept.append(_named(ir.to_proto(tensor), name))
    graph = onnx.GraphProto(name="pieces")
    graph.node.extend(_renamed(node, known) for node in ordered)
    graph.initializer.extend(kept)
    graph.input.extend(
        onnx.helper.make_tensor_value_info(name, int(from_torch_dtype(tensor.dtype)), list(tensor.shape))
        for name, tensor in feeds.items()
    )
    graph.output.extend(onnx.ValueInfoProto(name=piece.name + _COMPUTED) for piece in pieces)
    model = file.model
    proto = onnx.ModelProto(graph=graph, ir_version=model.ir_version)
    proto.opset_import.extend(onnx.helper.make_opsetid(*each) for each in model.opset_imports.items())
    proto.functions.extend(ir.to_proto(function) for function in model.functions.values())
    results = Session(proto, optimize=False).run(feeds)
    return {
        piece.name: result for piece, result in zip(pieces, results, strict=True) if isinstance(result, torch.Tensor)
    }


def _renamed(node: ir.Node, known: Collection[str]) -> onnx.NodeProto:
    """The node with its known results out of the way: who reads them reads PyTorch's."""
    proto: onnx.NodeProto = ir.to_proto(node)
    for place, name in enumerate(proto.output):
        if name in known:
            proto.output[place] = name + _COMPUTED
    return proto


def _named(proto: onnx.TensorProto, name: str) -> onnx.TensorProto:
    proto.name = name
    return proto


def _has_torch_type(dtype: ir.DataType) -> bool:
    try:
        return to_torch_dtype(dtype).itemsize * 8 == dtype.bitwidth
    except TypeError:
        return False


def _as_declared(file: FileGraph, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """A value in the type that the file has it in, where it says so: another one is the fault of who computes it."""
    value = file.values.get(name, file.inputs.get(name))
    if value is not None and value.dtype is not None and _has_torch_type(value.dtype):
        return tensor.to(to_torch_dtype(value.dtype))
    return tensor
