"""`onward.find_mismatch`: why a file and the model that it was made of disagree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from .api import export
from .errors import InputError
from .files import AnyModel, load
from .hunt import Explanation
from .hunt.foreign import explain_by_value
from .lower.origins import ORIGINS
from .parameters import OLDEST_OPSET
from .program import Program

_OF_OURS = 0.5  # the share of names that a file has in common with a fresh export if it was one


def find_mismatch(
    file: AnyModel, model: Any, args: Any = (), *, kwargs: Mapping[str, Any] | None = None, **options: Any
) -> Explanation:
    """Which operator of a file is wrong, given the live model and an example call of it.

    file     a path, bytes, a ModelProto or an onnx_ir.Model; nothing is written to it
    options  those of `export` that the file was made with; names of inputs and outputs, dynamic axes and the opset are
             the file's own unless they are given

    The model is exported anew in memory, and values of the file are matched with the export's by name: they are where
    the file was written by onward, whatever has been done to it since. Values of other exporters' files are matched by
    what they hold, as far as that goes; `notes` say so.
    """
    for name in ("f", "verify"):
        if name in options:
            raise InputError(f"find_mismatch writes nothing and takes no {name}", hint="give the options of the model")
    loaded = load(file)
    program = exported_like(loaded, model, args, kwargs, **options)
    table = program.model.meta[ORIGINS]
    present = {value.name for node in loaded.graph for value in node.outputs}
    if sum(name in present for name in table) >= _OF_OURS * len(table):
        return program.explain(loaded)
    captured = program.captured
    return explain_by_value(captured, loaded, captured.example_inputs, captured.example_outputs)


def exported_like(
    loaded: ir.Model, model: Any, args: Any, kwargs: Mapping[str, Any] | None = None, **options: Any
) -> Program:
    """The model, exported anew in memory with the names, axes and opset of a file."""
    program = export(model, args, kwargs=kwargs, **{**_own_options(loaded, options), **options})
    inputs = [value for value in loaded.graph.inputs if not value.is_initializer()]
    for what, ours, theirs in (
        ("input", program.model.graph.inputs, inputs),
        ("output", program.model.graph.outputs, loaded.graph.outputs),
    ):
        names = [[str(value.name) for value in values] for values in (ours, theirs)]
        if sorted(names[0]) != sorted(names[1]):
            raise InputError(
                f"the {what}s of the file are {', '.join(names[1])}, and those of the model {', '.join(names[0])}",
                hint=f"give {what}_names, or the options that the file was exported with",
            )
    return program


def _own_options(loaded: ir.Model, options: Mapping[str, Any]) -> dict[str, Any]:
    """What the file says of how it was made."""
    inputs = [value for value in loaded.graph.inputs if not value.is_initializer()]
    found: dict[str, Any] = {
        "opset_version": max(loaded.opset_imports.get("", OLDEST_OPSET), OLDEST_OPSET),
        "input_names": [str(value.name) for value in inputs],
        "output_names": [str(value.name) for value in loaded.graph.outputs],
    }
    axes = {
        str(value.name): {
            axis: str(size.value)
            for axis, size in enumerate(value.shape or ())
            if not isinstance(size, int) and size.value is not None
        }
        for value in inputs
    }
    if "dynamic_shapes" not in options and any(axes.values()):
        found["dynamic_axes"] = {name: each for name, each in axes.items() if each}
    return found
