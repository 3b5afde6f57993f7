"""Makes a program smaller while it stays in its class."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from .program import FuzzProgram, Statement


def minimized(program: FuzzProgram, still: Callable[[FuzzProgram], bool]) -> FuzzProgram:
    """Statements are dropped, or replaced by one of their sources, as long as `still` says that the find is there."""
    changed = True
    while changed:
        changed = False
        for candidate in _smaller(program):
            if still(candidate):
                program, changed = candidate, True
                break
    return program


def _smaller(program: FuzzProgram) -> Iterator[FuzzProgram]:
    names = [name for statement in program.body for name in statement.targets]
    whole = re.fullmatch(r"[a-z]+\d+", program.returns)
    if not whole:
        yield from (replace(program, returns=name) for name in reversed(names))
    yield from _without_second_names(program)
    for at, statement in reversed(list(enumerate(program.body))):
        before, after = program.body[:at], program.body[at + 1 :]
        yield _pruned(program.with_body((*before, *after)))
        if whole and program.returns in statement.targets:
            yield from (_pruned(program.with_body((*before, *after), name)) for name in statement.sources)
        if len(statement.lines) > 1:
            for line in range(len(statement.lines)):
                lines = statement.lines[:line] + statement.lines[line + 1 :]
                yield program.with_body((*before, replace(statement, lines=lines), *after))
        if len(statement.targets) == 1 and not statement.lines[0].endswith(tuple(statement.sources)):
            for name in statement.sources:
                swapped = Statement((f"{statement.targets[0]} = {name}",), statement.targets, (name,))
                if swapped != statement:
                    yield _pruned(program.with_body((*before, swapped, *after)))
    yield from _simpler_options(program)


def _without_second_names(program: FuzzProgram) -> Iterator[FuzzProgram]:
    """`v3 = v1` goes, and v1 is read wherever v3 was."""
    for at, statement in enumerate(program.body):
        named = re.fullmatch(r"([a-z]+\d+) = ([a-z]+\d+)", "\n".join(statement.lines))
        if not named:
            continue
        old, new = rf"\b{named[1]}\b", named[2]
        body = [
            Statement(
                tuple(re.sub(old, new, line) for line in each.lines),
                tuple(re.sub(old, new, name) for name in each.targets),
                tuple(dict.fromkeys(re.sub(old, new, name) for name in each.sources)),
            )
            for each in program.body[:at] + program.body[at + 1 :]
        ]
        yield program.with_body(tuple(body), re.sub(old, new, program.returns))


def _simpler_options(program: FuzzProgram) -> Iterator[FuzzProgram]:
    if program.front != "trace":
        yield replace(program, front="trace")
    for name, value in (("opset", None), ("training", False), ("folding", None), ("by_shapes", False)):
        if getattr(program, name) != value and not (name == "by_shapes" and program.front == "exported"):
            yield replace(program, **{name: value})
    for name in program.dynamic:
        yield replace(program, dynamic=tuple(each for each in program.dynamic if each != name))
    for at, argument in enumerate(program.arguments):
        if len(program.arguments) > 1 and not re.search(rf"\b{argument.name}\b", _text(program)):
            yield replace(program, arguments=program.arguments[:at] + program.arguments[at + 1 :])
        if argument.dtype in (torch.float16, torch.bfloat16, torch.float64):
            changed = replace(argument, dtype=torch.float32)
            yield replace(program, arguments=(*program.arguments[:at], changed, *program.arguments[at + 1 :]))


def _text(program: FuzzProgram) -> str:
    return "\n".join([*(line for statement in program.body for line in statement.lines), program.returns])


def _pruned(program: FuzzProgram) -> FuzzProgram:
    """Without layers that nothing calls."""
    text = _text(program)
    kept = [line for line in program.inits if re.search(rf"\b{re.escape(line.split(' = ')[0])}\b", text)]
    return replace(program, inits=tuple(kept))
