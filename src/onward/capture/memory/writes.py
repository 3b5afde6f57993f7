"""Writes: `add_`, `copy_`, `out=` and their like are computed as functions, and the result is put where they write.

A write through a chain of views goes back up the chain step by step (`view_inverses.py`). Where a step repeats elements
(expand, overlapping windows) or has no inverse, the elements are found by number: the same views are taken of a tensor
that counts its elements, and the new values are scattered to these places.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import fx
from torch._ops import OpOverload

from ..ground.memory import storage
from ..ground.operator_schemas import Traits
from ..program.facts import SizeFact, SymDim, TensorFact
from ..sizes.sizes import SYMBOLIC, AxisOf, Size
from .graph_levels import GraphTrace
from .layout_recipes import Copied
from .plain_tensors import PlainTensors
from .point_layouts import recipe_of
from .size_conditions import note_ones, numbers_of, sizes_of, truth
from .tensor import Cell, Traced, is_mirrored, mirrored
from .view_inverses import PARENT, PutBack, ViewStep, put_back, single

aten = torch.ops.aten

# They change what a tensor is, and not what is in it.
IN_PLACE_VIEWS: dict[OpOverload, OpOverload] = {
    aten.t_.default: aten.t.default,
    aten.transpose_.default: aten.transpose.int,
    aten.swapaxes_.default: aten.swapaxes.default,
    aten.swapdims_.default: aten.swapdims.default,
    aten.squeeze_.default: aten.squeeze.default,
    aten.squeeze_.dim: aten.squeeze.dim,
    aten.squeeze_.dims: aten.squeeze.dims,
    aten.unsqueeze_.default: aten.unsqueeze.default,
    aten.as_strided_.default: aten.as_strided.default,
}
# Views that keep all elements in their order: they begin where their parent does.
_WHOLE = frozenset(
    {
        aten.transpose.int, aten.permute.default, aten.t.default, aten.view.default, aten.reshape.default,
        aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.detach.default,
        aten.alias.default, aten.flatten.using_ints,
    }
)  # fmt: skip

NO_TWIN = (
    "call it inside a torch.autograd.Function with a static `symbolic`, which returns the changed tensor "
    "and says ctx.mark_dirty(tensor)"
)
_RESIZED = "a graph's values have no memory to enlarge or exchange: make a new tensor of that size and use it instead"


class WriteTrace(GraphTrace, Protocol):
    """What writes need of their trace."""

    def mode_again(self) -> AbstractContextManager[Any]:
        """Ops inside come to the trace one by one."""


class Writes:
    """The writes of one trace."""

    def __init__(self, tracer: WriteTrace, plain: PlainTensors) -> None:
        self._tracer, self._plain = tracer, plain

    # --- ops that write --------------------------------------------------------------------------------------------
    def run(self, op: OpOverload, info: Traits, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Compute functionally, then put the result where the write goes."""
        tracer = self._tracer
        special = _SPECIAL.get(op)
        if special is not None:
            with tracer.mode_again():
                return special(self, *args, **kwargs)
        targets = []
        for position, name in info.writes:
            target = args[position] if position < len(args) else kwargs.get(name)
            if isinstance(target, torch.Tensor) and not isinstance(target, Traced):
                target = self._plain.promote(target)
                if position < len(args):
                    args = (*args[:position], target, *args[position + 1 :])
                else:
                    kwargs = {**kwargs, name: target}
            if not isinstance(target, Traced):
                raise tracer.cannot(f"{info.name} writes to a list of tensors, which tracing does not follow", op)
            targets.append(target)
        if op not in _WRITES_ONE_NUMBER and any(map(_overlaps, targets)):
            raise tracer.cannot(
                f"{info.name} writes to a tensor in which elements share memory, and PyTorch's own result depends on "
                "the order in which it writes them",
                op,
                "write to a clone(), or to one window after the other",
            )
        if op in IN_PLACE_VIEWS:
            return self._view_in_place(IN_PLACE_VIEWS[op], args, kwargs)
        if info.functional is None:
            raise tracer.cannot(f"{info.name} changes a tensor in place and has no functional form", op, NO_TWIN)
        if info.is_out:
            kwargs = {name: value for name, value in kwargs.items() if name not in {n for _, n in info.writes}}
        results = tracer.dispatch(info.functional, (*args, *_defaults(op, info.functional, args, kwargs)), kwargs)
        if len(targets) == 1:
            results = (results,)
        for target, result in zip(targets, results, strict=True):
            if not isinstance(result, Traced):
                result = self._plain.lift(result)
            if op is not aten.copy_.default and not torch.can_cast(result.fact.dtype, target.fact.dtype):
                what = f"{op} computes {result.fact.dtype}, which cannot be written to a tensor of {target.fact.dtype}"
                raise tracer.cannot(what, op, "PyTorch refuses it as well: convert the tensor first")
            if info.is_out and 0 in target.fact.shape and result.fact.shape != target.fact.shape:
                self._resize_empty(target, result, op)
            else:
                self.write(target, result, str(op))
        return targets[0] if len(targets) == 1 else tuple(targets)

    def _resize_empty(self, target: Traced, result: Traced, op: OpOverload) -> None:
        """`out=torch.empty(0)` takes the form of what is written to it."""
        if target.parent is not None or self._plain.stands_in(target):
            raise self._resized(target, result.fact, op)
        self._tracer.levels[-1].before_write([target])
        target.node, target.fact, target.layouts = self._tracer.node_of(result), result.fact, result.layouts
        target.example = result.example.clone() if result.cell.shared else result.example
        result.cell.shared = True
        target.cell = Cell(self._tracer.levels[-1])
        target.version = target.cell.version

    def _refuse_others(self, target: Traced, result: Traced) -> None:
        """Sizes that are equal at the probes, and not at some points: PyTorch refuses the write there."""
        dims = self._tracer.dims
        if target.fact.rank != result.fact.rank:
            return
        pairs = [
            tuple(dim.values if isinstance(dim, SymDim) else (dim,) * dims.width for dim in both)
            for both in zip(target.fact.shape, result.fact.shape, strict=True)
        ]
        if all(one[: dims.probes] == other[: dims.probes] for one, other in pairs):
            differing = {p for one, other in pairs for p in range(dims.probes, dims.width) if one[p] != other[p]}
            self._tracer.dims.refuse(differing)
            result.fact = target.fact if result.fact.dtype is target.fact.dtype else result.fact

    def _resized(self, target: Traced, fact: TensorFact, op: OpOverload | str) -> Exception:
        return self._tracer.cannot(
            f"{op} would resize its target from {_shape(target.fact)} to {_shape(fact)}",
            op,
            "give it a tensor of that size, or one that is made with torch.empty(0) in forward"
            if str(op).endswith(("out", "values"))
            else None,
        )

    # --- the write itself ------------------------------------------------------------------------------------------
    def write(self, target: Traced, result: Any, op: str) -> None:
        """Make `result` the new content of `target`, and of everything that shares its memory."""
        tracer = self._tracer
        if not isinstance(result, Traced):
            result = self._plain.lift(result)
        if result.fact.shape != target.fact.shape:
            self._refuse_others(target, result)
        if result.fact.shape != target.fact.shape:
            raise self._resized(target, result.fact, op)
        if result.fact.dtype != target.fact.dtype:
            result = tracer.dispatch(aten.to.dtype, (result, target.fact.dtype), {})
        if _repeats(target):
            raise tracer.cannot(
                f"{op} writes to a tensor that sees some of its memory more than once (expand, broadcasting)",
                op,
                "PyTorch refuses it as well: write to a clone()",
            )
        target.cell.give_back()
        self._note_copies(target.cell)
        self._doubt_others(target.cell)
        chain = [target]
        while chain[-1].parent is not None:
            chain.append(chain[-1].parent)
        tracer.levels[-1].before_write(chain)
        old = [tracer.node_of(each) for each in chain]
        new = tracer.node_of(result)
        self._move(target, result)
        for each in chain:
            if each.parent is not None and is_mirrored(each):
                each.parent.example.copy_(mirrored(each, each.example))
        target.cell.mirror()
        target.cell.version += 1
        backs = [self._back(each, parent, node) for each, parent, node in zip(chain, chain[1:], old[1:], strict=False)]
        by_number = max((place + 1 for place, back in enumerate(backs) if back is None), default=0)
        target.node, target.version = new, target.cell.version
        if by_number:
            new = self._scatter(chain[: by_number + 1], old[by_number], new, op)
        for place in range(by_number, len(chain)):
            each = chain[place]
            each.node, each.version = new, target.cell.version
            if place < len(backs):
                back, parent_node = backs[place], old[place + 1]
                assert back is not None
                args = tuple(parent_node if value is PARENT else value for value in back.args)
                head = (parent_node, new) if back.takes_parent else (new,)
                new = tracer.make(back.op, (*head, *args), back.kwargs, chain[place + 1].fact)

    def note_copy(self, tensor: Traced, copy: Traced, step: ViewStep) -> None:
        """A reshape copies at most sizes. Where it is a view, a write changes both."""
        if tensor.fact.is_static or copy.cell is tensor.cell:
            return
        copy.copied = Copied(recipe_of(tensor), step)
        sizes, numbers = sizes_of(self._tracer, tensor), numbers_of(tensor, copy)
        told = functools.partial(self._note_shared, copy.copied, sizes, numbers)
        tensor.cell.note_copy(copy.cell, told)
        copy.cell.note_copy(tensor.cell, told)

    def _note_shared(self, copied: Copied, sizes: list[Size], numbers: set[int]) -> None:
        """Whether a copy is a view is a branch on sizes."""
        table = self._tracer.dims
        with self._tracer.aside():
            answers = [None if each in table.dead else copied.is_view_at(each) for each in range(table.width)]
        if None in answers[: table.probes]:  # its axes of size 1 are what makes it one as a rule
            for size in sizes:
                note_ones(size)
            return
        shared = truth(sizes, numbers, "whether memory is shared", answers)
        if not shared.is_uniform:
            self._tracer.decisions.commit(shared)

    def _doubt_others(self, cell: Cell) -> None:
        """Before a write: memory that is the same or not, as a branch or a loop has it, cannot be read any more."""
        for other in cell.others():
            self._tracer.levels[-1].doubt(other, self._tracer.where() or "an unknown line")

    def _note_copies(self, cell: Cell) -> None:
        """Before a write: whether memory is shared is a branch, if somebody still has the other memory."""
        for other, told in cell.copies:
            if other() is not None:
                told()

    def _move(self, target: Traced, result: Traced) -> None:
        """The example's new content."""
        content = result.example
        if target.cell.shared or target.example.stride() != content.stride():
            if result is not target and storage(content) == storage(target.example):
                content = content.clone()
            target.example.copy_(content)
        else:
            target.example = content if not result.cell.shared else content.clone()
            result.cell.shared = True

    def _back(self, view: Traced, parent: Traced, parent_node: fx.Node) -> PutBack | None:
        assert view.step is not None
        return put_back(view.step, parent.fact, view.fact, _Numbers(self._tracer, parent, parent_node))

    def view_again(self, view: Traced, parent: Traced, node: fx.Node) -> fx.Node:
        """A view of what its parent has become."""
        assert view.step is not None
        return self._view(view.step, node, view.fact, parent, node)

    def _view(self, step: ViewStep, node: fx.Node, fact: TensorFact, parent: Traced, parent_node: fx.Node) -> fx.Node:
        """A step from a parent to a view, taken from any node of the parent's shape."""
        step = single(step, parent.fact, fact, _Numbers(self._tracer, parent, parent_node))
        node = self._tracer.make(step.op, (node, *step.args), step.kwargs, fact)
        if step.output is None:
            return node
        node.meta["val"] = {step.output: fact}
        return self._tracer.make(operator.getitem, (node, step.output), {}, fact)

    def _scatter(self, chain: list[Traced], parent_node: fx.Node, new: fx.Node, op: str) -> fx.Node:
        """The last of a chain with what the first sees of it replaced, found by the numbers of its elements."""
        tracer, parent = self._tracer, chain[-1]
        if any(each.fact.dtype is not parent.fact.dtype for each in chain):
            names = ", ".join(str(each.step.op) for each in reversed(chain[:-1]) if each.step is not None)
            raise tracer.cannot(
                f"a write through {names} cannot be expressed", op, "write to a clone(), and copy it back"
            )
        count = tracer.make(aten.sym_numel.default, (parent_node,), {}, SizeFact(_counts(parent)))
        total = tracer.dims.dim(_counts(parent), parent.fact.shape)
        places = tracer.make(aten.arange.default, (count,), {}, TensorFact(torch.int64, (total,)))
        places = tracer.make(aten.view_as.default, (places, parent_node), {}, _numbered(parent))
        for view, above in zip(reversed(chain[:-1]), reversed(chain[1:]), strict=True):
            assert view.step is not None
            places = self._view(view.step, places, _numbered(view), above, places)
        part = tracer.dims.dim(_counts(chain[0]), chain[0].fact.shape)
        kind = parent.fact.dtype
        flat = [
            tracer.make(aten.reshape.default, (node, [-1]), {}, TensorFact(dtype, (size,)))
            for node, dtype, size in ((parent_node, kind, total), (places, torch.int64, part), (new, kind, part))
        ]
        written = tracer.make(aten.scatter.src, (flat[0], 0, *flat[1:]), {}, TensorFact(kind, (total,)))
        return tracer.make(aten.view_as.default, (written, parent_node), {}, parent.fact)

    # --- tensors that become others --------------------------------------------------------------------------------
    def view_plain(self, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        """`t_()` of a plain tensor: its memory stays as it is, and the tensor is known by its place in it."""
        if not self._plain.is_born(args[0]):
            what = f"{op} changes the form of a tensor that was there before the export"
            raise self._tracer.cannot(what, op, "use the function without the underscore, which returns a view")
        return op(*args, **kwargs)

    def _view_in_place(self, view: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Traced:
        """`t_()`: the tensor becomes a view of what it was. Views that were taken of it stay views of that."""
        target = args[0]
        tracer = self._tracer
        if self._plain.stands_in(target):
            raise tracer.cannot(
                f"{view} in place changes the form of a tensor that traced data was written to", view,
                "use the function without the underscore, which returns a view",
            )  # fmt: skip
        before = Traced(target.example, target.layouts, target.fact, tracer)
        before.node, before.cell, before.version = target.node, target.cell, target.version
        before.parent, before.step = target.parent, target.step
        before.cell.borrowed = [before if each is target else each for each in before.cell.borrowed]
        for each in list(target.cell.views_of(target)):
            each.parent = before
        before.cell.add_view(before)
        self.become(target, tracer.dispatch(view, (before, *args[1:]), kwargs), str(view))
        return target

    def become(self, target: Traced, other: Traced, op: str) -> None:
        """Make a tensor the same as another one: its memory, its form."""
        if target.cell.level is not self._tracer.levels[-1]:
            raise self._tracer.cannot(f"{op} changes a tensor from outside of a branch or a loop", op)
        target.example, target.layouts, target.fact = other.example, other.layouts, other.fact
        target.node, target.cell, target.version = other.node, other.cell, other.version
        target.parent, target.step = other.parent, other.step
        target.cell.shared = True
        target.cell.add_view(target)
        target.cell.share_borrowed(target)

    def update_statistics(self, op: OpOverload, args: tuple) -> None:
        """What batch norm and instance norm do in training to running statistics that are inputs of the graph."""
        x, _, _, mean, variance, _, momentum, *_ = args
        tracer = self._tracer
        with tracer.mode_again():
            x = x.to(mean.dtype)
            axes = list(range(2, x.dim()))
            if op is aten.batch_norm.default:
                new = x.mean([0, *axes]), x.var([0, *axes])
            else:
                new = x.mean(axes).mean(0), x.var(axes).mean(0)
            for target, value in zip((mean, variance), new, strict=True):
                target.mul_(1 - momentum).add_(value * momentum)

    # --- strides ---------------------------------------------------------------------------------------------------
    def from_base(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """`as_strided` looks at the memory, whatever tensor it is called on: take it of the one that has all of it."""
        tensor, size, stride, *rest = args
        offset = rest[0] if rest else kwargs.pop("storage_offset", None)
        base = tensor
        moved = False
        while base.parent is not None:
            moved = moved or base.step.op not in _WHOLE
            base = base.parent
        dense = all(torch.empty_strided(*form, device="meta").is_contiguous() for form in _forms(base))
        if not dense or (offset is None and moved and not base.fact.is_static):
            raise self._tracer.cannot(
                "as_strided depends on how a tensor lies in memory"
                + (", and this one's elements are not in order" if not dense else ", and where this one begins varies"),
                aten.as_strided.default,
                "use slices, unfold or expand; or call it on tensor.clone(memory_format=torch.contiguous_format)",
            )
        if offset is None:
            offset = tensor.example.storage_offset()
        return base, size, stride, offset - base.example.storage_offset()


class _Numbers:
    """`aliasing.Numbers`, in the graph of a trace."""

    def __init__(self, tracer: GraphTrace, parent: Traced, node: fx.Node) -> None:
        self._tracer, self._parent, self._node = tracer, parent, node

    def size(self, axis: int) -> int | fx.Node:
        axis %= self._parent.fact.rank
        dim = self._parent.fact.shape[axis]
        if isinstance(dim, int):
            return dim
        return self._tracer.size_node(Size(self._tracer, dim.values, AxisOf(self._node, axis)))

    def compute(self, function: Callable[..., Any], *operands: Any) -> Any:
        if not any(isinstance(each, fx.Node) for each in operands):
            return function(*operands)
        count = self._tracer.dims.width
        columns = [each.meta["val"].values if isinstance(each, fx.Node) else (each,) * count for each in operands]
        values = tuple(function(*row) for row in zip(*columns, strict=True))
        return self._tracer.make(function, operands, {}, SizeFact(values))

    def least(self, number: int | fx.Node) -> int:
        return min(self._tracer.dims.live(number.meta["val"].values)) if isinstance(number, fx.Node) else number


def _defaults(op: OpOverload, functional: OpOverload, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
    """Arguments that only the op in place has a default for: `bernoulli_(p=0.5)`, `bernoulli(p)`."""
    missing = []
    for place, (own, twin) in enumerate(zip(op._schema.arguments, functional._schema.arguments, strict=False)):
        left_out = place >= len(args) and own.name not in kwargs and own.has_default_value()
        if left_out and not twin.has_default_value() and not twin.kwarg_only:
            missing.append(own.default_value)
    return missing


def _forms(tensor: Traced) -> list[tuple[Any, Any]]:
    """Sizes and strides at every probe."""
    return [(tensor.example.size(), tensor.example.stride()), *((each.size, each.stride) for each in tensor.layouts)]


def _repeats(tensor: Traced) -> bool:
    """Whether some element is there more than once, as far as PyTorch looks for it."""
    return any(n > 1 and step == 0 for form in _forms(tensor) for n, step in zip(*form, strict=True))


def _counts(tensor: Traced) -> tuple[int, ...]:
    """How many elements, at every probe and point."""
    dims = tensor.tracer.dims
    columns = [(dim,) * dims.width if isinstance(dim, int) else dim.values for dim in tensor.fact.shape]
    return tuple(map(math.prod, zip(*columns, strict=True))) if columns else (1,) * dims.width


def _overlaps(tensor: Traced) -> bool:
    """Whether elements of a tensor share memory, as overlapping windows do."""
    reached = 0
    for step, size in sorted(zip(tensor.example.stride(), tensor.example.size(), strict=True)):
        if size > 1:
            if 0 < step <= reached:
                return True
            reached += (size - 1) * step
    return False


def _numbered(tensor: Traced) -> TensorFact:
    return TensorFact(torch.int64, tensor.fact.shape)


def _shape(fact: TensorFact) -> str:
    return f"[{', '.join(map(str, fact.shape))}]"


_WRITES_ONE_NUMBER = frozenset({aten.zero_.default, aten.fill_.Scalar, aten.fill_.Tensor})


# --- ops with a way of their own -------------------------------------------------------------------------------------
def _resize(writes: Writes, tensor: torch.Tensor, size: Any, **kwargs: Any) -> torch.Tensor:
    """`resize_` to as many elements or fewer looks at the same memory in another form."""
    now = list(tensor.size())
    if len(now) == len(size) and all(_equal(a, b) for a, b in zip(now, size, strict=True)):
        return tensor
    wanted, count = math.prod(size), math.prod(now)
    same = _equal(wanted, count)
    known = isinstance(tensor, Traced) and tensor.is_contiguous()
    if not known or (not same and wanted > count):  # an assumption about sizes, where these are dynamic
        raise writes._tracer.cannot("resize_ changes the memory of a tensor", aten.resize_.default, _RESIZED)
    writes._view_in_place(aten.view.default, (tensor, [-1]), {})
    if not same:
        writes._view_in_place(aten.slice.Tensor, (tensor, 0, 0, wanted), {})
    return writes._view_in_place(aten.view.default, (tensor, list(size)), {})


def _equal(first: Any, second: Any) -> bool:
    def values(number: Any) -> Any:
        return number.node.values if isinstance(number, SYMBOLIC) else number

    return bool(values(first) == values(second))


def _resize_as(writes: Writes, tensor: torch.Tensor, other: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    return _resize(writes, tensor, list(other.size()))


def _set(writes: Writes, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    raise writes._tracer.cannot("set_ exchanges the memory of a tensor", "aten.set_", _RESIZED)


def _detach(writes: Writes, tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _fill_diagonal(writes: Writes, tensor: torch.Tensor, value: Any, wrap: bool = False) -> torch.Tensor:
    """`wrap` goes on below a tall matrix, after a row without."""
    places = [
        torch.arange(size).reshape([-1, *[1] * (tensor.dim() - axis - 1)]) for axis, size in enumerate(tensor.size())
    ]
    if wrap and tensor.dim() == 2:
        columns = tensor.size(1)
        return tensor.masked_fill_((places[0] * columns + places[1]) % (columns + 1) == 0, value)
    met = places[0] == places[1]
    for each in places[2:]:
        met = met & (places[0] == each)
    return tensor.masked_fill_(met, value)


def _random(writes: Writes, tensor: torch.Tensor, *bounds: Any, generator: Any = None) -> torch.Tensor:
    """Whole numbers of a range; without one, all that the dtype has room for."""
    low, high = bounds if len(bounds) == 2 else (0, bounds[0] if bounds else None)
    if high is None:
        digits = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}.get(tensor.dtype)
        high = torch.iinfo(tensor.dtype).max if digits is None else 2**digits + 1
    return tensor.copy_(torch.randint_like(tensor, low, high, dtype=torch.int64))


_SPECIAL: dict[OpOverload, Callable[..., Any]] = {
    aten.resize_.default: _resize,
    aten.resize_as_.default: _resize_as,
    **{getattr(aten.set_, name): _set for name in aten.set_.overloads()},
    aten.detach_.default: _detach,
    aten.fill_diagonal_.default: _fill_diagonal,
    aten.random_.default: _random,
    getattr(aten.random_, "from"): _random,
    aten.random_.to: _random,
}
