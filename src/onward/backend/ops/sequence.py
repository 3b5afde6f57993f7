"""Sequences and optionals."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...onnx_operators.python_numbers import number
from ..registry import implements


@implements("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> list[Any]:
    return []


@implements("SequenceConstruct")
def sequence_construct(*items: Any) -> list[Any]:
    return list(items)


@implements("SequenceInsert")
def sequence_insert(sequence: list[Any], item: Any, position: Tensor | None = None) -> list[Any]:
    place = len(sequence) if position is None else int(number(position))
    place = place + len(sequence) if place < 0 else place
    return [*sequence[:place], item, *sequence[place:]]


@implements("SequenceErase")
def sequence_erase(sequence: list[Any], position: Tensor | None = None) -> list[Any]:
    place = (-1 if position is None else int(number(position))) % len(sequence)
    return [*sequence[:place], *sequence[place + 1 :]]


@implements("SequenceAt")
def sequence_at(sequence: list[Any], position: Tensor) -> Any:
    return sequence[int(number(position))]


@implements("SequenceLength")
def sequence_length(sequence: list[Any]) -> Tensor:
    return torch.tensor(len(sequence))


@implements("ConcatFromSequence")
def concat_from_sequence(sequence: list[Any], *, axis: int, new_axis: int = 0) -> Tensor:
    return torch.stack(sequence, axis) if new_axis else torch.cat(sequence, axis)


@implements("SplitToSequence")
def split_to_sequence(x: Tensor, split: Tensor | None = None, *, axis: int = 0, keepdims: int = 1) -> list[Any]:
    if split is None:
        parts = torch.split(x, 1, axis)
        return [part if keepdims else part.squeeze(axis) for part in parts]
    return list(torch.split(x, split.tolist() if split.dim() else int(split), axis))


@implements("Optional")
def optional(value: Any = None, *, type: Any = None) -> Any:
    return value


@implements("OptionalHasElement")
def optional_has_element(value: Any = None) -> Tensor:
    return torch.tensor(value is not None)


@implements("OptionalGetElement")
def optional_get_element(value: Any) -> Any:
    if value is None:
        raise ValueError("the optional is empty")
    return value
