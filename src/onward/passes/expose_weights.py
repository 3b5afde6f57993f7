"""Live weights become inputs of the graph, after the model's own.

    y = MatMul(x, w)  with an initializer w     ->     y = MatMul(x, w)  with the inputs x, w

With `keep` the initializer stays as well: it is what a runtime takes if nothing is fed. Not part of the pipeline: it is
what `export_params=False` and `keep_initializers_as_inputs=True` ask for.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ..lower.constants import LIVE


def expose_weights(model: ir.Model, order: Sequence[str], *, keep: bool) -> bool:
    """Run on a model, in place; whether anything changed. `order` has the names of all weights."""
    graph = model.graph
    places = {name: place for place, name in enumerate(order)}
    live = [v for v in graph.initializers.values() if v.meta.get(LIVE) and not v.is_graph_input()]
    for value in sorted(live, key=lambda value: places[value.meta[LIVE]]):
        graph.inputs.append(value)
        if not keep:
            del graph.initializers[value.name]  # type: ignore[arg-type]
            value.const_value = None
    return bool(live)
