"""Plain tensors in a trace: parameters, buffers, constants, and what the model makes of them before traced data comes.

Ops on plain tensors alone just run; that *is* constant folding. Unless the weights are live: then a tensor of the state
dict is followed like an input, and what the model computes from it is recorded.

Two things need care. A write must never reach memory that is the caller's, or that a recorded constant reads. And when
traced data is written into plain memory (`buffer[0] = x`), every plain tensor on that memory has to be seen as traced
from then on: it is *promoted*.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import fx
from torch._ops import OpOverload

from ..call.weights import Weight, Weights
from ..ground.memory import MADE, Memories, Piece, geometry, leaves, storage
from ..ground.operator_schemas import Traits
from ..ground.source import ScopeStack, user_source
from ..program.derived_constants import Derivations, Derived, LiveRead
from ..program.facts import Constant, Source, TensorFact
from ..sizes.layouts import Layout
from ..sizes.sizes import SizeDecisions
from .graph_levels import Level
from .tensor import TensorTrace, Traced
from .view_inverses import as_view_of

aten = torch.ops.aten


class PlainDecisions(SizeDecisions, Protocol):
    """What is told of weights whose content decides."""

    def warn(self, what: str, means: str, instead: str) -> None:
        """Warn of what happened, what it means for the file, and what to do instead."""


class PlainTrace(TensorTrace, Protocol):
    """What plain tensors need of their trace."""

    @property
    def decisions(self) -> PlainDecisions: ...

    @property
    def levels(self) -> list[Level]:
        """The program, and then the bodies of control flow that are being traced."""

    @property
    def scopes(self) -> ScopeStack:
        """The modules that are running."""

    def wrap(self, real: torch.Tensor, layouts: tuple[Layout, ...]) -> Traced:
        """A traced tensor that looks like this at the other probes."""

    def record(self, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an op on the example and write it down."""


class PlainTensors:
    """The plain tensors of one trace."""

    def __init__(self, tracer: PlainTrace, weights: Weights) -> None:
        self._tracer, self._weights = tracer, weights
        self._derivations = Derivations(weights)
        self.updated: dict[str, None] = {}  # modules whose running statistics the model updates
        self.constants: dict[str, Constant] = {}
        self._nodes: dict[Piece, fx.Node] = {}
        self._names: dict[Piece, Weight] = {}  # {geometry: weight} of the model's state
        self._live: set[int] = set()  # storages of what is followed like an input
        self._state: dict[int, torch.Tensor] = {}  # {storage: tensor} of the model's state
        self._born = Memories()  # what plain ops made during this trace
        self._born_in: dict[int, Level] = {}  # by memory: the body of control flow that made it, or the graph itself
        self._made_at: dict[int, Source | None] = {}  # the lines that made it, by memory
        self._kept: set[int] = set()  # storages that constants of the graph read
        self._bases: dict[int, tuple[torch.Tensor, Traced]] = {}  # promoted memory: the plain tensor, its stand-in
        self.write_lines: dict[int, Source | None] = {}  # where memory was first written to
        self._adopted: list[Traced] = []
        self._twins: dict[int, list[Piece]] = {}  # {storage: weights in it that stand for themselves until a write}
        for weight in weights.state:
            self._names.setdefault(geometry(weight.tensor), weight)
            self._state.setdefault(storage(weight.tensor), weight.tensor)
            if weights.live and weight.persistent:
                self._live.add(storage(weight.tensor))

    def run(self, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Nothing traced among the arguments: the op just runs, and what it returns is a constant."""
        step = self._derivations.begin(op, args, kwargs, self._born)
        result = op(*args, **kwargs)
        if step is not None:
            self._derivations.finish(step, result, user_source)
        given = {storage(value) for value in leaves((args, *kwargs.values())) if isinstance(value, torch.Tensor)}
        for value in leaves(result):
            if isinstance(value, torch.Tensor) and (op is aten.lift_fresh.default or storage(value) not in given):
                self._born.add(value)
                self._born_in[storage(value)] = self._tracer.levels[-1]
                self._made_at[storage(value)] = user_source()
                MADE.add(value)
        return result

    def note_read(self, op: Any, node: fx.Node, how: str, answer: Any) -> None:
        """A number was read out of live weights. That is a decision only if somebody can feed others."""
        self._derivations.live_reads.append(LiveRead(_part_of_graph(node), op, answer, user_source()))
        if self._weights.fed:
            seen = "" if isinstance(answer, torch.Tensor) else f" ({answer!r})"
            self._tracer.decisions.warn(
                f"a value was read out of a weight ({how}), and the file keeps the answer{seen}",
                means="When other weights are fed, those that would give another answer are computed with wrongly",
                instead="compute with the tensor itself, or leave the weights in the file",
            )

    def note_whole_read(self, tensor: torch.Tensor) -> None:
        """Python reads all of a plain tensor in a way that no op sees."""
        self._derivations.read(torch.clone, tensor, user_source())

    def made_of(self, memory: int) -> tuple[set[int], bool]:
        """The memories with something in it that was computed from this one, and whether Python has read any of it."""
        return self._derivations.made_of(memory)

    def derived(self) -> Derived:
        """How the constants of the graph were made of weights."""
        return self._derivations.derived(
            {name: each.tensor for name, each in self.constants.items() if each.kind == "constant"}
        )

    def note_update(self, statistics: list[Any]) -> None:
        """Running statistics of the model's that an op would update, and a graph does not."""
        for node in statistics:
            if (
                isinstance(node, fx.Node)
                and node.op == "get_attr"
                and self.constants[str(node.target)].kind == "buffer"
            ):
                self.updated.setdefault(self._tracer.scopes.path or "the model")

    def may_write(self, info: Traits, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Only memory that this trace made, and that no recorded constant reads, is written for real.

        A turn of a loop, or a side of a branch, writes for real to what it has made itself alone.
        """
        for position, name in info.writes:
            for target in leaves(args[position] if position < len(args) else kwargs.get(name)):
                if isinstance(target, torch.Tensor):
                    memory = storage(target)
                    is_outer = self._born_in.get(memory) is not self._tracer.levels[-1]
                    if memory not in self._born or memory in self._kept or is_outer:
                        return False
        return True

    def is_born(self, tensor: torch.Tensor) -> bool:
        """Whether this trace made a plain tensor."""
        return storage(tensor) in self._born

    def born_at(self) -> dict[str, Source]:
        """The constants of the graph that this trace made, and the lines that made them."""
        sources = {name: self._made_at.get(storage(each.tensor)) for name, each in self.constants.items()}
        return {name: source for name, source in sources.items() if source is not None}

    def state(self, kind: str) -> list[tuple[str, torch.Tensor]]:
        """The model's tensors of a kind ("parameter" or "buffer"), by name."""
        return [(each.name, each.tensor) for each in self._weights.state if each.kind == kind]

    def note_assigned(self, tensor: torch.Tensor | None) -> None:
        """The model is about to put something else in the place of a tensor."""
        if tensor is not None:
            self.write_lines.setdefault(storage(tensor), user_source())

    def stands_in(self, tensor: Traced) -> bool:
        """Whether Python has a plain tensor in the place of a traced one."""
        views = [view for level in self._tracer.levels for view in level.views.values()]
        return any(each is tensor for each in (*(base for _, base in self._bases.values()), *views))

    def node(self, tensor: torch.Tensor) -> fx.Node:
        """The node that reads a constant."""
        key = geometry(tensor)
        node = self._nodes.get(key)
        if node is None:
            weight = self._names.get(key)
            name = weight.name if weight else f"constant_{len(self.constants)}"
            program = self._tracer.levels[0].graph  # bodies of control flow take it from there
            node = program.create_node("get_attr", name, (), {}, name.replace(".", "_"))
            fact = TensorFact(tensor.dtype, tuple(tensor.size()))
            node.meta.update(val=fact, scope=self._tracer.scopes.current, source=None)
            kind, live = weight.kind if weight else "constant", storage(tensor) in self._live and weight is not None
            origin = None if weight else self._derivations.origin(tensor)
            self.constants[name] = Constant(name, tensor.detach(), kind, live, origin)
            self._nodes[key] = node
            self._kept.add(storage(tensor))
        return node

    def lift(self, value: Any) -> Traced:
        """A traced tensor for a constant."""
        tensor = value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
        lifted = self._tracer.wrap(tensor, (Layout.of(tensor),) * (self._tracer.probes - 1))
        self._tracer.own(lifted, self.node(tensor))
        lifted.cell.shared = True
        return lifted

    def promote(self, tensor: torch.Tensor) -> Traced:
        """Give plain memory a traced stand-in, so that the tensor itself is never written."""
        memory = storage(tensor)
        self.write_lines.setdefault(memory, user_source())
        for key in self._twins.pop(memory, ()):  # they would not see what is written now
            self._tracer.levels[0].views.pop(key, None)
        if memory not in self._bases:
            whole = self._whole(tensor)
            copy = whole.detach().clone()
            base = self._tracer.wrap(copy, (Layout.of(copy),) * (self._tracer.probes - 1))
            self._tracer.own(base, self.node(whole))
            base.cell.level = self._tracer.levels[0]  # it was there before any body of control flow
            self._bases[memory] = (whole, base)
        return self._view(tensor, to_write=True)

    def adopt(self, tensor: torch.Tensor, stand_in: Traced) -> None:
        """See an input of the graph in place of a tensor of the model's, which has memory of its own."""
        self._bases[storage(tensor)] = (tensor, stand_in)
        self._adopted.append(stand_in)

    def is_adopted(self, value: Any) -> bool:
        return any(each is value for each in self._adopted)

    def written(self) -> set[int]:
        """The memories of plain tensors that were written to."""
        return {memory for memory, (_, base) in self._bases.items() if base.cell.version}

    def writes_to(self, tensor: torch.Tensor) -> int:
        """How often the stand-in for a tensor's memory was written to."""
        found = self._bases.get(storage(tensor))
        return 0 if found is None else found[1].cell.version

    def borrow(self, tensor: torch.Tensor) -> Traced:
        """The same without a copy: one is made before the first write."""
        memory = storage(tensor)
        if memory not in self._bases:
            whole = self._whole(tensor)
            self._bases[memory] = (whole, self._borrow(whole))
        return self._view(tensor)

    def _whole(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor that covers a tensor's memory: of the form of the model's own, if that covers it."""
        whole = self._state.get(storage(tensor), tensor).detach()  # the model may turn its own in place
        if whole.numel() * whole.element_size() != whole.untyped_storage().nbytes() or not whole.is_contiguous():
            count = tensor.untyped_storage().nbytes() // tensor.element_size()
            whole = tensor.detach().as_strided((count,), (1,), 0)
        return whole

    def stand_in(self, value: Any) -> Any:
        """What to see in place of a value: the traced tensor for promoted memory and for live weights, everything else
        as it is."""
        if not self._bases and not self._live:
            return value
        if isinstance(value, (list, tuple)):
            return type(value)([self.stand_in(each) for each in value])
        if isinstance(value, torch.Tensor) and not isinstance(value, Traced):
            memory = storage(value)
            if memory in self._live and memory not in self._bases:
                whole = self._state[memory]
                self._bases[memory] = (whole, self._borrow(whole))
            if memory in self._bases:
                return self._view(value)
        return value

    def _borrow(self, tensor: torch.Tensor) -> Traced:
        """A live weight as a traced tensor in the caller's own memory, which is left before the first write."""
        borrowed = self.lift(tensor)
        borrowed.cell.level = self._tracer.levels[0]  # it was there before any body of control flow
        borrowed.cell.borrowed = [borrowed]
        return borrowed

    def _view(self, tensor: torch.Tensor, *, to_write: bool = False) -> Traced:
        whole, base = self._bases[storage(tensor)]
        key = geometry(tensor)
        if key == geometry(whole):
            return base
        view = next((level.views[key] for level in self._tracer.levels if key in level.views), None)
        if view is None and key in self._names and not base.cell.version and not to_write:
            view = self._tracer.levels[0].views[key] = self._borrow(tensor)  # two weights in one piece of memory
            self._twins.setdefault(storage(tensor), []).append(key)
        if view is None:
            view = base
            for op, args in as_view_of(whole, tensor):
                view = self._tracer.record(op, (view, *args), {})
            self._tracer.levels[-1].views[key] = view
        return view


def _part_of_graph(node: fx.Node) -> fx.Graph:
    """A copy of what leads to a node: the trace may drop it again."""
    order: list[fx.Node] = []
    waiting = [node]
    while waiting:
        each = waiting[-1]
        missing = [before for before in each.all_input_nodes if before not in order]
        if missing:
            waiting.extend(missing)
        else:
            waiting.pop()
            if each not in order:
                order.append(each)
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for each in order:
        copies[each] = graph.node_copy(each, copies.__getitem__)
    graph.output(copies[node])
    return graph
