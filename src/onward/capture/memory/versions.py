"""How often the memory of a tensor was written to, and which tensors share theirs; while a model is traced, too.

PyTorch counts writes for autograd (`tensor._version`). It does not count in inference mode, nor while a model is
traced; then the tracer counts for memory that it knows (`Cell.version`), and `count_write` notes the other writes.
"""

from __future__ import annotations

import torch

from ..ground.memory import storage
from ..ground.threads import current, is_tracing
from .tensor import Traced

_WRITES = "_onward_writes"


def version_of(tensor: torch.Tensor) -> int:
    """How often the memory of a tensor was written to, through whatever view."""
    tracer = current()
    if tracer is None:
        return counted(tensor)
    if isinstance(tensor, Traced):
        return tensor.cell.version
    writes: int = tracer.plain.writes_to(tensor)
    return writes + _own_count(tensor)


def counted(tensor: torch.Tensor) -> int:
    """`version_of` where no model is traced. In inference mode nobody counts but we."""
    return _own_count(tensor) if tensor.is_inference() else tensor._version


def _own_count(tensor: torch.Tensor) -> int:
    writes: int = getattr(tensor.untyped_storage(), _WRITES, 0)
    return writes


def count_write(tensor: torch.Tensor) -> None:
    """Note a write that PyTorch does not count."""
    if not isinstance(tensor, Traced) and (tensor.is_inference() or is_tracing()):
        setattr(tensor.untyped_storage(), _WRITES, _own_count(tensor) + 1)


def share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether tensors are views of one another, or of a third."""
    if isinstance(one, Traced) or isinstance(other, Traced):
        return isinstance(one, Traced) and isinstance(other, Traced) and one.cell is other.cell
    return storage(one) == storage(other)
