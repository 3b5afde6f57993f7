"""What quantization makes of PyTorch's functions: one file for each family, with its exact steps, its arithmetic in
training, and what a file has for it."""

from . import (
    activation,
    attention,
    averages,
    contraction,
    convolution,
    elementwise,
    embedding,
    extremes,
    gates,
    linear,
    norms,
    recurrent,
    resize,
    shape,
    softmax,
    transposed_convolution,
)

__all__ = [
    "activation", "attention", "averages", "contraction", "convolution", "elementwise", "embedding", "extremes",
    "gates", "linear", "norms", "recurrent", "resize", "shape", "softmax", "transposed_convolution",
]  # fmt: skip
