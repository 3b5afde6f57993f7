"""The passes that every export runs, in order.

The emitter folds, shares and drops as it goes, so what is left for passes is what needs to see a node's consumers.
Files that others wrote get the same list after one that makes up for the emitter.
With ONWARD_DEBUG=1 in the environment the model is checked after each pass, and a broken one names the pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import onnx
import onnx_ir as ir

from ..errors import PassError
from .constants_to_weights import constants_to_weights
from .drop_dead_nodes import drop_dead_nodes
from .drop_no_ops import drop_no_ops
from .drop_unused_weights import drop_unused_weights
from .flatten_concats import flatten_concats
from .fold_constants import fold_constants
from .for_onnxruntime.multiply_squares_of_doubles import multiply_squares_of_doubles
from .for_onnxruntime.name_sliced_axes import name_sliced_axes
from .for_onnxruntime.part_casts_from_layer_norm import part_casts_from_layer_norm
from .for_onnxruntime.part_half_from_gelu import part_half_from_gelu
from .for_onnxruntime.part_scales_of_matmul import part_scales_of_matmul
from .for_onnxruntime.part_transpose_from_matmul import part_transpose_from_matmul
from .for_onnxruntime.round_before_comparing import round_before_comparing
from .for_onnxruntime.sum_before_layer_norm import sum_before_layer_norm
from .fuse_conv_batch_norm import fuse_conv_batch_norm
from .fuse_rms_norm import fuse_rms_norm
from .merge_steps import merge_steps
from .share_equal_nodes import share_equal_nodes
from .share_equal_weights import share_equal_weights

Pass = Callable[[ir.Model], bool]

PIPELINE: tuple[Pass, ...] = (
    fuse_conv_batch_norm,
    flatten_concats,
    fuse_rms_norm,
    multiply_squares_of_doubles,
    sum_before_layer_norm,
    part_casts_from_layer_norm,
    part_transpose_from_matmul,
    part_scales_of_matmul,
    round_before_comparing,
    part_half_from_gelu,
    name_sliced_axes,  # behind everything that may leave a Slice without the names of its axes
    drop_unused_weights,  # last: the others leave old weights behind
)

FOR_FILES: tuple[Pass, ...] = (
    constants_to_weights,  # first: the others look for constants among the initializers only
    fold_constants,
    share_equal_weights,  # before nodes are compared: equal nodes read the same constants
    drop_no_ops,
    merge_steps,
    share_equal_nodes,
    drop_dead_nodes,  # before the fusions, which want each step to be read once
    *PIPELINE,
)


def tidy(model: ir.Model) -> ir.Model:
    """Run the pipeline on a model, in place."""
    run_passes(model, PIPELINE, check=_is_debugging())
    return model


def tidy_file(model: ir.Model) -> bool:
    """Run the longer list on a model that others wrote, in place; whether anything changed."""
    return run_passes(model, FOR_FILES, check=_is_debugging())


def _is_debugging() -> bool:
    return os.environ.get("ONWARD_DEBUG", "0") not in ("", "0")


def run_passes(model: ir.Model, passes: tuple[Pass, ...], *, check: bool = False) -> bool:
    """Run passes in order, in place; whether one changed something. An error names the pass, and with `check` so does
    a model that is no longer valid."""
    any_changed = False
    for each in passes:
        try:
            changed = each(model)
            any_changed |= changed
            if check and changed:
                onnx.checker.check_model(ir.to_proto(model))
        except Exception as error:
            raise PassError(
                f"the pass {each.__name__} failed: {str(error).strip() or type(error).__name__}",
                hint="this is a fault of onward's: please report it with the model",
            ) from error
    return any_changed
