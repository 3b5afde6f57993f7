"""Exact sums and products of integers.

onnxruntime 1.31 computes ReduceSum and ReduceProd of int64 and int32 in doubles: beyond 2**53 the results are rounded,
and beyond the type's range they stay at its end, where PyTorch's wrap around. Its MatMul and Mul of integers are exact.
The exact forms cost a few nodes more, so they are written only where the numbers are not known to be small: counting
the ones of a mask needs none of this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onward.lower.core import Value

_EXACT = 2**53  # integers up to here are exact as doubles
_MOST_ELEMENTS = 2**32  # along axes whose size only the running model knows; more would not fit into memory
_LARGEST_SIZE = 2**40
_STEPS = 12  # how far back to look for where numbers come from
_SAME_NUMBERS = frozenset({
    "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Gather", "GatherElements", "GatherND", "Expand",
    "Flatten", "Identity", "Split", "Tile", "Neg", "Abs", "ReduceMax", "ReduceMin",
})  # fmt: skip
_OF_SEVERAL = frozenset({"Concat", "Max", "Min"})
_SIZES = frozenset({"Shape", "Size", "NonZero", "ArgMax", "ArgMin"})


def sums_exactly(g: Any, op: str, x: Value, axes: Sequence[int]) -> bool:
    """Whether onnxruntime's own reduction is exact for these numbers."""
    largest = _largest(g, x, _STEPS)
    sizes = [g.known_dims(x)[axis] for axis in axes]
    many = math.prod(sizes) if all(isinstance(size, int) for size in sizes) else _MOST_ELEMENTS
    if largest is None:
        return False
    if op == "ReduceProd":
        return largest <= 1 or many * math.log2(largest) < 53
    return largest * many < min(_EXACT, torch.iinfo(g.dtype(x)).max)


def exact_sum(g: Any, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
    """The sum of integers over some axes, as a product with ones."""
    shape, rank = g.known_dims(x), g.rank(x)
    kept = [axis for axis in range(rank) if axis not in axes]
    rows = g.op.Transpose(x, perm=[*kept, *axes]) if [*kept, *axes] != list(range(rank)) else x
    rows = g.flatten(rows, len(kept)) if len(axes) > 1 else rows
    ones = g.expand(g.const(1, g.dtype(x)), [g.dim_size(rows, -1), 1])  # onnxruntime refuses no rows times a vector
    total = g.op.MatMul(rows, ones)
    if not keepdims:
        return g.squeeze(total, [len(kept)])
    if list(axes) == [rank - 1]:
        return total
    return g.reshape(total, [1 if axis in axes else dim for axis, dim in enumerate(shape)])


def exact_product(g: Any, x: Value, axes: Sequence[int], keepdims: bool) -> Value:
    """The product of integers over some axes, one after the other."""
    rank, dtype = g.rank(x), g.dtype(x)
    kept = [axis for axis in range(rank) if axis not in axes]
    order = [*axes, *kept]  # along the first axis: see cumulative.py
    columns = g.op.Transpose(x, perm=order) if order != list(range(rank)) else x
    columns = g.flatten(columns, 0, len(axes) - 1) if len(axes) > 1 else columns
    rest = g.known_dims(columns)[1:]
    body = g.subgraph("step")
    states = [body.input("product", dtype, rest), body.input("element", dtype, rest)]
    start = g.expand(g.const(1, dtype), rest)
    count = g.known_dims(columns)[0]
    if not isinstance(count, int) or not count:  # onnxruntime 1.31 refuses to scan no elements
        columns = g.op.Concat(g.unsqueeze(start, [0]), columns, axis=0)
    attributes = {"body": body.graph([body.op.Mul(*states)]), "num_scan_inputs": 1}
    product = g.annotate(g.node("Scan", [start, columns], attributes), rest, dtype)
    return g.unsqueeze(product, sorted(axes)) if keepdims else product


def _largest(g: Any, x: Value, steps: int) -> int | None:
    """A bound for the absolute values in a tensor, as far as it is plain from where they come from."""
    constant = g.value_of(x)
    if constant is not None:
        known = constant.device.type != "meta" and constant.numel() <= 2**16 and not constant.is_floating_point()
        return int(constant.to(torch.int64).abs().max()) if known and constant.numel() else None
    dtype, node = g.dtype(x), x.producer()
    if dtype.is_floating_point:
        return None
    own = {torch.bool: 1, torch.uint8: 255}.get(dtype) or -torch.iinfo(dtype).min
    found = None if node is None or node.domain != "" or not steps else _of_node(g, node, x, steps - 1)
    if found is None:
        return None if dtype is torch.int64 else own
    return min(found, own)


def _of_node(g: Any, node: Any, x: Value, steps: int) -> int | None:
    kind = node.op_type
    if kind in _SIZES or (kind == "TopK" and x is node.outputs[1]):
        return _LARGEST_SIZE
    if kind == "Where":
        places = list(node.inputs[1:])
    elif kind in _OF_SEVERAL or kind in ("Add", "Sub", "Mul"):
        places = list(node.inputs)
    elif kind in _SAME_NUMBERS or kind == "Cast":
        places = list(node.inputs[:1])
    else:
        return None
    bounds = [_largest(g, each, steps) for each in places]
    if any(bound is None for bound in bounds):
        return None
    numbers = [bound for bound in bounds if bound is not None]
    return math.prod(numbers) if kind == "Mul" else sum(numbers) if kind in ("Add", "Sub") else max(numbers)
