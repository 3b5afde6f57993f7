"""Work on any ONNX model, whoever wrote it."""

from .edit import infer_shapes, with_outputs
from .load import AnyModel, load
from .show import input_names, output_names, printable

__all__ = ["AnyModel", "infer_shapes", "input_names", "load", "output_names", "printable", "with_outputs"]
