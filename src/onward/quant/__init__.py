"""Quantisation: models that are trained as before and exported to integers."""

from .config import Activations, QuantConfig, Resolved, Rule, Weights
from .grid import Grid

__all__ = ["Activations", "Grid", "QuantConfig", "Resolved", "Rule", "Weights"]
