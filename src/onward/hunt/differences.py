"""What a fresh export has in the place of nodes that are wrong: attributes, inputs, weights, nodes that are gone."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import onnx_ir as ir
import torch

from onward.hunt.findings import node_name
from onward.hunt.pieces import FileGraph, Piece
from onward.passes.constant_tensors import as_torch


def differences(file: FileGraph, reference: ir.Model, piece: Piece, known: Collection[str]) -> Iterator[str]:
    """In words, node by node; nothing if the reference does not know the value."""
    other = FileGraph(reference)
    if piece.name not in other.makers:
        return
    wanted = other.piece(piece.name, known)
    for node in wanted.nodes:
        made = next((file.makers[str(value.name)] for value in node.outputs if value.name in file.makers), None)
        if made is None:
            yield f"node '{node_name(node)}' ({node.op_type}) is not in the file"
        else:
            yield from _of_node(file, other, made, node)
    fresh = {node_name(node) for node in other.nodes}
    for node in piece.nodes:
        if node_name(node) not in fresh and not any(value.name in other.makers for value in node.outputs):
            yield f"node '{node_name(node)}' ({node.op_type}) is only in the file"


def _of_node(file: FileGraph, other: FileGraph, node: ir.Node, wanted: ir.Node) -> Iterator[str]:
    name = node_name(node)
    if (node.domain, node.op_type) != (wanted.domain, wanted.op_type):
        yield f"node '{name}' is {node.op_type}, not {wanted.op_type}"
    for key in sorted({*node.attributes, *wanted.attributes}):
        here, there = (_setting(each.attributes.get(key)) for each in (node, wanted))
        if here != there:
            yield f"{key} of node '{name}' is {here}, not {there}"
    inputs, expected = ([value.name if value is not None else "" for value in each.inputs] for each in (node, wanted))
    if len(inputs) != len(expected):
        yield f"node '{name}' has {len(inputs)} inputs, not {len(expected)}"
    for place, (have, want) in enumerate(zip(inputs, expected, strict=False)):
        if str(have) in file.weights and str(want) in other.weights:
            yield from _of_weights(file, other, str(have), str(want))
        elif have != want:
            yield f"input {place} of node '{name}' is '{have}', not '{want}'"


def _of_weights(file: FileGraph, other: FileGraph, have: str, want: str) -> Iterator[str]:
    """By content: equal weights may have got one name when the file was written."""
    if ir.DataType.STRING in (file.weights[have].dtype, other.weights[want].dtype):
        return
    here, there = (
        as_torch(ir.Value(name=name, const_value=graph.weights[name])) for graph, name in ((file, have), (other, want))
    )
    if here.dtype != there.dtype or here.shape != there.shape:
        yield f"the weight '{have}' is {_kind(here)}, not {_kind(there)}"
    elif not torch.equal(here, there):
        off = (here.double() - there.double()).abs().max().item()
        count = int((here != there).sum())
        yield f"the weight '{have}' differs in {count} of {here.numel()} elements, by up to {off:.3g}"


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _setting(attribute: ir.Attr | None) -> str:
    if attribute is None:
        return "absent"
    if attribute.type == ir.AttributeType.TENSOR:
        return str(attribute.as_tensor().numpy().tolist())
    if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        return "a body"
    if attribute.type == ir.AttributeType.FLOAT:
        return f"{np.float32(attribute.as_float()):.6g}"  # all that a file keeps of it
    return str(attribute.value)
