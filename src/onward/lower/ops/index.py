"""Reading at indices: `x[i, j]`, gather, take, masks and the places of what is not zero."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from onward.capture.program.facts import TensorFact

from ..emitter import Emitter, Value
from ..registry import lowers
from . import _positions as positions

aten = torch.ops.aten


@lowers(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(g: Emitter, x: Value, indices: Sequence[Value | None]) -> Value:
    """index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"""
    given = [each for each in indices if each is not None]
    if not given:
        return x
    masked = _only_mask(g, indices)
    if masked is not None:
        mask, axis = masked
        table = g.flatten(x, axis, axis + g.rank(mask) - 1)
        return _known(g, g.op.Compress(table, g.flatten(mask), axis=axis))
    indices = positions.unmasked(g, indices)
    how = positions.plan(g, x, indices)
    if len(how.axes) == 1:
        axis = how.axes[0]
        return g.op.Gather(x, positions.readable(g, x, how.indices[0], axis), axis=axis)
    adjacent = how.first == how.axes[0] and how.axes == tuple(range(how.first, how.first + len(how.axes)))
    cheap = how.first > 0 and all(positions.never_negative(g, each) for each in how.indices)
    if adjacent and (g.opset < 11 or cheap):
        return g.op.Gather(positions.merged(g, x, how), positions.linear_index(g, x, how), axis=how.first)
    front = g.op.Transpose(x, perm=how.to_front)
    if g.opset < 11:
        moved = positions.Plan(tuple(range(len(how.axes))), how.indices, how.shape, 0, how.rank)
        picked = g.op.Gather(positions.merged(g, front, moved), positions.linear_index(g, front, moved), axis=0)
    else:
        picked = g.op.GatherND(front, _table_of(g, how.indices) or positions.tuple_index(g, how))
        others = g.known_dims(x)
        picked = g.annotate(picked, (*how.shape, *(others[axis] for axis in how.others)))
    return g.op.Transpose(picked, perm=how.into_place)


def _known(g: Emitter, x: Value) -> Value:
    """With the dimensions that capture saw: a size that depends on data has its name there."""
    return g.annotate(x, g.out.shape) if isinstance(g.out, TensorFact) else x


def _only_mask(g: Emitter, indices: Sequence[Value | None]) -> tuple[Value, int] | None:
    """The mask and the first axis it masks, if it is the only index: as it is, or as the columns of its nonzero."""
    named = [(axis, each) for axis, each in enumerate(indices) if each is not None]
    first, start = named[0][1], named[0][0]
    if positions.is_mask(g, first):
        return (positions.as_bool(g, first), start) if len(named) == 1 and not g.is_const(first) else None
    if [axis for axis, _ in named] != list(range(start, start + len(named))):
        return None
    table = _table_of(g, [each for _, each in named])
    mask = _transposed_nonzero(table) if table is not None else None
    return (mask, start) if mask is not None and g.dtype(mask) is torch.bool else None


def _column_of(g: Emitter, index: Value) -> tuple[Value, int] | None:
    """The table and the column, if an index is a column of a table."""
    node = index.producer()
    table = node.inputs[0] if node is not None and node.op_type in ("Gather", "Squeeze") else None
    if node is None or table is None or g.dims(table) is None or g.rank(table) < 2:
        return None
    if node.op_type == "Squeeze":
        return (table, 0) if g.rank(table) == 2 and g.rank(index) == 1 and g.known_dims(table)[1] == 1 else None
    column = g.value_of(node.inputs[1])
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
    last = axis % g.rank(table) == g.rank(table) - 1
    return (table, int(column)) if last and column is not None and column.dim() == 0 else None


def _transposed_nonzero(table: Value) -> Value | None:
    """What `nonzero` was asked of, if the table is its answer."""
    node = table.producer()
    if node is None or node.op_type != "Transpose" or node.inputs[0] is None:
        return None
    rows = node.inputs[0].producer()
    return rows.inputs[0] if rows is not None and rows.op_type == "NonZero" else None


def _table_of(g: Emitter, indices: Sequence[Value]) -> Value | None:
    """The table whose columns, all of them and in order, are the indices: it need not be put together again."""
    columns = [_column_of(g, each) for each in indices]
    first = columns[0]
    if first is None or any(each != (first[0], place) for place, each in enumerate(columns)):
        return None
    table = first[0]
    return table if g.known_dims(table)[-1] == len(columns) and g.dtype(table) is torch.int64 else None


@lowers(aten.index_select.default)
def index_select(g: Emitter, x: Value, dim: int, index: Value) -> Value:
    """index_select(Tensor self, int dim, Tensor index) -> Tensor"""
    if g.rank(x) == 0:
        return x
    return g.op.Gather(x, g.reshape(index, [1]) if g.rank(index) == 0 else index, axis=dim)


@lowers(aten.gather.default)
def gather(g: Emitter, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    """gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"""
    if g.rank(index) == 0:
        row = g.reshape(x, [1]) if g.rank(x) == 0 else x
        return g.reshape(g.gather_elements(row, g.reshape(index, [1]), 0), [])
    return g.gather_elements(x, index, dim)


@lowers(aten.take.default)
def take(g: Emitter, x: Value, index: Value) -> Value:
    """take(Tensor self, Tensor index) -> Tensor"""
    return g.op.Gather(g.flatten(x), positions.readable(g, x, index, None), axis=0)


@lowers(aten.nonzero.default)
def nonzero(g: Emitter, x: Value) -> Value:
    """nonzero(Tensor self) -> Tensor"""
    if g.rank(x) == 0:
        count = g.reshape(g.cast(g.cast(x, torch.bool), torch.int64), [1])  # of rows without columns
        return _known(g, g.op.ConstantOfShape(g.op.Concat(count, g.const([0]), axis=0), value=torch.zeros(1).long()))
    return _known(g, g.op.Transpose(positions.nonzero_rows(g, x), perm=[1, 0]))


@lowers(aten.masked_select.default)
def masked_select(g: Emitter, x: Value, mask: Value) -> Value:
    """masked_select(Tensor self, Tensor mask) -> Tensor"""
    shape = positions.dimensions.broadcast(g.known_dims(x), g.known_dims(mask))
    x, mask = (g.flatten(g.expand(each, shape)) for each in (x, positions.as_bool(g, mask)))
    return _known(g, g.op.Compress(x, mask, axis=0))
