"""The tensor that a model sees while it is traced, and the memory that it lives in.

A `Cell` is a piece of memory. Its base tensor and all views of it share the cell. A write advances the cell's version.
Other views of the same cell notice that they are older and take themselves from the base again when somebody reads
them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils._pytree import tree_map_only

from ...errors import CaptureError
from ..program.facts import TensorFact
from ..sizes.layouts import Layout
from ..sizes.sizes import SizeTrace
from .layout_recipes import Copied
from .view_inverses import MIRRORED, ViewStep


class Origin:
    """A piece of memory as it came into being, and the cells that may be this memory."""

    __slots__ = ("cells", "level")

    def __init__(self, cell: Cell) -> None:
        self.level = cell.level
        self.cells = weakref.WeakSet([cell])


class Cell:
    """A piece of memory; `version` counts the writes."""

    __slots__ = (
        "__weakref__",
        "_mirrored",
        "_origins",
        "_views",
        "borrowed",
        "copies",
        "doubt",
        "level",
        "shared",
        "version",
    )

    def __init__(self, level: Any) -> None:
        self.level = level  # the graph in which it came into being
        self.version = 0
        self.shared = False  # some view, or another tensor, reads the same real memory
        self.borrowed: list[Traced] = []  # the tensors on this memory, base first, if the memory is the caller's
        self.copies: list[tuple[weakref.ref[Cell], Callable[[], None]]] = []  # one memory with this at some sizes
        self.doubt = ""  # where another one was written to that may be this memory or not: what this holds is unknown
        self._origins: set[Origin] = set()
        self._views: list[weakref.ref[Traced]] = []
        self._mirrored: list[weakref.ref[Traced]] = []  # those of them whose example has memory of its own

    def add_view(self, view: Traced) -> None:
        self._views.append(weakref.ref(view))
        if is_mirrored(view):
            self._mirrored.append(weakref.ref(view))

    def note_copy(self, other: Cell, told: Callable[[], None]) -> None:
        """Another piece of memory is one with this at some sizes; before a write, `told` is called."""
        self.copies.append((weakref.ref(other), told))

    def share_borrowed(self, tensor: Traced) -> None:
        """A tensor that is on this memory now moves with the others, if the memory is the caller's."""
        if self.borrowed:
            self.borrowed.append(tensor)

    def views_of(self, parent: Traced) -> Iterator[Traced]:
        """The views that were taken from this very tensor, as far as somebody still has them."""
        for reference in self._views:
            view = reference()
            if view is not None and view.parent is parent:
                yield view

    @property
    def origins(self) -> set[Origin]:
        """The memory that this may be: the result of a branch or a loop may be memory from outside, or new memory."""
        if not self._origins:
            self._origins.add(Origin(self))
        return self._origins

    def may_be(self, origins: Iterable[Origin]) -> None:
        for each in origins:
            self.origins.add(each)
            each.cells.add(self)

    def others(self) -> list[Cell]:
        """The cells that may be one memory with this one."""
        return [cell for each in self._origins for cell in each.cells if cell is not self]

    def mirror(self) -> None:
        """After a write: bring the examples of conjugates up to date."""
        for reference in self._mirrored:
            view = reference()
            if view is not None and view.parent is not None:
                view.example.copy_(mirrored(view, view.parent.example))

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


class TensorTrace(SizeTrace, Protocol):
    """What a traced tensor needs of the trace that it belongs to."""

    @property
    def thread(self) -> int:
        """The thread that traces; in others, traced tensors are the example's."""

    def dispatch(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """One op of the running model."""

    def own(self, tensor: Traced, node: fx.Node, parent: Traced | None = None, step: ViewStep | None = None) -> None:
        """Connect a new tensor with its node and with the memory it lives in."""

    def aside(self) -> AbstractContextManager[None]:
        """Ops on real tensors inside are not the model's."""

    def cannot(self, what: str, op: OpOverload | str, hint: str | None = None) -> CaptureError:
        """The error for what tracing cannot follow."""


class Traced(torch.Tensor):
    """The example's real tensor, the layouts of the other probes, and the fx node that computes it.

    example   probe 0: data, views and in-place writes are PyTorch's own
    layouts   the other probes
    fact      dtype and dimensions with fingerprints
    cell      the memory that this tensor is a view of; parent and step say how
    copied    the operator that made it, if that is a view at other sizes
    node      the fx node, valid while `version` is the cell's (`tracer.node_of` brings it up to date)
    """

    example: torch.Tensor
    layouts: tuple[Layout, ...]
    fact: TensorFact
    tracer: TensorTrace
    cell: Cell
    parent: Traced | None
    step: ViewStep | None
    copied: Copied | None
    node: fx.Node
    version: int

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    # There is no __init__: `torch.Tensor(x)` would call it on the alias of x that the tracer has made.
    @staticmethod
    def __new__(cls, real: torch.Tensor, layouts: tuple[Layout, ...], fact: TensorFact, tracer: TensorTrace) -> Traced:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            real.size(),
            strides=real.stride(),
            dtype=real.dtype,
            layout=real.layout,
            device=real.device,
            dispatch_sizes_strides_policy="sizes",
        )
        # There is no memory behind it. Code in C++ that asks for it gets an exception in place of a null pointer.
        torch._C._set_throw_on_mutable_data_ptr(made)
        made.example, made.layouts, made.fact, made.tracer = real, layouts, fact, tracer
        made.parent = made.step = made.copied = None
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        for value in (*args, *(kwargs or {}).values()):
            tracer = _tracer_in(value)
            if tracer is not None:
                if tracer.thread != threading.get_ident():
                    return func(*_examples(args), **_examples(kwargs or {}))
                return tracer.dispatch(func, args, kwargs or {})
        raise TypeError(f"{func} was called on a traced tensor that cannot be found among its arguments")

    @property  # type: ignore[misc]
    def __class__(self) -> type[torch.Tensor]:  # type: ignore[override]
        """`x.__class__ is torch.Tensor` takes the side that a plain tensor takes. Python itself goes by the type."""
        return torch.Tensor

    def data_ptr(self) -> int:
        """Memory that is read or written past PyTorch's operators is read and written past the graph."""
        raise self._no_memory("data_ptr()")

    def __dlpack__(self, **kwargs: Any) -> Any:
        raise self._no_memory("__dlpack__()")

    def _no_memory(self, call: str) -> Exception:
        return self.tracer.cannot(
            f"{call} asks for the memory of a tensor that depends on the inputs",
            call.removesuffix("()"),
            "stay with torch operations on tensors; a library that needs the memory can be called from a custom "
            "operator (torch.library.custom_op)",
        )

    def __copy__(self) -> torch.Tensor:
        """`copy.copy(x)`: another tensor on the same memory."""
        return torch.ops.aten.alias.default(self)

    def __repr__(self) -> str:  # type: ignore[override]
        if torch._C._is_torch_function_mode_enabled():  # the model writes it down: python_side.py
            return torch.Tensor.__repr__(self)
        dims = ", ".join(map(str, self.fact.shape))
        return f"Traced([{dims}], {self.fact.dtype})"


def is_mirrored(view: Traced) -> bool:
    """Whether a tensor is a view of its parent, and its example is not."""
    return view.step is not None and view.step.op in MIRRORED


def mirrored(view: Traced, example: torch.Tensor) -> torch.Tensor:
    """What a mirrored view sees where its parent's example is this one, or the other way round."""
    assert view.step is not None
    return view.step.op(example).resolve_conj().resolve_neg()


def _examples(value: Any) -> Any:
    """What another thread computes with that found a traced tensor where a model keeps its own: the example's."""
    return tree_map_only(Traced, lambda each: each.example, value)


def _tracer_in(value: Any) -> TensorTrace | None:
    if isinstance(value, Traced):
        return value.tracer
    if isinstance(value, (list, tuple)):
        for each in value:
            if isinstance(each, Traced):
                return each.tracer
    return None


def computed(tracer: TensorTrace, node: fx.Node, fact: TensorFact, example: torch.Tensor) -> Traced:
    """A new tensor that a node computes, in memory of its own; its other probes are as the fact says."""
    layouts = tuple(_layout(fact, probe) for probe in range(1, tracer.probes))
    traced = Traced(example.clone(memory_format=torch.contiguous_format), layouts, fact, tracer)
    tracer.own(traced, node)
    return traced


def _layout(fact: TensorFact, probe: int) -> Layout:
    sizes = [dim if isinstance(dim, int) else dim.values[probe] for dim in fact.shape]
    return Layout.of(torch.empty(sizes, dtype=fact.dtype, device="meta"))
