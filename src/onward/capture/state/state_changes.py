"""What a model changes while it is traced and finds again in its next run: a counter, a flag, what it keeps."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ..ground.source import is_library, user_source
from ..ground.threads import current
from ..memory.plain_tensors import PlainTensors
from ..program.facts import Source
from .fingerprints import CONTAINERS, state_of
from .first_reads import may_be_read_first

SIMPLE = (bool, int, float, str)


@dataclass(frozen=True)
class Change:
    """Something that a run replaced by something else, and the line that did it, if it is known.

    holder  what has it: a module or another object, a class, the globals of a file, a container, or an iterator
    key     the attribute or the entry; None for the holder's content as a whole
    kind    the class of the module whose attribute it is; None if it is none
    """

    holder: Any
    key: Any
    label: str
    source: Source | None = None
    kind: type | None = None

    @property
    def place(self) -> tuple[int, Any]:
        return id(self.holder), self.key

    def value(self, holder: Any) -> Any:
        """What stands there now, in the holder or in a copy of it; of what is no plain value, the identity."""
        if self.key is None:
            return state_of(holder)
        try:
            found = holder[self.key] if type(holder) in (*CONTAINERS, type(os.environ)) else getattr(holder, self.key)
        except (LookupError, AttributeError, ValueError):  # nothing
            return None
        return found if type(found) in SIMPLE else (type(found), id(found))


class StateTrace(Protocol):
    """What is told of state that a model changes."""

    @property
    def plain(self) -> PlainTensors: ...

    @property
    def changes(self) -> dict[tuple[int, Any], Change]:
        """Plain values that the model replaced, by their places."""

    @property
    def moved(self) -> set[str]:
        """Generators of Python's or numpy's that the model drew from."""


def noting(original: Any) -> Any:
    """`Module.__setattr__` that tells the tracer of an attribute that becomes another one.

    A plain value counts if it differs. Anything else (a tensor that is kept for the next call) counts if the code may
    read it before it writes it: many models keep what they have computed for others to look at.
    """

    @functools.wraps(original)
    def set_attribute(module: torch.nn.Module, name: str, value: Any) -> None:
        tracer: StateTrace | None = current()
        if tracer is not None and name in vars(module).get("_parameters", ()):
            tracer.plain.note_assigned(module._parameters[name])
        elif tracer is not None and not _is_registered(module, name):
            before = vars(module)[name] if name in vars(module) else getattr(type(module), name, None)
            if value is not before and _matters(module, name, before, value, sys._getframe(1)):
                change = Change(module, name, f"attribute {name!r}", user_source(), type(module))
                tracer.changes.setdefault(change.place, change)
        original(module, name, value)

    return set_attribute


def _is_registered(module: torch.nn.Module, name: str) -> bool:
    """Whether the attribute is a parameter, a buffer or a module; `mutable` looks after buffers."""
    return any(name in vars(module).get(each, ()) for each in ("_parameters", "_buffers", "_modules"))


def _matters(module: torch.nn.Module, name: str, before: Any, value: Any, frame: Any) -> bool:
    if type(before) in SIMPLE and type(value) in SIMPLE:
        return bool(before != value)
    return not is_library(frame.f_code) and may_be_read_first(type(module), name)
