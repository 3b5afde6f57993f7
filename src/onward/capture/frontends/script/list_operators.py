"""What scripts do with lists whose length depends on data."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from ...bodies.traced_list import TracedList
from ...ground.tree import flatten
from ...memory.tensor import Traced
from ...program.facts import Dim, SymDim, TensorFact
from ...record.tracer import tracer_of
from ...sizes.sizes import SYMBOLIC, is_from_data
from .columns import NotAlike, tracer_among
from .containers import Form, Place, element_in
from .flow import Again
from .lists import DTYPES, Element, Rows, ScriptList, adopt, list_with

_BY_INDEX = frozenset({
    "aten::__getitem__", "aten::_set_item", "aten::slice", "aten::pop", "aten::insert", "aten::Delete",
})  # fmt: skip

# Containers may hold a list of unknown length like any other value.
_HOLDING = frozenset({"aten::append", "aten::insert", "aten::_set_item"})


def concerns(kind: str, inputs: list[Any]) -> bool:
    """Whether a list among the arguments is one of unknown length, or is asked for an element that data names."""
    asked = inputs[:1] if kind in _HOLDING else inputs
    if any(isinstance(each, ScriptList) and not each.is_known for each in asked):
        return True
    by_data = kind in _BY_INDEX and isinstance(inputs[0], ScriptList)
    return by_data and any(isinstance(each, SYMBOLIC) and not each.node.is_uniform for each in inputs[1:2])


def on_rows(kind: str, inputs: list[Any]) -> Any:
    """The result; NotImplemented if such a list has no form there."""
    for each in inputs:
        if isinstance(each, ScriptList) and each.writer is not None:
            if each is inputs[0] and kind in _APPENDING and not _unknown(inputs[1]):
                return _APPENDING[kind](each, inputs[1])
            raise Again(each.writer, Place(each), Form.ROWS, element_in(each))
    operation = _OPERATIONS.get(kind)
    return NotImplemented if operation is None else operation(*inputs)


def unbound(x: Any, axis: int = 0) -> ScriptList | None:
    """`unbind` along a dynamic axis; None where the axis is none."""
    if not isinstance(x, Traced) or not isinstance(x.fact.shape[axis], SymDim):
        return None
    rows = x.movedim(axis, 0)
    return list_with(Rows(_element(rows, None), (rows,)))


def parted(x: Any, sizes: Any, axis: int = 0) -> ScriptList | None:
    """`split` into a number of parts that depends on data, or on the size of a dynamic axis; None where it does not."""
    if isinstance(sizes, ScriptList):
        lengths = None if sizes.is_known else _rows(sizes).only
    else:
        lengths = sizes if isinstance(x, Traced) and _parts_vary(x.fact.shape[axis], sizes) else None
    if lengths is None:
        return None
    if not isinstance(x, Traced):
        x = tracer_of(lengths).plain.lift(x)
    return adopt(TracedList.split(tracer_of(x), x, lengths, axis))


def _parts_vary(dim: Dim, size: int | torch.SymInt) -> bool:
    """Whether a dimension is cut into a number of parts that is not the same at all probes."""
    if is_from_data(size):
        return True
    wholes = dim.values if isinstance(dim, SymDim) else itertools.repeat(dim)
    sizes = size.node.values if isinstance(size, torch.SymInt) else itertools.repeat(size)
    if isinstance(wholes, itertools.repeat) and isinstance(sizes, itertools.repeat):
        return False
    return len({-(-whole // part) for whole, part in zip(wholes, sizes, strict=False)}) > 1


def numbers_in(x: torch.Tensor) -> Any:
    """`tolist` of a tensor."""
    if x.dim() == 0:
        return x.item()
    if x.dim() == 1 and isinstance(x, Traced) and isinstance(x.fact.shape[0], SymDim):
        kind = bool if x.dtype is torch.bool else float if x.is_floating_point() else int
        rows = x.to(DTYPES[kind], copy=True)  # numbers do not change with the tensor
        return list_with(Rows(_element(rows, kind), (rows,)))
    parts = unbound(x)
    if parts is not None:
        raise NotAlike("tolist() of several axes, the first of them dynamic")
    return ScriptList(numbers_in(each) for each in x.unbind(0))


def _element(rows: torch.Tensor, kind: type | None) -> Element:
    _, structure = flatten(0)
    shape = rows.fact.shape if isinstance(rows, Traced) else tuple(rows.shape)
    return Element(structure, (kind or TensorFact(rows.dtype, shape[1:]),))


def _unknown(value: Any) -> bool:
    return isinstance(value, ScriptList) and not value.is_known


def _rows(items: ScriptList, index: Any = None) -> Rows:
    """The rows of a list; one of known length has none before an index asks for them."""
    if items.rows is not None:
        return items.rows
    if not items:
        raise IndexError("list index out of range")
    return Rows.of(items, tracer_among(index))


# --- changes ---------------------------------------------------------------------------------------------------------
def _append(items: ScriptList, value: Any) -> ScriptList:
    if items.writer is not None:
        list.append(items, value)
    else:
        items.become((), _rows(items).extended([value]))
    return items


def _joined(first: ScriptList, second: ScriptList) -> ScriptList:
    if second.is_known:
        return list_with(_rows(first).extended(second))
    if first.is_known:
        return list_with(_rows(second).preceded(first) if first else _rows(second))
    return list_with(_rows(first).plus(_rows(second)))


def _extend(items: ScriptList, others: ScriptList) -> ScriptList:
    if items.writer is not None:
        list.extend(items, others)
    else:
        items.become((), _joined(items, others).rows)
    return items


def _pop(items: ScriptList, index: Any = -1) -> Any:
    rows = _rows(items, index)
    value = rows.get(index)
    items.become((), rows.without(index))
    return value


def _set(items: ScriptList, index: Any, value: Any) -> ScriptList:
    items.become((), _rows(items, index).replaced(index, value))
    return items


def _delete(items: ScriptList, index: Any) -> None:
    items.become((), _rows(items, index).without(index))


def _insert(items: ScriptList, index: Any, value: Any) -> None:
    items.become((), _rows(items, index).inserted(index, value))


# --- reading ---------------------------------------------------------------------------------------------------------
def _stack(items: ScriptList, dim: int = 0) -> torch.Tensor:
    rows = _rows(items).only
    return rows.stack(dim) if isinstance(rows, TracedList) else _copied(rows.movedim(0, dim))


def _cat(items: ScriptList, dim: int = 0) -> torch.Tensor:
    rows = _rows(items).only
    if isinstance(rows, TracedList):
        return rows.cat(dim)
    dim %= rows.dim() - 1
    return _copied(rows.movedim(0, dim).flatten(dim, dim + 1))


def _copied(rows: torch.Tensor) -> torch.Tensor:
    """Rows may be views of what was unbound, and are still those of the list. What is made of them is neither."""
    return rows.clone(memory_format=torch.contiguous_format)


def _tensor(data: ScriptList, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> torch.Tensor:
    rows = _rows(data).only
    if dtype is None and rows.dtype is torch.float64:
        dtype = torch.get_default_dtype()
    return rows.clone() if dtype is None else rows.to(dtype, copy=True)


def _slice(items: ScriptList, start: Any, end: Any, step: Any = 1) -> ScriptList:
    if type(step) is int and step == -1 and start is None and end is None:
        return list_with(_rows(items).reversed())
    if not isinstance(step, int) or step < 1:
        raise NotAlike("it is sliced with a step that is not a number above 0")
    return list_with(_rows(items, start).slice(start, end, step))


def _contains(items: ScriptList, value: Any) -> Any:
    return (_rows(items).only == value).sum().item() > 0  # `any` of nothing is an error in some runtimes


_APPENDING: dict[str, Callable[..., Any]] = {
    "aten::append": _append,
    "aten::extend": _extend,
    "aten::add_": _extend,
}

_OPERATIONS: dict[str, Callable[..., Any]] = {
    **_APPENDING,
    "aten::add": _joined,
    "aten::len": lambda items: _rows(items).length(),
    "aten::__getitem__": lambda items, index: _rows(items, index).get(index),
    "aten::slice": _slice,
    "aten::_set_item": _set,
    "aten::insert": _insert,
    "aten::pop": _pop,
    "aten::Delete": _delete,
    "aten::reverse": lambda items: items.become((), _rows(items).reversed()),
    "aten::clear": lambda items: items.become(()),
    "aten::copy": lambda items: list_with(_rows(items)),
    "aten::list": lambda items: list_with(_rows(items)),
    "aten::split": parted,
    "aten::split_with_sizes": parted,
    "aten::stack": _stack,
    "aten::cat": _cat,
    "aten::concat": _cat,
    "aten::tensor": _tensor,
    "aten::as_tensor": _tensor,
    "aten::sum": lambda items: _rows(items).only.sum().item(),
    "aten::any": lambda items: _rows(items).only.sum().item() > 0,
    "aten::all": lambda items: _rows(items).only.logical_not().sum().item() == 0,
    "prim::min": lambda items: _rows(items).only.min().item(),
    "prim::max": lambda items: _rows(items).only.max().item(),
    "aten::__contains__": _contains,
    "aten::count": lambda items, value: (_rows(items).only == value).sum().item(),
    "prim::unchecked_cast": lambda items: items,
    "prim::unchecked_unwrap_optional": lambda items: items,
    "aten::_unwrap_optional": lambda items: items,
    "aten::__is__": lambda a, b: a is b,
    "aten::__isnot__": lambda a, b: a is not b,
    "prim::TupleConstruct": lambda *items: tuple(items),
    "prim::ListConstruct": lambda *items: ScriptList(items),
}
