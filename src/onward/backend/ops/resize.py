"""Resampling along axes: each axis is a product with a small matrix of weights, so every mode is the same code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...capture.attempt.session import is_capturing
from ...onnx_operators.python_numbers import ints
from ..limits import FOR_EACH, about_to_make
from ..registry import implements


def _coordinates(
    mode: str, size: int, out: int, scale: float, start: float, end: float
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Where in the source each place of the result lies."""
    places = np.arange(out, dtype=np.float64)
    if mode == "asymmetric":
        return places / scale
    if mode == "align_corners":
        return places * (size - 1) / (scale * size - 1) if out > 1 else np.zeros(out)
    if mode == "pytorch_half_pixel":
        return (places + 0.5) / scale - 0.5 if out > 1 else np.zeros(out)
    if mode == "half_pixel_symmetric":
        adjustment = out / (scale * size)
        centre = size / 2
        return centre * (1 - adjustment) + (places + 0.5) / scale - 0.5
    if mode == "tf_half_pixel_for_nn":
        return (places + 0.5) / scale
    if mode == "tf_crop_and_resize":
        if out > 1:
            return start * (size - 1) + places * (end - start) * (size - 1) / (out - 1)
        return np.full(out, 0.5 * (start + end) * (size - 1))
    return (places + 0.5) / scale - 0.5


def _nearest(x: np.ndarray[Any, Any], mode: str) -> np.ndarray[Any, Any]:
    if mode == "round_prefer_floor":
        return np.ceil(x - 0.5)
    if mode == "round_prefer_ceil":
        return np.floor(x + 0.5)
    return np.floor(x) if mode == "floor" else np.ceil(x)


def _kernel(mode: str, distance: np.ndarray[Any, Any], a: float) -> np.ndarray[Any, Any]:
    x = np.abs(distance)
    if mode == "linear":
        return np.maximum(0.0, 1 - x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _weights(
    mode: str,
    size: int,
    places: np.ndarray[Any, Any],
    scale: float,
    a: float,
    antialias: int,
    exclude: int,
    nearest: str,
) -> np.ndarray[Any, Any]:
    """A row for each place of the result, a column for each element of the source."""
    about_to_make(len(places), size)
    matrix = np.zeros((len(places), size))
    if mode == "nearest":
        picked = np.clip(_nearest(places, nearest), 0, size - 1).astype(int)
        matrix[np.arange(len(places)), picked] = 1
        return matrix
    about_to_make(len(places), FOR_EACH)
    shrink = min(scale, 1.0) if antialias else 1.0
    reach = (1 if mode == "linear" else 2) / shrink
    for row, place in enumerate(places):
        taps = np.arange(math.floor(place - reach), math.ceil(place + reach) + 1)
        values = _kernel(mode, (taps - place) * shrink, a)
        inside = (taps >= 0) & (taps < size)
        if exclude:
            values = np.where(inside, values, 0.0)
        total = values.sum()
        if total:
            values = values / total
        np.add.at(matrix[row], np.clip(taps, 0, size - 1), values)
    return matrix


_INTERPOLATE = {
    ("nearest", 3): "nearest", ("nearest", 4): "nearest", ("nearest", 5): "nearest", ("linear", 3): "linear",
    ("linear", 4): "bilinear", ("linear", 5): "trilinear", ("cubic", 4): "bicubic",
}  # fmt: skip


def _interpolated(
    x: Tensor, scales: list[float], sizes: list[int], mode: str, places: str, nearest: str, cubic: float
) -> Tensor | None:
    """By PyTorch's own kernels, where it is a resize that they have; otherwise None."""
    kind = _INTERPOLATE.get((mode, x.dim()))
    if kind is None or x.dtype not in (torch.float32, torch.float64) or len(scales or sizes) != x.dim():
        return None
    if mode == "nearest":
        usual = (places, nearest) == ("asymmetric", "floor")
    else:
        usual = places in ("half_pixel", "align_corners") and (mode != "cubic" or cubic == -0.75)
    if places == "align_corners" and any(scale != round(scale) for scale in scales):
        usual = False  # ONNX divides by the exact size, PyTorch by the one rounded down
    kept = scales[:2] == [1.0, 1.0] if scales else sizes[0] == x.shape[0] and sizes[1] == x.shape[1]
    if not usual or not kept or any(scale <= 0 for scale in scales):
        return None
    options: dict[str, Any] = {} if mode == "nearest" else {"align_corners": places == "align_corners"}
    if scales:
        return F.interpolate(x, scale_factor=tuple(scales[2:]), mode=kind, **options)
    return F.interpolate(x, size=tuple(sizes[2:]), mode=kind, **options)


def _smoothed(x: Tensor, sizes: list[int], mode: str, places: str, cubic: float) -> Tensor | None:
    """An antialiased resize as PyTorch has it, for models that are exported again as one node; otherwise None."""
    kind = {"linear": "bilinear", "cubic": "bicubic"}.get(mode)
    usual = places == "half_pixel" and (mode != "cubic" or cubic == -0.5) and x.dim() == len(sizes) == 4
    if kind is None or not usual or x.dtype is not torch.float32 or not is_capturing():
        return None
    if sizes[0] != x.shape[0] or sizes[1] != x.shape[1]:
        return None
    return F.interpolate(x, size=tuple(sizes[2:]), mode=kind, antialias=True)


@implements("Resize", since=11, numbers=("roi", "scales", "sizes"))
def resize(
    x: Tensor,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    *,
    antialias: int = 0,
    axes: list[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    along = list(range(x.dim())) if axes is None else [axis % x.dim() for axis in axes]
    source = [x.shape[axis] for axis in along]
    wanted = [] if sizes is None else ints(sizes)
    factors = [] if scales is None or wanted else _floats(scales)
    if axes is None and not exclude_outside and not antialias and keep_aspect_ratio_policy == "stretch":
        result = _interpolated(x, factors, wanted, mode, coordinate_transformation_mode, nearest_mode, cubic_coeff_a)
        if result is not None:
            return result
    if axes is None and antialias and exclude_outside and keep_aspect_ratio_policy == "stretch" and wanted:
        result = _smoothed(x, wanted, mode, coordinate_transformation_mode, cubic_coeff_a)
        if result is not None:
            return result
    if wanted:
        factors = [out / size for out, size in zip(wanted, source, strict=True)]
        if keep_aspect_ratio_policy != "stretch":
            factor = min(factors) if keep_aspect_ratio_policy == "not_larger" else max(factors)
            factors = [factor] * len(factors)
            wanted = [math.floor(factor * size + 0.5) for size in source]
    elif factors:
        wanted = [math.floor(size * factor) for size, factor in zip(source, factors, strict=True)]
    else:
        raise ValueError("Resize has neither scales nor sizes")
    kept = [size for axis, size in enumerate(x.shape) if axis not in along]
    about_to_make(*kept, *wanted)
    regions = ([] if roi is None else _floats(roi)) or [0.0] * len(along) + [1.0] * len(along)
    result = x if x.is_floating_point() and x.dtype != torch.float16 else x.double()
    cropping = coordinate_transformation_mode == "tf_crop_and_resize"
    for place, axis in enumerate(along):
        start, end = regions[place], regions[place + len(along)]
        if wanted[place] == source[place] and factors[place] == 1 and not (cropping and (start, end) != (0, 1)):
            continue
        spots = _coordinates(coordinate_transformation_mode, source[place], wanted[place], factors[place], start, end)
        matrix = _weights(
            mode, source[place], spots, factors[place], cubic_coeff_a, antialias, exclude_outside, nearest_mode
        )
        result = _along_axis(result, matrix, axis)
        if cropping:
            outside = (spots < 0) | (spots > source[place] - 1)
            shape = [-1 if each == axis else 1 for each in range(x.dim())]
            result = torch.where(torch.from_numpy(outside).reshape(shape), extrapolation_value, result)
    if not x.is_floating_point():
        info = torch.iinfo(x.dtype)
        result = result.round().clamp(info.min, info.max) if mode != "nearest" else result
    return result.to(x.dtype)


def _floats(value: Any) -> list[float]:
    return value.reshape(-1).tolist() if isinstance(value, Tensor) else [float(each) for each in value]


def _along_axis(x: Tensor, matrix: np.ndarray[Any, Any], axis: int) -> Tensor:
    weights = torch.from_numpy(matrix).to(x.dtype).to(x.device)
    return torch.matmul(x.movedim(axis, -1), weights.t()).movedim(-1, axis)


@implements("Resize", since=10, numbers=("scales",))
@implements("Upsample", numbers=("scales",))
def upsample(
    x: Tensor,
    scales: Any = None,
    *,
    mode: str = "nearest",
    width_scale: float | None = None,
    height_scale: float | None = None,
) -> Tensor:
    """The older operators: places by division alone, rounded down."""
    if scales is None:
        scales = [1.0, 1.0, height_scale, width_scale]
    return resize(
        x,
        None,
        scales,
        coordinate_transformation_mode="asymmetric",
        mode="linear" if mode in ("linear", "bilinear") else "nearest",
        nearest_mode="floor",
    )
