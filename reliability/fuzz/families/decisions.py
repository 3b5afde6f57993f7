"""Python's own control flow, decided by data: branches, loops and lists, as people write them, inside of each other.

A statement of this family has state in local variables: a tensor, a sum, and a plain number or a list now and then. What
its blocks do is drawn like the statements of other families, and all its loops come to an end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..builder import Builder, Rejected

_CHANGES = (
    "{x} * 2", "{x} + 1", "torch.relu({x})", "{x} - {x}.mean()", "torch.tanh({x})", "{x}.abs()", "-{x}", "{x} * 0.5",
    "{x}.clamp(-1, 1)", "{x} - 0.3", "{x} + {s}", "{x} * {s}.tanh()", "torch.where({x} > {s}, {x}, {x} * 0.5)",
    "{x}.flip(0)", "{x} / (1 + {x}.abs())",
)  # fmt: skip
_SUMS = (
    "{s} + {x}.mean()",
    "{s} - {x}.sum() * 0.1",
    "{s} * 0.5 + 1",
    "torch.maximum({s}, {x}.max())",
    "{s} + 1",
    "-{s}",
)
_WRITES = (
    "{x} += 1",
    "{x}.mul_(0.5)",
    "{x}[0] = {s}",
    "{x}[-1] *= 2",
    "{x}[0] += {x}[-1]",
    "{x}.neg_()",
    "{x}[..., 0] = 0.5",
)
_QUESTIONS = (
    "{x}.sum() > {c}", "{x}.mean() < {c}", "({x} > {c}).any()", "({x} > {c}).all()", "{x}.max() > {s}", "{s} > {c}",
    "bool(({x} < {c}).any())", "{x}.sum().item() > {c}", "float({s}) < {c}", "not {x}.mean() > {c}", "{x}.abs().max() > 1",
    "int({x}.abs().sum()) % 2 == 0", "{s}.abs() < 1", "({x} > {c}).sum() > 1", "torch.any({x} > {c})", "{x}.min() < -{x}.max()",
)  # fmt: skip


@dataclass
class _State:
    """The variables that the blocks of one statement have in common."""

    x: str
    s: str
    writes: bool  # whether x is a tensor of its own, which may be written to


def _question(b: Builder, state: _State) -> str:
    drawn = b.rng.random()
    if drawn < 0.15:
        return f"{_question(b, state)} {b.rng.choice(('and', 'or'))} {_question(b, state)}"
    if drawn < 0.25:
        found = b.tensors(lambda each: each.dtype is torch.bool)
        if found:
            return f"{b.rng.choice(found)}.{b.rng.choice(('any', 'all'))}()"
    if drawn < 0.32:
        x = b.pick(lambda each: each.dim() >= 1)
        asked = f"{b.size(x, 0)} {b.rng.choice(('> 2', '== 1', '% 2 == 0'))}"
        return f"({asked}) {b.rng.choice(('and', 'or'))} {_question(b, state)}"
    return _filled(b, b.rng.choice(_QUESTIONS), state)


def _filled(b: Builder, text: str, state: _State) -> str:
    return text.format(x=state.x, s=state.s, c=b.rng.choice(("0", "0.5", "-0.5", "1", "0.2")))


def _step(b: Builder, state: _State) -> str:
    """One line that changes the state."""
    drawn = b.rng.random()
    if drawn < 0.2 and state.writes:
        return _filled(b, b.rng.choice(_WRITES), state)
    if drawn < 0.5:
        return f"{state.s} = {_filled(b, b.rng.choice(_SUMS), state)}"
    if drawn < 0.6:
        first, second = (_filled(b, each, state) for each in b.rng.sample(_CHANGES, 2))
        return f"{state.x} = {first} if {_question(b, state)} else {second}"
    return f"{state.x} = {_filled(b, b.rng.choice(_CHANGES), state)}"


def _block(b: Builder, state: _State, depth: int) -> list[str]:
    lines: list[str] = []
    for _ in range(b.rng.choice((1, 1, 2, 3))):
        if depth and b.rng.random() < 0.4:
            lines += b.rng.choice(_COMPOUND)(b, state, depth - 1)
        else:
            lines.append(_step(b, state))
    return lines


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _if(b: Builder, state: _State, depth: int) -> list[str]:
    lines = [f"if {_question(b, state)}:", *_indented(_block(b, state, depth))]
    if b.rng.random() < 0.3:
        lines += [f"elif {_question(b, state)}:", *_indented(_block(b, state, depth))]
    if b.rng.random() < 0.5:
        lines += ["else:", *_indented(_block(b, state, depth))]
    return lines


def _counted_while(b: Builder, state: _State, depth: int) -> list[str]:
    """A loop that data ends, and a counter at the latest."""
    count, most = f"count_{b.rng.randrange(1000)}", b.rng.randrange(2, 7)
    question = _question(b, state)
    asked = (f"{count} < {most}", f"({question})" if " or " in question else question)
    asked = asked if b.rng.random() < 0.7 else asked[::-1]
    used = [f"{state.s} = {state.s} + {count}"] if b.rng.random() < 0.3 else []
    body = [*_block(b, state, depth), *used, f"{count} += 1"]
    return [f"{count} = 0", f"while {asked[0]} and {asked[1]}:", *_indented(body)]


def _halving(b: Builder, state: _State, depth: int) -> list[str]:
    """A loop that data alone ends."""
    used = [f"{state.s} = {_filled(b, b.rng.choice(_SUMS), state)}"] if b.rng.random() < 0.6 else []
    left = [f"if {_question(b, state)}:", "    break"] if b.rng.random() < 0.3 else []
    body = [*left, f"{state.x} = {state.x} * {b.rng.choice(('0.5', '0.4'))}", *used]
    tamed = f"{state.x} = torch.nan_to_num({state.x}).clamp(-50, 50)"
    return [tamed, f"while {state.x}.abs().{b.rng.choice(('max', 'sum', 'mean'))}() > 0.7:", *_indented(body)]


def _left(b: Builder, state: _State) -> list[str]:
    return [f"if {_question(b, state)}:", f"    {b.rng.choice(('break', 'break', 'continue'))}"]


def _for_some(b: Builder, state: _State, depth: int) -> list[str]:
    """A fixed number of turns, which data may cut short."""
    i = b.rng.choice(("_", "i", "step"))
    body = _block(b, state, depth)
    if b.rng.random() < 0.7:
        body[b.rng.randrange(len(body) + 1) if all(line[0] != " " for line in body) else 0 : 0] = _left(b, state)
    if i != "_" and b.rng.random() < 0.6:
        body.append(f"{state.s} = {state.s} + {i}")
    return [f"for {i} in range({b.rng.randrange(2, 7)}):", *_indented(body)]


def _for_rows(b: Builder, state: _State, depth: int) -> list[str]:
    """Along an axis of an earlier tensor, which may be dynamic."""
    x, s = b.floating(1), state.s
    y = b.floating(1)
    heads = {
        f"for i in range({x}.shape[0]):": f"{x}[i]",
        f"for row in {x}:": "row",
        f"for i, row in enumerate({x}):": "row",
        f"for row in {x}.unbind(0):": "row",
        f"for row in {x}.split(2):": "row",
        f"for row in {x}.chunk(2):": "row",
        f"for row, other in zip({x}, {y}):": "(row.sum() + other.mean())",
        f"for i in reversed(range({x}.size(0))):": f"{x}[i]",
        f"for i in range(1, len({x})):": f"({x}[i] - {x}[i - 1])",
    }
    head = b.rng.choice(list(heads))
    row = heads[head]
    body = [f"{s} = {s} {b.rng.choice(('+', '-', '* 0.5 +'))} {row}.{b.rng.choice(('mean', 'sum', 'max'))}()"]
    if b.rng.random() < 0.3:
        asked = b.rng.choice((f"{row}.sum() > 0", f"{s} > 0.5", _question(b, state)))
        change = _step(b, state)
        body += [f"if {asked}:", f"    {b.rng.choice((change, change, 'break', 'continue'))}"]
        body.append(_step(b, state)) if b.rng.random() < 0.5 else None
    if "i" in head.split(" in ")[0] and b.rng.random() < 0.4:
        body.append(f"{s} = {s} + i * 0.5")
    return [head, *_indented(body)]


_Compound = Callable[[Builder, _State, int], list[str]]
_COMPOUND: tuple[_Compound, ...] = (_if, _if, _if, _counted_while, _halving, _for_some, _for_some, _for_rows)


def _begun(b: Builder) -> tuple[_State, list[str]]:
    x, out, s = b.floating(1), b.fresh(), b.fresh()
    writes = b.rng.random() < 0.4
    start = b.rng.choice((f"{x}.sum()", f"{x}.mean()", f"torch.zeros((), dtype={x}.dtype)", f"{x}.max()"))
    first = f"{x}.clone()" if writes else b.rng.choice((f"{x} * 1", x, f"{x} + 0.1"))
    return _State(out, s, writes), [f"{out} = {first}", f"{s} = {start}"]


def _writer(compound: _Compound, name: str) -> Callable[[Builder], list[str]]:
    def write(b: Builder) -> list[str]:
        if b.scripted:
            raise Rejected
        state, lines = _begun(b)
        return [*lines, *compound(b, state, b.rng.choice((0, 1, 1, 2)))]

    write.__name__ = name
    return write


def ternary(b: Builder) -> list[str]:
    state, lines = _begun(b)
    first, second = (_filled(b, each, state) for each in b.rng.sample(_CHANGES, 2))
    return [*lines, f"{state.x} = {first} if {_question(b, state)} else {second}"]


def listed(b: Builder) -> list[str]:
    """A list that a loop fills, and data has a say in."""
    state, lines = _begun(b)
    x, s = b.floating(1), state.s
    kind = b.rng.randrange(4)
    if kind == 0:
        return [*lines, f"{state.x} = torch.stack([row * {s} if row.sum() > 0 else -row for row in {x}])"]
    if kind == 1:
        return [
            *lines,
            f"{state.x} = torch.{b.rng.choice(('stack', 'cat'))}([row{b.rng.choice(('.abs()', ' * 2'))} for row in {x}.{b.rng.choice(('unbind(0)', 'split(2)', 'chunk(2)'))}])",
        ]
    head, row = b.rng.choice((
        (f"for i in range({x}.shape[0]):", f"{x}[i]"), (f"for row in {x}:", "row"), (f"for row in {x}.split(1):", "row"),
        (f"for i in range({b.rng.randrange(2, 5)}):", f"({state.x} * (i + 1))"),
    ))  # fmt: skip
    body = [f"{s} = {_filled(b, b.rng.choice(_SUMS), _State(row, s, False))}"]
    if b.rng.random() < 0.6:
        body += [f"if {b.rng.choice((f'{row}.mean() > {s}', f'{s} > 0'))}:", f"    {s} = {s} * 0.5"]
    if kind == 2:
        body += [f"if {s} > 2:", f"    {b.rng.choice(('break', 'continue'))}"] if b.rng.random() < 0.4 else []
    body.append(f"items.append({b.rng.choice((f'{row} + {s}', s, f'{row} * 2'))})")
    return [*lines, "items = []", head, *_indented(body), f"{state.x} = torch.stack(items)"]


WRITERS: list[tuple[int, Any]] = [
    (5, _writer(_if, "branch")),
    (3, _writer(_counted_while, "counted")),
    (2, _writer(_halving, "halving")),
    (3, _writer(_for_some, "some_turns")),
    (3, _writer(_for_rows, "rows")),
    (2, ternary),
    (3, listed),
]
