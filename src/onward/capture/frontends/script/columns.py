"""The elements of a list whose length depends on data, one leaf of them: a column.

Elements of one shape are the rows of one tensor: appending concatenates, the length is a size, `stack` is the tensor
itself, and that works at every opset. Where shapes differ, a column is a `TracedList`, a sequence in ONNX. Every
function here takes both, and gives the first as long as it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...bodies.control_flow import capture_loop
from ...bodies.traced_list import TracedList
from ...memory.graph_levels import Level
from ...memory.tensor import Traced
from ...program.facts import Dim, ListFact, SymDim, TensorFact
from ...record.tracer import Tracer, tracer_of
from ...sizes.sizes import SYMBOLIC, AxisOf, NumberOf, Size, either, symbol

Column = torch.Tensor | TracedList


class NotAlike(Exception):
    """Elements that have no form in one list; the text says why."""


def shape_of(tensor: torch.Tensor) -> tuple[Dim, ...]:
    return tensor.fact.shape if isinstance(tensor, Traced) else tuple(tensor.shape)


def tracer_among(*values: Any) -> Tracer | None:
    """The tracer of the first value that has one; None if none has."""
    for each in values:
        if isinstance(each, (Traced, TracedList)):
            return tracer_of(each)
        if isinstance(each, SYMBOLIC):
            return tracer_of(each.node)
    return None


def _needed(tracer: Tracer | None, *values: Any) -> Tracer:
    found = tracer or tracer_among(*values)
    if found is None:
        raise NotAlike("its elements are constants of different shapes")
    return found


# --- made ------------------------------------------------------------------------------------------------------------
def column_of(tensors: Sequence[torch.Tensor], tracer: Tracer | None = None, *, dense: bool = True) -> Column:
    """At least one tensor, all of one dtype and one number of axes."""
    if dense and all(shape_of(each) == shape_of(tensors[0]) for each in tensors):
        return torch.stack(tuple(tensors))
    return TracedList.of(_needed(tracer, *tensors), tensors)


def as_list(column: Column, tracer: Tracer | None = None) -> TracedList:
    if isinstance(column, TracedList):
        return column
    tracer = _needed(tracer, column)
    column = tracer.plain.stand_in(column)
    return TracedList.unbound(tracer, column if isinstance(column, Traced) else tracer.plain.lift(column))


# --- read ------------------------------------------------------------------------------------------------------------
def length(column: Column) -> Any:
    return column.length() if isinstance(column, TracedList) else counted(column.shape[0])


def item(column: Column, index: Any) -> torch.Tensor:
    return column.get(index) if isinstance(column, TracedList) else column.select(0, index)


def counted(size: Any) -> Any:
    """A size that depends on data, as a number that does: a branch on it is kept, whatever the probes say."""
    if not isinstance(size, torch.SymInt) or size.node.from_data:
        return size
    tracer = tracer_of(size.node)
    if not tracer.dims.is_of_data(size.node.values):
        return size
    return symbol(Size(tracer, size.node.values, NumberOf(tracer.size_node(size.node))))


# --- changed ---------------------------------------------------------------------------------------------------------
def fits(first: Column, second: Column) -> bool:
    """Whether two columns are rows of one shape."""
    if isinstance(first, TracedList) or isinstance(second, TracedList):
        return False
    return shape_of(first)[1:] == shape_of(second)[1:]


def joined(first: Column, second: Column) -> Column:
    if fits(first, second):
        return torch.cat([first, second])  # type: ignore[list-item]
    tracer = _needed(None, first, second)
    if not isinstance(second, TracedList) and not isinstance(shape_of(second)[0], SymDim):
        made = as_list(first, tracer)
        for each in second.unbind(0):
            made = made.inserted(None, each)
        return made
    source = as_list(second, tracer)
    return _collected(as_list(first, tracer), source.length(), lambda made, turn: made.inserted(None, source.get(turn)))


def extended(column: Column, tensors: Sequence[torch.Tensor]) -> Column:
    """With tensors at the end."""
    if not tensors:
        return column
    if not isinstance(column, TracedList) and all(shape_of(each) == shape_of(column)[1:] for each in tensors):
        return torch.cat([column, torch.stack(tuple(tensors))])
    made = as_list(column, tracer_among(column, *tensors))
    for each in tensors:
        made = made.inserted(None, each)
    return made


def preceded(column: Column, tensors: Sequence[torch.Tensor]) -> Column:
    """With tensors at the beginning."""
    if not isinstance(column, TracedList) and all(shape_of(each) == shape_of(column)[1:] for each in tensors):
        return torch.cat([torch.stack(tuple(tensors)), column])
    made = as_list(column, tracer_among(column, *tensors))
    for place, each in enumerate(tensors):
        made = made.inserted(place, each)
    return made


def sliced(column: Column, start: Any, end: Any, step: int) -> Column:
    if not isinstance(column, TracedList):
        return column[slice(start, end, step)]
    if step < 1:
        raise NotAlike("a slice of it goes backwards")
    many = column.length()
    first = 0 if start is None else _within(start, many)
    last = many if end is None else _within(end, many)
    count = torch.sym_max((last - first + step - 1) // step, 0)
    empty = TracedList.empty(tracer_of(column), column.fact)
    return _collected(empty, count, lambda made, turn: made.inserted(None, column.get(first + turn * step)))


def _within(index: Any, many: Any) -> Any:
    """An end of a slice as a place from 0 to the length."""
    if not isinstance(index, SYMBOLIC):
        return torch.sym_max(many + index, 0) if index < 0 else torch.sym_min(index, many) if index else 0
    return torch.sym_min(torch.sym_max(_from_front(index, many), 0), many)


def _from_front(index: Any, many: Any) -> Any:
    """An index that may be negative, counted from the front."""
    return either(index < 0, index + many, index) if isinstance(index, torch.SymInt) else index


def replaced(column: Column, index: Any, value: torch.Tensor) -> Column:
    if not isinstance(column, TracedList):
        if shape_of(value) == shape_of(column)[1:]:
            place = column.shape[0] + index if isinstance(index, int) and index < 0 else index
            place = torch.scalar_tensor(place, dtype=torch.int64).reshape(1)
            return column.index_copy(0, place, value.unsqueeze(0))
        column = as_list(column, tracer_among(column, value, index))
    if isinstance(index, SYMBOLIC):
        index = _from_front(index, column.length())
    left = column.without(index)
    if isinstance(index, int) and index < 0:  # counted from the end, of a list that is one shorter
        return left.inserted(None if index == -1 else index + 1, value)
    return left.inserted(index, value)


def without(column: Column, index: Any) -> Column:
    if isinstance(column, TracedList):
        return column.without(index)
    before = column[:index]
    last = isinstance(index, int) and index == -1
    return before if last else torch.cat([before, column[index + 1 :]])


def inserted(column: Column, index: Any, value: torch.Tensor) -> Column:
    if not isinstance(column, TracedList):
        if shape_of(value) == shape_of(column)[1:]:
            return torch.cat([torch.cat([column[:index], torch.stack([value])]), column[index:]])
        column = as_list(column, tracer_among(column, value, index))
    if isinstance(index, SYMBOLIC) or index:  # as in Python, an index beyond either end means that end
        many = column.length()
        high = torch.sym_min(index, many) if isinstance(index, SYMBOLIC) or index > 0 else index
        index = torch.sym_max(high, -many) if isinstance(index, SYMBOLIC) or index < 0 else high
    return column.inserted(index, value)


def reversed_(column: Column) -> Column:
    if not isinstance(column, TracedList):
        return column.flip(0)
    empty = TracedList.empty(tracer_of(column), column.fact)
    return _collected(empty, column.length(), lambda made, turn: made.inserted(0, column.get(turn)))


def _collected(made: TracedList, turns: Any, step: Any) -> TracedList:
    """A list that a loop of our own makes."""
    if type(turns) is int:
        for turn in range(turns):
            made = step(made, turn)
        return made
    (made,), _ = capture_loop(
        tracer_of(made), turns, True, [made], lambda turn, given: (True, [step(given[0], turn)], [])
    )
    return made


# --- sizes that are known outside of a loop --------------------------------------------------------------------------
def no_rows(tracer: Tracer, fact: TensorFact | ListFact) -> Column:
    """An empty column; rows if their sizes are known before there are any."""
    sizes = [size_outside(tracer, tracer.levels, dim) for dim in fact.shape]
    if all(size is not None for size in sizes):
        return torch.zeros((0, *sizes), dtype=fact.dtype)
    return no_items(tracer, fact)


def no_items(tracer: Tracer, fact: TensorFact | ListFact) -> TracedList:
    """An empty list, with those dimensions that are known before there is anything in it."""
    known = tuple(None if size_outside(tracer, tracer.levels, dim) is None else dim for dim in fact.shape)
    return TracedList.empty(tracer, ListFact(fact.dtype, known))


def size_outside(tracer: Tracer, levels: Sequence[Level], dim: Dim | None) -> Any:
    """A dimension as a number for the graphs of some levels; None if no tensor there has it."""
    if dim is None or isinstance(dim, int):
        return dim
    key = tracer.dims.key(dim.values)
    origin = next((found for level in levels if (found := _axis_with(level, dim, key)) is not None), None)
    return None if origin is None else symbol(Size(tracer, dim.values, origin))


def _axis_with(level: Level, dim: SymDim, key: Any) -> AxisOf | None:
    known = level.sizes.get(key)
    if isinstance(known, AxisOf):
        return known
    for node in level.graph.nodes:
        fact = node.meta.get("val")
        if isinstance(fact, TensorFact) and dim in fact.shape:
            return AxisOf(node, fact.shape.index(dim))
    return None
