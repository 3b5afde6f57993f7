"""In-place writes and views, made functional.

A `Cell` is a piece of memory. Its base tensor and all views of it share the cell; a write through a view computes the
new value of every tensor up the chain to the base (slice -> slice_scatter, transpose -> transpose back, ...) and
advances the cell's version. Other views of the same cell notice that they are older and take themselves from the base
again when somebody reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._ops import OpOverload

from .facts import TensorFact
from .tables import registrar

if TYPE_CHECKING:
    from .tensor import Traced

aten = torch.ops.aten


class Cell:
    """A piece of memory; `version` counts the writes."""

    __slots__ = ("borrowed", "level", "shared", "version")

    def __init__(self, level: Any) -> None:
        self.level = level  # the graph in which it came into being
        self.version = 0
        self.shared = False  # some view, or another tensor, reads the same real memory
        self.borrowed: list[Traced] = []  # the tensors on this memory, base first, if the memory is the caller's

    def give_back(self) -> None:
        """Before a write: move every tensor on borrowed memory to a copy of it."""
        if not self.borrowed:
            return
        base = self.borrowed[0].example
        copy, start = base.detach().clone(), base.storage_offset()
        for each in self.borrowed:
            view = each.example
            each.example = copy.as_strided(view.size(), view.stride(), view.storage_offset() - start)
        self.borrowed = []


class ViewStep(NamedTuple):
    """How a view was taken from its parent."""

    op: OpOverload
    args: tuple  # as recorded, without the parent
    kwargs: dict[str, Any]
    output: int | None  # which output, for ops that return several


class PutBack(NamedTuple):
    """One functional op that writes a view's new value back into its parent."""

    op: OpOverload
    takes_parent: bool  # op(parent, view, *args) rather than op(view, *args)
    args: tuple
    kwargs: dict[str, Any]


Inverse = Callable[[ViewStep, TensorFact, TensorFact], PutBack | None]
_INVERSES: dict[OpOverload, Inverse] = {}


def put_back(step: ViewStep, parent: TensorFact, view: TensorFact) -> PutBack | None:
    """The op that undoes a view for writing; None if there is none."""
    inverse = _INVERSES.get(step.op)
    return inverse(step, parent, view) if inverse else None


_inverse = registrar(_INVERSES)


@_inverse(aten.slice.Tensor)
def _slice(step: ViewStep, parent: TensorFact, view: TensorFact) -> PutBack:
    return PutBack(aten.slice_scatter.default, True, step.args, step.kwargs)


@_inverse(aten.select.int)
def _select(step: ViewStep, parent: TensorFact, view: TensorFact) -> PutBack:
    return PutBack(aten.select_scatter.default, True, step.args, step.kwargs)


@_inverse(aten.narrow.default)
def _narrow(step: ViewStep, parent: TensorFact, view: TensorFact) -> PutBack | None:
    dim, start, length = step.args
    if not (isinstance(start, int) and isinstance(length, int)):
        return None
    return PutBack(aten.slice_scatter.default, True, (dim, start, start + length), {})


@_inverse(aten.unbind.int)
def _unbind(step: ViewStep, parent: TensorFact, view: TensorFact) -> PutBack:
    dim = step.args[0] if step.args else step.kwargs.get("dim", 0)
    return PutBack(aten.select_scatter.default, True, (dim, step.output), {})


@_inverse(aten.split.Tensor, aten.split_with_sizes.default, aten.split.sizes, aten.chunk.default)
def _split(step: ViewStep, parent: TensorFact, view: TensorFact) -> PutBack | None:
    dim = step.args[1] if len(step.args) > 1 else step.kwargs.get("dim", 0)
    total, length = parent.shape[dim], view.shape[dim]
    if not (isinstance(total, int) and isinstance(length, int)) or step.output is None:
        return None
    first = step.args[0]
    if step.op in (aten.split_with_sizes.default, aten.split.sizes):
        start = sum(first[: step.output])
    else:
        start = step.output * (first if step.op is aten.split.Tensor else -(-total // first))
    return PutBack(aten.slice_scatter.default, True, (dim, start, start + length), {})


@_inverse(aten.transpose.int)
def _transpose(step: ViewStep, parent: TensorFact, view: TensorFact) -> PutBack:
    return PutBack(aten.transpose.int, False, step.args, step.kwargs)


@_inverse(aten.t.default)
def _t(step: ViewStep, parent: TensorFact, view: TensorFact) -> PutBack:
    return PutBack(aten.t.default, False, (), {})


@_inverse(aten.permute.default)
def _permute(step: ViewStep, parent: TensorFact, view: TensorFact) -> PutBack:
    order = [axis % parent.rank for axis in step.args[0]]
    return PutBack(aten.permute.default, False, (sorted(range(len(order)), key=order.__getitem__),), {})


@_inverse(
    aten.view.default,
    aten.reshape.default,
    aten.flatten.using_ints,
    aten.unflatten.int,
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.view_as.default,
    aten.reshape_as.default,
    aten._unsafe_view.default,
    aten.ravel.default,
)
def _reshape(step: ViewStep, parent: TensorFact, view: TensorFact) -> PutBack:
    return PutBack(aten.view_as.default, False, (PARENT,), {})


@_inverse(aten.expand.default, aten.expand_as.default)
def _expand(step: ViewStep, parent: TensorFact, view: TensorFact) -> PutBack | None:
    return PutBack(aten.view_as.default, False, (PARENT,), {}) if parent.shape == view.shape else None


@_inverse(
    aten.detach.default,
    aten.alias.default,
    aten.contiguous.default,
    aten.to.dtype,
    aten.to.device,
    aten.to.dtype_layout,
    aten.to.other,
    aten.type_as.default,
    aten.view.dtype,
)
def _same(step: ViewStep, parent: TensorFact, view: TensorFact) -> PutBack | None:
    return PutBack(aten.view_as.default, False, (PARENT,), {}) if parent == view else None


@_inverse(aten.diagonal.default)
def _diagonal(step: ViewStep, parent: TensorFact, view: TensorFact) -> PutBack:
    return PutBack(aten.diagonal_scatter.default, True, step.args, step.kwargs)


@_inverse(aten.as_strided.default)
def _as_strided(step: ViewStep, parent: TensorFact, view: TensorFact) -> PutBack:
    return PutBack(aten.as_strided_scatter.default, True, step.args, step.kwargs)


class _Parent:
    """Stands for the parent's node in a PutBack's arguments."""


PARENT = _Parent()


def as_view_of(base: torch.Tensor, view: torch.Tensor) -> list[tuple[OpOverload, tuple]]:
    """View ops that lead from a tensor to another one on the same memory: slices and selects where the strides show
    them, `as_strided` otherwise."""
    if base.is_contiguous() and all(base.size()):
        steps = _slices(base, view)
        if steps is not None:
            return steps
    offset = view.storage_offset() - base.storage_offset()
    return [(aten.as_strided.default, (list(view.size()), list(view.stride()), offset))]


def _slices(base: torch.Tensor, view: torch.Tensor) -> list[tuple[OpOverload, tuple]] | None:
    rest = int(view.storage_offset() - base.storage_offset())
    sizes, strides = list(view.size()), list(view.stride())
    steps: list[tuple[OpOverload, tuple]] = []
    axis = taken = 0
    for size, stride in zip(base.size(), base.stride(), strict=True):
        start, rest = divmod(rest, stride)
        outer = stride * size
        if taken < len(sizes) and stride <= strides[taken] < outer and strides[taken] % stride == 0:
            step = strides[taken] // stride
            stop = start + (sizes[taken] - 1) * step + 1
            if sizes[taken] == 0 or stop > size:
                return None
            if (start, stop, step) != (0, size, 1):
                steps.append((aten.slice.Tensor, (axis, start, stop, step)))
            axis, taken = axis + 1, taken + 1
        else:
            steps.append((aten.select.int, (axis, start)))
    return steps if taken == len(sizes) and rest == 0 else None
