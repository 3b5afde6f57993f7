"""Constants: PyTorch tensors as ONNX initializers, without copying them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor

from onward.errors import LoweringError, first_line
from onward.lower import dtypes

SMALL = 64  # constants up to this many elements are shared by value

LIVE = "onward.live"  # in a value's `meta`, with the constant's name: a weight that passes leave as it is

_SHORT = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
}  # fmt: skip


class ConstantTensor(TorchTensor):
    """A PyTorch tensor, possibly a strided view of a weight, whose bytes are made contiguous only when written."""

    def __init__(self, tensor: torch.Tensor, name: str | None = None) -> None:
        dtypes.to_onnx(tensor.dtype)  # a readable error for complex and quantised types
        super().__init__(tensor.detach(), name=name)

    def numpy(self) -> np.ndarray[Any, Any]:
        tensor = self.raw
        if tensor.dtype in (torch.bfloat16,) or (tensor.element_size() == 1 and tensor.is_floating_point()):
            bits = torch.uint8 if tensor.element_size() == 1 else torch.uint16
            # a strided view cannot be reinterpreted where its last axis is not dense: copy, it is about to be read
            return tensor.contiguous().view(bits).numpy(force=True).view(self.dtype.numpy())
        return tensor.numpy(force=True)


def share_key(tensor: torch.Tensor) -> tuple[Any, ...] | None:
    """What two small constants have in common if they are the same; None for those too big to compare."""
    if tensor.numel() > SMALL or tensor.device.type == "meta":
        return None
    if not tensor.dtype.is_complex:
        dtypes.to_onnx(tensor.dtype)
    try:
        flat = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.detach().reshape(-1)).view(torch.uint8)
    except NotImplementedError as error:  # types of a few bits, which PyTorch itself cannot copy
        raise LoweringError(f"a constant of {tensor.dtype} cannot be read: {first_line(error)}") from error
    return tensor.dtype, tuple(tensor.shape), bytes(flat.tolist())


def describe(tensor: torch.Tensor) -> str:
    """A readable name for a constant that has none: `i64_0_0_12_64`, `f32_0.5`, `f32_3x224`, `i64_of_8`."""
    kind = _SHORT.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
    if tensor.numel() <= 6 and tensor.device.type != "meta":
        values = tensor.reshape(-1).tolist()
        text = "_".join(_number(value) for value in values) or "empty"
        return f"{kind}_{text}" if tensor.dim() <= 1 else f"{kind}_{'x'.join(map(str, tensor.shape))}_{text}"
    sizes = "x".join(map(str, tensor.shape))
    return f"{kind}_of_{sizes}" if tensor.dim() == 1 else f"{kind}_{sizes}"


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.6g}"
    return str(value)


def make_tensor(value: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    """0-d from a number, 1-D from a list; int, float and bool become int64, float32 and bool unless a type is given."""
    if isinstance(value, torch.Tensor):
        return value if dtype is None else value.to(dtype)
    if dtype is None:
        first = value
        while isinstance(first, (list, tuple)):
            floats = [item for item in first if isinstance(item, float)]
            first = (floats or list(first) or [0])[0]
        dtype = dtypes.python_dtype(first)
    if (
        not dtype.is_floating_point
        and dtype is not torch.bool
        and isinstance(value, float)
        and not math.isfinite(value)
    ):
        raise TypeError(f"{value} is not a number of type {dtype}")
    return torch.tensor(value, dtype=dtype)


def initializer(tensor: torch.Tensor, name: str) -> ir.Value:
    """A graph value that holds a constant."""
    held = ConstantTensor(tensor, name)
    return ir.Value(name=name, shape=ir.Shape(tensor.shape), type=ir.TensorType(held.dtype), const_value=held)
