"""What is done to items of a program as a whole: writes behind exits, lists with a value of every turn, counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .items import (
    Block,
    Branch,
    Calc,
    CannotExplore,
    Exit,
    Flag,
    Item,
    Loop,
    Op,
    Piece,
    Star,
    Turns,
    Unlike,
    item_changed,
    replaced,
)

aten = torch.ops.aten
DEEPEST = 24  # protobuf reads messages 100 levels deep, and a graph in an attribute of a node takes three of them
_JOINS = (aten.stack.default, aten.cat.default, aten.concat.default, aten.hstack.default, aten.vstack.default)


def guarded(body: Sequence[Item]) -> tuple[Item, ...]:
    """A body that writes to no memory once the loop is left at an exit: all else may be computed in vain."""
    found: list[Item] = []
    exits: list[int] = []
    for item in body:
        exits += _exits_in(item)
        writes = isinstance(item, Op) and getattr(getattr(item.target, "_schema", None), "is_mutable", False)
        if exits and (isinstance(item, Loop) or (isinstance(item, Branch) and not _exits_in(item))) and _writes(item):
            raise Unlike("it writes to a tensor in a branch or a loop behind an exit")
        if exits and writes:
            for number in exits:
                item = Branch(Flag(number, is_inside=True), Block((), ()), Block((item,), ()), (), item.at, "")
        found.append(item)
    return tuple(found)


def _exits_in(item: Item) -> list[int]:
    if isinstance(item, Exit):
        return [item.number]
    if isinstance(item, Branch):
        return [number for each in (*item.yes.items, *item.no.items) for number in _exits_in(each)]
    return []


def _writes(item: Item) -> bool:
    if isinstance(item, Branch):
        return any(map(_writes, (*item.yes.items, *item.no.items)))
    if isinstance(item, Loop):
        return any(map(_writes, item.body))
    return isinstance(item, Op) and bool(getattr(getattr(item.target, "_schema", None), "is_mutable", False))


def with_whole_lists(items: Sequence[Item]) -> list[Item]:
    """The items with all pieces of a tensor, one after the other in a list, as such."""
    lengths = {item.pieces: len(item.outs) for item in items if isinstance(item, Op) and item.pieces is not None}

    def change(template: Any) -> Any:
        def whole(leaf: Any) -> Any:
            if type(leaf) is not list or not leaf or type(leaf[0]) is not Piece or type(leaf[0].index) is not int:
                return None
            pieces = leaf[0].pieces
            wanted = [Piece(pieces, index) for index in range(lengths.get(pieces, -1))]
            if leaf == wanted:
                return [Star(pieces)]
            return [Star(pieces, backwards=True)] if leaf == wanted[::-1] else None

        return replaced(template, whole)

    found = [item_changed(item, change, lambda value: value) for item in items]
    return [item for item in found if not _is_idle(item)]


def _is_idle(item: Item) -> bool:
    """Whether a loop has nothing to do: it only went through a list."""
    return isinstance(item, Loop) and not item.body and not item.stacked and not item.state


def with_turns(one: Any, other: Any, name: int, turns: int) -> Any:
    """A template with the numbers counted that differ in a run with one turn more; None if there are none."""
    found = False

    def walk(a: Any, b: Any) -> Any:
        nonlocal found
        if type(a) is int and type(b) is int and a != b:
            found = True
            return Turns(name, a - (b - a) * turns, b - a)
        if type(a) is not type(b):
            return a
        if isinstance(a, (list, tuple)) and not hasattr(a, "_fields") and len(a) == len(b):
            return type(a)(walk(x, y) for x, y in zip(a, b, strict=True))
        if isinstance(a, dict) and a.keys() == b.keys():
            return {key: walk(a[key], b[key]) for key in a}
        if type(a) is Calc:
            return Calc(a.function, walk(a.operands, b.operands))
        return a

    made = walk(one, other)
    return made if found else None


def check_depth(items: Sequence[Item], depth: int = 0) -> None:
    """Refuse branches and loops inside of each other that no runtime could read from a file."""
    if depth > DEEPEST:
        raise CannotExplore("more branches stand inside of each other than a file can hold")
    for item in items:
        if isinstance(item, Branch):
            check_depth(item.yes.items, depth + 1)
            check_depth(item.no.items, depth + 1)
        elif isinstance(item, Loop):
            check_depth(item.body, depth + 1)


def check_joins(items: Sequence[Any]) -> None:
    """Refuse a list with a value of every turn for operators other than `stack` and `cat`."""
    for item in items:
        if isinstance(item, Op) and _has_star((item.args, item.kwargs)) and item.target not in _JOINS:
            raise Unlike(f"{item.target} takes a list with a value of every turn")
        if isinstance(item, Branch):
            check_joins((*item.yes.items, *item.no.items))
        if isinstance(item, Loop):
            check_joins(item.body)


def _has_star(template: Any) -> bool:
    if isinstance(template, (list, tuple)):
        return any(map(_has_star, template))
    if isinstance(template, dict):
        return any(map(_has_star, template.values()))
    return type(template) is Star


def has_lists(items: Sequence[Item]) -> bool:
    """Whether a program takes tensors apart into as many pieces as a size says."""
    return any(getattr(item, "pieces", None) is not None for item in items)


def kept(items: Sequence[Item]) -> list[Branch | Loop]:
    """All branches and loops of a program, outermost first."""
    found: list[Branch | Loop] = []
    for item in items:
        if isinstance(item, Branch):
            found += [item, *kept(item.yes.items), *kept(item.no.items)]
        elif isinstance(item, Loop):
            found += [item, *kept(item.body)]
    return found
