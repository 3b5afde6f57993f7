"""Sizes that do not fit: a call with one size or number changed, or several at once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch

from .calls import Call

_SEVERAL = 12  # calls with several changes at once
Path = tuple[Any, ...]


def mutations(call: Call) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """What was changed, and the arguments."""
    _, args, kwargs = call
    whole = (args, kwargs)
    changes = list(_changes(whole))
    has_integers = any(
        isinstance(each, torch.Tensor) and not each.dtype.is_floating_point for _, each in _leaves(whole)
    )
    if changes:
        yield "as it is, zeros", *_zeros(whole)
    for text, path, value in changes:
        changed = _with(whole, path, value)
        yield text, *changed
        if has_integers and isinstance(value, torch.Tensor):
            yield f"{text}, zeros", *_zeros(changed)
    draw = random.Random(17)
    for _ in range(_SEVERAL if len(changes) > 4 else 0):
        changed, texts, done = whole, [], set()
        for text, path, value in draw.sample(changes, min(3, len(changes))):
            if path not in done:
                changed = _with(changed, path, value)
                texts.append(text)
                done.add(path)
        yield "; ".join(texts), *changed


def _changes(whole: Any) -> Iterator[tuple[str, Path, Any]]:
    for path, value in _leaves(whole):
        name = ".".join(map(str, path[1:]))
        if isinstance(value, torch.Tensor):
            if value.layout is not torch.strided:
                continue
            for axis, size in enumerate(value.shape):
                for other in sorted({0, 1, max(size - 1, 0), size + 1, 2 * size + 3, size + 40} - {size}):
                    yield f"{name} axis {axis}: {size} -> {other}", path, _resized(value, axis, other)
        elif type(value) is int:
            for other in sorted({0, 1, value - 1, value + 1, 2 * value + 3, value + 40, -2} - {value}):
                yield f"{name}: {value} -> {other}", path, other


def _resized(tensor: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """Another size along an axis, with the tensor's own content over and over."""
    if tensor.shape[axis] == 0:
        return tensor.new_zeros([*tensor.shape[:axis], size, *tensor.shape[axis + 1 :]])
    return tensor.index_select(axis, torch.arange(size) % tensor.shape[axis]).contiguous()


def _zero(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return tensor
    return torch.zeros_like(tensor)


def _zeros(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _zero(value)
    if isinstance(value, dict):
        return {name: _zeros(each) for name, each in value.items()}
    return type(value)([_zeros(each) for each in value]) if isinstance(value, (list, tuple)) else value


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, (list, tuple)):
        for place, each in enumerate(value):
            yield from _leaves(each, (*path, place))
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, (*path, name))
    else:
        yield path, value


def _with(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    first, *rest = path
    if isinstance(value, dict):
        return {name: _with(each, tuple(rest), new) if name == first else each for name, each in value.items()}
    return type(value)([_with(each, tuple(rest), new) if place == first else each for place, each in enumerate(value)])
