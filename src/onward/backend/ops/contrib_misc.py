"""Other operators of onnxruntime's (com.microsoft), and those that ONNX dropped and onnxruntime kept."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import BackendError
from ...onnx_operators.python_numbers import number
from ..registry import implements
from .scatter import gather_nd
from .shape import pad, range_, trilu
from .vision import grid_sample

_MS = "com.microsoft"

implements("Trilu", domain=_MS)(trilu)
implements("GatherND", domain=_MS)(gather_nd)


@implements("Range", domain=_MS)
def range_by_one(start: Tensor, limit: Tensor, delta: Tensor | None = None, *, types: tuple[int, ...]) -> Tensor:
    step = torch.ones_like(limit) if delta is None else delta
    return range_(start.reshape(()), limit.reshape(()), step.reshape(()), types=types)


@implements("Pad", domain=_MS)
def pad_by_rows(x: Tensor, pads: Tensor, value: Tensor | None = None, *, mode: str = "constant") -> Tensor:
    return pad(x, pads.reshape(-1), value, mode=mode)


@implements("GridSample", domain=_MS)
def grid_sample_by_old_names(x: Tensor, grid: Tensor, **attributes: Any) -> Tensor:
    return grid_sample(x, grid, **{"mode": "bilinear", **attributes})


@implements("Inverse", domain=_MS)
def inverse(x: Tensor) -> Tensor:
    return torch.linalg.inv(x)


@implements("ExpandDims", domain=_MS)
def expand_dims(x: Tensor, axis: Tensor) -> Tensor:
    return x.unsqueeze(int(number(axis)))


@implements("UnfoldTensor", domain=_MS)
def unfold_tensor(x: Tensor, *, size: int, dim: int = -1, step: int = 1) -> Tensor:
    return x.unfold(dim, size, step)


@implements("Unique", domain=_MS)
def unique(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """In the order in which they first come, where each element is found among them, and how often they come."""
    values, inverse_, counts = torch.unique(x, return_inverse=True, return_counts=True)
    places = torch.arange(x.numel())
    first = torch.full((len(values),), x.numel()).scatter_reduce(0, inverse_.reshape(-1), places, "amin")
    order = torch.argsort(first)
    rank = torch.argsort(order)
    return values[order], rank[inverse_], counts[order]


@implements("CDist", domain=_MS)
def cdist(a: Tensor, b: Tensor, *, metric: str = "sqeuclidean") -> Tensor:
    if metric not in ("euclidean", "sqeuclidean"):
        raise BackendError(f"metric is euclidean or sqeuclidean, not {metric!r}")
    squares = ((a[:, None] - b[None]) ** 2).sum(-1)
    return squares if metric == "sqeuclidean" else squares.sqrt()


@implements("NGramRepeatBlock", domain=_MS)
def ngram_repeat_block(ids: Tensor, scores: Tensor, *, ngram_size: int) -> Tensor:
    """The tokens that would complete an n-gram that was there before become impossible."""
    result = scores.clone()
    length = ids.shape[1]
    if not 0 < ngram_size <= length:
        return result
    grams = ids.unfold(1, ngram_size, 1)  # (rows, places, n)
    now = ids[:, length - ngram_size + 1 :]
    again = (grams[..., :-1] == now[:, None]).all(-1)
    rows, places = again.nonzero(as_tuple=True)
    tokens = grams[rows, places, -1].long()
    if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < scores.shape[1]:
        raise BackendError(f"a token is not one of the {scores.shape[1]} that have scores")
    result[rows, tokens] = float("-inf")
    return result


@implements("CropAndResize", domain=_MS)
def crop_and_resize(
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    crop_size: Tensor,
    *,
    mode: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Tensor:
    """Boxes are from 0 to 1 of the picture's size less one; what lies outside has the extrapolation value."""
    if mode not in ("bilinear", "nearest"):
        raise BackendError(f"mode is bilinear or nearest, not {mode!r}")
    rows, columns = crop_size.reshape(-1).tolist()
    height, width = x.shape[2:]
    results = []
    for box, batch in zip(rois.tolist(), batch_indices.tolist(), strict=True):
        ys, xs = _places(box[0], box[2], rows, height), _places(box[1], box[3], columns, width)
        outside = ((ys < 0) | (ys > height - 1))[:, None] | ((xs < 0) | (xs > width - 1))
        ys, xs, picture = ys.clamp(0, height - 1), xs.clamp(0, width - 1), x[batch]
        if mode == "nearest":
            found = picture[:, torch.floor(ys + 0.5).long()][..., torch.floor(xs + 0.5).long()]
        else:
            y0, x0 = ys.floor().long(), xs.floor().long()
            y1, x1 = ys.ceil().long(), xs.ceil().long()
            dy, dx = (ys - y0)[:, None], xs - x0
            top = picture[:, y0][..., x0] * (1 - dx) + picture[:, y0][..., x1] * dx
            bottom = picture[:, y1][..., x0] * (1 - dx) + picture[:, y1][..., x1] * dx
            found = top * (1 - dy) + bottom * dy
        results.append(torch.where(outside, extrapolation_value, found))
    return torch.stack(results) if results else x.new_zeros(0, x.shape[1], rows, columns)


def _places(start: float, end: float, count: int, size: int) -> Tensor:
    if count == 1:
        return torch.tensor([0.5 * (start + end) * (size - 1)])
    step = (end - start) * (size - 1) / (count - 1)
    return start * (size - 1) + torch.arange(count, dtype=torch.float32) * step


# Of ONNX's own domain


@implements("Crop")
def crop(x: Tensor, *, border: list[int], scale: list[int] | None = None) -> Tensor:
    """Left, top, right and bottom border are cut off; with `scale` that many rows and columns are kept instead."""
    left, top, right, bottom = border
    height, width = scale if scale else (x.shape[2] - top - bottom, x.shape[3] - left - right)
    return x.narrow(2, top, height).narrow(3, left, width)


@implements("Affine")
def affine(x: Tensor, *, alpha: float, beta: float) -> Tensor:
    return alpha * x + beta


@implements("ParametricSoftplus")
def parametric_softplus(x: Tensor, *, alpha: float, beta: float) -> Tensor:
    return alpha * F.softplus(beta * x)


@implements("ScaledTanh")
def scaled_tanh(x: Tensor, *, alpha: float, beta: float) -> Tensor:
    return alpha * torch.tanh(beta * x)


@implements("ImageScaler")
def image_scaler(x: Tensor, *, bias: list[float], scale: float = 1.0) -> Tensor:
    return x * scale + torch.tensor(bias).reshape(-1, 1, 1)
