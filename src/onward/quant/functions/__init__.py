"""The handlers, by family."""

from . import (
    activation,
    attention,
    convolution,
    elementwise,
    embedding,
    joining,
    layer_norm,
    linear,
    normalisation,
    pooling,
    recurrent,
    resize,
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
    "joining",
    "layer_norm",
    "linear",
    "normalisation",
    "pooling",
    "recurrent",
    "resize",
    "shape",
    "softmax",
    "switched_off",
    "weight_only",
]
