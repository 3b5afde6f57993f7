"""Sizes, axes and the like as Python's numbers.

ONNX hands a shape to Reshape in a tensor, and computes it with the operators that everything else is computed with.
PyTorch takes numbers. A tensor in between would have to be read while the model runs, which waits for the device,
hides from `torch.compile` where the number comes from, and makes a constant of it when the model is exported again.

So values of at most one axis that are made of sizes and constants are numbers from the start: an int, or a tuple of
them. The operators here compute on those; `compile.py` makes a tensor of one where an operator wants a tensor.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..tables import enter

MOST_NUMBERS = 256  # beyond, they are data
_LEAST = {"Gather": 2, "Where": 3, **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Equal", "Less", "Greater"), 2)}


@dataclass(frozen=True)
class NumberOp:
    """How an operator computes on numbers. `rank` says how many axes the result has; None: leave it to tensors."""

    function: Callable[..., Any]
    rank: Callable[..., int | None]
    compares: bool = False

    def step(self, *inputs: Any, **attributes: Any) -> tuple[Any]:
        """As a plan calls it, for which a tuple is several outputs."""
        return (self.function(*inputs, **attributes),)


@dataclass(frozen=True)
class Numbers:
    """A value that is numbers: the slot they are in, and what they are if that is known before the model runs."""

    slot: int
    rank: int
    dtype: torch.dtype
    content: Any = None
    natural: bool = False  # never negative, as sizes are
    most: int = 1  # how many there can be

    @property
    def computable(self) -> bool:
        """Whether the operators here do what ONNX says: Python's numbers do not round and do not overflow."""
        return self.dtype in (torch.int64, torch.bool)


NUMBER_OPS: dict[str, NumberOp] = {}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Equal": operator.eq, "Less": operator.lt, "Greater": operator.gt, "LessOrEqual": operator.le,
    "GreaterOrEqual": operator.ge,
}  # fmt: skip
# Their input is a tensor, and only their result is numbers.
SIZES = {
    "Shape": Numbers(-1, 1, torch.int64, natural=True, most=64),
    "Size": Numbers(-1, 0, torch.int64, natural=True),
}
OF_TENSORS = frozenset(SIZES)


def _computes(*op_types: str, rank: Callable[..., int | None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for op_type in op_types:
            enter(NUMBER_OPS, op_type, NumberOp(function, rank, op_type in _COMPARISONS))
        return function

    return decorate


def as_tensor(value: Any, *, dtype: torch.dtype, device: torch.device | str) -> torch.Tensor:
    """Numbers for an operator that wants a tensor."""
    return torch.tensor(value, dtype=dtype, device=device)


def known_content(tensor: torch.Tensor) -> Any:
    """A small constant as numbers; None if it is none."""
    if tensor.dim() > 1 or tensor.numel() > MOST_NUMBERS or tensor.is_complex():
        return None
    content: Any = tensor.tolist()
    return tuple(content) if isinstance(content, list) else content


def _many(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@_computes("Shape", rank=lambda ranks, **_: 1)
def shape_of(x: Any, *, start: int = 0, end: int | None = None) -> tuple[Any, ...]:
    rank = len(x.shape)
    first = max(0, start + rank if start < 0 else start)
    last = rank if end is None else max(0, end + rank if end < 0 else end)
    return tuple(x.shape[first:last])


@_computes("Size", rank=lambda ranks, **_: 0)
def size_of(x: Any) -> Any:
    return math.prod(x.shape)


@_computes("Identity", rank=lambda ranks, **_: ranks[0])
def _identity(x: Any) -> Any:
    return x


@_computes("Cast", rank=lambda ranks, *, to, **_: ranks[0] if to == 7 else None)
def _cast(x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    """To int64; to anything else it is a tensor's."""
    return _each(lambda item: int(item) if isinstance(item, bool) else item, x)


@_computes("Gather", rank=lambda ranks, **_: ranks[1] if ranks[0] == 1 else None)
def _gather(x: tuple[Any, ...], indices: Any, *, axis: int = 0) -> Any:
    return _each(lambda index: x[index], indices)


@_computes("Concat", rank=lambda ranks, **_: 1 if all(rank == 1 for rank in ranks) else None)
def _concat(*xs: tuple[Any, ...], axis: int = 0) -> tuple[Any, ...]:
    return tuple(item for x in xs for item in x)


@_computes("Slice", rank=lambda ranks, **_: ranks[0] or None)
def _slice(x: tuple[Any, ...], starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> tuple[Any, ...]:
    (start,), (end,), (step,) = _many(tuple(starts)), _many(tuple(ends)), (1,) if steps is None else tuple(steps)
    return x[start:end:step]


@_computes("Unsqueeze", rank=lambda ranks, **_: 1 if ranks[0] == 0 else None)
def _unsqueeze(x: Any, axes: Any = None) -> tuple[Any, ...]:
    return (x,)


@_computes("Squeeze", rank=lambda ranks, **_: 0 if ranks[0] == 1 else None)
def _squeeze(x: tuple[Any, ...], axes: Any = None) -> Any:
    (item,) = x
    return item


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """With the shorter operand, of one element, repeated."""

    def run(*xs: Any) -> Any:
        if not any(isinstance(x, tuple) for x in xs):
            return _bounded(function(*xs))
        rows = [_many(x) for x in xs]
        length = next((len(row) for row in rows if len(row) != 1), 1)
        return tuple(
            function(*items) for items in zip(*(row * length if len(row) == 1 else row for row in rows), strict=True)
        )

    return run


def _bounded(result: Any) -> Any:
    """Nothing that int64 does not hold: a number that is squared again and again fills the memory."""
    if type(result) is int and not -(2**63) <= result < 2**63:
        raise OverflowError("a size or another number is beyond 64 bits")
    return result


def _each(function: Callable[[Any], Any], x: Any) -> Any:
    return tuple(function(item) for item in x) if isinstance(x, tuple) else function(x)


def _divide(x: Any, y: Any) -> Any:
    """Towards zero."""
    return x // y if (x >= 0) == (y > 0) else -(-x // y)


_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    **_COMPARISONS, "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "Div": _divide, "Neg": operator.neg,
    "Where": lambda condition, x, y: x if condition else y,
    "Min": lambda *xs: functools.reduce(torch.sym_min, xs), "Max": lambda *xs: functools.reduce(torch.sym_max, xs),
}  # fmt: skip
for _op, _function in _ELEMENTWISE.items():
    _computes(_op, rank=lambda ranks, **legacy: None if legacy else max(ranks))(_elementwise(_function))


@_computes(
    "ReduceProd",
    rank=lambda ranks, *, keepdims=1, noop_with_empty_axes=0, **_: (
        int(keepdims) if ranks[0] == 1 and not noop_with_empty_axes else None
    ),
)
def _product(x: tuple[Any, ...], axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
    result = functools.reduce(lambda product, each: _bounded(product * each), x, 1)
    return (result,) if keepdims else result


def result_of(op_type: str, given: Sequence[Numbers | None], attributes: dict[str, Any]) -> Numbers | None:
    """What an operator makes of numbers, the slot still open; None if it is for tensors."""
    operation = NUMBER_OPS[op_type]
    there = [each for each in given if each is not None]
    if len(there) < _LEAST.get(op_type, 1) or not all(each.computable for each in there):
        return None
    rank = operation.rank([each.rank for each in there], **attributes)
    counts = [each.most for each in there]
    most = {"Concat": sum(counts), "Gather": counts[-1]}.get(op_type, max(counts))
    if rank is None or most > MOST_NUMBERS:
        return None
    dtype = torch.bool if operation.compares else there[1 if op_type == "Where" else 0].dtype
    if op_type == "Cast":
        dtype = torch.int64
    natural = op_type not in ("Sub", "Neg") and all(each.natural for each in there)
    content = None
    if all(each.content is not None for each in there):
        with contextlib.suppress(Exception):  # what is wrong is said, with its node, when it is computed
            content = operation.function(*(None if each is None else each.content for each in given), **attributes)
    return Numbers(-1, rank, dtype, content, natural, most)
