"""Reductions along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .dimension_math import Operands, Shape
from .python_numbers import ints
from .record import Record, record, register
from .shared_rules import Counted, Steps
from .unsigned_integers import widened

Function = Callable[[Tensor, list[int], bool], Tensor]


class Reduction(Counted, Record):
    """A reduction of some axes, or of all. `of_nothing` says what it does to each element if no axis is reduced."""

    numbers = ("axes",)

    def __init__(
        self, function: Function, of_nothing: Callable[[Tensor], Tensor], flops: int = 1, *, folds: bool = False
    ) -> None:
        self.evaluate = _reduction(function, of_nothing)
        super().__init__(flops, reads=True)
        self.can_fold = folds

    def fold(self, inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        x = inputs[0]
        axes = attributes.get("axes") or (len(inputs) > 1 and inputs[1] is not None and ints(inputs[1]))
        nothing_to_do = not axes and attributes.get("noop_with_empty_axes")
        return None if nothing_to_do or not x.dim() or not x.numel() else super().fold(inputs, attributes, opset)

    def dimensions(self, operands: Operands) -> Any:
        known, axes = operands.axes()
        if not known:
            return None
        shape = operands.shapes[0]
        if not axes and operands.attributes.get("noop_with_empty_axes"):
            return shape
        return _reduced(shape, axes or list(range(len(shape))), operands.attributes)


def _reduced(shape: Shape, axes: list[int], attributes: dict[str, Any]) -> Shape:
    gone = {axis % max(len(shape), 1) for axis in axes}
    if attributes.get("keepdims", 1):
        return tuple(1 if axis in gone else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in gone)


def _reduction(function: Function, of_nothing: Callable[[Tensor], Tensor]) -> Any:
    @widened
    def run(x: Tensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Tensor:
        chosen = [] if axes is None else ints(axes)
        if not chosen and noop_with_empty_axes:
            return of_nothing(x)
        chosen = [axis % max(x.dim(), 1) for axis in chosen] or list(range(x.dim()))
        if x.dim() == 0:
            return function(x.reshape(1), [0], False)
        return function(x, chosen, bool(keepdims)).to(x.dtype)

    return run


def _extreme(function: Callable[..., Tensor], of_empty: str) -> Function:
    def run(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
        if x.numel():
            return function(x, axes, keepdims)
        lowest: Any
        highest: Any
        if x.dtype == torch.bool:
            lowest, highest = False, True
        elif x.is_floating_point():
            lowest, highest = float("-inf"), float("inf")
        else:
            info = torch.iinfo(x.dtype)
            lowest, highest = info.min, info.max
        sizes = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keepdims or axis not in axes]
        return torch.full(sizes, lowest if of_empty == "lowest" else highest, dtype=x.dtype, device=x.device)

    return run


def _product(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, keepdim=keepdims, dtype=x.dtype)
    return x


def _mean(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    if x.is_floating_point():
        return x.mean(axes, keepdim=keepdims)
    return x.to(torch.float64).mean(axes, keepdim=keepdims)


def _sum(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    return torch.sum(x, axes, keepdim=keepdims, dtype=x.dtype)


def _log(x: Tensor) -> Tensor:
    return torch.log(x if x.is_floating_point() else x.double())


def _log_sum_exp(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    return torch.logsumexp(x if x.is_floating_point() else x.double(), axes, keepdim=keepdims)


def _same(x: Tensor) -> Tensor:
    return x


class Mean(Reduction):
    """The mean of floats. What a mean of integers is, runtimes do not agree on, so it is not folded."""

    def fold(self, inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        return super().fold(inputs, attributes, opset) if inputs[0].is_floating_point() else None


register(Reduction(_sum, _same, folds=True), "ReduceSum")
register(Mean(_mean, _same, folds=True), "ReduceMean")
register(Reduction(_product, _same, folds=True), "ReduceProd")
register(Reduction(_extreme(torch.amax, "lowest"), _same, folds=True), "ReduceMax")
register(Reduction(_extreme(torch.amin, "highest"), _same, folds=True), "ReduceMin")
# These are not folded: constants of models rarely meet them.
register(Reduction(lambda x, axes, keep: _sum(x.abs(), axes, keep), torch.abs, flops=2), "ReduceL1")
register(Reduction(lambda x, axes, keep: _sum(x * x, axes, keep).double().sqrt(), torch.abs, flops=2), "ReduceL2")
register(Reduction(lambda x, axes, keep: _log(_sum(x, axes, keep)), _log), "ReduceLogSum")
register(Reduction(_log_sum_exp, _same, flops=2), "ReduceLogSumExp")
register(Reduction(lambda x, axes, keep: _sum(x * x, axes, keep), lambda x: x * x, flops=2), "ReduceSumSquare")


@record("ArgMax", "ArgMin")
class PlaceOfExtreme(Steps):
    """Where the largest or the smallest element of an axis is."""

    def __init__(self) -> None:
        super().__init__(1, reads=True)

    def dimensions(self, operands: Operands) -> Any:
        return _reduced(operands.shapes[0], [operands.attributes.get("axis", 0)], operands.attributes)
