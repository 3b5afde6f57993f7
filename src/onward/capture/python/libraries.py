"""What libraries hear that ask whether they are being traced.

`torch.compiler.is_exporting()` says yes, and libraries keep their masks in the graph on it. transformers also asks
`is_tracing(tensor)` before it looks into a tensor: yes leads to code that computes with what the tensor holds, no to a
branch on it. So the answer is yes for a tensor that depends on data. It is no for one that depends on sizes alone, such
as positions that are always consecutive: what it holds is known at all sizes (`size_tensors.py`), and the branch gives
the smaller graph. `torch.jit.is_tracing()` says no: it stands for a tracer that loses sizes, and models answer it with
sizes in tensors, and without the caches that they return otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ..ground.threads import current
from ..memory.tensor import Traced
from ..record.tracer import Tracer
from .detours import detour
from .patches import Patch


def libraries() -> Iterator[Patch]:
    """Functions of libraries, of those that are loaded."""
    asked = getattr(sys.modules.get("transformers.utils.import_utils"), "is_tracing", None)
    if hasattr(asked, "__code__"):
        yield detour(asked, _is_tracing)


def _is_tracing(original: Any, tensor: Any = None) -> bool:
    tracer: Tracer | None = current()
    if tracer is not None and isinstance(tensor, Traced) and tracer.size_tensors.holds_data(tracer.node_of(tensor)):
        return True
    return bool(original(tensor))
