"""What onnx_ir has no place for, said another way before a file is read into it.

Sparse initializers and attributes become dense ones: PyTorch computes on dense tensors, and the operators of ONNX take
no sparse ones. Where a value is declared to be a map, the declaration is left out; the value itself is a dict.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ..errors import BackendError
from ..files.load import graphs_and_nodes

MOST_DENSE_ELEMENTS = 1 << 28  # of all sparse tensors: a few bytes of indices can claim a tensor of any size


def plain(
    proto: onnx.ModelProto, folder: str | None = None, most_elements: int = MOST_DENSE_ELEMENTS
) -> onnx.ModelProto:
    """The model without sparse tensors and map types: itself if there are none, otherwise a copy."""
    if not any(map(_is_sparse, graphs_and_nodes(proto))) and not any(map(_has_map, _declared(proto))):
        return proto
    _check_sizes(proto, min(most_elements, MOST_DENSE_ELEMENTS))
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for each in graphs_and_nodes(copy):
        if isinstance(each, onnx.GraphProto):
            for sparse in each.sparse_initializer:
                each.initializer.append(dense(sparse, _named(each, sparse), folder))
            del each.sparse_initializer[:]
        else:
            _densify_attributes(each, folder)
    for value in _declared(copy):
        if _has_map(value):
            value.ClearField("type")
    return copy


def dense(sparse: onnx.SparseTensorProto, what: str, folder: str | None = None) -> onnx.TensorProto:
    """Every element; where none is given it is 0, or an empty string."""
    dims = list(sparse.dims)
    try:
        values = numpy_helper.to_array(sparse.values, base_dir=folder or "")
        indices = numpy_helper.to_array(sparse.indices, base_dir=folder or "")
    except Exception as error:  # whatever a malformed tensor trips over
        raise BackendError(f"{what} is malformed: {str(error).strip() or type(error).__name__}") from error
    flat = _flat_indices(indices, dims, values.shape, what)
    full = np.full(math.prod(dims), "", dtype=object) if values.dtype.kind in "OUS" else None
    result = np.zeros(math.prod(dims), dtype=values.dtype) if full is None else full
    result[flat] = values
    tensor = numpy_helper.from_array(result.reshape(dims), sparse.values.name)
    tensor.data_type = sparse.values.data_type
    return tensor


def _flat_indices(
    indices: np.ndarray[Any, Any], dims: list[int], values: tuple[int, ...], what: str
) -> np.ndarray[Any, Any]:
    """Places in the flattened tensor, checked: one number for each value, or one for each axis."""
    if indices.dtype != np.int64:
        raise BackendError(f"{what} has indices of {indices.dtype}, they are int64")
    wanted = [(values[0],), (values[0], len(dims))] if len(values) == 1 else []
    if indices.shape not in wanted:
        raise BackendError(
            f"{what} has values of shape {list(values)} and indices of shape {list(indices.shape)}: "
            f"for n values of {len(dims)} axes they are [n], and [n] or [n, {len(dims)}]"
        )
    sizes = np.array([math.prod(dims)] if indices.ndim == 1 else dims, dtype=np.int64)
    columns = indices.reshape(len(indices), -1)
    if (columns < 0).any() or (columns >= sizes).any():
        raise BackendError(f"{what} of shape {dims} has an index that is out of range")
    flat = columns[:, 0] if indices.ndim == 1 else columns @ _strides(dims)
    if (np.diff(flat) <= 0).any():
        raise BackendError(f"{what} has indices that are not in ascending order, or two that are the same")
    return np.asarray(flat)


def _strides(dims: list[int]) -> np.ndarray[Any, Any]:
    return np.array([math.prod(dims[axis + 1 :]) for axis in range(len(dims))], dtype=np.int64)


def _check_sizes(proto: onnx.ModelProto, most: int) -> None:
    """Before anything is made dense."""
    total = 0
    for each in graphs_and_nodes(proto):
        for what, sparse in _sparse_tensors(each):
            dims = list(sparse.dims)
            if any(size < 0 for size in dims):
                raise BackendError(f"{what} has a negative size: {dims}")
            total += math.prod(dims)
            if math.prod(dims) > most:
                raise BackendError(f"{what} of shape {dims} would have {math.prod(dims)} elements, more than {most}")
            if total > most:
                raise BackendError(f"with {what}, the model's sparse tensors would have more than {most} elements")


def _sparse_tensors(each: onnx.GraphProto | onnx.NodeProto) -> Iterator[tuple[str, onnx.SparseTensorProto]]:
    if isinstance(each, onnx.GraphProto):
        for sparse in each.sparse_initializer:
            yield _named(each, sparse), sparse
        return
    for attribute in each.attribute:
        what = _named(each, attribute)
        if attribute.HasField("sparse_tensor"):
            yield what, attribute.sparse_tensor
        for sparse in attribute.sparse_tensors:
            yield what, sparse


def _named(owner: onnx.GraphProto | onnx.NodeProto, held: Any) -> str:
    if isinstance(owner, onnx.GraphProto):
        return f"the sparse initializer {held.values.name!r}"
    return f"the attribute {held.name} of node {owner.name!r} ({owner.op_type})"


def _densify_attributes(node: onnx.NodeProto, folder: str | None) -> None:
    kinds = onnx.AttributeProto
    for attribute in node.attribute:
        what = _named(node, attribute)
        if attribute.type == kinds.SPARSE_TENSOR and not attribute.ref_attr_name:
            attribute.t.CopyFrom(dense(attribute.sparse_tensor, what, folder))
            attribute.ClearField("sparse_tensor")
            attribute.type = kinds.TENSOR
            if node.op_type == "Constant" and attribute.name == "sparse_value":
                attribute.name = "value"
        elif attribute.type == kinds.SPARSE_TENSORS and not attribute.ref_attr_name:
            attribute.tensors.extend(dense(each, what, folder) for each in attribute.sparse_tensors)
            del attribute.sparse_tensors[:]
            attribute.type = kinds.TENSORS


# Where to look


def _is_sparse(each: onnx.GraphProto | onnx.NodeProto) -> bool:
    if isinstance(each, onnx.GraphProto):
        return len(each.sparse_initializer) > 0
    kinds = (onnx.AttributeProto.SPARSE_TENSOR, onnx.AttributeProto.SPARSE_TENSORS)
    return any(attribute.type in kinds for attribute in each.attribute)


def _declared(proto: onnx.ModelProto) -> Iterator[onnx.ValueInfoProto]:
    for each in graphs_and_nodes(proto):
        if isinstance(each, onnx.GraphProto):
            for values in (each.input, each.output, each.value_info):
                yield from values
    for function in proto.functions:
        yield from function.value_info


def _has_map(value: onnx.ValueInfoProto) -> bool:
    type_, kind = value.type, value.type.WhichOneof("value")
    while kind in ("sequence_type", "optional_type"):
        type_ = getattr(type_, kind).elem_type
        kind = type_.WhichOneof("value")
    return kind == "map_type"
