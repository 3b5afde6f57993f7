"""The regions that lowering kept together become ONNX functions, one for all modules that compute alike.

    h1 = Identity(x)                 fence                   functions {
    a1 = MatMul(h1, layer.0.weight)  region 0                  my_model.Layer (input, weight) => (relu) {
    y1 = Relu(a1)                    region 0                    matmul = MatMul (input, weight)
    h2 = Identity(y1)                fence           ->          relu = Relu (matmul)
    a2 = MatMul(h2, layer.1.weight)  region 1                  }
    y2 = Relu(a2)                    region 1                }
    y  = Identity(y2)                fence                   y1 = my_model.Layer (x, layer.0.weight)
                                                             y  = my_model.Layer (y1, layer.1.weight)

A function is named after the class, in a domain named after the Python module that the class is in. What it reads from
outside is an input: first what the module is given, then its weights, each in the order of first use. Constants that
are no weights live inside. Two regions share a function if they have the same nodes, attributes and constants, wired
the same way; another form of the same class gets `_1`. Names inside are relative to the module, and since calls may
differ in their sizes, values inside carry no shapes.

Regions are replaced from the inside out, so functions call functions. Declines, and leaves the nodes as they are, for
a region that nothing is left of, and for one that could not be a single node since what leaves it comes back in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from ..lower.regions import FENCE, MODELS_OWN, REGION, REGIONS, ModuleRegion
from .drop_unused_weights import drop_unused_weights
from .function_keys import region_key

_INSIDE = 64  # constants up to this many elements live inside a function

_SCOPE = "onward.scope"


def modules_to_functions(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    regions: dict[str, ModuleRegion] = model.meta.pop(REGIONS, {})
    maker = _Maker(model, regions)
    for number in _inside_out(regions):
        maker.replace(number)
    names: set[str] = set()
    for node in model.graph:
        if not _take_down_fence(model.graph, node):
            node.metadata_props.pop(REGION, None)
            node.name = _unique(node.name or node.op_type, names)  # a module that is called twice
    if maker.calls:
        model.graph.sort()
        drop_unused_weights(model)
    return bool(maker.calls)


@dataclass(frozen=True)
class _Body:
    """The nodes of a region, what they read from outside, what they hold, and what is read of them outside."""

    nodes: list[ir.Node]
    inputs: list[ir.Value]
    constants: list[ir.Value]
    outputs: list[ir.Value]
    everything: frozenset[ir.Node]  # the nodes of subgraphs too


class _Maker:
    def __init__(self, model: ir.Model, regions: dict[str, ModuleRegion]) -> None:
        self._model, self._graph, self._regions = model, model.graph, regions
        self._members: dict[str, list[ir.Node]] = {number: [] for number in regions}
        self._order: dict[ir.Node, int] = {}
        for place, node in enumerate(model.graph):
            self._order[node] = place
            if REGION in node.metadata_props:
                self._members[node.metadata_props[REGION]].append(node)
        self._made: dict[object, ir.Function] = {}
        self.calls = 0

    def replace(self, number: str) -> None:
        """Make a region one node, if it can be."""
        region = self._regions[number]
        members = sorted(self._members[number], key=self._order.__getitem__)
        nodes = [node for node in members if not _take_down_fence(self._graph, node)]
        body = _body(nodes) if nodes else None
        if body is None or not body.outputs or not _is_convex(body, self._graph):
            self._leave(nodes, region)
            return
        key = (region.kind, region_key(body.nodes, body.inputs, body.constants, body.outputs))
        call = self._call(body, region)
        if key not in self._made:
            self._made[key] = self._function(body, region)
        else:
            self._graph.remove(body.nodes, safe=True)
        function = self._made[key]
        call.domain, call.op_type = function.domain, function.name
        self.calls += 1

    def _leave(self, nodes: Sequence[ir.Node], region: ModuleRegion) -> None:
        for node in nodes:
            self._belongs(node, region)

    def _belongs(self, node: ir.Node, region: ModuleRegion) -> None:
        """A node is now part of what is around the region."""
        node.metadata_props.pop(REGION, None)
        if region.outer is not None:
            node.metadata_props[REGION] = region.outer
            self._members[region.outer].append(node)

    def _call(self, body: _Body, region: ModuleRegion) -> ir.Node:
        """The node in the region's place; everybody outside reads its outputs from now on."""
        call = ir.Node(
            region.kind.__module__, region.kind.__name__, body.inputs, num_outputs=len(body.outputs), name=region.path
        )
        call.metadata_props[_SCOPE] = region.path
        for old, new in zip(body.outputs, call.outputs, strict=True):
            new.name, new.type, new.shape = old.name, old.type, old.shape
            new.metadata_props.update(old.metadata_props)
            for use in [use for use in old.uses() if use.node not in body.everything]:
                use.node.replace_input_with(use.idx, new)
            for index, output in enumerate(self._graph.outputs):
                if output is old:
                    self._graph.outputs[index] = new
        self._graph.insert_after(body.nodes[-1], call)
        self._order[call] = self._order[body.nodes[-1]]
        self._belongs(call, region)
        return call

    # Functions

    def _function(self, body: _Body, region: ModuleRegion) -> ir.Function:
        names = _Names(region.path)
        inputs = [names.input(value) for value in body.inputs]
        held = [_constant(value) for value in body.constants]
        self._graph.remove(body.nodes)
        inner = [*(node.outputs[0] for node in held), *inputs]
        _rewire(body, dict(zip([*body.constants, *body.inputs], inner, strict=True)))
        for node in held:
            names.node(node)
        for node in body.nodes:
            names.node(node)
        domains = {node.domain for node in body.everything}
        opsets = {domain: self._opset(domain) for domain in ("", *sorted(domains - {""}))}
        graph = ir.Graph(inputs, body.outputs, nodes=[*held, *body.nodes], opset_imports=opsets)
        domain, name = region.kind.__module__, self._free_name(region)
        function = ir.Function(domain, name, graph=graph, attributes=[])
        self._model.functions[function.identifier()] = function
        self._graph.opset_imports.setdefault(domain, 1)
        return function

    def _opset(self, domain: str) -> int:
        return self._graph.opset_imports.setdefault(domain, 1)

    def _free_name(self, region: ModuleRegion) -> str:
        taken = {name for domain, name, _ in self._model.functions if domain == region.kind.__module__}
        return _unique(region.kind.__name__, taken)


class _Names:
    """Names inside a function: relative to the module, each once."""

    def __init__(self, path: str) -> None:
        self._prefix = f"{path}."
        self._values: set[str] = set()
        self._nodes: set[str] = set()

    def input(self, outer: ir.Value) -> ir.Value:
        """A formal input. Weights keep their name in the module; what the module is given is called input."""
        return ir.Value(name=_unique(self._relative(outer.name) if outer.is_initializer() else "input", self._values))

    def node(self, node: ir.Node) -> None:
        node.metadata_props.pop(REGION, None)
        if _SCOPE in node.metadata_props:
            node.metadata_props[_SCOPE] = self._relative(f"{node.metadata_props[_SCOPE]}.").removesuffix(".")
        node.name = _unique(self._relative(node.name), self._nodes)
        for value in node.outputs:
            value.name = _unique(self._relative(value.name), self._values)
            if node.graph is None:  # not in a body
                value.type = value.shape = None
        for graph in _graphs_of(node):  # what enters and leaves a body has to have a type, and in a Scan a shape
            for value in graph.inputs:
                value.name = _unique(self._relative(value.name), self._values)
            for inner in graph:
                self.node(inner)

    def _relative(self, name: str | None) -> str:
        return (name or "").removeprefix(self._prefix) or "value"


def _unique(name: str, taken: set[str]) -> str:
    candidate, number = name, 0
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    taken.add(candidate)
    return candidate


def _constant(value: ir.Value) -> ir.Node:
    assert value.const_value is not None, "chosen by _lives_inside"
    made = ir.Node("", "Constant", [], [ir.AttrTensor("value", value.const_value)], num_outputs=1, name=value.name)
    made.outputs[0].name = value.name
    return made


def _rewire(body: _Body, inner: dict[ir.Value, ir.Value]) -> None:
    """Read formal inputs and held constants in place of the values outside."""
    for node in body.everything:
        for place, value in enumerate(node.inputs):
            if value is not None and value in inner:
                node.replace_input_with(place, inner[value])
        for graph in _graphs_of(node):
            for place, value in enumerate(graph.outputs):
                if value in inner:
                    graph.outputs[place] = inner[value]


# Regions


def _inside_out(regions: dict[str, ModuleRegion]) -> list[str]:
    """Every region after those inside of it, otherwise in the order of the model."""
    inner: dict[str | None, list[str]] = {}
    for number, region in regions.items():
        inner.setdefault(region.outer, []).append(number)

    def listed(outer: str | None) -> list[str]:
        return [each for number in inner.get(outer, []) for each in (*listed(number), number)]

    return listed(None)


def _take_down_fence(graph: ir.Graph, node: ir.Node) -> bool:
    """Let what is behind a fence be read directly; whether the node is gone. An output of the graph that is not a
    node's own keeps an Identity."""
    if FENCE not in node.metadata_props:
        return False
    source, made = node.inputs[0], node.outputs[0]
    assert source is not None, "a fence is made around a value"
    if made.is_graph_output():
        if source.producer() is None or source.is_graph_output() or source.graph is not graph:
            del node.metadata_props[FENCE]
            return False
        source.name, source.type, source.shape = made.name, made.type, made.shape
    ir.convenience.replace_all_uses_with(made, source, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    return True


def _body(nodes: list[ir.Node]) -> _Body:
    everything = frozenset(inner for node in nodes for inner in _with_subgraphs(node))
    defined = {value for node in everything for value in node.outputs}
    defined |= {value for node in everything for graph in _graphs_of(node) for value in graph.inputs}
    given: dict[ir.Value, None] = {}
    weights: dict[ir.Value, None] = {}
    constants: dict[ir.Value, None] = {}
    for node in nodes:
        for value in _reads(node):
            if value not in defined:
                kind = given if not value.is_initializer() else constants if _lives_inside(value) else weights
                kind.setdefault(value)
    outputs = [
        value
        for node in nodes
        for value in node.outputs
        if value.is_graph_output() or any(use.node not in everything for use in value.uses())
    ]
    return _Body(nodes, [*given, *weights], list(constants), outputs, everything)


def _lives_inside(value: ir.Value) -> bool:
    tensor = value.const_value
    if tensor is None or value.is_graph_input() or value.is_graph_output() or value.meta.get(MODELS_OWN, True):
        return False
    return tensor.size <= _INSIDE


def _is_convex(body: _Body, graph: ir.Graph) -> bool:
    """Whether nothing that is computed from the region's results is read by the region."""
    own, tainted = set(body.nodes), set(body.outputs)
    rest = len(own)
    for node in graph:
        if node in own:
            rest -= 1
            if any(value in tainted and value.producer() not in own for value in _reads(node)):
                return False
        elif any(value in tainted for value in _reads(node)):
            tainted.update(node.outputs)
        if not rest:
            break
    return True


def _reads(node: ir.Node) -> Iterator[ir.Value]:
    """Every value that a node reads, its subgraphs included."""
    for value in node.inputs:
        if value is not None:
            yield value
    for graph in _graphs_of(node):
        for inner in graph:
            yield from _reads(inner)
        yield from graph.outputs


def _with_subgraphs(node: ir.Node) -> Iterator[ir.Node]:
    yield node
    for graph in _graphs_of(node):
        for inner in graph:
            yield from _with_subgraphs(inner)


def _graphs_of(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
            yield attribute.as_graph()
