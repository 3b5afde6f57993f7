"""The model as protobuf with every initializer's data left out.

onnx_ir's own serialiser does the work, on thin views of the model that answer like it except for two things: an
initializer's tensor is a stand-in whose bytes are a ticket number, and serialising leaves the model itself untouched
(onnx_ir renames tensors as it goes, which other threads would see).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir

from onward.errors import InputError, WriteError, first_line
from onward.write.tensors import identity

_TICKET_BYTES = 8
_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


@dataclass(frozen=True)
class Skeleton:
    """A ModelProto whose initializers hold tickets, and the tensors that the tickets stand for."""

    proto: onnx.ModelProto
    tensors: tuple[ir.TensorProtocol, ...]

    def redeem(self, initializer: onnx.TensorProto) -> ir.TensorProtocol | None:
        """The tensor whose data belong into this initializer, once; None if it is already complete (strings)."""
        if initializer.data_type == onnx.TensorProto.STRING:
            return None
        ticket = int.from_bytes(initializer.raw_data, "little")
        initializer.ClearField("raw_data")
        return self.tensors[ticket]


def make_skeleton(model: ir.Model, *, merge_ties: bool) -> Skeleton:
    """Serialise everything but the data; with `merge_ties`, tied weights appear under one name only."""
    renamed = _ties(model.graph) if merge_ties else {}
    tensors: list[ir.TensorProtocol] = []
    try:
        proto = ir.serde.serialize_model(_ModelView(model, renamed, tensors))  # type: ignore[arg-type]
    except ir.serde.SerdeError as error:
        raise _explained(error) from error
    if renamed:
        _rename(proto.graph, renamed)
    for graph in _graphs(proto):
        for initializer in graph.initializer:
            if initializer.data_type == onnx.TensorProto.STRING:
                text = tensors[int.from_bytes(initializer.raw_data, "little")]
                initializer.ClearField("raw_data")
                initializer.string_data.extend(_strings(text))
    return Skeleton(proto, tuple(tensors))


def _explained(error: Exception) -> InputError:
    """What keeps a model from being written, without the objects that onnx_ir was looking at."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, UnicodeEncodeError):
        text = f"{cause.object!r} is no text that a file can hold"
        return InputError(f"a name of the model cannot be written: {text}", hint="use another name")
    return InputError(f"the model cannot be written: {first_line(cause)}")


def has_subgraphs(node: onnx.NodeProto) -> bool:
    return any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)


def _strings(tensor: ir.TensorProtocol) -> list[bytes]:
    if isinstance(tensor, ir.StringTensor):
        return list(tensor.string_data())
    return [text if isinstance(text, bytes) else str(text).encode() for text in tensor.numpy().reshape(-1).tolist()]


# Tied weights ---------------------------------------------------------------------------------------------------------


def _ties(graph: ir.Graph) -> dict[str, str]:
    """Initializers that are the same memory as another one: {name to drop: name to use}.

    A graph output keeps its initializer under its own name. A graph input does too, and nothing is tied to it: whoever
    runs the model may feed it another value.
    """
    inputs = {value.name for value in graph.inputs}
    groups: dict[Any, list[ir.Value]] = {}
    for value in graph.initializers.values():
        if value.const_value is not None and value.name not in inputs:
            groups.setdefault(identity(value.const_value), []).append(value)
    renamed: dict[str, str] = {}
    for values in groups.values():
        keep = next((value for value in values if value.is_graph_output()), values[0])
        for value in values:
            if value is not keep and not value.is_graph_output():
                renamed[str(value.name)] = str(keep.name)
    return renamed


def _rename(graph: onnx.GraphProto, renamed: Mapping[str, str]) -> None:
    """Use the kept name wherever a dropped one was read, in the bodies of If, Loop and Scan as well."""
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name in renamed:
                node.input[index] = renamed[name]
        for configuration in node.device_configurations:
            for spec in configuration.sharding_spec:
                spec.tensor_name = renamed.get(spec.tensor_name, spec.tensor_name)
        for attribute in node.attribute:
            for body in _bodies(attribute):
                _rename(body, {old: new for old, new in renamed.items() if old not in _defined(body)})
    for annotation in graph.quantization_annotation:
        for entry in annotation.quant_parameter_tensor_names:
            entry.value = renamed.get(entry.value, entry.value)


def _defined(graph: onnx.GraphProto) -> set[str]:
    names = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    return names.union(*(node.output for node in graph.node))


def _bodies(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    return [attribute.g, *attribute.graphs] if attribute.HasField("g") else list(attribute.graphs)


def _graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """Every graph of the model: the main one and all bodies, those inside functions too."""
    waiting = [proto.graph]
    nodes = [node for function in proto.functions for node in function.node if has_subgraphs(node)]
    while waiting or nodes:
        if waiting:
            graph = waiting.pop()
            yield graph
            nodes.extend(node for node in graph.node if has_subgraphs(node))
        else:
            waiting.extend(body for attribute in nodes.pop().attribute for body in _bodies(attribute))


def initializers(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    for graph in _graphs(proto):
        yield from graph.initializer


# Views of the model ---------------------------------------------------------------------------------------------------


class _View:
    """Answers like the object behind it, except for what a subclass says."""

    def __init__(self, target: Any, tensors: list[ir.TensorProtocol]) -> None:
        self._target, self._tensors = target, tensors

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def __len__(self) -> int:
        return len(self._target)

    def __repr__(self) -> str:
        return repr(self._target)

    def __iter__(self) -> Iterator[Any]:
        for node in self._target:
            bodies = any(attribute.type in _GRAPHS for attribute in node.attributes.values())
            yield _NodeView(node, self._tensors) if bodies else node


class _ModelView(_View):
    def __init__(self, model: ir.Model, renamed: Mapping[str, str], tensors: list[ir.TensorProtocol]) -> None:
        super().__init__(model, tensors)
        self.graph = _GraphView(model.graph, tensors, renamed)
        self.functions = {key: _View(function, tensors) for key, function in model.functions.items()}


class _GraphView(_View):
    def __init__(self, graph: Any, tensors: list[ir.TensorProtocol], dropped: Mapping[str, str] | None = None) -> None:
        super().__init__(graph, tensors)
        kept = (value for name, value in graph.initializers.items() if name not in (dropped or {}))
        self.initializers = {value.name: _InitializerView(value, tensors) for value in kept}


class _NodeView(_View):
    @property
    def attributes(self) -> dict[str, Any]:
        return {
            name: _AttributeView(attribute, self._tensors)
            if attribute.type in _GRAPHS and not attribute.is_ref()
            else attribute
            for name, attribute in self._target.attributes.items()
        }


class _AttributeView(_View):
    @property
    def value(self) -> Any:
        if self._target.type == ir.AttributeType.GRAPH:
            return _GraphView(self._target.value, self._tensors)
        return [_GraphView(graph, self._tensors) for graph in self._target.value]


class _InitializerView(_View):
    def __init__(self, value: ir.Value, tensors: list[ir.TensorProtocol]) -> None:
        super().__init__(value, tensors)
        if value.const_value is None:
            raise WriteError(
                f"the initializer '{value.name}' has no value",
                hint="give it a tensor (const_value), or make it an input of the graph",
            )
        self.const_value = _StandIn(value.const_value, str(value.name), len(tensors))
        tensors.append(value.const_value)


class _StandIn:
    """A tensor's description without its data."""

    def __init__(self, tensor: ir.TensorProtocol, name: str, ticket: int) -> None:
        self.name, self.dtype, self.shape = name, tensor.dtype, tensor.shape
        self.doc_string, self.metadata_props = tensor.doc_string, tensor.metadata_props
        self._ticket = ticket

    def tobytes(self) -> bytes:
        return self._ticket.to_bytes(_TICKET_BYTES, "little")
