"""Run a captured program in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from .facts import CapturedProgram, TensorFact

aten = torch.ops.aten


def _as_strided(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return aten.as_strided.default(x.contiguous(), *args, **kwargs)


# A value of the graph is what it holds; how PyTorch lays it out in memory here says nothing.
_BY_VALUE: dict[Any, Any] = {
    aten.view.default: aten.reshape.default,
    aten.view_as.default: aten.reshape_as.default,
    aten.as_strided.default: _as_strided,
}


class Misfit(Exception):
    """A result is not what the program says of it: the graph was made for other sizes."""


def execute(program: CapturedProgram, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The program's outputs for these inputs, in order. Raises Misfit where the graph does not hold for them: an op
    that gives three pieces here and gave two to the tracer has only two in a file."""
    values: dict[fx.Node, Any] = {}
    given = iter(inputs)
    last_use = {used: node for node in program.graph.nodes for used in node.all_input_nodes}
    with torch.no_grad():
        for node in program.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(given)
            elif node.op == "get_attr":
                values[node] = program.constants[str(node.target)].tensor
            elif node.op == "call_function":
                args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = _BY_VALUE.get(node.target, node.target)(*args, **kwargs)
                _check(node, values[node], node.meta.get("val"))
            else:
                outputs = fx.map_arg(node.args[0], values.__getitem__)
                return tuple(outputs)
            for used in node.all_input_nodes:
                if last_use[used] is node:
                    del values[used]
    raise ValueError("the graph has no output")


def _check(node: fx.Node, result: Any, fact: Any) -> None:
    """Number of results and rank must be those of the trace, and what was always empty is not in a file at all."""
    if isinstance(fact, TensorFact) and isinstance(result, torch.Tensor):
        if result.dim() != fact.rank or (0 in fact.shape and result.numel()):
            raise Misfit(f"{node.name} is {tuple(result.shape)} in place of {fact.shape}")
    elif isinstance(fact, tuple) and isinstance(result, (tuple, list)):
        if len(fact) != len(result):
            raise Misfit(f"{node.name} gives {len(result)} results in place of {len(fact)}")
        for each, of in zip(result, fact, strict=True):
            _check(node, each, of)
