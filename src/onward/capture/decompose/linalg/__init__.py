"""Linear algebra for which ONNX has no operator, as short algorithms that are traced in the operator's place."""

from .reference import refer, with_signs

__all__ = ["refer", "with_signs"]
