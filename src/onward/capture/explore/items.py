"""What a run is written down as, and what a program is made of.

A run is a list of `Op`s, `Decision`s and `Turn`s. A program is the same with `Branch` and `Loop` in place of the latter
two. Values are numbers; arguments are templates, nested lists and dicts in which a value stands as a `Ref`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload

from ..ground.axes import Expression
from ..program.facts import ModuleCall, Scope, Source

Place = tuple[tuple[int, Any], ...]  # of every frame of the user's, the outermost first: its code, and where in it
Counter = tuple[Place, int, str]  # a question, and a variable in one of the frames around it


class CannotExplore(Exception):
    """The model does something that no program of branches and loops is made of; the text says what, in a sentence."""


class TooMuch(CannotExplore):
    """The search has come to its bound. It would do so at other sizes too, so it is not begun again."""


class Ragged(CannotExplore):
    """What the turns of a loop leave has another size in every turn, as far as one can see."""


class Unlike(CannotExplore):
    """The turns of a loop do different things."""


class TooFew(Unlike):
    """A loop has too few turns to see what they have in common."""


class Rejected(CannotExplore):
    """A run did something else than a program would have done."""


class OtherSize(Rejected):
    """The run was made at a size on the other side of a branch on sizes, and the program has one side of it."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor, or a number that the graph computes."""

    value: int
    kind: type | None = field(default=None, compare=False)  # of a number: bool, int or float


@dataclass(frozen=True, slots=True)
class SizeOf:
    """The size of an axis of a tensor; of a list with a value of every turn, axis 0 is how long it is."""

    value: int
    axis: int


@dataclass(frozen=True, slots=True)
class Piece:
    """One of the tensors that `unbind`, `split` or `chunk` gives."""

    pieces: int
    index: Any  # a number, or a Counted one


@dataclass(frozen=True, slots=True)
class Counted:
    """In the body of a loop: a number that grows by the same with every turn."""

    start: int
    step: int
    loop: int


@dataclass(frozen=True, slots=True)
class Calc:
    """A number computed from sizes, where nobody has written down its parts."""

    function: Callable[..., Any]
    operands: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A tensor that was there before: a weight, or one made of plain numbers."""

    tensor: torch.Tensor

    def is_like(self, other: Const) -> bool:
        one, two = self.tensor, other.tensor
        if one is two:
            return True
        return (
            one.shape == two.shape
            and one.dtype == two.dtype
            and one.device == two.device
            and one.layout == two.layout
            and one.numel() <= _MOST_COMPARED
            and torch.equal(one, two)
        )


_MOST_COMPARED = 1 << 16  # elements


@dataclass(frozen=True, slots=True)
class Star:
    """In a list: one tensor for every turn of a loop, in the order of the turns or the other way round.

    With `more`, every turn gives these too, right behind the first. With a depth of 2, every turn gives a list that an
    inner loop has filled, and these follow each other.
    """

    stacked: int
    backwards: bool = False
    more: tuple[int, ...] = ()
    depth: int = 1

    @property
    def names(self) -> tuple[int, ...]:
        return (self.stacked, *self.more)


@dataclass(frozen=True, slots=True)
class Turns:
    """Behind a loop: a number that every turn has changed by the same."""

    name: int  # of the number of turns
    start: int
    step: int


@dataclass(frozen=True, slots=True)
class Flag:
    """Whether a loop was left at one of its exits: behind the loop by the name of the flag, inside by the exit."""

    name: int
    is_inside: bool = False


@dataclass(frozen=True, slots=True)
class At:
    """Where something happens: for the alignment of runs, and for whoever reads the file."""

    place: Place
    frame: int  # one call of a function
    source: Source | None
    scope: Scope
    call: ModuleCall | None
    is_question: bool = False  # whether Python itself asks there, and no function that it calls
    in_for: bool = False  # whether the innermost loop around it, in the code of its function, is a `for`


@dataclass(frozen=True, eq=False)
class Op:
    """An operator of the model's, a function of numbers, or a tensor made of numbers."""

    target: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outs: tuple[int | None, ...]  # the values among its results, None for those that are none
    at: At
    pieces: int | None = None  # the value that stands for all results of one whose number of results follows a size


@dataclass(frozen=True, eq=False)
class Decision:
    """A question that Python asked, and the answer that it got."""

    predicate: Any
    answer: Any
    at: At
    expression: str  # as a person would write it
    is_kept: bool = True  # whether its other answer is to be explored
    is_idle: bool = False  # whether both answers lead to the same
    made: int = 0  # how many values there were before it
    of_turns: bool = False  # whether sizes and the numbers of turns decide, and no data
    of_sizes: bool = False  # whether sizes of the axes decide


@dataclass(frozen=True, eq=False)
class Turn:
    """The begin of a turn of a loop over a range or over an axis; the last one, with no turn behind it, is its end."""

    loop: int
    number: int
    count: Any  # how many turns there are
    is_static: bool
    is_end: bool
    at: At


@dataclass(frozen=True, eq=False)
class Block:
    """A side of a branch."""

    items: tuple[Any, ...]
    results: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Branch:
    """An `if`: one side or the other, each with as many results."""

    predicate: Any
    yes: Block
    no: Block
    outs: tuple[int, ...]
    at: At
    expression: str


@dataclass(frozen=True, eq=False)
class Loop:
    """A `while` or a `for`.

    A turn has the carried values under the names of `state`, and hands on `nexts`. `condition` is what is asked before
    the first turn, `going` what is asked after each, and `goes_on` the answer with which it goes on; both are None for
    a loop over a `count`. `stacked` names what the turns leave one by one, and the value inside that they leave.
    """

    number: int
    count: Any
    condition: Any
    going: Any
    goes_on: bool
    start: tuple[Any, ...]
    state: tuple[int, ...]
    body: tuple[Any, ...]
    nexts: tuple[Any, ...]
    outs: tuple[int, ...]
    stacked: tuple[tuple[int, Any], ...]
    at: At
    expression: str
    turns: int | None = None  # the name of the number of turns behind it, if anybody asks
    skipped: int = 0  # turns before the first that it does, of those that are counted
    flags: tuple[tuple[int, int], ...] = ()  # of every exit, in their order: its number, and the name of its flag
    pasts: tuple[tuple[int, Any], ...] = ()  # lists of what all turns before have made: the name, and the value inside
    is_silent: bool = False  # whether a run does not say when a turn begins: that of a loop over a list


@dataclass(frozen=True, eq=False)
class Exit:
    """In the body of a loop: a question with an answer that leaves the loop."""

    number: int
    predicate: Any
    leaves: bool  # the answer
    at: At


@dataclass(frozen=True, eq=False)
class Last:
    """Of what the turns of a loop left one by one, the first (0) or the last (-1)."""

    stacked: int
    index: int
    out: int
    at: At


Item = Op | Decision | Turn | Branch | Loop | Last | Exit


@dataclass(frozen=True)
class Program:
    """A structured program: its items, and what the model returned, leaf by leaf."""

    items: tuple[Item, ...]
    results: tuple[Any, ...]
    form: Any  # how the results are nested
    inputs: tuple[int, ...]  # the values that stand for the model's inputs
    notes: tuple[str, ...] = ()


@dataclass
class Raw:
    """One run, written down."""

    items: list[Item]
    answers: tuple[bool, ...]
    results: tuple[Any, ...] = ()
    form: Any = None
    error: Exception | None = None
    said: tuple[Any, ...] = ()  # what the model would have warned of
    inputs: tuple[int, ...] = ()
    readings: tuple[Any, ...] = ()  # what it has read from its data
    sizes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # of its tensors
    shifts: tuple[tuple[int, int], ...] = ()  # from which number on values are counted from another number
    counts: tuple[Expression, ...] = ()  # how many turns its loops over sizes have
    changing: frozenset[Counter] = frozenset()  # variables that had another value whenever a question was asked again
    settled: Mapping[Place, set[Any]] = field(default_factory=dict)  # answers to questions about sizes, by their places
    questions: tuple[Expression, ...] = ()  # about sizes
    shapes: Mapping[Any, Any] = field(default_factory=dict)  # of the results, for another run to follow
    is_shaped: bool = False  # whether it has followed those of another run itself
    has_plain_sizes: bool = False  # whether Python made a plain number of a size, which nobody can follow


def refs_in(template: Any) -> Iterator[int]:
    """The values that a template names, in order."""
    kind = type(template)
    if kind is Ref or kind is SizeOf:
        yield template.value
    elif kind is Piece:
        yield template.pieces
    elif kind is Star:
        yield from template.names
    elif kind is Turns:
        yield template.name
    elif kind is Calc:
        for each in template.operands:
            yield from refs_in(each)
    elif isinstance(template, (list, tuple)):
        for each in template:
            yield from refs_in(each)
    elif isinstance(template, dict):
        for each in template.values():
            yield from refs_in(each)


def replaced(template: Any, change: Callable[[Any], Any]) -> Any:
    """The template with other leaves; `change` gives None for what stays and is looked into."""
    new = change(template)
    if new is not None:
        return new
    if type(template) is Calc:
        return Calc(template.function, tuple(replaced(each, change) for each in template.operands))
    if isinstance(template, tuple) and hasattr(template, "_fields"):
        return type(template)(*(replaced(each, change) for each in template))
    if isinstance(template, (list, tuple)):
        return type(template)(replaced(each, change) for each in template)
    if isinstance(template, dict):
        return {key: replaced(each, change) for key, each in template.items()}
    return template


Names = Any  # has `get`: of a value's number, or of a leaf's key, another template; a number is another value


def leaf_key(leaf: Any) -> Any:
    """What a leaf that stands for a tensor or a number is known by; None for a leaf that stands for neither."""
    kind = type(leaf)
    if kind is Ref:
        return leaf.value
    if kind is Const:
        return ("const", id(leaf.tensor))
    if kind is Piece:
        return ("piece", leaf.pieces, leaf.index)
    return None


def renamed(template: Any, names: Names) -> Any:
    """The template with other values."""

    def change(leaf: Any) -> Any:
        key = leaf_key(leaf)
        if key is not None:
            new = names.get(key)
            if new is not None:
                return Ref(new, leaf.kind if type(leaf) is Ref else None) if type(new) is int else new
        kind = type(leaf)
        if kind is Star:
            stacked, *more = (_held(Piece(name, 0), names).pieces for name in leaf.names)
            return Star(stacked, leaf.backwards, tuple(more), leaf.depth)
        if kind is SizeOf or kind is Piece:
            return _held(leaf, names)
        return leaf if key is not None else None

    return replaced(template, change)


def _held(leaf: Any, names: Names) -> Any:
    """A leaf that says something of a value, said of another one."""
    kind = type(leaf)
    value = leaf.value if kind is SizeOf else leaf.pieces
    new = names.get(value)
    if new is None:
        return leaf
    if type(new) is not int:
        if type(new) is Const and kind is SizeOf:
            return new.tensor.size(leaf.axis)
        if type(new) is not Ref:
            raise CannotExplore("it asks for the size of a tensor that a loop takes from a list")
        new = new.value
    return SizeOf(new, leaf.axis) if kind is SizeOf else Piece(new, leaf.index)


Change = Callable[[Any], Any]  # of templates


def item_changed(item: Any, change: Change, outs: Callable[[int], int]) -> Any:
    """An item with every template changed, and with other names for what it makes or gives back."""
    if isinstance(item, Op):
        made = tuple(None if out is None else outs(out) for out in item.outs)
        pieces = None if item.pieces is None else outs(item.pieces)
        return Op(item.target, change(item.args), change(dict(item.kwargs)), made, item.at, pieces)
    if isinstance(item, Branch):
        yes, no = (
            Block(tuple(item_changed(each, change, outs) for each in block.items), change(block.results))
            for block in (item.yes, item.no)
        )
        return replace(item, predicate=change(item.predicate), yes=yes, no=no, outs=tuple(map(outs, item.outs)))
    if isinstance(item, Loop):
        return replace(
            item,
            count=change(item.count),
            condition=change(item.condition),
            going=change(item.going),
            start=change(item.start),
            body=tuple(item_changed(each, change, outs) for each in item.body),
            nexts=change(item.nexts),
            stacked=tuple((outs(out), change(each)) for out, each in item.stacked),
            pasts=tuple((outs(name), change(each)) for name, each in item.pasts),
            outs=tuple(map(outs, item.outs)),
        )
    if isinstance(item, Last):
        stacked = change(Star(item.stacked))
        return Last(stacked.stacked, item.index, outs(item.out), item.at)
    if isinstance(item, (Decision, Exit)):
        return replace(item, predicate=change(item.predicate))
    return replace(item, count=change(item.count))


def item_renamed(item: Any, names: Names) -> Any:
    """An item that takes other values."""

    def out(value: int) -> int:
        new = names.get(value)  # an operator in place gives back what it was given
        return new if type(new) is int else new.value if type(new) is Ref else value

    return item_changed(item, lambda template: renamed(template, names), out)


def made_by(item: Any) -> Iterator[int]:
    """The values that an item makes and others may use."""
    if isinstance(item, Op):
        yield from (out for out in item.outs if out is not None)
        if item.pieces is not None:
            yield item.pieces
    elif isinstance(item, Branch):
        yield from item.outs
    elif isinstance(item, Loop):
        yield from item.outs
        yield from (out for out, _ in item.stacked)
        yield from (name for _, name in item.flags)
        if item.turns is not None:
            yield item.turns
    elif isinstance(item, Last):
        yield item.out


def taken_by(item: Any) -> Iterator[int]:
    """The values that an item takes, those among them that are made inside it left out."""
    if isinstance(item, Op):
        yield from refs_in((item.args, dict(item.kwargs)))
    elif isinstance(item, (Decision, Exit)):
        yield from refs_in(item.predicate)
    elif isinstance(item, Turn):
        yield from refs_in(item.count)
    elif isinstance(item, Last):
        yield item.stacked
    elif isinstance(item, Branch):
        yield from refs_in(item.predicate)
        yield from _outside(item.yes.items, item.yes.results)
        yield from _outside(item.no.items, item.no.results)
    elif isinstance(item, Loop):
        yield from refs_in((item.count, item.condition, item.start))
        inner = {*item.state, *(name for name, _ in item.pasts)}
        results = (item.going, item.nexts, tuple(each for _, each in (*item.stacked, *item.pasts)))
        yield from (value for value in _outside(item.body, results) if value not in inner)


def _outside(items: tuple[Any, ...], results: Any) -> Iterator[int]:
    inside: set[int] = set()
    for item in items:
        yield from (value for value in taken_by(item) if value not in inside)
        inside.update(made_by(item))
    yield from (value for value in refs_in(results) if value not in inside)


_MAKERS = (torch.tensor, torch.as_tensor, torch.Tensor.new_tensor)


def is_of_numbers(op: Op) -> bool:
    """Whether an item computes a number from numbers."""
    return not isinstance(op.target, (OpOverload, HigherOrderOperator)) and op.target not in _MAKERS


def leaves_in(template: Any) -> list[Any]:
    """The leaves of a template that stand for tensors or numbers."""
    found: list[Any] = []

    def note(leaf: Any) -> Any:
        leaf = Ref(leaf.value) if type(leaf) is SizeOf else leaf
        if leaf_key(leaf) is None:
            return None
        found.append(leaf)
        return leaf

    replaced(template, note)
    return found
