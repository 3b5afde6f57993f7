"""onward: from PyTorch to ONNX in one forward pass."""

from .api import export
from .capture import CaptureWarning
from .errors import (
    CaptureError,
    ExportError,
    FrozenAxisError,
    InputError,
    LoweringError,
    MissingDependencyError,
    PassError,
    UnsupportedOpError,
    VerifyError,
    WriteError,
)
from .program import Program

__version__ = "0.1.0"

__all__ = [
    "CaptureError",
    "CaptureWarning",
    "ExportError",
    "FrozenAxisError",
    "InputError",
    "LoweringError",
    "MissingDependencyError",
    "PassError",
    "Program",
    "UnsupportedOpError",
    "VerifyError",
    "WriteError",
    "export",
]
