"""Plain attributes of modules that a model changes while it is traced: a counter, a flag for the first call."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch

from ..facts import Source
from ..source import user_source
from .threads import current

SIMPLE = (bool, int, float, str)


@dataclass(frozen=True)
class Change:
    """An attribute of a module that was given another value, and the line that did it."""

    module: torch.nn.Module
    name: str
    source: Source | None


def noting(original: Any) -> Any:
    """`Module.__setattr__` that tells the tracer of a plain value that becomes another one."""

    @functools.wraps(original)
    def set_attribute(module: torch.nn.Module, name: str, value: Any) -> None:
        tracer = current()
        if tracer is not None:
            before = vars(module).get(name)
            if type(before) in SIMPLE and type(value) in SIMPLE and before != value:
                tracer.changes.setdefault((id(module), name), Change(module, name, user_source()))
        original(module, name, value)

    return set_attribute
