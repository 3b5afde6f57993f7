"""Questions that PyTorch asks a traced tensor about itself, and questions a model asks about its data."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from ..ground.operator_schemas import SQUEEZES
from ..sizes.shape_formulas import number_of_chunks, number_of_pieces
from ..sizes.sizes import SYMBOLIC, AxisOf, Size, SizeDecisions, SizeTrace, computed, constant, size_lines, symbol
from .tensor import Traced

aten = torch.ops.aten


class QueryDecisions(SizeDecisions, Protocol):
    """What is told of operators whose results have another structure at some sizes."""

    def assume(self, size: Size) -> None:
        """All probes agree on a number, and points may not."""

    def keep_number(self, size: Size) -> None:
        """A number depends on how many elements data picks, and the file keeps the example's."""


class QueryTrace(SizeTrace, Protocol):
    """What questions about tensors need of their trace."""

    @property
    def decisions(self) -> QueryDecisions: ...


def size_of(tracer: SizeTrace, tensor: Traced, axis: int) -> Size:
    """The size of one axis of a tensor."""
    dim = tensor.fact.shape[axis]
    values = (dim,) * tracer.dims.width if isinstance(dim, int) else dim.values
    return Size(tracer, values, AxisOf(tensor.node, axis % tensor.fact.rank))


def _symbolic_size(tracer: QueryTrace, tensor: Traced, axis: int) -> Any:
    dim = tensor.fact.shape[axis]
    if isinstance(dim, int):
        return dim
    return symbol(Size(tracer, dim.values, AxisOf(tensor.node, axis % tensor.fact.rank)))


def sym_size(tracer: QueryTrace, tensor: Traced, axis: int | None = None) -> Any:
    if axis is not None:
        return _symbolic_size(tracer, tensor, axis)
    return [_symbolic_size(tracer, tensor, i) for i in range(tensor.fact.rank)]


def size(tracer: QueryTrace, tensor: Traced, axis: int | None = None) -> Any:
    """C++ code that cannot take symbolic sizes: the numbers are baked in, and the tracer knows."""
    if axis is not None:
        return tracer.decisions.commit(size_of(tracer, tensor, axis))
    return [tracer.decisions.commit(size_of(tracer, tensor, i)) for i in range(tensor.fact.rank)]


def freeze_sizes(tracer: QueryTrace, tensor: Traced) -> None:
    """Python has the tensor as numbers: as many as in the example, whatever the dynamic axes are."""
    for axis in range(tensor.fact.rank):
        size = size_of(tracer, tensor, axis)
        if not size.is_uniform and tracer.decisions.axes_of(size):
            tracer.decisions.commit(size)


def _note_squeeze(tracer: QueryTrace, tensor: Traced, axes: int | Sequence[int] | None = None) -> None:
    """`squeeze` asks every axis that it is given, or all of them, whether its size is 1: a branch on sizes."""
    asked = range(tensor.fact.rank) if axes is None or not tensor.fact.rank else _as_list(axes)
    for axis in asked:
        size = size_of(tracer, tensor, axis)
        if not size.is_uniform and 1 not in size.values[: tracer.probes]:
            tracer.decisions.assume(computed(operator.eq, size, constant(tracer, 1)))


def _note_pieces(count: Callable[[int, int], int]) -> Callable[..., None]:
    """`x.chunk(2)` returns one tensor for an axis of size 1: how many tensors there are is a number made of sizes."""

    def note(tracer: QueryTrace, tensor: Traced, pieces: Any, axis: int = 0) -> None:
        size = size_of(tracer, tensor, axis)
        given = pieces.node if isinstance(pieces, SYMBOLIC) else constant(tracer, pieces)
        if size.is_uniform and given.is_uniform:
            return
        parts = computed(count, size, given)
        if len(set(parts.values[: tracer.probes])) != 1:  # the other probes are refused
            return
        if size_lines(parts):  # no probe and no point has as few elements as data may pick
            tracer.decisions.keep_number(parts)
        else:
            tracer.decisions.assume(parts)

    return note


def _note_unbind(tracer: QueryTrace, tensor: Traced, axis: int = 0) -> None:
    """`x[:2].unbind()` gives one tensor where x has one row: how many there are is a number made of sizes."""
    size = size_of(tracer, tensor, axis)
    if not size.is_uniform and len(set(size.values[: tracer.probes])) == 1:  # else the other probes are refused
        tracer.decisions.assume(size)


def _as_list(axes: int | Sequence[int]) -> Sequence[int]:
    return [axes] if isinstance(axes, int) else axes


# Operators whose results have another structure at some sizes, by what notes that.
ASKS_SIZES: dict[Any, Callable[..., None]] = {
    **dict.fromkeys(SQUEEZES, _note_squeeze),
    aten.unbind.int: _note_unbind,
    **dict.fromkeys((aten.chunk.default, aten.unsafe_chunk.default), _note_pieces(number_of_chunks)),
    **dict.fromkeys((aten.split.Tensor, aten.unsafe_split.Tensor), _note_pieces(number_of_pieces)),
}


def sym_stride(tracer: QueryTrace, tensor: Traced, axis: int | None = None) -> Any:
    columns = zip(tensor.example.stride(), *(layout.stride for layout in tensor.layouts), strict=True)
    strides = [symbol(Size(tracer, _stride_at_points(tracer, tensor, values), None)) for values in columns]
    return strides if axis is None else strides[axis]


def _stride_at_points(tracer: QueryTrace, tensor: Traced, values: tuple[int, ...]) -> tuple[int, ...]:
    """A stride at the points: the product of the axes that lie within, as at the probes; else the example's."""
    width = tracer.dims.width
    for first in range(tensor.fact.rank + 1):
        total = constant(tracer, 1)
        for axis in range(first, tensor.fact.rank):
            total = computed(operator.mul, total, size_of(tracer, tensor, axis))
        if total.values[: tracer.probes] == values:
            return total.values
    return (*values, *values[:1] * (width - tracer.probes))


def stride(tracer: QueryTrace, tensor: Traced, axis: int | None = None) -> Any:
    strides = list(tensor.example.stride())
    return strides if axis is None else strides[axis]


def sym_numel(tracer: QueryTrace, tensor: Traced) -> Any:
    total = constant(tracer, 1)
    for axis in range(tensor.fact.rank):
        each = size_of(tracer, tensor, axis)
        total = each if total.is_uniform and total.values[0] == 1 else computed(operator.mul, total, each)
    return symbol(Size(tracer, total.values, total.origin))


def _ask_real(op: Callable[..., Any]) -> Callable[..., Any]:
    def ask(tracer: QueryTrace, tensor: Traced, *args: Any, **kwargs: Any) -> Any:
        return op(tensor.example, *args, **kwargs)

    return ask


def _ask_all(op: Callable[..., Any]) -> Callable[..., Any]:
    """An example with axes of size 1 may be contiguous by chance: the answer is yes if it is at all sizes."""

    def ask(tracer: QueryTrace, tensor: Traced, *args: Any, **kwargs: Any) -> Any:
        if not op(tensor.example, *args, **kwargs):
            return False
        return tensor.fact.is_static or all(
            op(torch.empty_strided(each.size, each.stride, device="meta"), *args, **kwargs) for each in tensor.layouts
        )

    return ask


METADATA_QUERIES: dict[Any, Callable[..., Any]] = {
    aten.sym_size.default: sym_size,
    aten.sym_size.int: sym_size,
    aten.size.default: size,
    aten.size.int: size,
    aten.sym_stride.default: sym_stride,
    aten.sym_stride.int: sym_stride,
    aten.stride.default: stride,
    aten.stride.int: stride,
    aten.sym_numel.default: sym_numel,
    aten.numel.default: lambda tracer, tensor: (
        tracer.decisions.commit(sym_numel(tracer, tensor).node) if not tensor.fact.is_static else tensor.example.numel()
    ),
    aten.dim.default: lambda tracer, tensor: tensor.fact.rank,
    aten.sym_storage_offset.default: lambda tracer, tensor: tensor.example.storage_offset(),
    aten.storage_offset.default: lambda tracer, tensor: tensor.example.storage_offset(),
    torch.ops.prim.device.default: lambda tracer, tensor: tensor.example.device,
    torch.ops.prim.layout.default: lambda tracer, tensor: tensor.example.layout,
    **{
        op: _ask_all(op)
        for op in (
            aten.is_contiguous.default,
            aten.is_contiguous.memory_format,
            aten.sym_is_contiguous.default,
        )
    },
    **{
        op: _ask_real(op)
        for op in (
            aten.is_strides_like_format.default,
            aten.is_non_overlapping_and_dense.default,
        )
    },
}

# Their answer is a number that Python may go on computing with.
NUMBER_QUERIES = frozenset({aten._local_scalar_dense.default, aten.item.default})

DATA_QUERIES: dict[Any, str] = {
    aten._local_scalar_dense.default: ".item(), int() or float()",
    aten.item.default: ".item(), int() or float()",
    aten.is_nonzero.default: "if, while, or bool()",
    aten.equal.default: "torch.equal",
    aten.allclose.default: "torch.allclose",
}
