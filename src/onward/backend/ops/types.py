"""From one element type to another."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor

from ...onnx_operators.making import filled
from ...onnx_operators.python_numbers import ints
from ..limits import about_to_make
from ..registry import implements
from ..values import ONNX_TYPES, holder, is_narrow, narrow_numpy, strings, to_torch

_T = onnx.TensorProto
_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz)


@implements("Cast")
def cast(x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    if isinstance(x, np.ndarray):
        return x if to == _T.STRING else _parsed(x, to)
    if to == _T.STRING:
        return strings([_printed(item, x.dtype) for item in x.reshape(-1).tolist()], x.shape)
    if is_narrow(to):
        return _narrowed(x, to)
    dtype = holder(to)
    if dtype in _FLOAT8:
        return to_float8(x, dtype, bool(saturate))
    if dtype == torch.float8_e8m0fnu:
        return _to_exponent(x, bool(saturate), round_mode)
    return x.to(dtype)


@implements("CastLike")
def cast_like(x: Any, like: Any, *, types: tuple[int, ...], saturate: int = 1, round_mode: str = "up") -> Any:
    to = types[1] or (_T.STRING if isinstance(like, np.ndarray) else ONNX_TYPES[like.dtype])
    return cast(x, to=to, saturate=saturate, round_mode=round_mode)


def to_float8(x: Tensor, dtype: torch.dtype, saturate: bool) -> Tensor:
    """Saturating, what is too large becomes the largest number; otherwise infinity, or NaN in types without it."""
    wide = x.to(torch.float32)
    largest = torch.finfo(dtype).max
    if saturate:
        return wide.clamp(-largest, largest).to(dtype)
    rounded = wide.clamp(-largest, largest).to(dtype)
    # Half a step above the largest number is where rounding leaves the range.
    step = {torch.float8_e4m3fn: 32.0, torch.float8_e4m3fnuz: 16.0}.get(dtype, 8192.0)
    beyond = wide.abs() > largest + step / 2
    lost = torch.full_like(wide, float("inf") if dtype == torch.float8_e5m2 else float("nan"))
    return torch.where(beyond, torch.copysign(lost, wide), rounded.float()).to(dtype)


def _to_exponent(x: Tensor, saturate: bool, round_mode: str) -> Tensor:
    """float8e8m0: powers of two from 2^-127 to 2^127."""
    wide = x.to(torch.float64).abs()
    mantissa, exponent = torch.frexp(wide)  # in [0.5, 1)
    exponent = exponent.to(torch.float64) - 1
    if round_mode == "up":
        exponent = exponent + (mantissa > 0.5)
    elif round_mode == "nearest":
        exponent = exponent + (mantissa >= 0.75)
    exponent = torch.where(wide == 0, -127.0, exponent)
    beyond = (exponent > 127) | torch.isinf(wide)
    code = exponent.clamp(-127, 127) + 127
    lost = torch.isnan(wide) | (beyond & (not saturate))
    code = torch.where(torch.isinf(wide) & saturate, 254.0, code)
    return torch.where(lost, 255.0, code).to(torch.uint8).view(torch.float8_e8m0fnu)


def _narrowed(x: Tensor, to: int) -> Tensor:
    dtype = narrow_numpy(to)
    if to == _T.FLOAT4E2M1:
        array = x.to(torch.float32).numpy()
        return torch.from_numpy(array.astype(dtype).astype(np.float32))
    whole = x.to(torch.float32).to(torch.int32) if x.is_floating_point() else x.to(torch.int32)
    bits = 2 if dtype.name.endswith("2") else 4
    whole = whole & (2**bits - 1)
    if not dtype.name.startswith("u"):
        sign = 2 ** (bits - 1)
        whole = (whole ^ sign) - sign
    return whole.to(holder(to))


def _printed(item: Any, dtype: torch.dtype) -> str:
    if isinstance(item, bool) or not isinstance(item, float):
        return str(item)
    short = {torch.float32: np.float32, torch.float16: np.float16}.get(dtype, np.float64)
    return str(short(item))


def _parsed(x: np.ndarray[Any, Any], to: int) -> Any:
    dtype = holder(to)
    if dtype.is_floating_point or dtype == torch.bool:
        numbers = torch.tensor([float(item) for item in x.ravel()], dtype=torch.float64)
    elif dtype == torch.uint64:
        return torch.from_numpy(np.array([int(item) for item in x.ravel()], dtype=np.uint64)).reshape(x.shape)
    else:
        numbers = torch.tensor([int(item) for item in x.ravel()], dtype=torch.int64)
    return cast(numbers.reshape(x.shape), to=to)


@implements("BitCast")
def bit_cast(x: Tensor, *, to: int) -> Tensor:
    if x.dtype == torch.bool:
        return x.to(torch.uint8).view(holder(to))
    return x.view(torch.uint8).to(torch.bool) if to == _T.BOOL else x.view(holder(to))


@implements("ConstantOfShape", numbers=("shape",))
def constant_of_shape(shape: Any, *, value: Any = None) -> Any:
    if isinstance(value, np.ndarray):
        sizes = ints(shape)
        about_to_make(*sizes)
        return to_torch(np.full(sizes, value.ravel()[0], dtype=object))
    return filled(ints(shape), value).clone()
