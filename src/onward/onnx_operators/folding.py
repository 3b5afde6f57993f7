"""Constant folding: ONNX operators evaluated on constants, as views wherever ONNX's meaning allows.

Weights are never copied: a result that is no view is kept only if it is small, or smaller than what it is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .record import RECORDS
from .shared_rules import MAX_BYTES

Tensors = Sequence[torch.Tensor | None]


def fold(op: str, inputs: Tensors, attributes: dict[str, Any], opset: int) -> list[torch.Tensor] | None:
    """The results of an operator of ONNX's own whose inputs are all constants; None where it stays a node."""
    record = RECORDS.get(("", op))
    if record is None or not record.can_fold:
        return None
    if not record.folds_without_data and any(x is not None and x.device.type == "meta" for x in inputs):
        return None
    largest = max((x.nbytes for x in inputs if x is not None), default=0)
    if largest > MAX_BYTES and record.is_elementwise:
        return None
    with torch.no_grad():
        result = record.fold(inputs, attributes, opset)
    if result is None:
        return None
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    size = sum(each.nbytes for each in results)
    if size > MAX_BYTES and size > largest:
        return None
    if size > MAX_BYTES and size == largest and not all(_is_view(each, inputs) for each in results):
        return None
    return results


def _is_view(result: torch.Tensor, inputs: Tensors) -> bool:
    if result.device.type == "meta":
        return True
    address = result.untyped_storage().data_ptr()
    return any(x is not None and x.untyped_storage().data_ptr() == address for x in inputs)
