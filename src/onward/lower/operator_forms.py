"""Which calls of a program are lowered, and which are written down as they are (`operator_export_type`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onward.capture.program.facts import SizeFact, TensorFact
from onward.lower.aten_nodes import DOMAIN, OP_TYPE, own_name
from onward.lower.size_values import is_size_function
from onward.options import OperatorExportTypes

_EVERYTHING = (OperatorExportTypes.ONNX_ATEN, OperatorExportTypes.RAW)

_OWN_NAMES = (OperatorExportTypes.ONNX_FALLTHROUGH, OperatorExportTypes.RAW)


class OperatorForms:
    """How one export writes operators. `name` is the domain and type of a call's node, or None if it is lowered."""

    def __init__(self, kind: OperatorExportTypes) -> None:
        self.kind = kind
        self.writes_sizes = kind is OperatorExportTypes.RAW

    def name(self, target: Any, *, has_lowering: bool, facts: Sequence[Any] = ()) -> tuple[str, str] | None:
        """`facts` are those of arguments and results: a lowering exists for real numbers only."""
        if self.writes_sizes and is_size_function(target):
            return own_name(target)
        if not isinstance(target, torch._ops.OpOverload) or self.kind is OperatorExportTypes.ONNX:
            return None
        if has_lowering and self.kind not in _EVERYTHING and not any(map(_is_complex, facts)):
            return None
        return own_name(target) if self.kind in _OWN_NAMES else (DOMAIN, OP_TYPE)

    @property
    def splits_complex(self) -> bool:
        """Whether complex numbers are pairs of reals; operators that are written down take them as they are."""
        return self.kind is OperatorExportTypes.ONNX

    def can_write(self, target: Any) -> bool:
        """Whether a call that cannot be lowered has a form all the same."""
        return self.name(target, has_lowering=False) is not None


def keeps_whole(kind: OperatorExportTypes, has_lowering: Callable[[Any, bool], bool]) -> Callable[[Any, bool], bool]:
    """For capture: whether an operator is recorded as it is called, or by what it is made of."""
    if kind in _EVERYTHING:
        return lambda op, of_complex: True
    splits = OperatorForms(kind).splits_complex
    return lambda op, of_complex: has_lowering(op, of_complex and splits)


def results_of(fact: Any) -> tuple[int, Any]:
    """How many outputs a call has by what capture saw, and that as a list where there are several."""
    if isinstance(fact, dict):  # one tensor of a list that was looked at again
        facts = [fact.get(place) for place in range(max(fact) + 1)]
        return len(facts), facts if len(facts) > 1 else facts[0]
    if isinstance(fact, (tuple, list)):
        return len(fact), fact
    return 1, fact


def number_dtype(fact: SizeFact) -> torch.dtype:
    return {int: torch.int64, float: torch.float64, bool: torch.bool}[fact.kind]


def _is_complex(fact: Any) -> bool:
    if isinstance(fact, (tuple, list)):
        return any(map(_is_complex, fact))
    return isinstance(fact, TensorFact) and fact.dtype.is_complex
