"""The tensor that a model sees while it is traced."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils._pytree import tree_map_only

from ..program.facts import TensorFact
from ..sizes.layouts import Layout

if TYPE_CHECKING:
    from ..record.tracer import Tracer
    from .aliasing import Cell, ViewStep
    from .point_layouts import Copied


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
    tracer: Tracer
    cell: Cell
    parent: Traced | None
    step: ViewStep | None
    copied: Copied | None
    node: fx.Node
    version: int

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    # There is no __init__: `torch.Tensor(x)` would call it on the alias of x that the tracer has made.
    @staticmethod
    def __new__(cls, real: torch.Tensor, layouts: tuple[Layout, ...], fact: TensorFact, tracer: Tracer) -> Traced:
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


def _examples(value: Any) -> Any:
    """What another thread computes with that found a traced tensor where a model keeps its own: the example's."""
    return tree_map_only(Traced, lambda each: each.example, value)


def _tracer_in(value: Any) -> Tracer | None:
    if isinstance(value, Traced):
        return value.tracer
    if isinstance(value, (list, tuple)):
        for each in value:
            if isinstance(each, Traced):
                return each.tracer
    return None


def computed(tracer: Tracer, node: fx.Node, fact: TensorFact, example: torch.Tensor) -> Traced:
    """A new tensor that a node computes, in memory of its own; its other probes are as the fact says."""
    layouts = tuple(_layout(fact, probe) for probe in range(1, tracer.probes))
    traced = Traced(example.clone(memory_format=torch.contiguous_format), layouts, fact, tracer)
    tracer.own(traced, node)
    return traced


def _layout(fact: TensorFact, probe: int) -> Layout:
    sizes = [dim if isinstance(dim, int) else dim.values[probe] for dim in fact.shape]
    return Layout.of(torch.empty(sizes, dtype=fact.dtype, device="meta"))
