"""Modules that stay together: what lowering does so that they can become ONNX functions afterwards.

With `export_modules_as_functions`, the nodes of each call of a chosen module are a region. All that lowering or a pass
does by looking at the producer of a value (pairs that cancel, a norm folded into a convolution), and the sharing
of equal nodes, would blur where one module ends and the next begins, and no two layers would look alike. So values
that enter or leave a region pass a fence, an Identity that nothing looks through:

    y = block(x)                      x1 = Identity(x)      in region 1, a fence
    z = y + 1                         y1 = Relu(x1)         in region 1
                                      y  = Identity(y1)     a fence
                                      z  = Add(y, 1)

Inside, sizes are read from what the module was given rather than from the model's inputs, and equal nodes are shared
among themselves alone. `passes/modules_to_functions.py` takes the fences away again.

Captured nodes are in the order in which the model ran, so a call is one uninterrupted stretch of them. Where a front
end reorders nodes, each stretch is a region of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir
import torch
from torch import fx

from onward.capture.program.facts import ModuleCall, SymDim
from onward.lower.complex import Complex
from onward.lower.emitter import Emitter, Value
from onward.lower.size_values import is_size_function

Choice = Callable[[type], bool]

# On nodes, until functions are made of them: the number of the innermost region, and on fences that they are fences.
REGION, FENCE = "onward.region", "onward.fence"
# On constants: whether they are parameters or buffers of the model's, or made of those.
MODELS_OWN = "onward.models_own"
# On the model: {number: ModuleRegion}.
REGIONS = "onward.regions"

_SIZES = (torch.ops.aten.sym_size.int, torch.ops.aten.sym_numel.default)


@dataclass(frozen=True, slots=True)
class ModuleRegion:
    """A region as the passes see it: the module's path and class, and the region around it."""

    path: str
    kind: type
    outer: str | None


class _Axes(dict[tuple[int, ...], tuple[Value, int]]):
    """Where sizes are read: from values of the region, and from those around it only for what the region lacks."""

    def __init__(self, around: dict[tuple[int, ...], tuple[Value, int]]) -> None:
        super().__init__()
        self._around = around

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._around

    def __missing__(self, key: tuple[int, ...]) -> tuple[Value, int]:
        return self._around[key]

    def items(self) -> Any:
        return {**dict(self._around.items()), **dict(super().items())}.items()


@dataclass(eq=False)
class _Region:
    number: str
    call: ModuleCall
    outer: _Region | None
    externals: dict[fx.Node, None] = field(default_factory=dict)  # what it reads from outside, in order
    shared: dict[Any, Any] = field(default_factory=dict)
    axes: dict[tuple[int, ...], tuple[Value, int]] | None = None  # None: not entered yet
    inward: dict[Value, Value] = field(default_factory=dict)  # outer value -> its fence
    outward: dict[Value, Value] = field(default_factory=dict)

    def around(self) -> Iterator[_Region]:
        """This region and those around it, innermost first."""
        region: _Region | None = self
        while region is not None:
            yield region
            region = region.outer


class Regions:
    """The regions of one walk. `chosen` says of a module's class whether it is kept together; None keeps nothing."""

    def __init__(self, g: Emitter, graph: fx.Graph, values: dict[fx.Node, Any], chosen: Choice | None) -> None:
        self._g, self._values = g, values
        self._shared, self._axes = g._shared, g._axes
        self._home: dict[fx.Node, _Region] = {}
        self._all: list[_Region] = []
        self._current: _Region | None = None
        if chosen is not None:
            self._assign(graph, chosen)

    @property
    def table(self) -> dict[str, ModuleRegion]:
        return {
            each.number: ModuleRegion(
                each.call.scope.path, each.call.kind, each.outer.number if each.outer is not None else None
            )
            for each in self._all
        }

    @property
    def metadata(self) -> dict[str, str]:
        """What nodes carry that are emitted now."""
        return {REGION: self._current.number} if self._current is not None else {}

    # Which node belongs where

    def _assign(self, graph: fx.Graph, chosen: Choice) -> None:
        chains: dict[ModuleCall | None, list[ModuleCall]] = {None: []}
        stack: list[_Region] = []
        for node in graph.nodes:
            if not _computes_tensors(node):
                continue
            calls = _chain(node.meta.get("call"), chosen, chains)
            keep = 0
            while keep < min(len(stack), len(calls)) and stack[keep].call is calls[keep]:
                keep += 1
            del stack[keep:]
            for call in calls[keep:]:
                stack.append(_Region(str(len(self._all)), call, stack[-1] if stack else None))
                self._all.append(stack[-1])
            if stack:
                self._home[node] = stack[-1]
                self._note_externals(node, stack)

    def _note_externals(self, node: fx.Node, stack: list[_Region]) -> None:
        for used in node.all_input_nodes:
            home = self._home.get(used)
            inside = set(home.around()) if home is not None else set()
            for region in stack:
                if region not in inside:
                    region.externals.setdefault(used)

    # The walk

    def follow(self, node: fx.Node | None) -> None:
        """The walk arrives at a node (None: at the end)."""
        if not self._all or (node is not None and not _computes_tensors(node)):
            return
        target = self._home.get(node) if node is not None else None
        if target is self._current:
            return
        for region in reversed(list(target.around())) if target is not None else []:
            if region.axes is None:
                region.axes = _Axes(self._axes_of(region.outer))
                self._switch(region)
                for external in region.externals:
                    if external in self._values:  # constants may come later, and need no fence
                        self.seen_from_here(external)
        self._switch(target)

    def _axes_of(self, region: _Region | None) -> dict[tuple[int, ...], tuple[Value, int]]:
        return self._axes if region is None or region.axes is None else region.axes

    def _switch(self, region: _Region | None) -> None:
        self._current = region
        self._g._shared = self._shared if region is None else region.shared
        self._g._axes = self._axes_of(region)

    def seen_from_here(self, node: fx.Node) -> Any:
        """What a node became, with a fence at every border between there and here."""
        value = self._values[node]
        home = self._home.get(node)
        return value if home is self._current else self._carry(value, home)

    def _carry(self, value: Any, home: _Region | None) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._carry(item, home) for item in value]
        if isinstance(value, Complex):
            return Complex(*(self._carry(part, home) for part in value.parts))
        if not isinstance(value, Value) or self._g.is_const(value) or value in self._g._session.live:
            return value
        inside = list(self._current.around()) if self._current is not None else []
        while home is not None and home not in inside:
            value = self._outward(home, value)
            home = home.outer
        for region in reversed(inside[: inside.index(home)] if home is not None else inside):
            value = self._inward(region, value)
        return value

    def _inward(self, region: _Region, value: Value) -> Value:
        if value not in region.inward:
            region.inward[value] = self._fence(value, region)
        return region.inward[value]

    def _outward(self, region: _Region, value: Value) -> Value:
        if value not in region.outward:
            region.outward[value] = self._fence(value, region.outer)
        return region.outward[value]

    def _fence(self, value: Value, region: _Region | None) -> Value:
        """An Identity that belongs to a region; sizes can be read from it there."""
        g = self._g
        node = ir.Node("", "Identity", [value], num_outputs=1)
        node.metadata_props.update({FENCE: "", **({REGION: region.number} if region is not None else {})})
        g.nodes.append(node)
        made = node.outputs[0]
        g.name_node(node, f"{value.name}.fence")
        session = g._session
        session.dims.update({made: session.dims[value]} if value in session.dims else {})
        session.dtypes.update({made: session.dtypes[value]} if value in session.dtypes else {})
        fact = g.fact_of_list(value)
        if fact is not None:
            g.annotate_list(made, fact)
        g.describe(made)
        for axis, dim in enumerate(session.dims.get(made, ())):
            if isinstance(dim, SymDim):
                self._axes_of(region).setdefault(dim.values, (made, axis))
        return made


def _computes_tensors(node: fx.Node) -> bool:
    """Constants and numbers made of sizes are not bound to a module: they are written where they are needed."""
    if node.op != "call_function" or node.target in _SIZES:
        return False
    return node.target is operator.getitem or not is_size_function(node.target)


def _chain(
    call: ModuleCall | None, chosen: Choice, known: dict[ModuleCall | None, list[ModuleCall]]
) -> list[ModuleCall]:
    """The calls of chosen modules that a call is inside of, outermost first. The model itself is the graph."""
    if call not in known:
        assert call is not None
        keep = call.scope.path != "" and chosen(call.kind)
        known[call] = [*_chain(call.outer, chosen, known), *([call] if keep else [])]
    return known[call]
