"""Sizes at which a file would be wrong are refused by the file itself.

ONNX has no operator that raises an error. onnxruntime raises one for an index beyond the end of a tensor, and shows the
name of the node: the name says what does not hold, and where in the model's code it is asked.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch

from onward.capture.program.facts import CapturedProgram, Expression, SymDim
from onward.lower.emitter import Emitter, Value
from onward.lower.size_values import number


def described_limits(program: CapturedProgram) -> dict[str, str]:
    """`onward.limit.1: `n > 100` is False (net.py:12)`, for those who look at the file."""
    return {f"onward.limit.{place}": str(limit) for place, limit in enumerate(program.limits, 1)}


def refusing(g: Emitter, program: CapturedProgram, x: Value) -> Value:
    """The same tensor, if all limits of the program hold at the sizes of the inputs; an error of the runtime if not."""
    axes = _axes(g, program)
    shape = g.op.Shape(x)
    for limit in program.limits:
        asked = _computed(g, limit.question, axes)
        if not isinstance(limit.answer, bool):
            asked = number(g, operator.eq, asked, limit.answer)
        fails = asked if limit.answer is False else number(g, operator.not_, asked)
        nothing = g.op.Gather(g.const([0]), g.cast(fails, torch.int64), axis=0)
        g.name_node(nothing.producer(), f"this file is only for sizes where {limit}")
        shape = g.op.Add(shape, nothing)
    result = g.node("Reshape", [x, shape])
    known = g.dims(x)
    return result if known is None else g.annotate(result, known, g.dtype(x))


def _axes(g: Emitter, program: CapturedProgram) -> dict[str, tuple[Value, int]]:
    """Where the size of each named axis is found."""
    found: dict[str, tuple[Value, int]] = {}
    for value, port in zip(g.inputs, program.inputs, strict=True):
        for axis, dim in enumerate(port.fact.shape):
            if isinstance(dim, SymDim) and dim.name:
                found.setdefault(dim.name, (value, axis))
    return found


def _computed(g: Emitter, asked: Expression | str | float, axes: Mapping[str, tuple[Value, int]]) -> Any:
    """A number that follows sizes. It is not looked up by its values, which are all alike at the sizes of the trace."""
    if isinstance(asked, Expression):
        return number(g, asked.function, *(_computed(g, each, axes) for each in asked.operands))
    if isinstance(asked, str):
        value, axis = axes[asked]
        return g._shape_part(value, axis, axis + 1)
    return asked
