"""Lines that only check something: `assert`, an `if` that raises, `torch._assert`.

A trace goes on behind such a line as the example does, so nothing of it is in the graph. That makes no result wrong, as
a branch that is frozen can: inputs that fail the check are computed like all others. What a line is, its source tells.

Lines that only show something are told here too: what `print` writes decides nothing.
"""

from __future__ import annotations

import ast
import functools
import linecache

from ..program.facts import Source

_CALLS = ("_assert", "_check", "_check_is_all_true", "_check_tensor_all")
_SHOWING = frozenset({
    "print", "debug", "info", "warning", "warn", "error", "exception", "critical", "log", "write", "warning_once",
    "info_once", "torch_compilable_check", *_CALLS,
})  # fmt: skip


def check_at(source: Source | None) -> str | None:
    """What kind of check a line is: `assert`, ...; None if it is something else, or if there is no source text."""
    if source is None:
        return None
    return _checks(source.file, tuple(linecache.getlines(source.file))).get(source.line)


@functools.lru_cache(maxsize=16)
def _checks(file: str, lines: tuple[str, ...]) -> dict[int, str]:
    """The lines of a file whose conditions guard a check and nothing else."""
    tree = _parsed(file, lines)
    if tree is None:
        return {}
    found: dict[int, str] = {}
    others: set[int] = set()
    for node in ast.walk(tree):
        part, kind = _condition(node)
        if kind is not None:
            found |= dict.fromkeys(_lines(part), kind)
        elif isinstance(node, (ast.IfExp, ast.If, ast.While)):
            others |= set(_lines(node.test))
    return {line: kind for line, kind in found.items() if line not in others}


def _condition(node: ast.AST) -> tuple[ast.AST, str | None]:
    if isinstance(node, ast.Assert):
        return node, "assert"
    if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise):
        return node.test, "an if that raises an error"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name = _called_name(node.value)
        return node, f"torch.{name}" if name in _CALLS else None
    return node, None


def _lines(node: ast.AST) -> range:
    first = getattr(node, "lineno", 0)
    return range(first, (getattr(node, "end_lineno", None) or first) + 1)


def _parsed(file: str, lines: tuple[str, ...]) -> ast.Module | None:
    try:
        return ast.parse("".join(lines), file)
    except (SyntaxError, ValueError):  # a cell of a notebook with commands in it, or no Python at all
        return None


def is_shown_at(source: Source | None) -> bool:
    """Whether the text that a line makes is only shown: by `print`, a logger, a warning, or an error."""
    if source is None:
        return False
    return source.line in _showing_lines(source.file, tuple(linecache.getlines(source.file)))


@functools.lru_cache(maxsize=16)
def _showing_lines(file: str, lines: tuple[str, ...]) -> frozenset[int]:
    tree = _parsed(file, lines)
    if tree is None:
        return frozenset()
    found: set[int] = set()
    others: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            (found if _shows(node) else others).update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(found - others)


def _shows(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Raise, ast.Assert)):
        return True
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    return _called_name(statement.value) in _SHOWING


def _called_name(call: ast.Call) -> str | None:
    """The last part of what is called: `_assert` of `torch._assert(...)` and of `_assert(...)`."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
