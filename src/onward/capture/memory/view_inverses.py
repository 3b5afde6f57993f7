"""What undoes a view, so that a write through it reaches its parent.

A write through a view computes the new value of every tensor up the chain to the base: slice -> slice_scatter,
transpose -> transpose back, and so on.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import fx
from torch._ops import OpOverload

from ...tables import registrar
from ..program.facts import TensorFact

aten = torch.ops.aten


# Views that PyTorch marks with a bit. A trace has no such bits, so their examples have memory of their own.
MIRRORED = frozenset({aten._conj.default, aten._neg_view.default})


_RESOLVING = {aten.resolve_conj.default: aten._conj.default, aten.resolve_neg.default: aten._neg_view.default}


def resolves(op: OpOverload, tensor: Any) -> bool:
    """Whether an op has a bit to resolve, and copies for that: where an odd number of conjugates was taken."""
    count = 0
    while op in _RESOLVING and getattr(tensor, "parent", None) is not None:
        count += tensor.step.op is _RESOLVING[op]
        tensor = tensor.parent
    return count % 2 == 1


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


class Numbers(Protocol):
    """Numbers of the graph, to compute with: ints, and nodes where they depend on sizes."""

    def size(self, axis: int) -> int | fx.Node:
        """The parent's size."""

    def compute(self, function: Callable[..., Any], *operands: Any) -> Any: ...

    def least(self, number: int | fx.Node) -> int:
        """The smallest value that a number has at all probes and points."""


END = 2**63 - 1  # of a slice

Inverse = Callable[[ViewStep, TensorFact, TensorFact, Numbers], PutBack | None]
_INVERSES: dict[OpOverload, Inverse] = {}


def put_back(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack | None:
    """The op that undoes a view for writing; None if there is none."""
    inverse = _INVERSES.get(step.op)
    return inverse(step, parent, view, numbers) if inverse else None


def single(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> ViewStep:
    """A step with several outputs, as the step that gives this output alone."""
    back = put_back(step, parent, view, numbers) if step.output is not None else None
    if back is None or back.op not in _READS:
        return step
    return ViewStep(_READS[back.op], back.args, back.kwargs, None)


_READS = {aten.slice_scatter.default: aten.slice.Tensor, aten.select_scatter.default: aten.select.int}

_inverse = registrar(_INVERSES)


@_inverse(aten.slice.Tensor)
def _slice(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    return PutBack(aten.slice_scatter.default, True, step.args, step.kwargs)


@_inverse(aten.select.int)
def _select(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    return PutBack(aten.select_scatter.default, True, step.args, step.kwargs)


@_inverse(aten.narrow.default)
def _narrow(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    dim, start, length = step.args
    if numbers.least(start) < 0:
        start = numbers.compute(operator.add, start, numbers.size(dim))
    return _part(dim, start, numbers.compute(operator.add, start, length))


def _part(dim: int, start: Any, end: Any) -> PutBack:
    return PutBack(aten.slice_scatter.default, True, (dim, start, end), {})


@_inverse(aten.unbind.int)
def _unbind(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    dim = step.args[0] if step.args else step.kwargs.get("dim", 0)
    return PutBack(aten.select_scatter.default, True, (dim, step.output), {})


@_inverse(aten.split_with_sizes.default, aten.split.sizes, aten.unsafe_split_with_sizes.default)
def _split_sizes(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    sizes, dim = step.args[0], step.args[1] if len(step.args) > 1 else step.kwargs.get("dim", 0)
    assert step.output is not None
    add = functools.partial(numbers.compute, operator.add)
    start = functools.reduce(add, sizes[: step.output], 0)
    return _part(dim, start, add(start, sizes[step.output]))


@_inverse(aten.split.Tensor, aten.chunk.default, aten.unsafe_split.Tensor, aten.unsafe_chunk.default)
def _split(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    size, dim = step.args[0], step.args[1] if len(step.args) > 1 else step.kwargs.get("dim", 0)
    if step.op in (aten.chunk.default, aten.unsafe_chunk.default):
        size = numbers.compute(operator.floordiv, numbers.compute(operator.add, numbers.size(dim), size - 1), size)
    start = numbers.compute(operator.mul, size, step.output)
    return _part(dim, start, numbers.compute(operator.add, start, size))  # past the end is the end


_SPLIT_AXES = {
    aten.tensor_split.sections: None, aten.tensor_split.indices: None, aten.hsplit.int: 1, aten.hsplit.array: 1,
    aten.vsplit.int: 0, aten.vsplit.array: 0, aten.dsplit.int: 2, aten.dsplit.array: 2,
}  # fmt: skip


@_inverse(*_SPLIT_AXES)
def _tensor_split(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    dim = _SPLIT_AXES[step.op]
    if dim is None:
        dim = step.args[1] if len(step.args) > 1 else step.kwargs.get("dim", 0)
    first, place, compute = step.args[0], step.output, numbers.compute
    dim = min(dim, parent.rank - 1)  # hsplit of a vector
    assert place is not None
    if isinstance(first, (list, tuple)):
        return _part(dim, first[place - 1] if place else 0, first[place] if place < len(first) else END)
    size = numbers.size(dim)
    length, longer = compute(operator.floordiv, size, first), compute(operator.mod, size, first)
    start, end = (
        compute(operator.add, compute(operator.mul, length, each), compute(torch.sym_min, longer, each))
        for each in (place, place + 1)
    )
    return _part(dim, start, end)


@_inverse(aten.transpose.int, aten.swapaxes.default, aten.swapdims.default)
def _transpose(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    return PutBack(aten.transpose.int, False, step.args, step.kwargs)


@_inverse(aten.t.default, aten.mT.default, aten.mH.default, aten.adjoint.default)
def _t(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    if parent.rank < 2:
        return PutBack(aten.view_as.default, False, (PARENT,), {})
    return PutBack(aten.transpose.int, False, (-2, -1), {})


@_inverse(aten.numpy_T.default, aten.matrix_H.default)
def _numpy_t(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    return PutBack(aten.permute.default, False, (list(reversed(range(parent.rank))),), {})


@_inverse(aten.movedim.int, aten.movedim.intlist, aten.moveaxis.int, aten.moveaxis.intlist)
def _movedim(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    source, destination = step.args
    return PutBack(step.op, False, (destination, source), {})


@_inverse(aten.permute.default)
def _permute(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
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
    aten.atleast_1d.default,
    aten.atleast_2d.default,
    aten.atleast_3d.default,
)
def _reshape(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    return PutBack(aten.view_as.default, False, (PARENT,), {})


@_inverse(aten.expand.default, aten.expand_as.default, aten.broadcast_to.default)
def _expand(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack | None:
    """Unless something is repeated."""
    added = view.rank - parent.rank
    same = view.shape[added:] == parent.shape and all(dim == 1 for dim in view.shape[:added])
    return PutBack(aten.view_as.default, False, (PARENT,), {}) if same else None


@_inverse(
    aten.detach.default,
    aten.alias.default,
    aten.contiguous.default,
    aten.to.dtype,
    aten.to.device,
    aten.to.dtype_layout,
    aten.to.other,
    aten.type_as.default,
)
def _same(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack | None:
    return PutBack(aten.view_as.default, False, (PARENT,), {}) if parent == view else None


@_inverse(*MIRRORED)
def _mirror(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    return PutBack(aten.neg.default if step.op is aten._neg_view.default else aten.conj_physical.default, False, (), {})


@_inverse(aten.view.dtype)
def _view_dtype(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    return PutBack(aten.view.dtype, False, (parent.dtype,), {})


@_inverse(aten.view_as_real.default)
def _view_as_real(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    return PutBack(aten.view_as_complex.default, False, (), {})


@_inverse(aten.view_as_complex.default)
def _view_as_complex(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    return PutBack(aten.view_as_real.default, False, (), {})


@_inverse(aten.diagonal.default)
def _diagonal(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack:
    return PutBack(aten.diagonal_scatter.default, True, step.args, step.kwargs)


@_inverse(aten.as_strided.default)
def _as_strided(step: ViewStep, parent: TensorFact, view: TensorFact, numbers: Numbers) -> PutBack | None:
    if not (parent.is_static and view.is_static):
        return None
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
