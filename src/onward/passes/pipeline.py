"""The passes that every export runs, in order.

The emitter folds, shares and drops as it goes, so what is left for passes is what needs to see a node's consumers.
With ONWARD_DEBUG=1 in the environment the model is checked after each pass, and a broken one names the pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import onnx
import onnx_ir as ir

from ..errors import PassError
from .drop_unused_weights import drop_unused_weights
from .flatten_concats import flatten_concats
from .fuse_conv_batch_norm import fuse_conv_batch_norm
from .fuse_rms_norm import fuse_rms_norm
from .sum_before_layer_norm import sum_before_layer_norm

Pass = Callable[[ir.Model], bool]

PIPELINE: tuple[Pass, ...] = (
    fuse_conv_batch_norm,
    flatten_concats,
    fuse_rms_norm,
    sum_before_layer_norm,
    drop_unused_weights,  # last: the others leave old weights behind
)


def tidy(model: ir.Model) -> ir.Model:
    """Run the pipeline on a model, in place."""
    return run_passes(model, PIPELINE, check=os.environ.get("ONWARD_DEBUG", "0") not in ("", "0"))


def run_passes(model: ir.Model, passes: tuple[Pass, ...], *, check: bool = False) -> ir.Model:
    """Run passes in order, in place; an error, and with `check` a model that is no longer valid, names the pass."""
    for each in passes:
        try:
            changed = each(model)
            if check and changed:
                onnx.checker.check_model(ir.to_proto(model))
        except Exception as error:
            raise PassError(
                f"the pass {each.__name__} failed: {str(error).strip() or type(error).__name__}",
                hint="this is a fault of onward's: please report it with the model",
            ) from error
    return model
