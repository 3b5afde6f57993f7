"""The dimensions of a node's results, from those of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .dimension_math import Operands, Shape, broadcast
from .record import RECORDS


def propagate(
    op: str,
    shapes: Sequence[Shape | None],
    constants: Sequence[torch.Tensor | None],
    attributes: dict[str, Any],
    outputs: int,
    broadcast: Callable[..., Shape | None] = broadcast,
) -> list[Shape | None]:
    """The dimensions of each result of an operator of ONNX's own; None for those that no rule gives."""
    unknown: list[Shape | None] = [None] * outputs
    record = RECORDS.get(("", op))
    if record is None or not record.has_dimensions or not shapes or shapes[0] is None:
        return unknown
    result = record.dimensions(Operands(shapes, constants, attributes, outputs, broadcast))
    return [*result, *unknown[len(result) :]] if isinstance(result, list) else [result, *unknown[1:]]
