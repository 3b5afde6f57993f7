"""Whether the inputs of a row take every way through its model, in plain PyTorch.

Python's own tracing says which instruction follows which. A conditional jump counts as covered if it went both ways,
so `a and b`, ternaries and loops are looked into as well as lines; Python 3.11 says at which column a jump stands. A
line that no input is meant to reach says `# never`.
"""

from __future__ import annotations

import dis
import inspect
import io
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from .h_rows import Row

HERE = Path(__file__).parent
MARK = "# never"


class Ways:
    """The instructions and the answers of jumps that were seen, in functions of the tables' files."""

    def __init__(self) -> None:
        self.lines: set[tuple[CodeType, int]] = set()
        self.answers: dict[tuple[CodeType, Any], set[bool]] = {}
        self.codes: set[CodeType] = set()
        self._pending: dict[FrameType, dis.Instruction] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if event == "call":
            if not _ours(code):
                return None
            self.codes.add(code)
            frame.f_trace_opcodes = True
        elif event == "opcode":
            instruction = _instructions(code)[frame.f_lasti]
            before = self._pending.pop(frame, None)
            if before is not None:
                self._answered(code, before, frame.f_lasti == before.argval)
            if _is_jump(instruction):
                self._pending[frame] = instruction
        elif event == "line":
            self.lines.add((code, frame.f_lineno))
        elif event in ("return", "exception"):
            self._pending.pop(frame, None)
        return self

    def _answered(self, code: CodeType, jump: dis.Instruction, taken: bool) -> None:
        yes = taken if _jumps_on_yes(jump) else not taken
        self.answers.setdefault((code, jump.positions), set()).add(yes)

    def missing(self) -> Iterator[str]:
        """Every line that was not reached and every question that had one answer only."""
        for code in list(self.codes):
            for inner in code.co_consts:
                if isinstance(inner, CodeType) and inner not in self.codes and not _excused(code, inner.co_firstlineno):
                    yield f"{inner.co_filename}:{inner.co_firstlineno}: {inner.co_name} is never called"
            for line in sorted({line for _, _, line in code.co_lines() if line and line != code.co_firstlineno}):
                if (code, line) not in self.lines and not _excused(code, line):
                    yield f"{code.co_filename}:{line}: never reached"
            instructions = list(_instructions(code).values())
            for before, jump in pairwise(instructions):
                if before.opname == "CHECK_EXC_MATCH":  # `except KeyError` need not meet another error
                    continue
                answers = self.answers.get((code, jump.positions), set())
                line = jump.positions.lineno if jump.positions else None
                if _is_jump(jump) and len(answers) == 1 and line and not _excused(code, line):
                    only = "true" if True in answers else "false"
                    yield f"{code.co_filename}:{line}: column {jump.positions.col_offset} is always {only}"


def missing_ways(row: Row) -> list[str]:
    """What no input of the row reaches."""
    ways = Ways()
    for args in (row.args, *row.others):
        _watch(ways, row, args)
    for args in row.raises:
        try:
            _watch(ways, row, args)
        except Exception:
            continue
        return [f"{row.name} does not raise at {args}"]
    uncalled = [
        f"{type(module).__name__}.{name} is never called"
        for module in row.build().modules()
        for name, method in vars(type(module)).items()
        if inspect.isfunction(method) and _ours(method.__code__) and method.__code__ not in ways.codes
        if name != "__init__"
    ]
    return sorted({*ways.missing(), *uncalled})


def _watch(ways: Callable[..., Any], row: Row, args: tuple[torch.Tensor, ...]) -> None:
    model = row.build()
    inputs = [arg.clone() for arg in args]
    before = sys.gettrace()
    with torch.no_grad(), redirect_stdout(io.StringIO()):
        sys.settrace(ways)
        try:
            model(*inputs)
        finally:
            sys.settrace(before)


@cache
def _ours(code: CodeType) -> bool:
    path = Path(code.co_filename)
    return path.parent == HERE and path.name.startswith("h0")


@cache
def _instructions(code: CodeType) -> dict[int, dis.Instruction]:
    return {each.offset: each for each in dis.get_instructions(code)}


def _is_jump(instruction: dis.Instruction) -> bool:
    name = instruction.opname
    return name == "FOR_ITER" or ("JUMP" in name and "IF" in name)


def _jumps_on_yes(jump: dis.Instruction) -> bool:
    return jump.opname != "FOR_ITER" and "IF_FALSE" not in jump.opname and "IF_NOT_NONE" not in jump.opname


def _excused(code: CodeType, line: int) -> bool:
    return MARK in linecache.getline(code.co_filename, line)
