"""Packed sequences (`torch.nn.utils.rnn`), followed as padded tensors with their lengths."""

from . import layers
from .sequences import Packings
from .swaps import packing_followed

__all__ = ["Packings", "layers", "packing_followed"]
