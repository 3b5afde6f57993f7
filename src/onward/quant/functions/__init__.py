"""The handlers, by family."""

from . import (
    activation,
    attention,
    convolution,
    elementwise,
    embedding,
    layer_norm,
    linear,
    normalisation,
    recurrent,
    shape,
    softmax,
    switched_off,
    weight_only,
)

__all__ = [
    "activation",
    "attention",
    "convolution",
    "elementwise",
    "embedding",
    "layer_norm",
    "linear",
    "normalisation",
    "recurrent",
    "shape",
    "softmax",
    "switched_off",
    "weight_only",
]
