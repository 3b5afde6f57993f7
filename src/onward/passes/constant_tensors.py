"""Constants as passes see them: read as PyTorch tensors, made anew without computing them before they are written."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor, to_torch_dtype

from ..lower.constants import LIVE
from ..lower.regions import MODELS_OWN

_SMALL_BYTES = 1024


def is_weight(value: ir.Value | None) -> bool:
    """Whether a value is a constant of its graph that nobody can feed from outside, and that need not stay as it is."""
    if value is None or value.const_value is None or value.meta.get(LIVE):
        return False
    return value.is_initializer() and not value.is_graph_input()


def as_torch(value: ir.Value) -> torch.Tensor:
    """A constant's content; the live model's own memory where it comes from there."""
    tensor = value.const_value
    assert tensor is not None, "checked by is_weight"
    if isinstance(tensor, ir.LazyTensor):
        tensor = tensor.raw()
    raw = getattr(tensor, "raw", None)
    if isinstance(raw, torch.Tensor):
        return raw.detach()
    array = tensor.numpy()
    if array.dtype.kind == "V" or array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        stored = torch.from_numpy(array.reshape(-1).view(np.uint8).copy())
        return stored.view(to_torch_dtype(tensor.dtype)).reshape(array.shape)
    dense = np.asarray(array, order="C")  # np.ascontiguousarray would give a number an axis
    return torch.from_numpy(dense if dense.flags.writeable else np.asarray(_Borrowed(dense)))


def content_key(tensor: ir.TensorProtocol) -> Hashable:
    """Equal for tensors of the same content: of small ones the content itself, of larger ones where it lies."""
    elsewhere = isinstance(tensor, (ir.LazyTensor, ir.ExternalTensor)) or tensor.dtype == ir.DataType.STRING
    if elsewhere or tensor.nbytes > _SMALL_BYTES:
        return place_key(tensor)
    return ("content", tensor.tobytes(), tensor.dtype, tuple(tensor.shape.numpy()))


def place_key(tensor: ir.TensorProtocol) -> Hashable:
    """Equal for tensors that are the same memory, or the same stretch of a data file, read in the same way."""
    kind = (tensor.dtype, tuple(tensor.shape.numpy()))
    if isinstance(tensor, ir.ExternalTensor):
        return ("file", str(tensor.path), tensor.offset, *kind)
    raw = getattr(tensor, "raw", None)
    if isinstance(raw, torch.Tensor) and raw.numel() and raw.device.type != "meta":
        return ("memory", raw.data_ptr(), raw.stride(), *kind)
    return ("object", id(tensor))


class _Borrowed:
    """Read-only memory (of a mapped file, of a protobuf message) as an array that PyTorch takes without a warning.
    Passes never write to what they read."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}
        self._owner = array  # numpy keeps this object alive, and with it the memory


def add_weight(graph: ir.Graph, name: str, like: ir.Value, compute: Callable[[], torch.Tensor]) -> ir.Value:
    """A constant of the same type and shape as another, computed each time it is read and never kept."""
    assert like.const_value is not None and like.dtype is not None
    shape = ir.Shape(like.const_value.shape.numpy())
    tensor = ir.LazyTensor(lambda: TorchTensor(compute()), dtype=like.dtype, shape=shape, cache=False)
    return _registered(graph, name, tensor, shape)


def add_constant(graph: ir.Graph, name: str, content: torch.Tensor) -> ir.Value:
    """A constant with a content of its own."""
    tensor = TorchTensor(content.contiguous())
    return _registered(graph, name, tensor, tensor.shape)


def _registered(graph: ir.Graph, name: str, tensor: ir.LazyTensor | TorchTensor, shape: ir.Shape) -> ir.Value:
    """A constant of a graph under a name, or that name with a number."""
    unique, number = name, 1
    while unique in graph.initializers:
        unique, number = f"{name}_{number}", number + 1
    tensor.name = unique
    value = ir.Value(name=unique, shape=shape, type=ir.TensorType(tensor.dtype), const_value=tensor)
    graph.register_initializer(value)
    return value


def reshaped_to_itself(graph: ir.Graph, reader: ir.Node, value: ir.Value, rank: int) -> ir.Value:
    """A Reshape in front of a node that leaves a value as it is: onnxruntime fuses nothing across it."""
    shape = add_constant(graph, f"same_{rank}_sizes", torch.zeros(rank, dtype=torch.int64))
    shape.meta[MODELS_OWN] = False
    reshape = ir.node("Reshape", [value, shape], name=f"{value.name}.Reshape")
    reshape.metadata_props.update(reader.metadata_props)
    result = reshape.outputs[0]
    result.name, result.type, result.shape = f"{value.name}.Reshape", value.type, value.shape
    graph.insert_before(reader, reshape)
    return result
