"""Any ONNX model as an `onnx_ir.Model`: a path, bytes, a ModelProto, an onnx_ir.Model or a Program.

A file is untrusted. It may be cut short, be something else altogether, or name a data file anywhere on the machine;
each is an error here, before anything is read through it. Weights in data files are mapped, never copied.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import onnx
import onnx_ir as ir

from ..errors import InputError
from ..program import Program
from .structure import check_structure

AnyModel = str | os.PathLike[str] | bytes | onnx.ModelProto | ir.Model | Program
Rewrite = Callable[[onnx.ModelProto, str | None], onnx.ModelProto]
_HINT = "give a path, bytes, an onnx.ModelProto, an onnx_ir.Model or what onward.export returned"


def load(model: AnyModel, *, weights: bool = True, rewrite: Rewrite | None = None) -> ir.Model:
    """The model, to be read and not to be changed: it may be the caller's own.

    Without `weights`, weights that lie in a data file are not looked for; their content must not be asked for then.
    `rewrite` is given the protobuf and its folder, and says what onnx_ir has no place for in another way.
    """
    if isinstance(model, Program):
        return model.model
    if isinstance(model, ir.Model):
        return model
    if isinstance(model, onnx.ModelProto):
        return _from_proto(model, "the ModelProto", None, weights, rewrite)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _from_proto(_parse(bytes(model), "the bytes"), "the model", None, weights, rewrite)
    if isinstance(model, (str, os.PathLike)):
        path = os.fsdecode(model)
        return _from_proto(_parse(_read(path), f"'{path}'"), f"'{path}'", path, weights, rewrite)
    raise InputError(f"a model is expected, not {type(model).__name__}", hint=_HINT)


def load_copy(model: AnyModel, *, weights: bool = True) -> ir.Model:
    """The model, to be changed: weights are shared with the original, the graph is not."""
    loaded = load(model, weights=weights)
    return loaded.clone() if isinstance(model, (Program, ir.Model)) else loaded


def _read(path: str) -> bytes:
    if not os.path.exists(path):
        raise InputError(f"there is no file '{path}'")
    if not os.path.isfile(path):
        raise InputError(f"'{path}' is not a file")
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InputError(f"cannot read '{path}': {error.strerror or error}") from error


def _parse(content: bytes, what: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except Exception as error:  # protobuf's DecodeError; its module has no types
        raise InputError(f"{what} is no ONNX model, or is cut short: {error}") from error
    return proto


def _from_proto(
    proto: onnx.ModelProto, what: str, path: str | None, weights: bool, rewrite: Rewrite | None = None
) -> ir.Model:
    if not proto.HasField("graph") or not (proto.ir_version or proto.opset_import):
        raise InputError(f"{what} is no ONNX model: it has no graph", hint="is it cut short, or of another format?")
    folder = os.path.dirname(os.path.abspath(path)) if path is not None else None
    is_in_order = check_structure(proto, what)
    for tensor in _tensors(proto):
        _check_content(tensor, what)
    if weights:
        for tensor in _tensors(proto):
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                _check_external(tensor, what, folder)
    if rewrite is not None:
        proto = rewrite(proto, folder)
    elif weights and any(getattr(each, "sparse_initializer", ()) for each in graphs_and_nodes(proto)):
        # onnx_ir 1.1 reads the rest of the graph and leaves these out without a word.
        raise InputError(
            f"{what} has sparse initializers, which cannot be kept", hint="make them dense, or run it: onward.backend"
        )
    try:
        model = ir.from_proto(proto)
    except Exception as error:  # whatever a malformed graph trips over
        raise InputError(f"{what} is malformed: {str(error).strip() or type(error).__name__}") from error
    if not is_in_order:
        for root in (model.graph, *(function.graph for function in model.functions.values())):
            root.sort()
    for held in tensors_of(model):
        if isinstance(held, ir.ExternalTensor) and folder is not None:
            held.base_dir = folder
    return model


def _check_content(tensor: onnx.TensorProto, what: str) -> None:
    """Sizes are sizes, and the content is where that of its type belongs."""
    if any(size < 0 for size in tensor.dims):
        raise InputError(f"{what} is malformed: the weight '{tensor.name}' has the size {list(tensor.dims)}")
    if tensor.data_type == onnx.TensorProto.UNDEFINED:
        raise InputError(f"{what} is malformed: the weight '{tensor.name}' has no type")
    count = math.prod(tensor.dims)
    if tensor.data_type == onnx.TensorProto.STRING and count != len(tensor.string_data):
        told = f"'{tensor.name}' has {list(tensor.dims)} strings, and {len(tensor.string_data)} are there"
        raise InputError(f"{what} is malformed: {told}")
    if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.HasField("raw_data") or not count:
        return
    filled = [name for name in _FIELDS if getattr(tensor, name)]
    if filled and _FIELD_OF.get(tensor.data_type, "int32_data") not in filled:
        kind = onnx.TensorProto.DataType.Name(tensor.data_type) if tensor.data_type in _KNOWN else tensor.data_type
        told = f"the weight '{tensor.name}' of type {kind} has its content in {filled[0]}"
        raise InputError(f"{what} is malformed: {told}")


_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
_FIELD_OF: dict[int, str] = {
    onnx.TensorProto.FLOAT: "float_data",
    onnx.TensorProto.COMPLEX64: "float_data",
    onnx.TensorProto.INT64: "int64_data",
    onnx.TensorProto.DOUBLE: "double_data",
    onnx.TensorProto.COMPLEX128: "double_data",
    onnx.TensorProto.UINT32: "uint64_data",
    onnx.TensorProto.UINT64: "uint64_data",
    onnx.TensorProto.STRING: "string_data",
}
_KNOWN = frozenset(onnx.TensorProto.DataType.values())


# Data files


def _check_external(tensor: onnx.TensorProto, what: str, folder: str | None) -> None:
    """The stretch of a data file that a tensor names is there, and the file lies in the model's own folder."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    said = f"the weight '{tensor.name}' of {what}"
    if folder is None:
        raise InputError(
            f"{said} is in a data file ('{location}'), and it is not known where that lies",
            hint="give the model's path instead",
        )
    if len(entries) < len(tensor.external_data):
        raise InputError(f"{said} says twice where in a data file it is")
    if "\0" in location:
        raise InputError(f"{said} is said to be in {location!r}, which is no name of a file")
    path = os.path.realpath(os.path.join(folder, location))
    if not location or os.path.isabs(location) or not path.startswith(os.path.join(os.path.realpath(folder), "")):
        raise InputError(
            f"{said} is said to be in '{location}', outside the model's folder",
            hint="a model may only name data files beside or below it; if you trust it, move the file there",
        )
    if not os.path.isfile(path):
        raise InputError(f"{said} is in '{location}', and there is no such file beside the model")
    try:
        offset, length = int(entries.get("offset") or 0), int(entries.get("length") or 0)
    except ValueError as error:
        raise InputError(f"{said} has no readable place in '{location}': {error}") from error
    stored = _stored_bytes(tensor)
    if length < 0 or 0 < length < stored:
        raise InputError(f"{said} has {stored} bytes, and a length {length} in '{location}'")
    needed = max(length, stored)
    if offset < 0 or offset + needed > os.path.getsize(path):
        raise InputError(
            f"{said} should be bytes {offset} to {offset + needed} of '{location}', which has {os.path.getsize(path)}",
            hint="is the data file cut short, or of another export?",
        )


def _stored_bytes(tensor: onnx.TensorProto) -> int:
    count = 1
    for size in tensor.dims:
        count *= size
    try:
        return -(-count * ir.DataType(tensor.data_type).bitwidth // 8)
    except (ValueError, TypeError) as error:
        raise InputError(f"the weight '{tensor.name}' has no type that can be stored in a data file") from error


def graphs_and_nodes(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto | onnx.NodeProto]:
    """Every graph and every node, of bodies and functions too."""
    waiting: list[onnx.GraphProto | onnx.NodeProto] = [proto.graph]
    waiting.extend(node for function in proto.functions for node in function.node)
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, onnx.GraphProto):
            waiting.extend(each.node)
            continue
        for attribute in each.attribute:
            waiting.extend([attribute.g] if attribute.HasField("g") else [])
            waiting.extend(attribute.graphs)


def _tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of the model: initializers and attributes, in bodies and functions too."""
    for each in graphs_and_nodes(proto):
        sparse: list[onnx.SparseTensorProto] = []
        if isinstance(each, onnx.GraphProto):
            yield from each.initializer
            sparse.extend(each.sparse_initializer)
        else:
            for attribute in each.attribute:
                yield from ([attribute.t] if attribute.HasField("t") else [])
                yield from attribute.tensors
                sparse.extend([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else [])
                sparse.extend(attribute.sparse_tensors)
        for tensor in sparse:
            yield from (tensor.values, tensor.indices)


def tensors_of(model: ir.Model) -> Iterator[Any]:
    """Every tensor of the loaded model."""
    roots: list[Any] = [model.graph, *model.functions.values()]
    graphs = [*roots, *(body for root in roots for body in root.subgraphs())]
    for graph in graphs:
        for value in getattr(graph, "initializers", {}).values():
            yield value.const_value
        for node in graph:
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
                    yield attribute.value
                elif attribute.type == ir.AttributeType.TENSORS and not attribute.is_ref():
                    yield from attribute.value
