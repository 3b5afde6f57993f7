"""Which line of the user's code, and which module, an op belongs to."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

import torch

from .facts import ModuleCall, Scope, Source

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_DEMO = _OURS + "demo.py"  # a user's script that happens to live in our house
_NOT_USER: dict[CodeType, bool] = {}


def is_library(code: CodeType) -> bool:
    known = _NOT_USER.get(code)
    if known is None:
        file = code.co_filename
        generated = file.startswith("<") and not file.startswith(("<stdin>", "<ipython-input"))
        library = generated or file.startswith((_TORCH, _OURS)) or f"{os.sep}contextlib.py" in file
        known = _NOT_USER[code] = library and file != _DEMO
    return known


def user_source() -> Source | None:
    """The innermost line on the stack that is neither PyTorch's nor ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_library(code):
            return Source(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


class ScopeStack:
    """The modules that are running, innermost last, as Scope objects (one per module call path, reused)."""

    def __init__(self, root: torch.nn.Module | None, name: str) -> None:
        self._paths = {id(module): path for path, module in root.named_modules()} if root is not None else {}
        self._root = Scope("", (("", name),))
        self._stack: list[Scope] = [self._root]
        self._calls: list[ModuleCall | None] = [None]
        self._known: dict[tuple[int, int], Scope] = {}

    @property
    def current(self) -> Scope:
        return self._stack[-1]

    @property
    def call(self) -> ModuleCall | None:
        """The innermost call of a module; None outside of all."""
        return self._calls[-1]

    def enter(self, module: torch.nn.Module) -> None:
        outer = self._stack[-1]
        key = (id(outer), id(module))
        scope = self._known.get(key)
        if scope is None:
            scope = self._known[key] = self._make(outer, module)
        self._stack.append(scope)
        self._calls.append(ModuleCall(scope, type(module), self._calls[-1]))

    def leave(self) -> None:
        self._stack.pop()
        self._calls.pop()

    def _make(self, outer: Scope, module: torch.nn.Module) -> Scope:
        path = self._paths.get(id(module))
        if path == "":
            return self._root
        kind = type(module).__name__
        if path is None:
            return Scope(f"{outer.path}.{kind}".lstrip("."), (*outer.classes, (kind, kind)))
        prefix = f"{outer.path}." if outer.path else ""
        local = path[len(prefix) :] if path.startswith(prefix) else path
        return Scope(path, (*outer.classes, (local, kind)))
