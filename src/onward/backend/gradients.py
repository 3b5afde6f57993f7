"""`Gradient` of ai.onnx.preview.training, by autograd.

The node names tensors of the graph around it: y as a function of xs and zs. The nodes between are compiled once more,
as a body that the node calls with the values it is given; what depends on neither xs nor zs is taken from outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import onnx_ir as ir
import torch

from ..errors import BackendError

OPERATOR = ("ai.onnx.preview.training", "Gradient")


def differentiated(node: ir.Node, xs: Sequence[str], zs: Sequence[str], y: str) -> tuple[list[ir.Node], Any, Any]:
    """The nodes between, in order; the values of xs and zs, and of y."""
    graph = node.graph
    if graph is None or len(node.inputs) != len(xs) + len(zs) or not xs or len(node.outputs) > len(xs):
        raise BackendError(f"Gradient of {len(xs)} xs and {len(zs)} zs with {len(node.inputs)} inputs")
    before = []
    for each in graph:
        if each is node:
            break
        before.append(each)
    named = {str(value.name): value for value in (*graph.inputs, *getattr(graph, "initializers", {}).values())}
    named.update((str(value.name), value) for each in before for value in each.outputs)
    missing = [name for name in (*xs, *zs, y) if name not in named]
    if missing:
        raise BackendError(f"Gradient names {missing[0]!r}, which nothing before it computes")
    sources = [named[name] for name in (*xs, *zs)]
    return _between(before, sources, named[y]), sources, named[y]


def _between(nodes: Sequence[ir.Node], sources: Sequence[ir.Value], target: ir.Value) -> list[ir.Node]:
    """Those that depend on a source and that the target depends on. A source is given, not computed."""
    dependent = set(sources)
    forward = []
    for node in nodes:
        if any(value in dependent for value in _read(node)):
            forward.append(node)
            dependent.update(node.outputs)
    needed, result = {target}, []
    for node in reversed(forward):
        if any(value in needed and value not in sources for value in node.outputs):
            result.append(node)
            needed.update(_read(node))
    return result[::-1]


def _read(node: ir.Node) -> Iterator[ir.Value]:
    """Every value that a node reads, in its bodies too."""
    yield from (value for value in node.inputs if value is not None)
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
            body = attribute.as_graph()
            yield from body.outputs
            for inner in body:
                yield from _read(inner)


def gradient(*inputs: Any, body: Any, count: int) -> tuple[Any, ...]:
    """The derivatives of the sum of y by the first `count` inputs; they can be differentiated again."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        xs = [x if again and x.requires_grad else x.detach().requires_grad_() for x in inputs[:count]]
        (y,) = body(*xs, *inputs[count:])
        found: Sequence[Any] = [None] * count
        if y.requires_grad:
            found = torch.autograd.grad(y, xs, torch.ones_like(y), create_graph=again, allow_unused=True)
    return tuple(torch.zeros_like(x) if each is None else each for x, each in zip(xs, found, strict=True))
