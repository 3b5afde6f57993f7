"""The passes that every export runs, in order.

The emitter folds, shares and drops as it goes, so what is left for passes is what needs to see a node's consumers.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

Pass = Callable[[ir.Model], bool]

PIPELINE: tuple[Pass, ...] = ()


def tidy(model: ir.Model) -> ir.Model:
    """Run the pipeline on a model, in place."""
    for each in PIPELINE:
        each(model)
    return model
