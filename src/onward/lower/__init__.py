"""Lowering: a captured program becomes an ONNX graph."""

from onward.lower import ops
from onward.lower.emitter import Emitter, SizeValue
from onward.lower.operator_forms import keeps_whole
from onward.lower.program_to_model import lower_program
from onward.lower.registry import Registry
from onward.lower.symbolic import (
    lowers,
    register_custom_op_symbolic,
    registry_for,
    unregister_custom_op_symbolic,
)

__all__ = [
    "Emitter",
    "Registry",
    "SizeValue",
    "keeps_whole",
    "lower_program",
    "lowers",
    "ops",
    "register_custom_op_symbolic",
    "registry_for",
    "unregister_custom_op_symbolic",
]
