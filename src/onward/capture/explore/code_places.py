"""Places in code: which function, where in it, and which instructions of Python's ask a question."""

from __future__ import annotations

import dis
from types import CodeType, FrameType
from typing import Any

QUESTIONS = frozenset(
    code for name, code in dis.opmap.items() if name.startswith(("POP_JUMP", "JUMP_IF", "TO_BOOL", "UNARY_NOT"))
)
_POSITIONS: dict[CodeType, list[Any]] = {}


def position(frame: FrameType) -> Any:
    """Where a function is: with columns where Python has them, so that `a and b` are two places on one line."""
    code = frame.f_code
    if not hasattr(code, "co_positions"):
        return frame.f_lineno
    known = _POSITIONS.get(code)
    if known is None:
        known = _POSITIONS[code] = list(code.co_positions())
    return known[frame.f_lasti // 2]


_CODES: dict[tuple[str, int, str], int] = {}


def code_key(code: CodeType) -> int:
    return _CODES.setdefault((code.co_filename, code.co_firstlineno, code.co_name), len(_CODES))
