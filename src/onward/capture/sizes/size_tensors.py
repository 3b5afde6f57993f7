"""Tensors that depend on sizes alone, and what they hold at other sizes.

`torch.arange(n)`, `torch.ones(n, n).tril()` and `zeros_like(x)` hold no data of the inputs. A question about what is in
them (`if mask.all()`, `int(positions.max())`) is a question about sizes. The few nodes that compute such a tensor are
run again at the other probes and at the points. An answer that is the same everywhere limits nothing; another is a
decision on sizes like `if n > 100`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes

from ..ground.operator_schemas import draws
from ..program.facts import Constant, SizeFact, SymDim, TensorFact
from .shape_tensors import DependsOnData
from .sizes import HeldBy, Size, SizeTrace, symbol

aten = torch.ops.aten
Nodes = tuple[tuple, dict[str, Any]]  # the arguments of a question

_MOST_NODES = 48  # of one tensor; beyond, it is taken for data
_MOST_RUN = 1500  # nodes that are run in one trace, at about 5 microseconds each
_MOST_PLACES = 24  # probes and points at which one yes or no is looked at
_LEAST_PLACES = 8
_LARGEST = 1 << 14  # elements of all tensors together, at one place, for a yes or no
_LARGEST_FOR_NUMBERS = 1 << 17  # which are wanted at every place

_OF_THE_STATE = ("parameter", "buffer")  # constants that `program.apply_weights` may replace
# Operators that take of their first argument the shape alone.
_BY_SHAPE = frozenset(
    {
        aten.zeros_like.default,
        aten.ones_like.default,
        aten.full_like.default,
        aten.new_zeros.default,
        aten.new_ones.default,
        aten.new_full.default,
        aten._shape_as_tensor.default,
    }
)
# What they hold is whatever was in memory before.
_UNKNOWN = frozenset(
    {
        aten.empty.memory_format,
        aten.empty_like.default,
        aten.new_empty.default,
        aten.empty_strided.default,
        aten.new_empty_strided.default,
        aten.empty_permuted.default,
    }
)


class NodeMaker(SizeTrace, Protocol):
    """A trace that writes nodes."""

    def make(self, target: Any, args: tuple, kwargs: dict[str, Any], fact: Any) -> fx.Node:
        """A new node, and what is known of its result."""


class SizeTensors:
    """Answers of one trace. `constants` are those of its graph, and `decided` is told of a size that Python's question
    depends on, with the answers at other probes and points."""

    def __init__(
        self,
        tracer: NodeMaker,
        constants: Mapping[str, Constant],
        decided: Callable[[Size, Mapping[int, Any]], None],
    ) -> None:
        self._tracer, self._constants, self._decided, self._run = tracer, constants, decided, 0
        self._known: dict[Any, dict[int, Any]] = {}

    def holds_data(self, node: fx.Node) -> bool:
        """Whether what a tensor holds depends on more than sizes, as far as one can see."""
        try:
            self._collect(node, [])
        except DependsOnData:
            return True
        return False

    def answer(self, op: OpOverload, nodes: Nodes, example: Any, *, is_number: bool) -> Any:
        """The answer to a question about what a tensor holds, as a number made of sizes or as a decision on them; None
        if the tensor depends on data, or if too little can be found out."""
        found = self._answers(op, nodes, example)
        if found is None or all(each == example for each in found.values()):
            return None if found is None else example
        tracer = self._tracer
        values = self._values(found) if is_number else (example,) * tracer.dims.width
        if values is None:
            return None
        node = tracer.make(aten.item.default, nodes[0][:1], {}, SizeFact(values))
        size = Size(tracer, values, HeldBy(node))
        if is_number:
            return symbol(size)
        self._decided(size, found)
        return example

    def _answers(self, op: OpOverload, nodes: Nodes, example: Any) -> dict[int, Any] | None:
        """The answers at the probes and points where they are found out, by their places."""
        order: list[fx.Node] = []
        try:
            for each in _nodes_in(nodes):
                self._collect(each, order)
        except DependsOnData:
            return None
        key = (op, self._form(order, nodes), example)
        if key not in self._known:
            self._known[key] = self._ask(op, nodes, order, example)
        found, dims = self._known[key], self._tracer.dims
        return found if len(found) >= min(dims.width - len(dims.dead), _LEAST_PLACES) else None

    def _values(self, found: Mapping[int, Any]) -> tuple[Any, ...] | None:
        """The answers as the values of a size; None unless every probe and every point that is alive has one."""
        dims = self._tracer.dims
        if len(found.keys() | dims.dead) < dims.width:
            return None
        return tuple(found.get(place, found[0]) for place in range(dims.width))

    def _collect(self, node: fx.Node, order: list[fx.Node]) -> None:
        """The nodes that a node is computed from, those first that are needed first."""
        waiting = [(node, False)]
        seen = set(order)
        while waiting:
            each, is_ready = waiting.pop()
            if is_ready:
                order.append(each)
                continue
            if each in seen:
                continue
            seen.add(each)
            self._check(each)
            if len(seen) > _MOST_NODES:
                raise DependsOnData
            waiting.append((each, True))
            waiting += [(other, False) for other in _needed(each)]

    def _check(self, node: fx.Node) -> None:
        """Refuse a node that holds data, random numbers or sizes from data."""
        fact, dims = node.meta.get("val"), self._tracer.dims
        if node.op == "get_attr" and self._constants[str(node.target)].kind not in _OF_THE_STATE:
            return
        if node.op != "call_function" or node.target in _UNKNOWN:
            raise DependsOnData
        shapes = [fact, node.args[0].meta.get("val")] if node.target in _BY_SHAPE else [fact]  # type: ignore[union-attr]
        columns = [dim.values for each in shapes if isinstance(each, TensorFact) for dim in _symbols(each)]
        columns += [fact.values] if isinstance(fact, SizeFact) else []
        if any(map(dims.is_of_data, columns)):
            raise DependsOnData
        is_random = isinstance(node.target, OpOverload) and draws(node.target, node.args, node.kwargs)
        if is_random or not isinstance(fact, (SizeFact, TensorFact, tuple)):
            raise DependsOnData

    def _form(self, order: list[fx.Node], nodes: Any) -> Any:
        """What is computed, whoever computes it: equal layers ask equal questions."""
        places = {node: place for place, node in enumerate(order)}
        rows = []
        for node in order:
            fact = node.meta.get("val")
            given = fact.values if isinstance(fact, SizeFact) else repr(_placed((node.args, node.kwargs), places))
            rows.append((node.op, node.target, given, _shape_given(node)))
        return tuple(rows), repr(_placed(nodes, places))

    def _ask(self, op: OpOverload, nodes: Nodes, order: list[fx.Node], example: Any) -> dict[int, Any]:
        dims = self._tracer.dims
        found = {0: example}
        steps = [node for node in order if not isinstance(node.meta.get("val"), SizeFact)]
        is_choice = isinstance(example, bool)
        most, largest = (_MOST_PLACES, _LARGEST) if is_choice else (dims.width, _LARGEST_FOR_NUMBERS)
        for place in (each for each in range(1, dims.width) if each not in dims.dead):
            if len(found) >= most or self._run + len(steps) > _MOST_RUN:
                break
            if sum(_elements(node, place) for node in steps) > largest:
                continue
            self._run += len(steps) + 1
            try:
                with _disable_current_modes():
                    found[place] = _answer(op, nodes, order, place, self._constants)
            except Exception:  # PyTorch's refusal of the sizes: so does the model refuse them
                continue
        return found


def _answer(op: OpOverload, nodes: Any, order: list[fx.Node], place: int, constants: Mapping[str, Any]) -> Any:
    """The answer at one place: the nodes are run in order."""
    values: dict[fx.Node, Any] = {}
    for node in order:
        fact = node.meta.get("val")
        if isinstance(fact, SizeFact):
            values[node] = fact.values[place]
        elif node.op == "get_attr":
            values[node] = constants[str(node.target)].tensor
        else:
            given = {**values, **_shapes_only(node, place)}
            args, kwargs = fx.map_arg((node.args, node.kwargs), given.__getitem__)
            values[node] = node.target(*args, **kwargs)  # type: ignore[operator]
    args, kwargs = fx.map_arg(nodes, values.__getitem__)
    return op(*args, **kwargs)


def _shapes_only(node: fx.Node, place: int) -> dict[fx.Node, Any]:
    """A stand-in for an argument of which the operator takes the shape alone. It has one element in memory."""
    if node.target not in _BY_SHAPE:
        return {}
    given: Any = node.args[0]
    fact = given.meta["val"]
    return {given: torch.empty((), dtype=fact.dtype).expand(_sizes(fact, place))}


def _needed(node: fx.Node) -> list[fx.Node]:
    """The nodes that have to be computed before one; a size is known as it is."""
    fact = node.meta.get("val")
    if isinstance(fact, SizeFact):
        return [] if node.target is aten.sym_size.int else list(node.all_input_nodes)
    if node.target in _BY_SHAPE:
        return list(_nodes_in((node.args[1:], node.kwargs)))
    return list(node.all_input_nodes)


def _nodes_in(value: Any) -> list[fx.Node]:
    found: list[fx.Node] = []

    def note(node: fx.Node) -> fx.Node:
        found.append(node)
        return node

    fx.map_arg(value, note)
    return found


def _placed(value: Any, places: Mapping[fx.Node, int]) -> Any:
    """Arguments with numbers in place of nodes."""
    return fx.map_arg(value, lambda node: f"node {places[node]}" if node in places else "shape")


def _shape_given(node: fx.Node) -> Any:
    if node.target not in _BY_SHAPE:
        return None
    fact = node.args[0].meta["val"]  # type: ignore[union-attr]
    return fact.dtype, tuple(dim.values if isinstance(dim, SymDim) else dim for dim in fact.shape)


def _symbols(fact: TensorFact) -> list[SymDim]:
    return [dim for dim in fact.shape if isinstance(dim, SymDim)]


def _sizes(fact: TensorFact, place: int) -> list[int]:
    return [dim.values[place] if isinstance(dim, SymDim) else dim for dim in fact.shape]


def _elements(node: fx.Node, place: int) -> int:
    """How many elements the results of a node have at a place."""
    fact = node.meta.get("val")
    facts = fact if isinstance(fact, tuple) else (fact,)
    return sum(math.prod(_sizes(each, place)) for each in facts if isinstance(each, TensorFact))
