"""What a model holds, for a person and for a script."""

from __future__ import annotations

from ..write.listing import listing
from .load import AnyModel, load


def printable(model: AnyModel) -> str:
    """The graph of any ONNX model as text, the way `print(program)` shows an export."""
    return listing(load(model, weights=False))


def input_names(model: AnyModel) -> list[str]:
    """The names of what has to be fed, in order. Weights that may be fed, but need not, are left out."""
    return [str(value.name) for value in load(model, weights=False).graph.inputs if not value.is_initializer()]


def output_names(model: AnyModel) -> list[str]:
    """The names of the outputs, in order."""
    return [str(value.name) for value in load(model, weights=False).graph.outputs]
