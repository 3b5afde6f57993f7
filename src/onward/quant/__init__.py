"""Quantisation: models that are trained as before and exported to integers."""

from .grid import Grid

__all__ = ["Grid"]
