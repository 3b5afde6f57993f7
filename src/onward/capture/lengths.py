"""`len(tensor)` as a size.

Python insists that `__len__` gives a plain number, so the axis would be frozen, or a size that depends on data lost.
The name `len` can be another function, though. It is one only in the modules in which the model's own classes are
written, while the model is traced: other modules keep Python's, also those that are imported meanwhile and look
closely at Python's functions, as PyTorch's compiler does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .own_code import namespaces
from .tensor import Traced


def symbolic_length(value: Any, /) -> Any:
    """Python's `len`, which is a size for a traced tensor."""
    return value.size(0) if isinstance(value, Traced) and value.dim() else len(value)


@contextlib.contextmanager
def lengths_followed(model: Any) -> Iterator[None]:
    """Inside, `len` in the model's own code is `symbolic_length`."""
    changed = [names for names in namespaces(model) if "len" not in names]
    for names in changed:
        names["len"] = symbolic_length
    try:
        yield
    finally:
        for names in changed:
            names.pop("len", None)
