"""Tables looked up by number: embedding, its norm limit, bags of embeddings, one-hot."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from onward.capture.program.facts import Dim

from ..emitter import Emitter, Value
from ..registry import lowers
from .reduce import any_of
from .scatter import put_along

aten = torch.ops.aten


@lowers(aten.embedding.default)
def embedding(
    g: Emitter,
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False)
    -> Tensor

    The other arguments concern gradients only.
    """
    return _rescaled(g, weight, indices) or g.op.Gather(weight, indices, axis=0)


@lowers(aten.embedding_renorm.default)
def embedding_renorm(g: Emitter, weight: Value, indices: Value, max_norm: float, norm_type: float) -> Value:
    """embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor

    What `max_norm` does: rows that are looked up and longer than allowed are shortened in the table.
    """
    index = g.flatten(indices)
    rows = g.op.Gather(weight, index, axis=0)
    length = _length(g, rows, norm_type)
    shrink = g.op.Div(g.like(rows, max_norm), g.op.Add(length, g.like(rows, 1e-7)))
    scale = g.where(g.op.Greater(length, g.like(rows, max_norm)), shrink, g.like(rows, 1))
    return put_along(g, weight, 0, index, g.op.Mul(rows, scale))


def _length(g: Emitter, rows: Value, norm: float) -> Value:
    if norm in (1, 2):
        return g.reduce("ReduceL1" if norm == 1 else "ReduceL2", rows, [1], keepdims=True)
    sizes = g.op.Abs(rows)
    if norm == float("inf"):
        return g.reduce("ReduceMax", sizes, [1], keepdims=True)
    return g.pow(g.reduce("ReduceSum", g.pow(sizes, norm), [1], keepdims=True), 1 / norm)


def _rescaled(g: Emitter, weight: Value, indices: Value) -> Value | None:
    """The rows that `embedding_renorm` has just written at the same indices: no need to read them back.

    Then nobody needs the changed table, and no copy of it is made when the model runs.
    """
    written = weight.producer()
    if written is None or written.op_type not in ("ScatterND", "Scatter") or written.inputs[0] is None:
        return None
    rows = written.inputs[2]
    if rows is None or put_along(g, written.inputs[0], 0, g.flatten(indices), rows) is not weight:
        return None
    return g.reshape(rows, [*g.known_dims(indices), g.known_dims(rows)[1]])


# Bags


@dataclass(frozen=True)
class _Bags:
    """Rows of a table and the bag of each: either [bags, length, width], or [rows, width] with a table of members."""

    rows: Value
    members: Value | None  # bool [bags, length] or [bags, rows]; None if every row counts
    regular: bool

    @property
    def axis(self) -> int:
        return 1 if self.regular else 0


@lowers(
    aten.embedding_bag.default,
    aten.embedding_bag.padding_idx,
    aten._embedding_bag.default,
    aten._embedding_bag_forward_only.default,
)
def embedding_bag(
    g: Emitter,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Value, None, None, None]:
    """embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode,
    bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx)
    -> (Tensor, Tensor, Tensor, Tensor)

    The results after the first serve the gradient.
    """
    rows = _rescaled(g, weight, indices) or g.op.Gather(weight, indices, axis=0)
    if per_sample_weights is not None:
        rows = g.op.Mul(rows, g.unsqueeze(per_sample_weights, [1]))
    kept = None
    if padding_idx is not None and padding_idx >= 0:
        kept = g.not_equal(indices, g.like(indices, padding_idx))
    bags = _bags(g, rows, offsets, kept, include_last_offset)
    combine = {0: _bag_sum, 1: _bag_mean, 2: _bag_max}[mode]
    return combine(g, bags), None, None, None


def _bags(g: Emitter, rows: Value, offsets: Value, kept: Value | None, last: bool) -> _Bags:
    count, width = g.known_dims(rows)
    length = None if last else _bag_length(g, offsets, count)
    if length is not None:
        table = g.reshape(rows, [-1, length, width])
        return _Bags(table, None if kept is None else g.reshape(kept, [-1, length]), True)
    total = g.size(g.dim_size(rows, 0))
    far = 2**31 - 1
    starts = g.slice(offsets, [0], [-1], [0]) if last else offsets
    ends = g.slice(offsets, [1], [far], [0])
    if not last:
        ends = g.op.Concat(ends, g.cast(total, g.dtype(offsets)), axis=0)
    place = g.arange(0, g.dim_size(rows, 0), dtype=g.dtype(offsets))
    begun = g.op.Not(g.op.Less(place, g.unsqueeze(starts, [1])))
    members = g.op.And(begun, g.op.Less(place, g.unsqueeze(ends, [1])))
    return _Bags(rows, members if kept is None else g.op.And(members, kept), False)


def _bag_length(g: Emitter, offsets: Value, count: Dim) -> int | None:
    """How long every bag is, if the graph says that they are all of one length, as for indices with two axes."""
    known = g.value_of(offsets)
    if known is not None:
        numbers = known.tolist()
        length = numbers[1] if len(numbers) > 1 else count
        if not isinstance(length, int) or length < 1 or count != length * len(numbers):
            return None
        return length if numbers == list(range(0, length * len(numbers), length)) else None
    node = offsets.producer()
    if node is None or node.op_type != "Range":
        return None
    start, step = g.value_of(node.inputs[0]), g.value_of(node.inputs[2])
    if start is None or step is None or int(start) != 0:
        return None
    bags = g.known_dims(offsets)[0]
    whole = isinstance(count, int) or isinstance(bags, int) or count.values != tuple(n * int(step) for n in bags.values)
    return None if whole else int(step)


def _sizes(g: Emitter, bags: _Bags, like: Value) -> Value | None:
    """How many rows each bag has, at least one: [bags, 1]."""
    if bags.members is None:
        return None
    counted = g.reduce("ReduceSum", g.cast(bags.members, g.dtype(like)), [1], keepdims=True)
    return g.max(counted, g.like(like, 1))


def _bag_sum(g: Emitter, bags: _Bags) -> Value:
    if bags.members is None:
        return g.reduce("ReduceSum", bags.rows, [1])
    if bags.regular:
        zero = g.like(bags.rows, 0)
        return g.reduce("ReduceSum", g.where(g.unsqueeze(bags.members, [2]), bags.rows, zero), [1])
    return g.op.MatMul(g.cast(bags.members, g.dtype(bags.rows)), bags.rows)


def _bag_mean(g: Emitter, bags: _Bags) -> Value:
    sizes = _sizes(g, bags, bags.rows)
    if sizes is None:
        return g.reduce("ReduceMean", bags.rows, [1])
    return g.op.Div(_bag_sum(g, bags), sizes)


def _bag_max(g: Emitter, bags: _Bags) -> Value:
    """An empty bag gives zeros."""
    if bags.members is None:
        return g.reduce("ReduceMax", bags.rows, [1])
    low = g.like(bags.rows, float("-inf"))
    rows = bags.rows if bags.regular else g.unsqueeze(bags.rows, [0])
    largest = g.reduce("ReduceMax", g.where(g.unsqueeze(bags.members, [2]), rows, low), [1])
    filled = any_of(g, bags.members, [1], keepdims=True)
    return g.where(filled, largest, g.like(bags.rows, 0))


@lowers(aten.one_hot.default)
def one_hot(g: Emitter, x: Value, num_classes: int = -1) -> Value:
    """one_hot(Tensor self, int num_classes=-1) -> Tensor"""
    if num_classes == -1:
        raise g.unsupported("the number of classes depends on the data; give num_classes")
    if g.rank(x) == 0:
        return g.reshape(g.one_hot(g.reshape(x, [1]), num_classes), [num_classes])
    return g.one_hot(x, num_classes)
