"""Plain values that a model changes while it is traced: a counter, a flag for the first call."""

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
    """A plain value that a run replaced by another one, and the line that did it, if it is known.

    space   the dict or list that holds it: the attributes of a module, the globals of a file, a container of theirs
    kind    the class of the module whose attribute it is; None if it is none
    """

    space: Any
    key: Any
    label: str
    source: Source | None = None
    kind: type | None = None

    @property
    def place(self) -> tuple[int, Any]:
        return id(self.space), self.key

    def value(self) -> Any:
        """What stands there now."""
        try:
            return self.space[self.key]
        except LookupError:
            return None


def noting(original: Any) -> Any:
    """`Module.__setattr__` that tells the tracer of a plain value that becomes another one."""

    @functools.wraps(original)
    def set_attribute(module: torch.nn.Module, name: str, value: Any) -> None:
        tracer = current()
        if tracer is not None:
            before = vars(module)[name] if name in vars(module) else getattr(type(module), name, None)
            if type(before) in SIMPLE and type(value) in SIMPLE and before != value:
                change = Change(vars(module), name, f"attribute {name!r}", user_source(), type(module))
                tracer.changes.setdefault(change.place, change)
        original(module, name, value)

    return set_attribute
