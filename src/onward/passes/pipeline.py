"""The passes that every export runs, in order.

The emitter folds, shares and drops as it goes, so what is left for passes is what needs to see a node's consumers.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from .drop_unused_weights import drop_unused_weights
from .flatten_concats import flatten_concats
from .fuse_conv_batch_norm import fuse_conv_batch_norm
from .fuse_rms_norm import fuse_rms_norm

Pass = Callable[[ir.Model], bool]

PIPELINE: tuple[Pass, ...] = (
    fuse_conv_batch_norm,
    flatten_concats,
    fuse_rms_norm,
    drop_unused_weights,  # last: the others leave old weights behind
)


def tidy(model: ir.Model) -> ir.Model:
    """Run the pipeline on a model, in place."""
    for each in PIPELINE:
        each(model)
    return model
