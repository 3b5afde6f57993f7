"""The form of a file as an option of `onward.export`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import onnx_ir as ir

from ...errors import LoweringError
from ...lower.formats import Format, register_format
from ..exact.integers import ROUNDING_IS_TOLD
from ..run.controller import ATTRIBUTE
from .rewrite import rewrite
from .sides import HINT

PLATFORM = "venusA"  # linger's own default


@contextlib.contextmanager
def _rounding_is_told() -> Iterator[None]:
    token = ROUNDING_IS_TOLD.set(True)
    try:
        yield
    finally:
        ROUNDING_IS_TOLD.reset(token)


def _finish(graph: ir.Model, model: Any) -> None:
    controller = getattr(model, "__dict__", {}).get(ATTRIBUTE)
    platform = (controller.config.platform if controller is not None else None) or PLATFORM
    if controller is not None and controller.config.weight_only:
        raise LoweringError(
            "linger's chips compute in integers, and weight_only=True leaves activations in float", hint=HINT
        )
    if controller is not None and controller.config.rounding != "half_up":
        raise LoweringError(
            "linger's chips round halves up, and the model was evaluated with halves to even", hint=HINT
        )
    foreign = sorted({node.op_type for node in graph.graph if node.domain == "com.microsoft"})
    if foreign:
        raise LoweringError(
            f"{', '.join(foreign)} runs in onnxruntime alone, and linger's chips have nothing like it",
            hint='init with QuantConfig(lstm="float")',
        )
    rewrite(graph, platform=platform)


def register() -> None:
    """Make the format known to `export`."""
    register_format("linger", Format(_rounding_is_told, _finish))
