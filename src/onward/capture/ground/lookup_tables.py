"""Tables that Python code looks something up in, as its source shows them.

A dict asks a key for its hash, and says nothing of itself. The instruction that runs at that moment has a place in the
source text, and the expression there names the table: `TABLE.get(n, 1)`, `n in {2, 3}`, `self.tables[n]`. Names and
attributes are looked up in the frame; nothing else is evaluated.
"""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from types import FrameType
from typing import Any

_METHODS = frozenset({"get", "pop", "setdefault", "__getitem__", "__contains__", "remove", "discard"})
_MAKERS = frozenset({"set", "frozenset", "dict", "Counter"})
UNSEEN: Any = object()  # a lookup in a table that the source does not show
Place = tuple[int | None, int | None, int | None, int | None]


def gathers(frame: FrameType) -> bool:
    """Whether the frame makes a set or a dict of what it asks for a hash: keys that are equal become one."""
    node = _expression(frame)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _MAKERS
    return isinstance(node, (ast.Set, ast.Dict))


def table_at(frame: FrameType) -> Any:
    """The dict or set that the frame is looking something up in, or the keys that are written there. UNSEEN if there is
    one and it cannot be told which; None if this is no lookup, as far as the source tells."""
    expression = _expression(frame)
    node = _table(expression)
    if node is None:
        return None
    try:
        found = _value(node, frame)
    except Exception:  # whatever attributes of others' objects do
        return UNSEEN
    return found if isinstance(found, (Mapping, AbstractSet)) else None


def _expression(frame: FrameType) -> ast.AST | None:
    """The expression that the present instruction belongs to. Before Python 3.11 only its line is known: the first
    lookup there."""
    code = frame.f_code
    known = _lookups(code.co_filename, tuple(linecache.getlines(code.co_filename)))
    places: Any = getattr(code, "co_positions", None)
    if places is None:
        on_line = (node for place, node in known.items() if place[0] == frame.f_lineno and _table(node) is not None)
        return next(on_line, None)
    return known.get(next(itertools.islice(places(), frame.f_lasti // 2, None)))


@functools.lru_cache(maxsize=16)
def _lookups(file: str, lines: tuple[str, ...]) -> dict[Place, ast.AST]:
    """All expressions of a file that look something up, by their places."""
    try:
        tree = ast.parse("".join(lines), file)
    except (SyntaxError, ValueError):  # a cell of a notebook with commands in it, or no Python at all
        return {}
    return {
        (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset): node
        for node in ast.walk(tree)
        if isinstance(node, (ast.Compare, ast.Subscript, ast.Call, ast.Set, ast.Dict))
    }


def _table(node: ast.AST | None) -> ast.expr | None:
    """The part of a lookup that is the table."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[-1], (ast.In, ast.NotIn)):
        return node.comparators[-1]
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
        return node.func.value
    return None


def _value(node: ast.expr, frame: FrameType) -> Any:
    """What a name or an attribute is in a frame, or the keys of a display."""
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, frame.f_builtins):
            if node.id in names:
                return names[node.id]
        raise LookupError(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, frame), node.attr)
    if isinstance(node, ast.Dict):
        return _keys(node.keys)
    if isinstance(node, ast.Set):
        return _keys(node.elts)
    if isinstance(node, (ast.List, ast.Tuple, ast.Constant)):
        return None
    raise LookupError(ast.dump(node))


def _keys(nodes: Collection[ast.expr | None]) -> frozenset[Any]:
    return frozenset(ast.literal_eval(each) for each in nodes if each is not None)
