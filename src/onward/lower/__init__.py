"""Lowering: a captured program becomes an ONNX graph."""

from onward.lower.emitter import Emitter, SizeValue
from onward.lower.registry import Registry, available_since, has_lowering, load_families, lowers
from onward.lower.walk import lower_program

__all__ = [
    "Emitter",
    "Registry",
    "SizeValue",
    "available_since",
    "has_lowering",
    "load_families",
    "lower_program",
    "lowers",
]
