"""Capture: from a live model to a program of functional ATen ops with facts about every value."""

from .decisions import CaptureWarning
from .facts import CapturedProgram, Constant, Port, Scope, SizeFact, Source, SymDim, TensorFact
from .inputs import Call, bind_call, dynamic_inputs
from .session import is_capturing
from .shapes import asked_axes
from .trace import trace

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
