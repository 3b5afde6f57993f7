"""Changes to any ONNX model that keep what it computes: shapes filled in, intermediate values as outputs.

Each takes a path, bytes, a ModelProto, an onnx_ir.Model or a Program and leaves it as it is. With `output` the result
is written there. It is returned in any case: bytes for bytes, a ModelProto for a ModelProto, an onnx_ir.Model for the
rest (weights of a file stay in the file until they are needed).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import onnx
import onnx_ir as ir

from ..errors import InputError
from ..options import check_flag
from ..passes.drop_dead_nodes import drop_dead_nodes
from ..passes.drop_unused_weights import drop_unused_weights
from ..passes.open_outputs import find_values, open_outputs
from ..program import Program
from ..write import model_bytes, to_proto, write_model
from ..write.files import check_path
from .load import AnyModel, load_copy
from .shapes import infer

Output = str | os.PathLike[str]


def infer_shapes(model: AnyModel, output: Output | None = None) -> Any:
    """The model with the type and the shape of every value written down, as far as they can be known.

    Named axes keep their names, and a name means one size wherever it appears. A model over 2 GiB is no obstacle: its
    weights are not looked at.
    """
    check_output(output)
    loaded = load_copy(model)
    external = has_data_file(loaded)
    infer(loaded)
    return hand_back(loaded, model, output, external)


def with_outputs(model: AnyModel, names: Sequence[str], output: Output | None = None, *, keep: bool = True) -> Any:
    """The model with intermediate values as outputs, after those that it has (`keep=False`: instead of them, and
    without the nodes that they do not need). For a Program it is `program.with_outputs(names)`, which runs."""
    check_flag("keep", keep, "True or False")
    check_output(output)
    if isinstance(model, Program):
        opened = model.with_outputs(names, keep=keep)
        if output is not None:
            opened.save(output)
        return opened
    loaded = load_copy(model)
    external = has_data_file(loaded)
    if any(value.type is None or value.shape is None for value in find_values(loaded, names)):
        infer(loaded)
    for value in open_outputs(loaded, names, keep=keep):
        if value.type is None:
            raise InputError(
                f"the type of '{value.name}' is not known: no inference goes beyond operators of other domains",
                hint="declare it in the model's value_info",
            )
    if not keep:
        drop_dead_nodes(loaded)
        drop_unused_weights(loaded)
    return hand_back(loaded, model, output, external)


def check_output(output: Output | None) -> None:
    """Refuse before any work what cannot be written to."""
    if output is None:
        return
    if not isinstance(output, (str, os.PathLike)):
        raise InputError(f"output must be a path, not {type(output).__name__}")
    check_path(os.fsdecode(output))


def hand_back(changed: ir.Model, given: AnyModel, output: Output | None, external: bool) -> Any:
    """Write the result if that is asked for, and return it in the form in which the model was given."""
    if output is not None:
        write_model(changed, output, external_data=external or None)
    if isinstance(given, onnx.ModelProto):
        return to_proto(changed)
    if isinstance(given, (bytes, bytearray, memoryview)):
        return model_bytes(changed)
    return changed


def has_data_file(model: ir.Model) -> bool:
    """Whether weights come from a data file: then they go to one again."""
    return any(
        isinstance(value.const_value, ir.ExternalTensor)
        for graph in model.graphs()
        for value in graph.initializers.values()
    )
