"""Sizes as tensors, tensors made from sizes, and casts."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import to_torch_dtype
from torch import Tensor

from .dimension_math import Operands
from .python_numbers import ints
from .record import record
from .seen_node import SeenNode, maker
from .shared_rules import MAX_BYTES, Keeps, Moves


def sizes_of(x: Any, *, start: int = 0, end: int | None = None) -> tuple[Any, ...]:
    """The sizes of some axes, as Python's numbers."""
    rank = len(x.shape)
    first = max(0, start + rank if start < 0 else start)
    last = rank if end is None else max(0, end + rank if end < 0 else end)
    return tuple(x.shape[first:last])


@record("Shape")
class Shape(Moves):
    """The sizes of a tensor, or of some of its axes."""

    folds_without_data = True

    @staticmethod
    def evaluate(x: Any, *, start: int = 0, end: int | None = None) -> Tensor:
        return torch.tensor(sizes_of(x, start=start, end=end), dtype=torch.int64)

    def dimensions(self, operands: Operands) -> Any:
        rank, attributes = len(operands.shapes[0]), operands.attributes
        return (len(range(rank)[attributes.get("start", 0) : attributes.get("end")]),)


@record("Size")
class Size(Moves):
    """How many elements a tensor has."""

    folds_without_data = True

    @staticmethod
    def evaluate(x: Any) -> Tensor:
        return torch.tensor(math.prod(x.shape), dtype=torch.int64)

    def dimensions(self, operands: Operands) -> Any:
        return ()


def filled(sizes: list[int], value: Tensor | None) -> Tensor:
    """One number in every element: a view of that number. Whoever may write to the result copies it."""
    return (torch.zeros(1) if value is None else value).reshape([]).expand(sizes)


@record("ConstantOfShape")
class ConstantOfShape(Moves):
    """One number in every element."""

    def fold(self, inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        return filled(ints(inputs[0]), attributes.get("value"))

    def dimensions(self, operands: Operands) -> Any:
        sizes = operands.ints(0)
        return None if sizes is None else tuple(sizes)


@record("Range")
class Range(Moves):
    """Numbers in steps. Constants are computed as PyTorch does, whose `arange` the model calls; the backend computes
    floats by ONNX's formula, which rounds differently."""

    def fold(self, inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        start, limit, delta = (x.reshape([]).item() for x in inputs)
        if delta == 0 or (limit - start) / delta * inputs[0].element_size() > MAX_BYTES:
            return None
        empty = (limit - start) / delta <= 0
        return inputs[0].new_empty(0) if empty else torch.arange(start, limit, delta, dtype=inputs[0].dtype)


@record("NonZero")
class NonZero(Moves):
    """The places of elements that are not zero."""

    @staticmethod
    def evaluate(x: Tensor) -> Tensor:
        return torch.nonzero(x if x.dim() else x.reshape(1)).t().contiguous()


# Casts


@record("Cast")
class Cast(Moves, Keeps):
    """Another element type. Constants are cast as PyTorch does, in whose terms the model is written; the backend has
    strings, types of a few bits and saturation besides."""

    def fold(self, inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        x, target = inputs[0], to_torch_dtype(ir.DataType(attributes["to"]))
        return None if x.nbytes > MAX_BYTES and target.itemsize >= x.element_size() else x.to(target)

    def repeats(self, node: SeenNode) -> ir.Value | None:
        """A cast to the type that the input has, and a cast to a type that holds every value and back."""
        x, to = node.inputs[0], node.attribute("to")
        if not isinstance(to, int):  # the name of a type, in opset 5 and before
            return None
        if node.element_type(x) == to:
            return x
        inner = maker(x, "Cast")
        origin = inner.inputs[0] if inner is not None else None
        if inner is None or origin is None or node.element_type(origin) != to:
            return None
        return origin if holds(inner.attributes.get_int("to", 0), to) else None


@record("CastLike")
class CastLike(Moves, Keeps):
    """The element type of another tensor."""

    def repeats(self, node: SeenNode) -> ir.Value | None:
        x, like = node.inputs
        known = node.element_type(x)
        return x if known is not None and known == node.element_type(like) else None


def holds(wide: int, narrow: int) -> bool:
    """Whether every value of the narrow type survives a trip through the wide one; both as ONNX numbers types."""
    try:
        return _holds(to_torch_dtype(ir.DataType(wide)), to_torch_dtype(ir.DataType(narrow)))
    except (TypeError, ValueError):  # a type that PyTorch does not have
        return False


def _holds(wide: torch.dtype, narrow: torch.dtype) -> bool:
    if narrow is torch.bool:
        return True
    if wide.is_floating_point and narrow.is_floating_point:
        w, n = torch.finfo(wide), torch.finfo(narrow)
        return w.eps <= n.eps and w.max >= n.max and w.tiny <= n.tiny
    if wide.is_floating_point:
        return torch.iinfo(narrow).bits < -torch.log2(torch.tensor(torch.finfo(wide).eps)).item()
    if narrow.is_floating_point or wide is torch.bool:
        return False
    w_int, n_int = torch.iinfo(wide), torch.iinfo(narrow)
    return w_int.min <= n_int.min and w_int.max >= n_int.max
