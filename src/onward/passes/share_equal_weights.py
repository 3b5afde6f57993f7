"""Store equal constants once.

    initializers a = {0, 8}, b = {0, 8}; y = Reshape(x, a); z = Reshape(w, b)     ->     ...; z = Reshape(w, a)

Sizes, axes, indices and single numbers are compared by content, everything else only by where it lies: the same
memory, the same stretch of a data file. Two parameters that happen to hold the same are two parameters. Declines for
results of the graph and for constants that may be fed from outside. onnx_ir's DeduplicateInitializersPass compares all
by content, so that two small parameters become one.
"""

from __future__ import annotations

from collections.abc import Hashable

import onnx_ir as ir

from .constant_tensors import content_key, is_weight, place_key


def share_equal_weights(model: ir.Model) -> bool:
    """Run on a model, in place; whether anything changed."""
    first: dict[Hashable, ir.Value] = {}
    changed = False
    for name, value in list(model.graph.initializers.items()):
        if not is_weight(value) or value.const_value is None or value.dtype == ir.DataType.STRING:
            continue
        key = content_key(value.const_value) if _is_number(value.const_value) else place_key(value.const_value)
        kept = first.setdefault(key, value)
        if kept is value or value.is_graph_output():
            continue
        value.replace_all_uses_with(kept)
        del model.graph.initializers[name]
        changed = True
    return changed


def _is_number(tensor: ir.TensorProtocol) -> bool:
    return tensor.size == 1 or not tensor.dtype.is_floating_point()
