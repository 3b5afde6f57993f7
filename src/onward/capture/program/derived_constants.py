"""How constants were made of weights, so that they can be made again of other weights.

Ops on plain tensors just run (`plain_tensors.py`). Those that a weight has a part in are also written down, in order: a
straight line of PyTorch calls on pieces of memory, in-place writes included. Run again on other weights, it gives what
the constants would have been. What Python read out of the weights on the way (`if self.scale > 1`) is asked again as
well, and must be answered alike: the graph has been made for that answer.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from ...errors import CaptureError
from ..call.weights import Weights
from ..ground.memory import Piece, geometry, leaves, storage
from ..ground.operator_schemas import traits
from ..ground.source_places import Source


@dataclass(frozen=True)
class Step:
    """One call. Tensors that a weight has a part in are `Piece`s, in the arguments and in the results."""

    op: Callable[..., Any]
    args: Any
    kwargs: dict[str, Any]
    written: frozenset[int]  # memory
    results: Any = None


@dataclass(frozen=True)
class Read:
    """A value that Python read: after which step, how, and the answer."""

    ask: Callable[..., Any]
    args: Any
    answer: Any
    source: Source | None


@dataclass(frozen=True)
class LiveRead:
    """The same of live weights: the part of the captured graph that leads to the answer."""

    graph: fx.Graph
    ask: Callable[..., Any]
    answer: Any
    source: Source | None


@dataclass(frozen=True)
class Derived:
    """All that is needed to make a program's constants of other weights."""

    sources: tuple[tuple[Piece, str], ...] = ()  # the weights, by their names in the file
    steps: tuple[Step | Read, ...] = ()
    results: Mapping[str, Piece] = field(default_factory=dict)  # the constants
    live_reads: tuple[LiveRead, ...] = ()


def _named(step: Step | Read) -> list[Any]:
    return list(step.kwargs.values()) if isinstance(step, Step) else []


class Derivations:
    """Written during one trace. Holds on to every tensor it knows, so that no memory is used twice."""

    def __init__(self, weights: Weights) -> None:
        self._origins: dict[int, str] = {}  # {memory: the weight that its content is made of}
        self._makers: dict[int, str] = {}  # {memory: the op that made it}
        self._sources = tuple((geometry(weight.tensor), weight.name) for weight in weights.state)
        self._steps: list[Step | Read] = []
        self._held: list[torch.Tensor] = []
        self.live_reads: list[LiveRead] = []
        for piece, name in self._sources:
            self._origins.setdefault(piece.memory, name)

    def origin(self, tensor: torch.Tensor) -> str | None:
        """The weight that a plain tensor is made of, and how: `conv.weight.mul`. None if there is none."""
        memory = storage(tensor)
        return f"{self._origins[memory]}.{self._makers.get(memory, 'part')}" if memory in self._origins else None

    def made_of(self, memory: int) -> tuple[set[int], bool]:
        """The memories with something in it that was computed from this one, and whether Python has read any of it."""
        found, is_read = {memory}, False
        for step in self._steps:
            if any(isinstance(each, Piece) and each.memory in found for each in leaves((step.args, _named(step)))):
                if isinstance(step, Read):
                    is_read = True
                else:
                    found |= step.written | {each.memory for each in leaves(step.results) if isinstance(each, Piece)}
        return found, is_read

    def begin(self, op: OpOverload, args: tuple, kwargs: dict[str, Any], born: Container[int]) -> Step | None:
        """Before an op runs: its arguments as they are now. None if no weight has a part in it."""
        tensors = [value for value in leaves((args, *kwargs.values())) if isinstance(value, torch.Tensor)]
        origin = next((self._origins[storage(each)] for each in tensors if storage(each) in self._origins), None)
        if origin is None:
            return None
        written = set()
        for position, name in traits(op).writes:
            for target in leaves(args[position] if position < len(args) else kwargs.get(name)):
                if isinstance(target, torch.Tensor):
                    written.add(storage(target))
                    self._take_over(target, origin)
        kept = {name: self._kept(value, born) for name, value in kwargs.items()}
        return Step(op, self._kept(args, born), kept, frozenset(written))

    def finish(self, step: Step, result: Any, source: Callable[[], Source | None]) -> None:
        """After it ran: its results, or the answer if it has none that are tensors."""
        if not any(isinstance(value, torch.Tensor) for value in leaves(result)):
            self._steps.append(Read(step.op, step.args, result, source()))
            return
        pieces = [value for value in leaves((step.args, *step.kwargs.values())) if isinstance(value, Piece)]
        for value in leaves(result):
            if isinstance(value, torch.Tensor):
                self._held.append(value)
                if storage(value) not in self._origins:
                    self._origins[storage(value)] = self._origins[pieces[0].memory]
                    self._makers[storage(value)] = str(step.op).split(".")[1].strip("_")
        self._steps.append(Step(step.op, step.args, step.kwargs, step.written, _pieces(result)))

    def read(self, ask: Callable[..., Any], tensor: torch.Tensor, source: Source | None) -> None:
        """Python read a plain tensor in a way that no op sees."""
        if storage(tensor) in self._origins:
            self._steps.append(Read(ask, (geometry(tensor),), ask(tensor.detach()), source))

    def _take_over(self, target: torch.Tensor, origin: str) -> None:
        """Memory that a weight is about to be written to: its content so far is where it starts from."""
        if storage(target) in self._origins:
            return
        count = target.untyped_storage().nbytes() // target.element_size()
        flat = target.detach().as_strided((count,), (1,), 0)
        self._held.append(flat)
        self._origins[storage(flat)], self._makers[storage(flat)] = origin, "written"
        self._steps.append(Step(torch.clone, (flat.clone(),), {}, frozenset(), geometry(flat)))

    def _kept(self, value: Any, born: Container[int]) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)([self._kept(each, born) for each in value])
        if not isinstance(value, torch.Tensor):
            return value
        if storage(value) in self._origins:
            return geometry(value)
        return value.detach().clone() if storage(value) in born else value

    def derived(self, constants: Mapping[str, torch.Tensor]) -> Derived:
        """What the constants of the finished graph need, those that are no weights."""
        results = {name: geometry(tensor) for name, tensor in constants.items() if storage(tensor) in self._origins}
        needed = {piece.memory for piece in results.values()}
        steps = []
        for step in reversed(self._steps):
            if isinstance(step, Step):
                made = {piece.memory for piece in leaves(step.results) if isinstance(piece, Piece)}
                if not needed & (made | step.written):
                    continue
            given = leaves((step.args, *step.kwargs.values())) if isinstance(step, Step) else leaves(step.args)
            needed.update(piece.memory for piece in given if isinstance(piece, Piece))
            steps.append(step)
        return Derived(self._sources, tuple(reversed(steps)), results, tuple(self.live_reads))


def _pieces(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return geometry(value)
    return [_pieces(each) for each in value] if isinstance(value, (list, tuple)) else None


def rederive(derived: Derived, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The constants for other weights, by name. Raises where Python read something that is different now."""
    memory = _Memory()
    for piece, name in derived.sources:
        memory.put(piece, _laid_out(weights[name].detach(), piece))
    with torch.no_grad():
        for step in derived.steps:
            if isinstance(step, Read):
                _check_answer(step, step.ask(*memory.fill(step.args)))
                continue
            kwargs = {name: memory.fill(value) for name, value in step.kwargs.items()}
            memory.bind(step.results, step.op(*memory.fill(step.args), **kwargs))
        for read in derived.live_reads:
            _check_answer(read, read.ask(_evaluate(read.graph, weights)))
    return {name: memory.at(piece) for name, piece in derived.results.items()}


def _check_answer(read: Read | LiveRead, answer: Any) -> None:
    if isinstance(answer, torch.Tensor):
        same = torch.equal(answer, read.answer)
    else:
        same = answer == read.answer or (answer != answer and read.answer != read.answer)  # nan, as before
    if not same:
        seen = "" if isinstance(answer, torch.Tensor) else f": it was {read.answer!r}, and is {answer!r} with these"
        raise CaptureError(
            f"a value that the model read out of its weights differs{seen}",
            source=str(read.source) if read.source else None,
            hint="the graph was made for the old value: export the model again with these weights",
        )


def _laid_out(tensor: torch.Tensor, piece: Piece) -> torch.Tensor:
    """The tensor with the strides that the original had."""
    if tensor.stride() == piece.stride:
        return tensor
    return torch.empty_strided(piece.size, piece.stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _evaluate(graph: fx.Graph, weights: Mapping[str, torch.Tensor]) -> Any:
    values: dict[fx.Node, Any] = {}
    for node in graph.nodes:
        if node.op == "get_attr":
            values[node] = weights[str(node.target)]
        elif node.op == "output":
            return values[node.args[0]]
        else:
            args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*args, **kwargs)
    raise ValueError("the graph has no output")


class _Memory:
    """What stands in for the pieces of memory that a trace knew."""

    def __init__(self) -> None:
        self._known: dict[int, list[tuple[Piece, torch.Tensor]]] = {}

    def put(self, piece: Piece, tensor: torch.Tensor) -> None:
        self._known.setdefault(piece.memory, []).append((piece, tensor))

    def at(self, piece: Piece) -> torch.Tensor:
        """The tensor at a piece, or a view of one that covers it."""
        known = self._known[piece.memory]
        for place, tensor in reversed(known):
            if place == piece:
                return tensor
        for place, tensor in known:
            shift = tensor.storage_offset() - place.offset
            count = tensor.untyped_storage().nbytes() // tensor.element_size()
            if place.dtype == piece.dtype and piece.fits(-shift, count):
                return tensor.as_strided(piece.size, piece.stride, piece.offset + shift)
        raise CaptureError(
            "a constant shares its memory with several weights, and cannot be made of others",
            hint="export the model again with these weights",
        )

    def fill(self, value: Any) -> Any:
        if isinstance(value, Piece):
            return self.at(value)
        return type(value)([self.fill(each) for each in value]) if isinstance(value, (list, tuple)) else value

    def bind(self, pieces: Any, result: Any) -> None:
        if isinstance(pieces, Piece):
            self.put(pieces, result)
        elif isinstance(pieces, list):
            for piece, each in zip(pieces, result, strict=True):
                self.bind(piece, each)
