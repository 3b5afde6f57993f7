"""`x.chunk(3)` along a dynamic axis, as slices.

The size of the axis decides how many tensors there are: four rows give two chunks of two, not three. A model that reads
the first chunk alone, or puts all of them together again, works at every size. Slices do so too: a chunk that there is
not at some size is an empty slice there.
"""

from __future__ import annotations

from typing import Any

import torch

from ..memory.tensor import Traced
from ..memory.tensor_queries import size_of
from ..sizes.shape_formulas import number_of_chunks
from ..sizes.sizes import SizeTrace, computed, constant

aten = torch.ops.aten
CHUNKS = frozenset({aten.chunk.default, aten.unsafe_chunk.default})


def in_slices(tracer: SizeTrace, x: Any, wanted: Any, axis: int = 0) -> list[torch.Tensor] | Any:
    """The chunks of a tensor; NotImplemented where their number is the same at all sizes, or another at the probes."""
    if not isinstance(x, Traced) or type(wanted) is not int:
        return NotImplemented
    size = size_of(tracer, x, axis)
    live = tracer.dims.live(size.values)
    if wanted == 2 and 0 not in live and tracer.dims.name_of(size.values) is not None:
        return NotImplemented  # one Split; a single row of an input is the only difference
    count = computed(number_of_chunks, size, constant(tracer, wanted))
    if count.is_uniform or not count.is_settled_at_probes:
        return NotImplemented
    each = (x.shape[axis] + (wanted - 1)) // wanted
    return [aten.slice.Tensor(x, axis, place * each, (place + 1) * each) for place in range(count.values[0])]
