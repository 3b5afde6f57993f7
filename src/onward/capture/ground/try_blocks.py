"""Code of the model's that an error does not end: `try` with an `except`, `with suppress(...)`.

`try: y = x.view(n // 2, 2)` takes one way at sizes where the operator works, and another where it does not. Sizes that
an operator refuses are otherwise sizes that the model is not for. Here they are on the other side of a decision.
"""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
from types import FrameType

from .source import OURS, is_library
from .source_places import Source

# The files of ours that call the model.
CALLERS = tuple(os.path.join(OURS, "capture", "attempt", name) for name in ("run.py", "mutable_buffers.py"))
# Names of errors that catch what operators and arithmetic raise, and what a key raises that cannot be one.
_CATCHING = frozenset({
    "Exception", "BaseException", "RuntimeError", "ValueError", "IndexError", "LookupError", "ArithmeticError",
    "ZeroDivisionError", "OverflowError",
})  # fmt: skip
OF_KEYS = frozenset({"Exception", "BaseException", "TypeError"})


def surviving_try(kinds: frozenset[str] = _CATCHING) -> Source | None:
    """The line of the innermost `try` that would survive an error of these kinds here, of the model's own code or of
    libraries that it calls; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename not in CALLERS:
        code = frame.f_code
        if not is_library(code) and getattr(code, "co_exceptiontable", True):
            lines = tuple(linecache.getlines(code.co_filename))
            line = _tries(code.co_filename, lines, kinds).get(frame.f_lineno)
            if line is not None:
                return Source(code.co_filename, line, code.co_name)
        frame = frame.f_back
    return None


def may_survive() -> bool:
    """Whether some `try` may survive an error here; so may code that handles errors and whose source is not there."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename not in CALLERS:
        code = frame.f_code
        if (
            not is_library(code)
            and getattr(code, "co_exceptiontable", True)
            and not linecache.getlines(code.co_filename)
        ):
            return True
        frame = frame.f_back
    return surviving_try() is not None


@functools.lru_cache(maxsize=16)
def _tries(file: str, lines: tuple[str, ...], kinds: frozenset[str]) -> dict[int, int]:
    """The lines inside of such a `try`, with the line of the innermost."""
    try:
        tree = ast.parse("".join(lines), file)
    except (SyntaxError, ValueError):  # a cell of a notebook with commands in it, or no Python at all
        return {}
    found: dict[int, int] = {}
    for node in ast.walk(tree):  # from the outside to the inside
        if isinstance(node, (ast.Try, ast.With)) and _survives(node, kinds):
            last = node.body[-1].end_lineno or node.body[-1].lineno
            found |= dict.fromkeys(range(node.body[0].lineno, last + 1), node.lineno)
    return found


def _survives(node: ast.Try | ast.With, kinds: frozenset[str]) -> bool:
    if isinstance(node, ast.With):
        calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
        return any(
            _name(call.func) == "suppress" and any(_catches(each, kinds) for each in call.args) for call in calls
        )
    return any(_catches(each.type, kinds) and not isinstance(each.body[-1], ast.Raise) for each in node.handlers)


def _catches(kind: ast.expr | None, kinds: frozenset[str]) -> bool:
    """Whether a handler is for errors of one of the kinds."""
    if isinstance(kind, ast.Tuple):
        return any(_catches(each, kinds) for each in kind.elts)
    return kind is None or _name(kind) in kinds


def _name(node: ast.expr) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
