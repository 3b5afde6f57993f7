"""A tensor's bytes, as ONNX stores them, straight from the memory they already live in.

The length is known without looking at the data, so that protobuf length prefixes can be written first. The bytes then
come in pieces: a dense tensor is one view of its own memory; a strided one (a transposed weight, an expanded scalar,
a tensor on another device) is made dense a few megabytes at a time.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor, from_torch_dtype
from torch._subclasses.fake_tensor import FakeTensor

from onward.errors import WriteError

PIECE_BYTES = 8 << 20
"""How much of a tensor that is not dense is copied at a time."""

_BAND = 64

_ARRAY_READERS = (ir.Tensor.numpy, ir.Tensor.tobytes)


def byte_length(tensor: ir.TensorProtocol) -> int:
    """The length of the stored tensor. Types narrower than a byte are packed; the last byte may be partly used."""
    return math.ceil(tensor.dtype.bitwidth * math.prod(_dims(tensor)) / 8)


def identity(tensor: ir.TensorProtocol) -> Hashable:
    """Equal for two tensors that are the same piece of memory read in the same way, hence certainly equal in value."""
    kind = (tensor.dtype, _dims(tensor))
    memory = _memory(tensor)
    if isinstance(memory, torch.Tensor):
        bits = (memory.is_conj(), memory.is_neg())
        return ("torch", str(memory.device), memory.data_ptr(), memory.stride(), bits, *kind)
    if isinstance(memory, np.ndarray):
        return ("numpy", memory.__array_interface__["data"][0], memory.strides, *kind)
    if isinstance(tensor, ir.ExternalTensor):
        return ("file", os.fspath(tensor.path), tensor.offset, *kind)
    return ("object", id(tensor), *kind)


def pieces(tensor: ir.TensorProtocol) -> Iterator[memoryview]:
    """The stored bytes in order. Each piece is the tensor's own memory or a buffer that the next one reuses: read it
    at once, do not keep it."""
    if isinstance(tensor, ir.LazyTensor):
        # `raw` is the function behind it. Calling that, and not `numpy()`, leaves nothing cached in the model.
        yield from pieces(tensor.raw())
        return
    memory = _memory(tensor)
    stored = _read(tensor) if memory is None else memory
    if isinstance(stored, torch.Tensor):
        yield from _torch_pieces(stored)
    elif isinstance(stored, np.ndarray):
        yield from _numpy_pieces(stored)
    else:
        yield memoryview(stored)


def _dims(tensor: ir.TensorProtocol) -> tuple[int, ...]:
    return tuple(int(dim) for dim in tensor.shape.numpy())


def _memory(tensor: ir.TensorProtocol) -> torch.Tensor | np.ndarray[Any, Any] | None:
    """The array behind a tensor if its elements, in row-major order, are exactly what is to be stored.

    A subclass that changes how the data are read (a lazy transpose, say) must be asked instead: its `raw` may well
    have the right shape and the wrong order.
    """
    raw = getattr(tensor, "raw", None)
    if tensor.dtype == ir.DataType.STRING:
        return None
    bits, kind = tensor.dtype.bitwidth, type(tensor)
    if isinstance(raw, torch.Tensor) and not _has_data(raw):
        return None
    if isinstance(raw, torch.Tensor) and bits >= 8 and isinstance(tensor, ir.Tensor):
        told_otherwise = kind.tobytes not in (ir.Tensor.tobytes, TorchTensor.tobytes)
        if told_otherwise or tuple(raw.shape) != _dims(tensor) or from_torch_dtype(raw.dtype) != tensor.dtype:
            return None
        return raw.detach()
    if isinstance(raw, np.ndarray) and isinstance(tensor, ir.PackedTensor) and kind.tobytes is ir.PackedTensor.tobytes:
        return raw
    if isinstance(raw, np.ndarray) and isinstance(tensor, ir.Tensor) and (kind.numpy, kind.tobytes) == _ARRAY_READERS:
        return raw if raw.shape == _dims(tensor) and raw.dtype.itemsize * 8 == bits else None
    return None


def _read(tensor: ir.TensorProtocol) -> np.ndarray[Any, Any] | bytes:
    """Ask the tensor itself: an array where that costs nothing (a mapped file), its own bytes otherwise."""
    if isinstance(tensor, ir.ExternalTensor) and tensor.dtype.bitwidth >= 8:
        return tensor.numpy()
    raw = getattr(tensor, "raw", None)
    if isinstance(raw, torch.Tensor) and not _has_data(raw):
        kind = "a fake tensor" if isinstance(raw, FakeTensor) else "on the 'meta' device"
        raise WriteError(
            f"the weight '{tensor.name}' has no data: it is {kind}",
            hint="load the weights into the model before exporting it",
        )
    return tensor.tobytes()


def _has_data(tensor: torch.Tensor) -> bool:
    return tensor.device.type != "meta" and not isinstance(tensor, FakeTensor)


def _torch_pieces(tensor: torch.Tensor) -> Iterator[memoryview]:
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.device.type == "cpu" and tensor.is_contiguous():
        flat = tensor.as_strided((tensor.numel(),), (1,))  # axes of size 0 and 1 may have any stride, and keep it
        yield _bytes_of(flat.view(torch.uint8).numpy())
        return
    # One buffer for all pieces: fresh ones would stay with the allocator and add up.
    buffer = torch.empty(min(tensor.numel(), PIECE_BYTES // tensor.element_size()), dtype=tensor.dtype)
    for part in _parts(tensor, tensor.element_size()):
        dense = buffer[: part.numel()]
        _make_dense(dense.view(part.shape), part)
        yield _bytes_of(dense.view(torch.uint8).numpy())


def _make_dense(target: torch.Tensor, part: torch.Tensor) -> None:
    """Copy a strided part. A transposed matrix goes in narrow bands that stay in the cache, four times as fast."""
    if part.dim() != 2 or part.stride(0) != 1 or part.numel() < _BAND * _BAND:
        target.copy_(part)
        return
    for start in range(0, part.shape[0], _BAND):
        band = part[start : start + _BAND]
        target[start : start + _BAND].copy_(band.t().contiguous().t())


def _numpy_pieces(array: np.ndarray[Any, Any]) -> Iterator[memoryview]:
    swap = array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big")
    if array.flags.c_contiguous and not swap:
        yield _bytes_of(array.reshape(-1).view(np.uint8))
        return
    buffer = np.empty(min(array.size, PIECE_BYTES // array.dtype.itemsize), array.dtype)
    for part in _parts(array, array.dtype.itemsize):
        dense = buffer[: part.size]
        np.copyto(dense.reshape(part.shape), part.byteswap() if swap else part)
        yield _bytes_of(dense.view(np.uint8))


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    return memoryview(array.data) if array.size else memoryview(b"")


def _parts(array: Any, item_bytes: int) -> Iterator[Any]:
    """Slices along the first axis (below a long first row, along the next one) of about PIECE_BYTES each."""
    size = math.prod(array.shape) * item_bytes
    if size <= PIECE_BYTES or not array.shape:
        yield array
        return
    row = size // array.shape[0]
    if row > PIECE_BYTES:
        for index in range(array.shape[0]):
            yield from _parts(array[index], item_bytes)
        return
    step = max(1, PIECE_BYTES // max(row, 1))
    for start in range(0, array.shape[0], step):
        yield array[start : start + step]
