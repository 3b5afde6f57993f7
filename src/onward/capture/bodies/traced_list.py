"""Lists of tensors whose length depends on data, as values of the graph: sequences, in ONNX.

A list of known length is a Python list of traced tensors, and is not seen here. Nor is one whose tensors have one
shape, which is one tensor with a row for each (`script/columns.py`), until somebody has to have a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import fx

from ...errors import CaptureError
from ..memory.graph_levels import GraphTrace
from ..memory.plain_tensors import PlainTensors
from ..memory.tensor import Traced, computed
from ..program.facts import Dim, ListFact, TensorFact
from ..program.regions import (
    list_cat,
    list_empty,
    list_erase,
    list_insert,
    list_item,
    list_length,
    list_of,
    list_split,
    list_stack,
    list_unbind,
)
from ..sizes.data_sizes import DataSizes
from ..sizes.sizes import SYMBOLIC

Index = int | torch.SymInt


class ListTrace(GraphTrace, Protocol):
    """What lists need of their trace."""

    @property
    def data_sizes(self) -> DataSizes:
        """Sizes and numbers that depend on data."""

    @property
    def plain(self) -> PlainTensors:
        """The tensors that are not traced."""

    def create(self, target: Any, args: tuple, kwargs: dict[str, Any] | None = None) -> fx.Node:
        """A new node."""

    def number(self, node: fx.Node, example: Any) -> Any:
        """A number that depends on data, as the node computes it."""


class TracedList:
    """The example's tensors, what is known of all others, and the fx node that computes the list. It never changes."""

    __slots__ = ("_node", "example", "fact", "tracer")

    def __init__(self, tracer: ListTrace, node: fx.Node, fact: ListFact, example: Sequence[torch.Tensor]) -> None:
        self.tracer, self._node, self.fact, self.example = tracer, node, fact, tuple(example)

    # --- made --------------------------------------------------------------------------------------------------------
    @staticmethod
    def empty(tracer: ListTrace, fact: ListFact) -> TracedList:
        return _made(tracer, list_empty, (fact.dtype,), fact, ())

    @staticmethod
    def of(tracer: ListTrace, tensors: Sequence[torch.Tensor]) -> TracedList:
        """At least one, all of one dtype and one number of axes."""
        traced = [_traced(tracer, each) for each in tensors]
        fact = ListFact(traced[0].dtype, traced[0].fact.shape)
        for each in traced[1:]:
            fact = fact.joined(each.fact)
        args = ([tracer.node_of(each) for each in traced],)
        return _made(tracer, list_of, args, fact, _copies(tracer, [each.example for each in traced]))

    @staticmethod
    def unbound(tracer: ListTrace, x: Traced) -> TracedList:
        """The rows of a tensor."""
        fact = ListFact(x.fact.dtype, x.fact.shape[1:])
        return _made(tracer, list_unbind, (tracer.node_of(x), 0), fact, _copies(tracer, x.example.unbind(0)))

    @staticmethod
    def split(tracer: ListTrace, x: Traced, sizes: Any, axis: int) -> TracedList:
        """Parts along an axis: of one size, or of the sizes that a tensor holds."""
        axis %= x.dim()
        shape: list[Dim | None] = list(x.fact.shape)
        shape[axis] = None
        if isinstance(sizes, torch.Tensor):
            lengths = _traced(tracer, sizes)
            node: Any = tracer.node_of(lengths)
            with tracer.aside():
                parts = _of_example(x).split(lengths.example.tolist(), axis)
        else:
            node, size = _number(tracer, sizes)
            with tracer.aside():
                parts = _of_example(x).split(size, axis)
        args = (tracer.node_of(x), node, axis)
        return _made(tracer, list_split, args, ListFact(x.dtype, tuple(shape)), _copies(tracer, parts))

    # --- read --------------------------------------------------------------------------------------------------------
    @property
    def node(self) -> fx.Node:
        """The node that computes it; bodies between it and the present graph take it from outside."""
        if self._node.graph is not self.tracer.graph:
            for level in self.tracer.levels[1:]:
                level.examples[self._node] = self.example
        return self._node

    def length(self) -> Any:
        """A number that depends on data."""
        tracer = self.tracer
        return tracer.number(tracer.create(list_length, (self.node,)), len(self.example))

    def get(self, index: Index) -> Traced:
        tracer = self.tracer
        asked, place = _number(tracer, index)
        within = -len(self.example) <= place < len(self.example)
        example = self.example[place] if within else self._stand_in()
        args = (self.node, asked)
        return self._tensor(list_item, args, self.fact.shape, example, ("item", *self._form(args)))

    def cat(self, axis: int) -> Traced:
        axis %= self.fact.rank
        shape = (*self.fact.shape[:axis], None, *self.fact.shape[axis + 1 :])
        args = (self.node, axis)
        with self.tracer.aside():
            example = torch.cat(self.example or (self._stand_in(),), axis)
        return self._tensor(list_cat, args, shape, example, ("cat", *self._form(args)))

    def stack(self, axis: int) -> Traced:
        axis %= self.fact.rank + 1
        shape = (*self.fact.shape[:axis], None, *self.fact.shape[axis:])
        args = (self.node, axis)
        with self.tracer.aside():
            example = torch.stack(self.example or (self._stand_in(),), axis)
        return self._tensor(list_stack, args, shape, example, ("stack", *self._form(args)))

    def _stand_in(self) -> torch.Tensor:
        """Something for the example where it has no such element: the way that reads it is not the example's."""
        sizes = [1 if dim is None else dim if isinstance(dim, int) else dim.values[0] for dim in self.fact.shape]
        with self.tracer.aside():
            return torch.zeros(sizes, dtype=self.fact.dtype)

    def _form(self, args: tuple) -> tuple[Any, ...]:
        """What is asked, in a form that is the same when it is asked again: the answer has the same sizes."""
        tracer = self.tracer
        return (tracer.data_sizes.form(tracer.graph, fx.map_arg(args, tracer.here)),)

    def _tensor(
        self, target: Any, args: tuple, shape: Sequence[Dim | None], example: torch.Tensor, key: tuple[Any, ...]
    ) -> Traced:
        """A result whose dimensions are those of the elements, or sizes of their own."""
        tracer = self.tracer
        sizes = tracer.data_sizes
        dims = tuple(
            tracer.dims.at_probes((example.size(axis), *sizes.fresh((*key, axis), example.size(axis), key[0])))
            if dim is None
            else dim
            for axis, dim in enumerate(shape)
        )
        fact = TensorFact(self.fact.dtype, dims)
        with tracer.aside():
            return computed(tracer, tracer.make(target, args, {}, fact), fact, example)

    # --- changed -----------------------------------------------------------------------------------------------------
    def inserted(self, index: Index | None, tensor: torch.Tensor) -> TracedList:
        """With a tensor more, before the index or at the end."""
        tracer, traced = self.tracer, _traced(self.tracer, tensor)
        (copy,) = _copies(tracer, [traced.example])
        args: tuple = (self.node, tracer.node_of(traced))
        place = len(self.example)
        if index is not None:
            asked, place = _number(tracer, index)
            args = (*args, asked)
        return _made(tracer, list_insert, args, self.fact.joined(traced.fact), list_insert(self.example, copy, place))

    def without(self, index: Index) -> TracedList:
        asked, place = _number(self.tracer, index)
        within = -len(self.example) <= place < len(self.example)
        left = list_erase(self.example, place) if within else self.example
        return _made(self.tracer, list_erase, (self.node, asked), self.fact, left)

    # --- Python ------------------------------------------------------------------------------------------------------
    def __repr__(self) -> str:
        return f"a list of tensors whose length depends on data ({len(self.example)} for the example)"

    def __iter__(self) -> Iterator[Any]:
        raise self._unknown()

    def __len__(self) -> int:
        raise self._unknown()

    def __getitem__(self, index: Index) -> Traced:
        return self.get(index)

    def _unknown(self) -> CaptureError:
        return _length_unknown(self.tracer)


class TracedNumbers:
    """A list of numbers whose length depends on data, as Python has it: a tensor of one axis that is no tensor to the
    model. Python can hand it to a script, or return it."""

    __slots__ = ("kind", "tensor")

    def __init__(self, kind: type, tensor: torch.Tensor) -> None:
        self.kind, self.tensor = kind, tensor

    def __repr__(self) -> str:
        return "a list of numbers whose length depends on data"

    def __iter__(self) -> Iterator[Any]:
        raise self._unknown()

    def __len__(self) -> int:
        raise self._unknown()

    def __getitem__(self, index: Index) -> Any:
        return self.tensor.select(0, index).item()

    def _unknown(self) -> CaptureError:
        return _length_unknown(getattr(self.tensor, "tracer", None))


def _length_unknown(tracer: ListTrace | None) -> CaptureError:
    return CaptureError(
        "Python asks for the length of a list, and it depends on data",
        source=tracer.where() if tracer else None,
        module=(tracer.scopes.path or None) if tracer else None,
        hint="go through the list in the script that makes it, hand it to another script, or return it",
    )


def _made(tracer: ListTrace, target: Any, args: tuple, fact: ListFact, example: Sequence[torch.Tensor]) -> TracedList:
    return TracedList(tracer, tracer.make(target, args, {}, fact), fact, example)


def _traced(tracer: ListTrace, tensor: torch.Tensor) -> Traced:
    tensor = tracer.plain.stand_in(tensor)
    return tensor if isinstance(tensor, Traced) else tracer.plain.lift(tensor)


def _of_example(x: Traced) -> torch.Tensor:
    return x.example.detach()


def _copies(tracer: ListTrace, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Of the example's tensors: a later write to these is none to the list."""
    with tracer.aside():
        return [each.detach().clone() for each in tensors]


def _number(tracer: ListTrace, value: Any) -> tuple[Any, int]:
    """A number as an argument of a node, and for the example."""
    if isinstance(value, SYMBOLIC):
        return tracer.size_node(value.node), value.node.values[0]
    return value, value
