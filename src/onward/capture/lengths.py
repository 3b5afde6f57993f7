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

import torch

from .tensor import Traced


def symbolic_length(value: Any, /) -> Any:
    """Python's `len`, which is a size for a traced tensor."""
    return value.size(0) if isinstance(value, Traced) and value.dim() else len(value)


@contextlib.contextmanager
def lengths_followed(model: Any) -> Iterator[None]:
    """Inside, `len` in the model's own code is `symbolic_length`."""
    changed = [names for names in _namespaces(model) if "len" not in names]
    for names in changed:
        names["len"] = symbolic_length
    try:
        yield
    finally:
        for names in changed:
            names.pop("len", None)


def _namespaces(model: Any) -> list[dict[str, Any]]:
    """The globals of the model's functions, PyTorch's own left out."""
    functions = [model, getattr(model, "__func__", None)]
    if isinstance(model, torch.nn.Module):
        kinds = {kind for module in model.modules() for kind in type(module).__mro__}
        functions = [vars(kind).get("forward") for kind in kinds]
    found = {id(names): names for each in functions if isinstance(names := getattr(each, "__globals__", None), dict)}
    return [names for names in found.values() if not _is_pytorch(str(names.get("__name__", "")))]


def _is_pytorch(name: str) -> bool:
    return name == "torch" or name.startswith(("torch.", "onward."))
