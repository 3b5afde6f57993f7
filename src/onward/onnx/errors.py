"""The errors of `torch.onnx.errors`, by their names there."""

from onward.capture.decisions.decisions import CaptureWarning as OnnxExporterWarning
from onward.errors import ExportError as OnnxExporterError
from onward.errors import LoweringError as SymbolicValueError
from onward.errors import UnsupportedOpError as UnsupportedOperatorError

__all__ = ["OnnxExporterError", "OnnxExporterWarning", "SymbolicValueError", "UnsupportedOperatorError"]
