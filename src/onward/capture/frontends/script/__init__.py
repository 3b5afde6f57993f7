"""TorchScript: its graphs run in an interpreter of our own while a model is traced; loops and branches stay."""

from .calls import call_script

__all__ = ["call_script"]
