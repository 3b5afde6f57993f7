"""What the page reads: the model as one JSON object, every node and every value in it.

A value is written once, and nodes refer to it by its place in the list. Bodies of If, Loop and Scan are graphs inside
of their nodes, and so are the functions of the file, once for every call: each call has shapes of its own.

`null` is "not known". It is never a zero, and never a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from onward.files.parameters import all_parameters, held, parameters
from onward.write.type_texts import dimensions

from .call_shapes import Sized, Sizes, called, named_bodies, opened, with_sizes
from .flops import flops_of
from .memory import bytes_of, peak_memory, traffic
from .node_origins import Places, places_of
from .short_texts import preview, settings, type_name

Json = dict[str, Any]
_MOST_CALLS = 2000  # of functions that are opened: each has shapes of its own, and functions call functions


@dataclass
class Contents:
    """The model as data, and where measurements of its nodes go.

    data    what the page reads
    makers  the nodes of the main graph, by the names of what they compute
    sized   the model at the sizes that everything was worked out for
    """

    data: Json
    makers: dict[str, Json]
    sized: Sized


def contents(
    model: ir.Model,
    sizes: Mapping[str, Sequence[int]],
    *,
    files: Mapping[str, str] | None = None,
    counted_at: str = "",
    observe: Callable[[], Mapping[str, Sizes]] | None = None,
) -> Contents:
    """All that a model says by itself, at these sizes of its inputs.

    files    full paths by `net.py:12`
    observe  asks a run for the shapes of all values, by name; it is called if inference leaves some unknown
    """
    sized = with_sizes(model, sizes)
    if observe is not None:
        sized.complete(observe)
    writer = _Writer(places_of(sized.model, files))
    graph = sized.model.graph
    inputs = [value for value in graph.inputs if not value.is_initializer()]
    for value in inputs:
        writer.add(value, sized, "input")
    for value in graph.initializers.values():
        writer.add(value, sized, "weight")
    writer.outputs = set(graph.outputs)
    nodes = writer.nodes(graph, sized)
    data = {
        "name": graph.name or "model",
        "producer": f"{model.producer_name or ''} {model.producer_version or ''}".strip(),
        "opset": dict(model.opset_imports),
        "files": {
            "bytes_of_weights": sum(each.nbytes for _, each in held(model)),
            "nodes": sum(1 for _ in model.graph.all_nodes())
            + sum(1 for function in model.functions.values() for _ in function.all_nodes()),
        },
        "values": writer.values,
        "nodes": nodes,
        "inputs": [writer.index[value] for value in inputs],
        "outputs": [writer.add(value, sized, "output") for value in graph.outputs],
        "axes": _axes(inputs, model.metadata_props),
        "frozen": [],
        "warnings": [],
        "verification": None,
        "totals": {
            "parameters": all_parameters(model),
            "flops": _total(node["flops"] for node in nodes),
            "flops_unknown": sorted({node["op"] for node in nodes if node["flops"] is None}),
            "peak_memory": peak_memory(sized),
            "microseconds": None,
            "counted_at": counted_at or None,
            "profiled_at": None,
        },
        "compatibility": [],
        "error_note": None,
        "notes": [
            *([f"shapes are not known: {sized.problem}"] if sized.problem else []),
            *([f"only {_MOST_CALLS} of {writer.calls} calls of functions are opened"] if writer.is_cut_short else []),
        ],
        "sections": [],
    }
    makers = {
        str(value.name): made for node, made in zip(graph, nodes, strict=True) for value in node.outputs if value.name
    }
    return Contents(data, makers, sized)


@dataclass
class _Writer:
    places: Places
    values: list[Json] = field(default_factory=list)
    index: dict[ir.Value, int] = field(default_factory=dict)
    outputs: set[ir.Value] = field(default_factory=set)
    calls: int = 0  # of functions

    @property
    def is_cut_short(self) -> bool:
        return self.calls > _MOST_CALLS

    def add(self, value: ir.Value, sized: Sized, kind: str = "inner") -> int:
        """The place of a value in the list; it is entered there if it is new."""
        if value not in self.index:
            self.index[value] = len(self.values)
            stored = value.const_value if kind == "weight" else None
            self.values.append({
                "name": str(value.name or ""),
                "type": type_name(value),
                "shape": None if value.shape is None else dimensions(value.shape),
                "kind": kind,
                "bytes": stored.nbytes if stored is not None else bytes_of(value, sized),
                "preview": preview(stored) if stored is not None else None,
            })  # fmt: skip
            if stored is not None:
                self.values[-1]["parameters"] = parameters(value)
        return self.index[value]

    def nodes(self, graph: Iterable[ir.Node], sized: Sized) -> list[Json]:
        return [self.node(node, sized) for node in graph]

    def node(self, node: ir.Node, sized: Sized) -> Json:
        source, code = self.places.source(node)
        inputs = [None if value is None else self.add(value, sized) for value in node.inputs]
        outputs = [
            self.add(value, sized, "output" if value in self.outputs else "inner")
            for value in node.outputs
            if value.name or value.uses()
        ]
        graphs = list(self._graphs(node, sized))
        inner = [[each["flops"] for each in graph["nodes"]] for graph in graphs]
        weights = {value: None for value in node.inputs if value is not None and value.is_initializer()}
        return {
            "name": node.name or next((str(value.name) for value in node.outputs if value.name), ""),
            "op": node.op_type,
            "domain": node.domain,
            "in": inputs,
            "out": outputs,
            "attributes": settings(node),
            "scope": self.places.scope(node),
            "source": source,
            "code": code,
            "parameters": sum(map(parameters, weights)),
            "flops": flops_of(node, sized, inner, is_call=called(node, sized.model) is not None),
            "memory": traffic(node, sized),
            "microseconds": None,
            "fused_into": None,
            "runtime_note": None,
            "error": None,
            "problems": [],
            "graphs": graphs,
        }

    def _graphs(self, node: ir.Node, sized: Sized) -> Iterator[Json]:
        function = called(node, sized.model)
        self.calls += function is not None
        if function is not None and self.calls <= _MOST_CALLS:
            body = opened(node, function, sized)
            yield self._graph(function.name, body.model.graph, body)
        for name, graph in named_bodies(node):
            yield self._graph(name, graph, sized)

    def _graph(self, name: str, graph: ir.Graph, sized: Sized) -> Json:
        inputs = [self.add(value, sized) for value in graph.inputs]
        for value in graph.initializers.values():
            self.add(value, sized, "weight")
        nodes = self.nodes(graph, sized)
        return {
            "name": name,
            "nodes": nodes,
            "inputs": inputs,
            "outputs": [self.add(value, sized) for value in graph.outputs],
        }


def _total(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _axes(inputs: Sequence[ir.Value], metadata: Mapping[str, str]) -> list[Json]:
    """The dynamic axes that the file names, with the bounds that it tells of."""
    found: dict[str, list[str]] = {}
    for value in inputs:
        for axis, size in enumerate(dimensions(value.shape)):
            if isinstance(size, str):
                found.setdefault(size, []).append(f"{value.name} axis {axis}")
    return [
        {"name": name, "where": ", ".join(where), "bounds": metadata.get(f"onward.axis.{name}"), "proven": []}
        for name, where in found.items()
    ]
