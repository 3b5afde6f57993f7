"""Trace a function or module without lowering it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from onward.capture import CapturedProgram, bind_call, dynamic_inputs, trace


def traced(
    model: Any, args: Any, dynamic: Mapping[str, Any] | None = None, *, allow_static_axes: bool = False
) -> CapturedProgram:
    call = bind_call(model, args, None, None)
    axes, output_axes = dynamic_inputs(call, dynamic, None)
    return trace(
        model,
        call,
        axes,
        output_axes=output_axes,
        is_primitive=lambda op, of_complex: True,
        allow_static_axes=allow_static_axes,
    )


def ops(program: CapturedProgram) -> list[str]:
    """The ops of a program, in order."""
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


def shapes(program: CapturedProgram) -> list[tuple[int | str, ...]]:
    return [port.shape for port in program.outputs]


class Identity(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1
