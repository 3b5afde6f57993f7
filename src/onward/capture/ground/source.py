"""Which line of the user's code, and which module, an op belongs to."""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
import threading
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy
import torch

from .module_kinds import is_generated, is_interpreted
from .names import encodable
from .source_places import ModuleCall, Scope, Source

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
OURS = str(Path(os.path.abspath(__file__)).parents[2]) + os.sep  # this package, by the name that code objects have
_CAPTURE = os.path.join(OURS, "capture", "")
_COMMAND = os.path.join(OURS, "cli", "")  # what has called that is a shell's business
_DEMO = OURS + "demo.py"  # a user's script that happens to live in our house
_NUMPY = os.path.dirname(os.path.abspath(numpy.__file__)) + os.sep
_PYTHON = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")  # inside of Python's own directory
_TORCH_ELSEWHERE = f"{os.sep}site-packages{os.sep}torch{os.sep}"  # in programs that were saved on other machines
_NOT_USER: dict[CodeType, bool] = {}


def is_library(code: CodeType) -> bool:
    known = _NOT_USER.get(code)
    if known is None:
        known = _NOT_USER[code] = is_library_file(code.co_filename)
    return known


def is_library_file(file: str) -> bool:
    """Whether code in this file is neither the user's nor the demo's: PyTorch's, numpy's, Python's, or ours."""
    generated = file.startswith("<") and not file.startswith(("<stdin>", "<ipython-input"))
    library = (
        generated
        or file.startswith((_TORCH, _NUMPY, OURS, "torch" + os.sep))
        or (file.startswith(_PYTHON) and not any(part in file for part in _PACKAGES))
        or any(part in file for part in (f"{os.sep}contextlib.py", _TORCH_ELSEWHERE))
    )
    return library and file != _DEMO


class _Stated(threading.local):
    """The line of a script that is being interpreted: there is no Python frame for it."""

    source: Source | None = None


_STATED = _Stated()


NOWHERE = Source("", 0, "")  # stated by generated code that does not know its line


@contextlib.contextmanager
def at_source(source: Source | None) -> Iterator[None]:
    """What happens inside belongs to that line. Without one, to the line that is stated already."""
    before = _STATED.source
    _STATED.source = source or before
    try:
        yield
    finally:
        _STATED.source = before


@contextlib.contextmanager
def in_python() -> Iterator[None]:
    """What happens inside is code with lines of its own again."""
    before, _STATED.source = _STATED.source, None
    try:
        yield
    finally:
        _STATED.source = before


def user_source() -> Source | None:
    """The innermost line on the stack that is the user's, not a library's: `is_library_file`."""
    if _STATED.source is not None:
        return None if _STATED.source is NOWHERE else _STATED.source
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        known = _NOT_USER.get(code)  # asked here, and not in a function: every operator passes some twenty frames
        if known is None:
            known = is_library(code)
        if not known:
            return Source(code.co_filename, frame.f_lineno, code.co_name)
        if code.co_filename.startswith(_COMMAND):
            return None
        frame = frame.f_back
    return None


def user_frames(root: FrameType | None) -> list[FrameType]:
    """The frames of the user's code from the innermost one on, up to a frame that is no longer looked at."""
    found: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame is not root:
        code = frame.f_code
        known = _NOT_USER.get(code)
        if known is None:
            known = is_library(code)
        if not known:
            found.append(frame)
        frame = frame.f_back
    return found


def is_asked_by_us() -> bool:
    """Whether what is being asked for is asked by code of this package that is built on capture, and not by a model."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_CAPTURE, _TORCH)):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(OURS)


def is_our_text(file: str) -> bool:
    """Whether we ourselves write a text: the innermost line on the stack outside of `file` and PyTorch is ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((file, _TORCH + "__init__.py")):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(OURS)


def writing_line() -> Source | None:
    """The innermost line on the stack that is neither ours nor that of PyTorch's symbolic numbers: it writes a text."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((OURS, _TORCH + "__init__.py")):
        frame = frame.f_back
    return None if frame is None else Source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


Said = tuple[str, type[Warning], Source | None]  # what `warn_user` is called with


class _Held(threading.local):
    said: list[Said] | None = None


_HELD = _Held()


@contextlib.contextmanager
def warnings_held() -> Iterator[list[Said]]:
    """Inside, what this thread would warn of is collected instead. Python's own filters are the process's: to change
    them for a while would change them for other threads, and perhaps for good."""
    outer, said = _HELD.said, []  # type: ignore[var-annotated]
    _HELD.said = said
    try:
        yield said
    finally:
        _HELD.said = outer


def warn_user(text: str, category: type[Warning], source: Source | None = None) -> None:
    """A warning at a line of the user's: the one that is given, runs in the model, or called export."""
    place = source or user_source()
    if _HELD.said is not None:
        _HELD.said.append((text, category, place))
    elif place is None:
        warnings.warn(text, category, stacklevel=3)
    else:
        warnings.warn_explicit(text, category, place.file, place.line)


def warn_again(said: Iterable[Said]) -> None:
    """Warn of what was held, of each thing once."""
    for each in dict.fromkeys(said):
        warn_user(*each)


class ScopeStack:
    """The modules that are running, innermost last, as Scope objects (one per module call path, reused)."""

    def __init__(self, root: torch.nn.Module | None, name: str) -> None:
        self._paths = {id(m): encodable(path) for path, m in root.named_modules()} if root is not None else {}
        self._root = Scope("", (("", name),))
        self._scripts: dict[Any, tuple[str, tuple[tuple[str, str], ...]]] = {}  # modules inside scripts
        self._stack: list[Scope] = [self._root]
        self._calls: list[ModuleCall | None] = [None]
        self._known: dict[tuple[int, int], Scope] = {}

    @property
    def current(self) -> Scope:
        return self._stack[-1]

    @property
    def path(self) -> str:
        """The path of the innermost module; empty in the model itself."""
        return self._stack[-1].path

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
            if is_interpreted(module):
                self._scripts.update(_script_scopes(module, scope))
        self._stack.append(scope)
        generated = scope is outer and is_generated(module)
        self._calls.append(self._calls[-1] if generated else ModuleCall(scope, type(module), self._calls[-1]))

    def enter_script(self, module: Any) -> None:
        """The same for a module inside a script, which has no Python object of its own."""
        name = self._scripts.get(module)
        self._stack.append(self._stack[-1] if name is None else Scope(*name))
        self._calls.append(self._calls[-1])

    @contextlib.contextmanager
    def inside(self, scope: Scope, call: ModuleCall | None) -> Iterator[None]:
        """The same for a node of a graph, which says itself where it was."""
        self._stack.append(scope)
        self._calls.append(call)
        try:
            yield
        finally:
            self.leave()

    def leave(self) -> None:
        self._stack.pop()
        self._calls.pop()

    def _make(self, outer: Scope, module: torch.nn.Module) -> Scope:
        path = self._paths.get(id(module))
        if path == "":
            return self._root
        kind = type(module).__name__
        if path is None and is_generated(module):
            return outer  # generated code is in no place of its own
        if path is None:
            return Scope(f"{outer.path}.{kind}".lstrip("."), (*outer.classes, (kind, kind)))
        prefix = f"{outer.path}." if outer.path else ""
        local = path[len(prefix) :] if path.startswith(prefix) else path
        return Scope(path, (*outer.classes, (local, kind)))


def _script_scopes(module: Any, outer: Scope) -> Iterator[tuple[Any, tuple[str, tuple[tuple[str, str], ...]]]]:
    """Every module inside a script: its path, and each level's class."""
    for name, child in module.named_children():
        path = f"{outer.path}.{name}".lstrip(".")
        scope = Scope(path, (*outer.classes, (name, child.original_name)))
        yield child._c, (scope.path, scope.classes)
        yield from _script_scopes(child, scope)
