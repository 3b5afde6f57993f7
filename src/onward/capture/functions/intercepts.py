"""Calls caught one level above the dispatcher, where a size or an index would otherwise lose its origin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy
import torch

from ...tables import registrar
from ..call.weights import is_made_of_weights
from ..ground.source import user_source
from ..memory.tensor import Traced
from ..sizes.queries import freeze_sizes
from ..sizes.sizes import SYMBOLIC
from .ranges import announced, numbers_along

if TYPE_CHECKING:
    from ..record.tracer import Tracer

_MOST_NUMBERS = 64  # of a tensor that becomes a list

Intercept = Callable[["Tracer", Any, tuple, dict[str, Any]], Any]
INTERCEPTS: dict[Any, Intercept] = {}  # of this file; `attempt/session.py` lists the tables of all files
intercepts = registrar(INTERCEPTS)


def _is_number_tensor(index: Any) -> bool:
    return (
        isinstance(index, Traced)
        and index.fact.rank == 0
        and index.fact.dtype not in (torch.bool, torch.uint8)
        and not index.fact.dtype.is_floating_point
    )


def _numbers(tensor: torch.Tensor, index: Any) -> tuple[list[Any], tuple[Any, ...]] | None:
    """An index with 0-d tensors in it, as what `aten.index` takes for these, and what is left for a second index.

    PyTorch reads a 0-d tensor as a number: its axis goes before anything else is indexed.
    """
    entries = index if isinstance(index, tuple) else (index,)
    if not any(_is_number_tensor(entry) for entry in entries):
        return None
    numbers: list[Any] = [None] * tensor.dim()
    for axis, entry in _with_axes(tensor, entries):
        if _is_number_tensor(entry):
            numbers[axis] = entry
    while numbers[-1] is None:
        numbers.pop()
    rest = tuple(entry for entry in entries if not _is_number_tensor(entry))
    plain = all(entry is Ellipsis or (isinstance(entry, slice) and entry == slice(None)) for entry in rest)
    return numbers, () if plain else rest


def _plain_bounds(index: Any) -> Any:
    """An index in which the bounds of slices are numbers: `x[:n]` with a 0-d tensor, which Python would read out."""
    if isinstance(index, tuple):
        return tuple(map(_plain_bounds, index))
    if not isinstance(index, slice) or not any(map(_is_number_tensor, (index.start, index.stop, index.step))):
        return index
    bounds = (index.start, index.stop, index.step)
    return slice(*(each.item() if _is_number_tensor(each) else each for each in bounds))


def _with_axes(tensor: torch.Tensor, entries: tuple[Any, ...]) -> list[tuple[int, Any]]:
    """Every entry of an index with the first axis that it takes."""
    widths = [_width(entry) for entry in entries]
    found, axis = [], 0
    for entry, width in zip(entries, widths, strict=True):
        found.append((axis, entry))
        axis += tensor.dim() - sum(widths) if entry is Ellipsis else width
    return found


def _note_bounds(tracer: Tracer, tensor: torch.Tensor, index: Any) -> None:
    """`try: x[10]` takes another way at sizes that have no such element. PyTorch checks that before it calls any
    operator."""
    entries = index if isinstance(index, tuple) else (index,)
    if not isinstance(tensor, Traced) or not any(type(entry) is int for entry in entries):
        return
    for axis, entry in _with_axes(tensor, entries):
        dim = tensor.fact.shape[axis] if type(entry) is int and axis < tensor.fact.rank else 0
        if not isinstance(dim, int):
            lacking = {place for place, size in enumerate(dim.values) if not -size <= entry < size}
            tracer.elsewhere.index_fails(lacking)


def _select_sizes(tensor: torch.Tensor, index: Any) -> tuple[torch.Tensor, tuple[Any, ...]] | None:
    """`x[n // 2]` where n is a size: the part selected by it, a view, and what is left of the index."""
    entries = index if isinstance(index, tuple) else (index,)
    if not any(isinstance(entry, torch.SymInt) for entry in entries):
        return None
    part = tensor
    for axis, entry in reversed(_with_axes(tensor, entries)):
        if isinstance(entry, torch.SymInt):
            part = part.select(axis, entry)
    return part, tuple(entry for entry in entries if not isinstance(entry, torch.SymInt))


def _unfold_masks(tensor: torch.Tensor, index: Any) -> tuple[torch.Tensor, tuple[Any, ...]] | None:
    """`x[flag]` where flag is a 0-d mask, which PyTorch reads as True or False: a mask over a new axis of size 1."""
    entries = index if isinstance(index, tuple) else (index,)
    if not any(_is_flag(entry) for entry in entries):
        return None
    for axis, entry in reversed(_with_axes(tensor, entries)):
        if _is_flag(entry):
            tensor = tensor.unsqueeze(axis)
    return tensor, tuple(entry.reshape(1) if _is_flag(entry) else entry for entry in entries)


def _is_flag(entry: Any) -> bool:
    return isinstance(entry, Traced) and entry.fact.rank == 0 and entry.fact.dtype in (torch.bool, torch.uint8)


def _width(entry: Any) -> int:
    """How many axes an entry of an index takes."""
    if entry is None or entry is Ellipsis or isinstance(entry, bool):
        return 0
    is_mask = isinstance(entry, torch.Tensor) and entry.dtype in (torch.bool, torch.uint8)
    return entry.dim() if is_mask else 1


@intercepts(torch.Tensor.__getitem__)
def getitem(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`x[i]` with a 0-d tensor: an index like any other, rather than a number read from data."""
    tensor, index = args[0], _plain_bounds(args[1])
    _note_bounds(tracer, tensor, index)
    selected = _select_sizes(tensor, index)
    if selected is not None:
        part, rest = selected
        return part[rest] if rest else part
    unfolded = _unfold_masks(tensor, index)
    if unfolded is not None:
        return unfolded[0][unfolded[1]]
    found = _numbers(tensor, index)
    if found is None:
        return NotImplemented if index is args[1] else tensor[index]
    numbers, rest = found
    result = torch.ops.aten.index.Tensor(tensor, numbers)
    return result[rest] if rest else result


@intercepts(torch.Tensor.__setitem__)
def setitem(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`x[i] = v` with a 0-d tensor `i`: the part at `i` is written as a whole."""
    tensor, index, value = args[0], _plain_bounds(args[1]), args[2]
    _note_bounds(tracer, tensor, index)
    selected = _select_sizes(tensor, index)
    if selected is not None:
        part, rest = selected
        part[rest or Ellipsis] = value
        return None
    unfolded = _unfold_masks(tensor, index)
    if unfolded is not None:
        unfolded[0][unfolded[1]] = value
        return None
    found = _numbers(tensor, index)
    if found is None:
        if _assign(tensor, index, value):
            return None
        if index is args[1]:
            return NotImplemented
        tensor[index] = value
        return None
    numbers, rest = found
    if rest:
        part = torch.ops.aten.index.Tensor(tensor, numbers)
        if not _assign(part, rest, value):
            part[rest] = value
        value = part
    elif not isinstance(value, torch.Tensor):
        single = isinstance(value, (bool, int, float, complex, *SYMBOLIC))
        value = (torch.scalar_tensor if single else torch.as_tensor)(value, dtype=tensor.dtype)
    _put(tensor, numbers, value, 0)
    return None


def _put(tensor: torch.Tensor, indices: list[Any], value: torch.Tensor, rank: int) -> None:
    """Write at indices that make `rank` axes together; leading axes of size 1 that are too many go."""
    rank += tensor.dim() - sum(_width(each) for each in indices)  # each None counts as none, and stays
    torch.ops.aten.index_put_.default(tensor, indices, _at_most(value, rank).to(tensor.dtype))


def _at_most(value: torch.Tensor, rank: int) -> torch.Tensor:
    for _ in range(value.dim() - rank):
        value = value.squeeze(0)
    return value


def _assign(tensor: torch.Tensor, index: Any, value: Any) -> bool:
    """`x[index] = value` where PyTorch would ask whether a dynamic size is 1; whether it was done.

    It drops leading axes of size 1, and would take the answer for the example as the model's own decision.
    """
    entries = index if isinstance(index, tuple) else (index,)
    entries = tuple(torch.as_tensor(entry) if isinstance(entry, list) else entry for entry in entries)
    if not _asks_for_sizes(value) or any(isinstance(entry, bool) for entry in entries):
        return False
    indices: list[Any] = []
    used = sum(_width(entry) for entry in entries)
    for entry in entries:
        if isinstance(entry, torch.Tensor):
            indices.append(entry)
        elif entry is Ellipsis:
            indices.extend([None] * (tensor.dim() - used))
        elif entry is None or isinstance(entry, slice):
            indices.append(None)
    whole = [(slice(None),) * _width(e) if isinstance(e, torch.Tensor) else (e,) for e in entries]
    part = tensor[tuple(each for group in whole for each in group)]
    given = [each for each in indices if each is not None]
    if given:
        rank = max(1 if each.dtype in (torch.bool, torch.uint8) else each.dim() for each in given)
        _put(part, indices, value, rank)
    else:
        part.copy_(_at_most(value, part.dim()))
    return True


def _asks_for_sizes(value: Any) -> bool:
    """Whether a dynamic axis comes before the first one that is known to be longer than 1."""
    if not isinstance(value, Traced):
        return False
    for dim in value.fact.shape:
        if dim != 1:
            return not isinstance(dim, int)
    return False


def _has_symbol(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return any(_has_symbol(each) for each in data)
    return isinstance(data, (*SYMBOLIC, Traced))


@intercepts(torch.tensor, torch.as_tensor, torch.Tensor.new_tensor)
def tensor_of(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`torch.tensor([x.shape[0], 2])`: the numbers keep their origin."""
    data = args[-1] if args else kwargs.get("data")
    if func is torch.as_tensor and isinstance(data, torch.Tensor):
        return NotImplemented
    if tracer.recorder is not None and not tracer.recorder.is_off:
        return tracer.recorder.follow(func, args, kwargs, lambda: tensor_of(tracer, func, args, kwargs))
    dtype = kwargs.get("dtype")
    if func is torch.Tensor.new_tensor and dtype is None and not isinstance(data, torch.Tensor):
        dtype = args[0].dtype  # where torch.tensor goes by the numbers
    if tracer.pen is not None and not isinstance(data, torch.Tensor):
        if isinstance(data, numpy.ndarray) and data.dtype.kind in "biuf":
            dtype, data = dtype or torch.from_numpy(data).dtype, data.tolist()
        data = tracer.pen.read(tracer, func, data)
    if isinstance(data, Traced) or not _has_symbol(data):
        with tracer.within_an_op():
            return func(*args, **kwargs)

    def build(value: Any) -> torch.Tensor:
        if isinstance(value, (list, tuple)):
            return torch.stack([build(each) for each in value])
        if isinstance(value, torch.Tensor):
            return value.to(dtype)
        return torch.scalar_tensor(value, dtype=dtype)

    with tracer.within_an_op():
        dtype = dtype or _dtype_of(data)
        if dtype.is_complex:
            raise tracer.cannot(
                f"{func.__name__}() makes complex numbers of sizes or of tensors",
                func.__name__,
                "use torch.complex on two real tensors",
            )
        return build(data)


def _dtype_of(data: Any) -> torch.dtype:
    if isinstance(data, (list, tuple)):
        dtypes = [_dtype_of(each) for each in data]
        result = dtypes[0]
        for dtype in dtypes[1:]:
            result = torch.promote_types(result, dtype)
        return result
    if isinstance(data, torch.Tensor):
        return data.dtype
    if isinstance(data, (bool, torch.SymBool)):
        return torch.bool
    if isinstance(data, complex):
        return torch.promote_types(torch.get_default_dtype(), torch.complex32)
    return torch.get_default_dtype() if isinstance(data, (float, torch.SymFloat)) else torch.int64


@intercepts(
    torch.Tensor.__iter__,
    torch.Tensor.unbind,
    torch.unbind,
    torch.Tensor.split,
    torch.split,
    torch.Tensor.chunk,
    torch.chunk,
)
def pieces(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`for row in x`: where a run is explored, the loop says when a turn begins."""
    recorder = tracer.recorder
    if recorder is None or recorder.is_off or not args or not isinstance(args[0], Traced) or not args[0].dim():
        return NotImplemented
    if func in (torch.chunk, torch.Tensor.chunk):
        found = _chunks(*args, **kwargs)
    else:
        found = args[0].unbind(0) if func is torch.Tensor.__iter__ else func(*args, **kwargs)
    count = recorder.count_of(found)
    found = found if count is None else announced(recorder, found, count)
    return iter(found) if func is torch.Tensor.__iter__ else found


def _chunks(x: Any, chunks: Any, dim: int = 0) -> Any:
    """`torch.chunk`, whose number of parts may follow a size: PyTorch itself takes a plain one only."""
    return torch.split(x, -(-x.shape[dim] // chunks), dim) if isinstance(chunks, SYMBOLIC) else x.chunk(chunks, dim)


@intercepts(torch.equal, torch.Tensor.equal)
def equal(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`torch.equal(x, y)`: a truth value that the graph computes. An `if` on it keeps the example's side, with a
    warning."""
    x, y = args if len(args) == 2 else (args[0], kwargs["other"])
    if not _depends_on_inputs(tracer, x, y) or x.dtype is not y.dtype:
        return NotImplemented
    if x.dim() != y.dim() or any(a != b for a, b in zip(x.shape, y.shape, strict=True)):
        return False
    return (x == y).all().item()


@intercepts(torch.allclose, torch.Tensor.allclose)
def allclose(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`torch.allclose(x, y)`, likewise."""
    if not _depends_on_inputs(tracer, *args, *kwargs.values()):
        return NotImplemented
    return torch.isclose(*args, **kwargs).all().item()


def _depends_on_inputs(tracer: Tracer, *values: Any) -> bool:
    return any(isinstance(each, Traced) and not is_made_of_weights(tracer.node_of(each)) for each in values)


@intercepts(torch.Tensor.tolist)
def to_list(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`sizes.tolist()` of a few numbers: each of them is a number that Python may go on computing with."""
    tensor = args[0]
    if tracer.recorder is not None and isinstance(tensor, Traced) and not tensor.fact.is_static:
        found = numbers_along(tracer.recorder, tensor)
        if found is not None:
            return found
    if not isinstance(tensor, Traced) or not tensor.fact.is_static or tensor.example.numel() > _MOST_NUMBERS:
        return read_out(tracer, func, args, kwargs)
    if is_made_of_weights(tracer.node_of(tensor)):
        return read_out(tracer, func, args, kwargs)

    def listed(part: torch.Tensor) -> Any:
        return [listed(each) for each in part.unbind(0)] if part.dim() else part.item()

    return listed(tensor)


@intercepts(torch.Tensor.numpy, torch.Tensor.__array__)
def read_out(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The tensor leaves PyTorch: what it holds for the example becomes part of the graph."""
    with tracer.aside():
        tensor = tracer.plain.stand_in(args[0])
        if not isinstance(tensor, Traced):
            tracer.plain.derivations.read(torch.clone, tensor, user_source())
            return func(*args, **kwargs)
        if is_made_of_weights(tracer.node_of(tensor)):
            content = tensor.example.detach().clone()
            tracer.plain.note_read(torch.clone, tracer.node_of(tensor), func.__name__, content)
            return func(tensor.example, *args[1:], **kwargs)
        tracer.decisions.warn(
            f"a tensor was read out of PyTorch ({func.__name__}), and the file keeps the example's values",
            means="Inputs that would give other values are computed wrongly",
            instead="stay with torch operations on tensors that depend on the inputs",
        )
        freeze_sizes(tracer, tensor)  # how long a list is, and how many rows an array has, Python knows from now on
        return func(tensor.example, *args[1:], **kwargs)


@intercepts(torch.Tensor.untyped_storage, torch.Tensor.storage, torch.Tensor._typed_storage)
def storage_of(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Memory that is written past PyTorch's operators is written past the graph."""
    if isinstance(args[0], Traced):
        raise tracer.cannot(
            f"{func.__name__}() asks for the memory of a tensor that depends on the inputs",
            func.__name__,
            "use views (x[...], x.view(...)) and operators on tensors",
        )
    return NotImplemented


@intercepts(torch.Tensor.data.__set__)  # type: ignore[attr-defined]
def set_data(tracer: Tracer, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`x.data = y`: x is on the memory of y from now on. A tensor that is not traced takes the content."""
    target, value = args
    if not isinstance(target, Traced):
        if target.size() != value.size() or target.dtype != value.dtype:
            raise tracer.cannot(
                "`tensor.data = ...` gives a tensor that was there before the export another form",
                "data",
                "assign a new tensor instead: self.name = ...",
            )
        target.detach().copy_(value)
        return None
    if value.dtype != target.fact.dtype:
        raise tracer.cannot("`tensor.data = ...` changes the dtype of a tensor", "data", "use a new tensor instead")
    other = value if isinstance(value, Traced) else tracer.plain.promote(value)
    tracer.writes.become(target, torch.ops.aten.alias.default(other), "data")
    return None
