"""Protobuf framing by hand, only as deep as the weights sit.

A protobuf message is its fields one after the other, and a field that is itself a message is a tag, a length and that
message. So a model is a list of segments, small `bytes` and large tensors, whose lengths are all known before the
first byte is written. Messages without weights below them are serialised by protobuf itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir

from onward.write.external import Layout
from onward.write.skeleton import Skeleton, has_subgraphs
from onward.write.tensors import byte_length

LIMIT = 2**31 - 1
"""No protobuf message may be longer than this, and no reader accepts one that is."""


@dataclass(frozen=True)
class TensorData:
    """A segment that is the stored bytes of a tensor."""

    tensor: ir.TensorProtocol
    length: int
    name: str


Segment = bytes | TensorData


def segment_length(segment: Segment) -> int:
    return len(segment) if isinstance(segment, bytes) else segment.length


def total_length(segments: Sequence[Segment]) -> int:
    return sum(segment_length(segment) for segment in segments)


def model_segments(skeleton: Skeleton, layout: Layout | None = None) -> list[Segment]:
    """The model file as segments. Uses the skeleton up. Tensors that the layout takes are left to the data file."""
    return _Framer(skeleton, layout).model(skeleton.proto)


class _Framer:
    def __init__(self, skeleton: Skeleton, layout: Layout | None) -> None:
        self._skeleton, self._layout = skeleton, layout

    def model(self, proto: onnx.ModelProto) -> list[Segment]:
        graph = self._graph(proto.graph)
        functions = [self._nodes_of(function) for function in proto.functions]
        proto.ClearField("graph")
        return [
            *_rest(proto, "functions"),
            *_field(proto, "graph", graph),
            *(segment for function in functions for segment in _field(proto, "functions", function)),
        ]

    def _graph(self, proto: onnx.GraphProto) -> list[Segment]:
        segments: list[Segment] = []
        for initializer in proto.initializer:
            segments += _field(proto, "initializer", self._initializer(initializer))
        proto.ClearField("initializer")
        return self._nodes_of(proto) + segments

    def _nodes_of(self, proto: onnx.GraphProto | onnx.FunctionProto) -> list[Segment]:
        """A graph (without its initializers) or a function. Nodes are framed one by one only if one has a body."""
        if not any(has_subgraphs(node) for node in proto.node):
            return _rest(proto)
        nodes: list[Segment] = []
        for node in proto.node:
            nodes += _field(proto, "node", self._node(node) if has_subgraphs(node) else _rest(node))
        return _rest(proto, "node") + nodes

    def _node(self, proto: onnx.NodeProto) -> list[Segment]:
        attributes: list[Segment] = []
        for attribute in proto.attribute:
            attributes += _field(proto, "attribute", self._attribute(attribute))
        return _rest(proto, "attribute") + attributes

    def _attribute(self, proto: onnx.AttributeProto) -> list[Segment]:
        bodies = _field(proto, "g", self._graph(proto.g)) if proto.HasField("g") else []
        for graph in proto.graphs:
            bodies += _field(proto, "graphs", self._graph(graph))
        return _rest(proto, "g", "graphs") + bodies

    def _initializer(self, proto: onnx.TensorProto) -> list[Segment]:
        tensor = self._skeleton.redeem(proto)
        if tensor is None:
            return _rest(proto)
        if self._layout is not None and (place := self._layout.place(tensor)) is not None:
            proto.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", place.location), ("offset", place.offset), ("length", place.length)):
                proto.external_data.add(key=key, value=str(value))
            return _rest(proto)
        data = TensorData(tensor, byte_length(tensor), proto.name)
        return _rest(proto) + _field(proto, "raw_data", [data])


def _rest(proto: Any, *without: str) -> list[Segment]:
    """What protobuf itself makes of a message once the named fields are gone."""
    for field in without:
        proto.ClearField(field)
    return [proto.SerializeToString(deterministic=True)]


def _field(proto: Any, name: str, segments: list[Segment]) -> list[Segment]:
    """One length-prefixed field of a message."""
    number = proto.DESCRIPTOR.fields_by_name[name].number
    length_delimited = 2
    return [_varint(number << 3 | length_delimited) + _varint(total_length(segments)), *segments]


def _varint(number: int) -> bytes:
    """Seven bits to a byte, the lowest first; the eighth bit says that more follow."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
