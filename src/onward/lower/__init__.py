"""Lowering: a captured program becomes an ONNX graph."""

from onward.lower import ops
from onward.lower.emitter import Emitter, SizeValue
from onward.lower.registry import Registry, available_since, has_lowering, lowers
from onward.lower.walk import lower_program

__all__ = [
    "Emitter",
    "Registry",
    "SizeValue",
    "available_since",
    "has_lowering",
    "lower_program",
    "lowers",
    "ops",
]
