"""The passes over a finished graph of a quantized model, in order."""

from __future__ import annotations

import onnx_ir as ir

from ...passes.drop_dead_nodes import drop_dead_nodes
from ...passes.drop_unused_weights import drop_unused_weights
from ...passes.pipeline import run_passes
from .keep_rows import keep_rows
from .last_state import last_state
from .own_scales import own_scales
from .quantize_later import quantize_later
from .shuffle_by_gather import shuffle_by_gather
from .sizes_of_integers import sizes_of_integers
from .small_tables_as_floats import small_tables_as_floats
from .transpose_places import transpose_places
from .widen_channels import widen_channels

PASSES = (
    sizes_of_integers,
    shuffle_by_gather,
    quantize_later,
    last_state,  # behind quantize_later, which leaves the Gather of the last element in float
    small_tables_as_floats,
    transpose_places,  # behind small_tables_as_floats, which takes a DequantizeLinear out of the way
    keep_rows,
    own_scales,
    drop_dead_nodes,  # the others leave old nodes behind
    drop_unused_weights,
)


def for_onnxruntime(graph: ir.Model, *, widen: bool) -> None:
    """Run the passes in place on the graph of a quantized model; `widen` says whether channels may be added."""
    run_passes(graph, (widen_channels, *PASSES) if widen else PASSES)
