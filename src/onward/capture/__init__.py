"""Capture: from a live model to a program of functional ATen ops with facts about every value."""

from .attempt.session import is_capturing
from .attempt.trace import trace
from .call.inputs import Call, bind_call, dynamic_inputs
from .call.shapes import asked_axes
from .decisions.decisions import CaptureWarning
from .program.facts import CapturedProgram, Constant, Port, Scope, SizeFact, Source, SymDim, TensorFact

__all__ = [
    "Call",
    "CaptureWarning",
    "CapturedProgram",
    "Constant",
    "Port",
    "Scope",
    "SizeFact",
    "Source",
    "SymDim",
    "TensorFact",
    "asked_axes",
    "bind_call",
    "dynamic_inputs",
    "is_capturing",
    "trace",
]
