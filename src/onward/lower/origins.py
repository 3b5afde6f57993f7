"""Which value of the captured program a value of the file stands for: what a mismatch is hunted with.

The table is in the model's `meta`, by name, since passes keep the name of what they keep: a convolution that has taken
a batch norm in has the norm's name, and its result. Values in bodies and in functions have no entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch
from torch import fx

from onward.capture.program.facts import STORED, pair_tensor
from onward.lower.complex import Complex
from onward.lower.emitter import Value

ORIGINS = "onward.origins"
_SUMS = ("onward::conv", "onward::linear", "onward::matmul")
_OFF_SUMS = ("onward::requantize", "onward::rescale")


@dataclass(frozen=True, slots=True)
class Origin:
    """A node of the captured graph, the place among its results, and which part of a complex number it is."""

    node: str
    path: tuple[int, ...] = ()
    part: str = ""

    def pick(self, result: Any) -> torch.Tensor | None:
        """The tensor that the file should have, out of what the node gave; None if it is no tensor."""
        for index in self.path:
            if not isinstance(result, (tuple, list)) or index >= len(result):
                return None
            result = result[index]
        if not isinstance(result, torch.Tensor):
            return None
        result = result.detach()
        if result.dtype in STORED:
            return result.int_repr()
        return getattr(result, self.part) if self.part and result.is_complex() else pair_tensor(result)


def origins(graph: fx.Graph, values: Mapping[fx.Node, Any], made: ir.Graph) -> dict[str, Origin]:
    """The table of a graph that was just made. Where several nodes became one value, the first is its origin."""
    table: dict[str, Origin] = {}
    in_units = _in_units(graph)
    for node in graph.nodes:
        if node in in_units:
            continue
        if node.op == "call_function" and node in values:
            for value, path, part in _values(values[node]):
                if value.producer() is not None and value.name:
                    table.setdefault(str(value.name), Origin(node.name, path, part))
        elif node.op == "output":
            results = node.args[0] if isinstance(node.args[0], (tuple, list)) else [node.args[0]]
            for result, value in zip(results, made.outputs, strict=True):
                if isinstance(result, fx.Node):
                    table[str(value.name)] = Origin(result.name)
    return {name: table[name] for name in _computed(made) if name in table}


def _in_units(graph: fx.Graph) -> set[fx.Node]:
    """The sums of quantised products, and what is made of them on the way to a grid: the program has them as numbers of
    steps, the file as what these stand for."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        name = schema.name if schema is not None else ""
        if name in _SUMS or (name not in _OFF_SUMS and node.op != "output" and found & set(node.all_input_nodes)):
            found.add(node)
    return found


def _values(result: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[ir.Value, tuple[int, ...], str]]:
    if isinstance(result, (tuple, list)):
        for place, each in enumerate(result):
            yield from _values(each, (*path, place))
    elif isinstance(result, Complex):
        for value, part in zip(result.parts, ("real", "imag"), strict=False):
            yield value, path, part
    elif isinstance(result, Value):
        yield result, path, ""


def _computed(graph: ir.Graph) -> list[str]:
    return [str(value.name) for node in graph for value in node.outputs if value.name]


def keep_present(model: ir.Model) -> None:
    """Forget the values that passes have removed."""
    table = model.meta.get(ORIGINS, {})
    model.meta[ORIGINS] = {name: table[name] for name in _computed(model.graph) if name in table}
