"""Types of elements: PyTorch's, ONNX's, and which one to compute in when the wanted one is not on offer."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import from_torch_dtype, to_torch_dtype

from onward.errors import LoweringError

_TO_ONNX: dict[torch.dtype, ir.DataType] = {}
_FROM_NAME: dict[str, torch.dtype | None] = {}

# One letter per type: what the generated kernel table is written in.
LETTERS: dict[str, torch.dtype] = {
    "?": torch.bool,
    "b": torch.int8,
    "B": torch.uint8,
    "h": torch.int16,
    "H": torch.uint16,
    "i": torch.int32,
    "I": torch.uint32,
    "q": torch.int64,
    "Q": torch.uint64,
    "e": torch.float16,
    "g": torch.bfloat16,
    "f": torch.float32,
    "d": torch.float64,
    "1": torch.float8_e4m3fn,
    "2": torch.float8_e4m3fnuz,
    "3": torch.float8_e5m2,
    "4": torch.float8_e5m2fnuz,
}

_INTEGERS = (torch.int32, torch.int64)
_FLOATS = (torch.float32, torch.float64)

# Where to compute instead, best first. Integers prefer integers; a lossy choice comes last.
_INSTEAD: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.bool: (torch.int32, torch.uint8, torch.int64, torch.int8, *_FLOATS),
    torch.int8: (torch.int16, *_INTEGERS, *_FLOATS),
    torch.uint8: (torch.int16, *_INTEGERS, *_FLOATS),
    torch.int16: (*_INTEGERS, *_FLOATS),
    torch.uint16: (*_INTEGERS, *_FLOATS),
    torch.int32: (torch.int64, torch.float64, torch.float32),
    torch.uint32: (torch.int64, torch.float64, torch.float32),
    torch.int64: (torch.float64, torch.int32, torch.float32),
    torch.uint64: (torch.int64, torch.float64, torch.float32),
    torch.float16: _FLOATS,
    torch.bfloat16: _FLOATS,
    torch.float32: (torch.float64,),
    torch.float64: (torch.float32,),
    torch.float8_e4m3fn: (torch.float16, *_FLOATS),
    torch.float8_e4m3fnuz: (torch.float16, *_FLOATS),
    torch.float8_e5m2: (torch.float16, *_FLOATS),
    torch.float8_e5m2fnuz: (torch.float16, *_FLOATS),
}


def to_onnx(dtype: torch.dtype) -> ir.DataType:
    """The ONNX type of a PyTorch one; complex and quantised types have none that runtimes compute with."""
    found = _TO_ONNX.get(dtype)
    if found is None:
        if dtype.is_complex:
            raise LoweringError(
                f"{dtype} has no ONNX operators", hint="keep real and imaginary parts as a last axis of size 2"
            )
        try:
            found = from_torch_dtype(dtype)
        except TypeError:
            raise LoweringError(f"{dtype} has no counterpart in ONNX") from None
        _TO_ONNX[dtype] = found
    return found


def to_torch(dtype: ir.DataType | int) -> torch.dtype:
    """The PyTorch type of an ONNX one."""
    return to_torch_dtype(ir.DataType(dtype))


def from_type_string(text: str) -> torch.dtype | None:
    """`tensor(float)` as PyTorch names it; None for strings, sequences and types PyTorch lacks."""
    if text not in _FROM_NAME:
        name = text[len("tensor(") : -1].upper() if text.startswith("tensor(") else ""
        member = ir.DataType.__members__.get(name)
        try:
            _FROM_NAME[text] = to_torch_dtype(member) if member is not None else None
        except TypeError:
            _FROM_NAME[text] = None
    return _FROM_NAME[text]


def compute_instead(dtype: torch.dtype, allowed: Collection[torch.dtype]) -> torch.dtype | None:
    """The type to compute in when `dtype` is not among the allowed ones; None if nothing serves."""
    return next((other for other in _INSTEAD.get(dtype, ()) if other in allowed), None)


def python_dtype(value: object) -> torch.dtype:
    """What a Python number becomes when nobody says otherwise."""
    if isinstance(value, bool):
        return torch.bool
    return torch.int64 if isinstance(value, int) else torch.float32
