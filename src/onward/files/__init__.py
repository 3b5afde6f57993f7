"""Work on any ONNX model, whoever wrote it."""

from .load import AnyModel, load
from .show import input_names, output_names, printable

__all__ = ["AnyModel", "input_names", "load", "output_names", "printable"]
