"""The captured program in double precision: how far a right float32 result may be off.

What float32 itself gets wrong by much is ill-conditioned, and two right programs disagree there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from onward.capture.program.execute import Stream, run_node, steps
from onward.capture.program.facts import CapturedProgram

_NARROW = (torch.float32, torch.float16, torch.bfloat16)


def widened(value: Any) -> Any:
    """A tensor, or the dtype that an operator is asked for, in double precision."""
    if isinstance(value, torch.Tensor):
        if value.dtype in _NARROW:
            return value.double()
        return value.to(torch.complex128) if value.dtype is torch.complex64 else value
    if isinstance(value, torch.dtype):
        return torch.float64 if value in _NARROW else torch.complex128 if value is torch.complex64 else value
    return value


def wide_outputs(program: CapturedProgram, inputs: Sequence[torch.Tensor]) -> Any:
    """The outputs in double precision; None if an operator does not have it."""
    result: Any = None
    try:
        for _, value in steps(program, [widened(each) for each in inputs], widened):
            result = value
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return None
    return result


def slice_of(node: fx.Node, known: Collection[fx.Node]) -> tuple[list[fx.Node], set[fx.Node]]:
    """The calls that compute a node from known ones, in order, and the known ones (inputs and weights too)."""
    inner: set[fx.Node] = {node}
    ends: set[fx.Node] = set()
    waiting = [node]
    while waiting:
        for used in waiting.pop().all_input_nodes:
            if used in known or used.op != "call_function":
                ends.add(used)
            elif used not in inner:
                inner.add(used)
                waiting.append(used)
    return [each for each in node.graph.nodes if each in inner], ends


def wide_value(inner: Sequence[fx.Node], values: Mapping[fx.Node, Any]) -> Any:
    """The last of these calls in double precision, from the values of those before them; None if it has none."""
    known = dict(values)
    try:
        with torch.no_grad(), Stream():
            for node in inner:
                known[node] = run_node(node, known, widened)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return None
    return known[inner[-1]]
