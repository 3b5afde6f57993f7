"""What libraries hear that ask whether they are being traced.

`torch.compiler.is_exporting()` says yes, and libraries keep their masks in the graph on it. transformers also asks
`is_tracing(tensor)` before it looks into a tensor: yes leads to code that computes with what the tensor holds, no to a
branch on it. So the answer is yes for a tensor that depends on data. It is no for one that depends on sizes alone, such
as positions that are always consecutive: what it holds is known at all sizes (`size_tensors.py`), and the branch gives
the smaller graph. `torch.jit.is_tracing()` says no: it stands for a tracer that loses sizes, and models answer it with
sizes in tensors, and without the caches that they return otherwise.

A model that is run without data, to compare it with the program that was made of it, hears the same.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from ..ground.threads import as_exported, current, runs_as_exported
from ..memory.tensor import Traced
from .detours import detour
from .patches import Patch, patched
from .pytorch import exporting


def libraries() -> Iterator[Patch]:
    """Functions of libraries, of those that are loaded."""
    asked = getattr(sys.modules.get("transformers.utils.import_utils"), "is_tracing", None)
    if hasattr(asked, "__code__"):
        yield detour(asked, _is_tracing)


@contextlib.contextmanager
def asked_as_exported(kind: type) -> Iterator[None]:
    """Inside, libraries hear in this thread what they hear in a trace; tensors of this class are those of data."""
    with patched([*exporting(), *libraries()]), as_exported(kind):
        yield


def _is_tracing(original: Any, tensor: Any = None) -> bool:
    tracer, kind = current(), runs_as_exported()
    if kind is not None and isinstance(tensor, kind):
        return True
    if tracer is not None and isinstance(tensor, Traced) and tracer.size_tensors.holds_data(tracer.node_of(tensor)):
        return True
    return bool(original(tensor))
