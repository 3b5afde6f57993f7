"""The handlers, by family."""

from . import activation, convolution, elementwise, linear, normalisation, shape

__all__ = ["activation", "convolution", "elementwise", "linear", "normalisation", "shape"]
