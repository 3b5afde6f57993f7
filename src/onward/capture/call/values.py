"""Inputs with other values than the example's, drawn so that the model should take them too.

A file that has the example's answer built in agrees on the example. It takes other values to find that out, and they
have to be valid ones: ids within the vocabulary, flags that are 0 or 1, boundaries in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

_FEW = 16  # a tensor with no more different values than this, all whole or not finite, holds flags or categories
_SMALLEST_FACTOR = 0.5


def fresh(tensor: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """A tensor of the same shape and type with other values, drawn like those that it has.

    Whole numbers, flags and masks are permuted, within the rows of the last axis where it has several entries, so that
    every row keeps what it has. Other floating point numbers are drawn from the tensor's own and moved towards zero by
    up to a half, so that they keep their sign and stay within the range. A sorted list stays sorted.
    """
    if not tensor.numel():
        return tensor.clone()
    draw = torch.Generator().manual_seed(seed)
    if is_ordered(tensor):
        return tensor.clone() if not _is_continuous(tensor) else in_order(_drawn(tensor, draw))
    return _drawn(tensor, draw) if _is_continuous(tensor) else _permuted(tensor, draw)


def _is_continuous(tensor: torch.Tensor) -> bool:
    if tensor.is_complex():
        return True
    if not tensor.is_floating_point():
        return False
    values = tensor.double().reshape(-1)
    finite = values[values.isfinite()]
    is_special = bool((finite == finite.round()).all()) or finite.numel() < values.numel()
    different = values.unique().numel() if is_special else 0  # to count them takes long
    return different == 1 or not (is_special and different <= _FEW)  # ones or zeros alone stand in for data


def _drawn(tensor: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    count = tensor.numel()
    chosen = tensor.detach().reshape(-1)[torch.randint(count, (count,), generator=draw)]
    factors = 1 - (1 - _SMALLEST_FACTOR) * torch.rand(count, generator=draw, dtype=torch.float64)
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    drawn = chosen.to(wide) * factors
    if not bool(tensor.any()):
        drawn = factors.to(wide)  # of zeros alone nothing can be drawn
    return drawn.to(tensor.dtype).reshape(tensor.shape)


def _permuted(tensor: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    rows = tensor.detach().reshape(-1, tensor.size(-1)) if tensor.dim() and tensor.size(-1) > 1 else None
    if rows is None:
        rows = tensor.detach().reshape(1, -1)
    order = torch.rand(rows.shape, generator=draw).argsort(-1)
    bits = rows.view(_BITS[rows.element_size()])  # PyTorch 2.13 has no gather for uint16 to uint64 and for 8-bit floats
    return bits.gather(-1, order).view(tensor.dtype).reshape(tensor.shape)


_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def in_order(tensor: torch.Tensor) -> torch.Tensor:
    """The rows of the last axis sorted; also of types that PyTorch does not sort."""
    wide = tensor.double() if tensor.is_floating_point() else tensor.long()
    return wide.sort().values.to(tensor.dtype)


def is_ordered(tensor: torch.Tensor) -> bool:
    """Whether every row of the last axis has its numbers in order, the smallest first, and not all are equal."""
    if not tensor.dim() or tensor.size(-1) < 2 or not tensor.numel() or tensor.is_complex():
        return False
    if not tensor.is_floating_point() and (tensor.dim() != 1 or tensor.dtype is torch.bool):
        return False  # several rows of ids in order are ids, and no offsets
    wide = tensor.double() if tensor.is_floating_point() else tensor.long()
    return bool((wide[..., 1:] >= wide[..., :-1]).all()) and bool((wide[..., 0] < wide[..., -1]).any())


# Fresh values are smaller than those that they are drawn from; the large factors get small numbers past a rounding.
_FACTORS = (2.0, -1.0, 3.0, -2.0, 1.0, 30.0, -100.0)


def drawn(
    tensors: Sequence[torch.Tensor], draw: int, originals: Sequence[torch.Tensor | None] = ()
) -> tuple[torch.Tensor, ...]:
    """Inputs of the same shapes and types: draw 0 are these themselves, 1 fresh values, and then ever other ones.

    The originals are the example's tensors, of which these may be a part; None for those that have no dynamic axis.
    """
    if draw == 0:
        return tuple(tensors)
    if originals:
        pairs = zip(tensors, originals, strict=True)
        tensors = [each if own is None else _of_the_original(each, own, draw) for each, own in pairs]
    if draw == 1:
        return tuple(fresh(each, place) for place, each in enumerate(tensors, 1))
    others = [[_alike(each) for each in tensors], *(given for _, given in varied(tensors))]
    if draw - 2 < len(others):
        return tuple(others[draw - 2])
    factor = _FACTORS[draw % len(_FACTORS)]
    scaled = [_times(each, factor) if _is_continuous(each) else each for each in tensors]
    return tuple(fresh(each, len(tensors) * draw + place) for place, each in enumerate(scaled))


def _of_the_original(tensor: torch.Tensor, original: torch.Tensor, seed: int) -> torch.Tensor:
    """Values that may hide what a model does with them are replaced by others of the example's.

    Whole numbers do so where they are all alike (all 0, in a column of ids); the next number is used where the example
    has no others. Floating point numbers do so where they are few of many: the only one that is left may be near zero.
    """
    if _is_continuous(original):
        if tensor.numel() >= original.numel() or is_ordered(original):
            return tensor
        flat, draw = original.detach().reshape(-1), torch.Generator().manual_seed(seed)
        return flat[torch.randint(flat.numel(), tensor.shape, generator=draw)]
    if tensor.dtype not in _BITS.values() or not tensor.numel() or tensor.unique().numel() > 1:
        return tensor
    values = original.unique()
    values = torch.cat([values, values + 1]) if values.numel() == 1 else values
    return values[torch.randint(values.numel(), tensor.shape, generator=torch.Generator().manual_seed(seed))]


def varied(tensors: Sequence[torch.Tensor]) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Inputs of the same shapes and types that differ as much as they can: counts that depend on data vary with them.

    Each comes with what was done to the inputs.
    """
    yield "all negative, nothing marked", [_low(each) for each in tensors]
    yield "all positive, everything marked", [_high(each) for each in tensors]
    if any(map(_is_continuous, tensors)):
        yield "whole numbers", [_whole(each) if _is_continuous(each) else each.clone() for each in tensors]
        for label, factor in (("ten times as large", 10.0), ("near zero", 1e-3), ("other sign", -1.0)):
            yield label, [_times(each, factor) if _is_continuous(each) else each.clone() for each in tensors]


def _alike(tensor: torch.Tensor) -> torch.Tensor:
    """Zeros for numbers that may be any: their variance is 0, and they are neither above nor below 0. Flags and ids
    stay as they are."""
    return torch.zeros_like(tensor) if _is_continuous(tensor) else tensor.clone()


def _low(tensor: torch.Tensor) -> torch.Tensor:
    """Large negative numbers, all different ones: equal ones would be ties. Of flags, the lowest for all."""
    if _is_continuous(tensor):
        return _times(tensor if tensor.is_complex() else -tensor.abs(), 10.0)
    return torch.zeros_like(tensor) if tensor.dtype is torch.bool else _filled(tensor, torch.Tensor.min)


def _high(tensor: torch.Tensor) -> torch.Tensor:
    if _is_continuous(tensor):
        return _times(tensor if tensor.is_complex() else tensor.abs(), 10.0)
    return torch.ones_like(tensor) if tensor.dtype is torch.bool else _filled(tensor, torch.Tensor.max)


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """Small whole numbers, many of them alike: what a model compares with 0 or 1 is hit."""
    draw = torch.Generator().manual_seed(tensor.numel())
    return torch.randint(-1, 3, tensor.shape, generator=draw).to(tensor.dtype)


def _filled(tensor: torch.Tensor, extreme: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Numbers that are all alike: one that the tensor has, so that ids stay valid."""
    wide = tensor.double() if tensor.is_floating_point() else tensor.long()
    return torch.full_like(tensor, extreme(wide).item()) if tensor.numel() else tensor.clone()


def _times(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    return (tensor.detach().to(wide) * factor).to(tensor.dtype)


def jittered(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """A tensor with rounding errors: every number moved by some units in the last place."""
    size = _JITTER.get(tensor.dtype)
    if size is None or not tensor.numel():
        return tensor.clone()
    noise = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    return (tensor.detach().to(wide) * (1 + size * noise)).to(tensor.dtype)


_JITTER = {
    torch.float64: 1e-14, torch.complex128: 1e-14, torch.float32: 1e-6, torch.complex64: 1e-6, torch.float16: 2e-3,
    torch.bfloat16: 1e-2,
}  # fmt: skip
