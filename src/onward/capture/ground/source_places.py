"""Places: a line of the user's code, a module of the model, one call of it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from .names import encodable


@dataclass(frozen=True, slots=True)
class Source:
    """A line of the user's code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{encodable(self.file)}:{self.line}"

    @property
    def short(self) -> str:
        """The name of the file and the line, as a file can hold it."""
        return f"{encodable(os.path.basename(self.file))}:{self.line}"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where in the module tree an op ran: the dotted path and, for printing, each level's class."""

    path: str
    classes: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """`AlexNet/Sequential[features]/Conv2d[0]`"""
        return "/".join(kind if not name else f"{kind}[{name}]" for name, kind in self.classes)


@dataclass(frozen=True, slots=True, eq=False)
class ModuleCall:
    """One call of a module: a module that is called twice has two of them in one scope."""

    scope: Scope
    kind: type
    outer: ModuleCall | None = None
