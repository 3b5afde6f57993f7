"""Packed sequences (`torch.nn.utils.rnn`), followed as padded tensors with their lengths."""

from .sequences import Packings
from .swaps import DETOURS

__all__ = ["DETOURS", "Packings"]
