"""What flows between operators, and how it looks outside.

A tensor is a `torch.Tensor`; a tensor of strings is a numpy array of objects; a sequence is a list; a map is a dict; an
empty optional is None. Element types that torch has no arithmetic for are held in the next wider one and become
themselves again where ONNX says so: int4, uint4, int2 and uint2 as bytes, float4 as float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import torch

from ..errors import BackendError

T = onnx.TensorProto

TORCH_TYPES: dict[int, torch.dtype] = {
    T.FLOAT: torch.float32, T.DOUBLE: torch.float64, T.FLOAT16: torch.float16, T.BFLOAT16: torch.bfloat16,
    T.INT8: torch.int8, T.INT16: torch.int16, T.INT32: torch.int32, T.INT64: torch.int64,
    T.UINT8: torch.uint8, T.UINT16: torch.uint16, T.UINT32: torch.uint32, T.UINT64: torch.uint64,
    T.BOOL: torch.bool, T.COMPLEX64: torch.complex64, T.COMPLEX128: torch.complex128,
    T.FLOAT8E4M3FN: torch.float8_e4m3fn, T.FLOAT8E4M3FNUZ: torch.float8_e4m3fnuz,
    T.FLOAT8E5M2: torch.float8_e5m2, T.FLOAT8E5M2FNUZ: torch.float8_e5m2fnuz,
}  # fmt: skip
ONNX_TYPES = {dtype: number for number, dtype in TORCH_TYPES.items()}

# Held in a wider type: how numpy calls them, and the torch type that holds them.
_NARROW: dict[int, tuple[str, torch.dtype]] = {
    T.INT4: ("int4", torch.int8), T.UINT4: ("uint4", torch.uint8), T.FLOAT4E2M1: ("float4_e2m1fn", torch.float32),
}  # fmt: skip
for _name, _holder in (("INT2", torch.int8), ("UINT2", torch.uint8)):
    if hasattr(T, _name):  # since onnx 1.20
        _NARROW[getattr(T, _name)] = (_name.lower(), _holder)
if hasattr(T, "FLOAT8E8M0"):
    TORCH_TYPES[T.FLOAT8E8M0] = torch.float8_e8m0fnu
    ONNX_TYPES[torch.float8_e8m0fnu] = T.FLOAT8E8M0

_SAME_BITS: dict[str, tuple[type, torch.dtype]] = {
    "bfloat16": (np.int16, torch.bfloat16),
    "float8_e4m3fn": (np.uint8, torch.float8_e4m3fn),
    "float8_e4m3fnuz": (np.uint8, torch.float8_e4m3fnuz),
    "float8_e5m2": (np.uint8, torch.float8_e5m2),
    "float8_e5m2fnuz": (np.uint8, torch.float8_e5m2fnuz),
    "float8_e8m0fnu": (np.uint8, torch.float8_e8m0fnu),
}
_NUMPY_OF = {dtype: (bits, np.dtype(getattr(ml_dtypes, name))) for name, (bits, dtype) in _SAME_BITS.items()}


def is_narrow(number: int) -> bool:
    return number in _NARROW


def narrow_numpy(number: int) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, _NARROW[number][0]))


def holder(number: int) -> torch.dtype:
    """The torch type in which elements of an ONNX type are held."""
    if number in _NARROW:
        return _NARROW[number][1]
    if number not in TORCH_TYPES:
        raise BackendError(f"PyTorch has no tensors of the ONNX type {number}")
    return TORCH_TYPES[number]


def to_torch(value: Any, device: torch.device | str = "cpu") -> Any:
    """An array, a tensor or a list of them, as it flows."""
    if value is None or isinstance(value, dict):  # a map stays as it is
        return value
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, (list, tuple)) and not (value and isinstance(value[0], (int, float, str))):
        return [to_torch(item, device) for item in value]
    array = np.asarray(value)
    if array.dtype.kind in "OUS":
        decoded = [item.decode() if isinstance(item, bytes) else str(item) for item in array.ravel()]
        return strings(decoded, array.shape)
    name = array.dtype.name
    if name in _SAME_BITS:
        bits, dtype = _SAME_BITS[name]
        return torch.from_numpy(_owned(array).view(bits)).view(dtype).to(device)
    for narrow, held in _NARROW.values():
        if name == narrow:
            return torch.from_numpy(array.astype(np.float32)).to(held).to(device)
    return torch.from_numpy(_owned(array)).to(device)


def _owned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Contiguous, writable and of this machine's byte order, as torch wants memory to be."""
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return array if array.flags.c_contiguous and array.flags.writeable else array.copy()


def strings(items: Sequence[str], shape: Sequence[int]) -> np.ndarray[Any, Any]:
    result = np.empty(len(items), dtype=object)
    result[:] = items
    return result.reshape(tuple(shape))


def to_numpy(value: Any, number: int = 0) -> Any:
    """What flowed, as numpy; `number` is the declared element type."""
    if isinstance(value, list):
        return [to_numpy(item, number) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().cpu().resolve_conj().resolve_neg()
    if number in _NARROW:
        return value.numpy().astype(narrow_numpy(number))
    if value.dtype in _NUMPY_OF:
        bits, dtype = _NUMPY_OF[value.dtype]
        return value.contiguous().view(torch.int16 if bits is np.int16 else torch.uint8).numpy().view(dtype)
    return value.numpy()
