"""One run of a model, written down op by op, with answers that may be forced."""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from ..ground.axes import Expression
from ..ground.memory import leaves
from ..ground.python_loops import is_in_for
from ..ground.source import user_frames, user_source
from ..ground.tree import flatten
from ..memory.tensor import Traced
from ..program.facts import SizeFact, Source
from ..sizes.queries import number_of_chunks, number_of_pieces
from ..sizes.sizes import SYMBOLIC, AxisOf, Computed, NumberOf, Size, expression_of, question_of, symbol, written
from .items import At, Calc, CannotExplore, Const, Counter, Decision, Item, Op, Piece, Place, Ref, SizeOf, TooMuch, Turn
from .lengths import Lengths
from .patterns import Draw
from .readings import Readings, is_reading, with_rows
from .shapes import Shapes, is_in_place
from .variables import Variables

if TYPE_CHECKING:
    from ..record.tracer import Tracer

aten = torch.ops.aten
Rules = Mapping[Place, tuple[bool, int]]  # for the questions of loops: the answer to go on with, and how often

_TURNS = 5  # how often a question may be asked at one place before it gets the other answer
_MOST_ITEMS = 8_000  # of one run
_MOST_ANSWERS = 5_000
_MIRRORED = {aten.gt.Tensor: aten.lt.Tensor, aten.ge.Tensor: aten.le.Tensor}
_LISTS: dict[Any, Callable[..., tuple[int, Any]]] = {  # by operator: the axis, and what says how long the pieces are
    aten.unbind.int: lambda x, dim=0: (dim, None),
    aten.split.Tensor: lambda x, size, dim=0: (dim, size),
    aten.chunk.default: lambda x, count, dim=0: (dim, count),
}


@dataclass(frozen=True)
class Ways:
    """What a run answers: the first decisions, those of loops, and others at some places, in this order.

    All else is drawn, or answered as the example does, and alike at one place.
    """

    answers: tuple[bool, ...] = ()
    rules: Rules = field(default_factory=dict)
    hints: tuple[tuple[Any, tuple[Any, ...]], ...] = ()  # answers by their places, and readings
    draw: Draw | None = None
    plain_indices: bool = False  # whether the turns of loops are counted with plain numbers
    asks_of_sizes: bool = False  # whether questions to tensors that are made of sizes alone are decisions, too
    counters: frozenset[Counter] = frozenset()  # variables that are followed from a question on
    asked: frozenset[Place] = frozenset()  # questions about the numbers of turns that are decisions
    across: frozenset[Place] = frozenset()  # questions of functions that a loop calls: all calls are one
    is_steady: bool = False  # whether all other questions about the numbers of turns get one answer at one place

    turns: int | None = None  # how many every loop over a range or an axis has, if not as many as in the example
    assumed: frozenset[tuple[Place, bool]] = frozenset()  # questions about sizes that get one answer, and no other side
    shapes: Mapping[Any, Any] | None = None  # of another run, which results are to be as large as: see shapes.py

    @property
    def key(self) -> Any:
        """The same for ways that are the same."""
        rules = tuple(sorted(self.rules.items(), key=repr))
        follows = (
            self.plain_indices,
            self.asks_of_sizes,
            self.counters,
            self.asked,
            self.across,
            self.is_steady,
            self.turns,
            self.assumed,
            id(self.shapes),  # the run that they are of is kept as long as this one
        )
        return self.answers, rules, self.hints, follows


class Recorder:
    """What a run did. `heeded` gets the settings of the ways that something in it depends on; `one_sided` has lines
    that ask about sizes and always get one answer."""

    def __init__(
        self, tracer: Tracer, ways: Ways, of_sizes: bool, one_sided: Mapping[Source | None, bool], heeded: set[str]
    ) -> None:
        self._tracer, self._ways, self._of_sizes, self._heeded = tracer, ways, of_sizes, heeded
        self._one_sided = one_sided
        self._hints = {place: list(answers) for place, answers in ways.hints if not is_reading(place)}
        self.readings = Readings(ways.hints)
        self.shapes = Shapes(tracer, ways.shapes)
        self.settled: dict[Place, set[Any]] = {}  # answers to questions about sizes, with None where probes disagree
        self.questions: dict[Expression, None] = {}  # about sizes
        self._assumed = dict(ways.assumed)
        self.has_plain_sizes = False
        self.items: list[Item] = []
        self.answers: list[bool] = []
        self.made = 0
        self.is_astray = False  # whether some answer was not the example's
        self.inside = False  # an operator is at work: what it does is no part of the run
        self.question: tuple = ()  # what Python asks the value of
        self._templates: dict[int, Any] = {}
        self._alive: list[Any] = []
        self._of_nodes: dict[fx.Node, int] = {}
        self._piece_counts: dict[int, Any] = {}
        self._of_nothing: set[int] = set()  # pieces of an axis that may be empty
        self._answered: dict[int, tuple[Place, Any, bool]] = {}  # by what was asked: where, and the answer
        self._asked: dict[Any, list[bool]] = {}  # by the call of a function, and the place in it
        self._moments: dict[Any, int] = {}  # when each of these was asked last, by the number of answers until then
        self._turn_moments: dict[int, int] = {}  # when the turn of a loop began
        self._first: dict[Place, bool] = {}
        self._places: dict[Any, Place] = {}
        self._indices: set[fx.Node] = set()
        self.variables = Variables(self)
        self._root: FrameType | None = None
        self._frames: list[tuple[FrameType, int]] = []
        self._frame_count = self._loops = 0
        self._lengths = Lengths(tracer)
        self._given: list[Any] = []  # what the operator at work was given
        self.sizes: dict[int, tuple[int, ...]] = {}  # of the tensors, by the numbers that they go by
        self.counts: dict[Expression, None] = {}  # how many turns loops over sizes have

    def start(self, inputs: Sequence[Traced]) -> tuple[int, ...]:
        """The run begins, in the function that calls this: what it was called from is no part of it."""
        self._root = sys._getframe(1)
        return tuple(self._name(each) for each in inputs)

    # --- values ------------------------------------------------------------------------------------------------------
    def _name(self, value: Any, template: Any = None) -> int:
        """A number for a new value."""
        number = self.made
        self.made += 1
        self._alive.append(value)
        kind = type(value.values[0]) if isinstance(value, Size) else None
        self._templates[id(value)] = Ref(number, kind) if template is None else template
        if isinstance(value, Traced):
            self._of_nodes[value.node] = number
            self._lengths.made(value, self._given)
            self.sizes[number] = tuple(value.example.size())
        return number

    def encode(self, value: Any) -> Any:
        """An argument as a template."""
        if isinstance(value, torch.Tensor):
            known = self._templates.get(id(value))
            if known is None and isinstance(value, Traced):
                raise CannotExplore("it uses a tensor that was made in a way that is not followed")
            return Const(value) if known is None else known
        if isinstance(value, SYMBOLIC):
            return self._number(value.node)
        if isinstance(value, Size):
            return self._number(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self.encode, value))
        if isinstance(value, list) or type(value) in (tuple, torch.Size):
            made = [self.encode(each) for each in value]
            return made if isinstance(value, list) else tuple(made)
        if type(value) is dict:
            return {key: self.encode(each) for key, each in value.items()}
        return value

    def _number(self, size: Size) -> Any:
        known = self._templates.get(id(size))
        if known is not None:
            return known
        if size.is_uniform:
            return size.values[0]
        origin = size.origin
        if isinstance(origin, Computed):
            return Calc(origin.function, tuple(map(self._number, origin.operands)))
        if isinstance(origin, (AxisOf, NumberOf)) and origin.node in self._of_nodes:
            of = self._of_nodes[origin.node]
            return SizeOf(of, origin.axis) if isinstance(origin, AxisOf) else Ref(of, type(size.values[0]))
        raise CannotExplore("it computes with a size that was asked for in a way that is not followed")

    def asked(self, tensor: Traced) -> None:
        """The model asks for the size of a tensor: the answer goes by its node."""
        known = self._templates.get(id(tensor))
        if isinstance(known, Ref):
            self._of_nodes.setdefault(tensor.node, known.value)
        elif isinstance(known, Piece) and tensor.node not in self._of_nodes and not self.inside:
            number = self.made
            self.made += 1
            self.items.append(Op(aten.alias.default, (known,), {}, (number,), self._at()))
            self._of_nodes[tensor.node] = number

    # --- what happens ------------------------------------------------------------------------------------------------
    @property
    def is_off(self) -> bool:
        """Whether what happens is no part of the run: inside of an operator, or of a branch that is kept anyway."""
        return self.inside or len(self._tracer.levels) > 1

    def asks_of_sizes(self) -> bool:
        """Whether a question to a tensor that is made of sizes alone is a decision, even if all sizes answer alike."""
        if self.is_off:
            return False
        self._heeded.add("asks_of_sizes")
        return self._ways.asks_of_sizes

    @property
    def is_on_one_way(self) -> bool:
        """Whether questions about sizes are decisions, so that sizes may be related otherwise on other ways."""
        return self._of_sizes and not self.is_off

    def follow(self, op: Any, args: tuple, kwargs: Mapping[str, Any], call: Callable[[], Any]) -> Any:
        """An operator of the model's."""
        if self.is_off:
            return call()
        if len(self.items) > _MOST_ITEMS:
            raise TooMuch("a run on another way takes too long")
        template, named = self.encode(tuple(args)), self.encode(dict(kwargs))
        written = op
        if op in _MIRRORED and len(template) == 2:  # Python turns `plain < traced` round, and `traced < traced` not
            written, template = _MIRRORED[op], template[::-1]
        at, turns = self._at(), self._lengths.turns
        self.inside = True
        try:
            pieces = self._pieces(op, args, kwargs)
            result = self.shapes.computed(op, at, turns, call, astray=self.is_astray) if pieces is None else pieces
        finally:
            self.inside = False
        if pieces is not None:
            number = self.made
            self.made += 1
            self._piece_counts[number] = _count(op, *args, **kwargs)
            if op is not aten.unbind.int and _may_be_empty(op, *args, **kwargs):
                self._of_nothing.add(number)
            for index, piece in enumerate(pieces):
                self._alive.append(piece)
                self._templates[id(piece)] = Piece(number, index)
            self.items.append(Op(op, template, named, (None,) * len(pieces), at, number))
            return result
        if is_in_place(op) and isinstance(template[0], Ref) and isinstance(result, torch.Tensor):
            self._alive.append(result)
            self._templates[id(result)] = template[0]  # whatever stands for the tensor from now on, it is the same one
            self.asked(result) if isinstance(result, Traced) else None
        result = self._lengths.followed(op, args, kwargs, result, self._count_joined(template))
        result = self.shapes.followed(op, at, turns, result, astray=self.is_astray)
        self._given = leaves((args, tuple(kwargs.values())))
        outs = tuple(self._out(leaf) for leaf in flatten(result)[0])
        self.items.append(Op(written, template, named, outs, at))
        return result

    def _count_joined(self, template: tuple[Any, ...]) -> Any:
        """How many there are of the pieces of a tensor, where a list holds all of them; None for another list."""
        leaves = template[0] if template and type(template[0]) is list else []
        if not leaves or any(type(each) is not Piece or each.pieces != leaves[0].pieces for each in leaves):
            return None
        count = self._piece_counts.get(leaves[0].pieces)
        is_whole = sorted(each.index for each in leaves) == list(range(len(leaves)))
        return count if is_whole and isinstance(count, SYMBOLIC) and count.node.values[0] == len(leaves) else None

    def _out(self, leaf: Any) -> int | None:
        value = leaf.node if isinstance(leaf, SYMBOLIC) else leaf
        if not isinstance(value, (torch.Tensor, Size)):
            return None
        known = self._templates.get(id(value))
        if isinstance(known, Ref):
            return known.value
        number = self._name(value)
        if isinstance(value, Size) and isinstance(value.origin, NumberOf):
            self._of_nodes[value.origin.node] = number
        return number

    def _pieces(self, op: Any, args: tuple, kwargs: Mapping[str, Any]) -> list[torch.Tensor] | None:
        """The results of `unbind`, `split` and `chunk` where it depends on a size how many there are."""
        if op not in _LISTS or not isinstance(args[0], Traced):
            return None
        x = args[0]
        dim, given = _LISTS[op](*args, **kwargs)
        count = given
        if not x.fact.rank or (isinstance(x.fact.shape[dim], int) and not isinstance(given, SYMBOLIC)):
            return None
        if isinstance(given, SYMBOLIC):
            given = given.node.values[0]
        length = x.example.size(dim)
        with self._tracer.model_again():
            if op is aten.unbind.int:
                wanted = self._pieces_wanted(x, dim)
                return [x.select(dim, min(index, length - 1)) for index in range(wanted)]
            if op is aten.chunk.default and type(count) is int and number_of_chunks(length, count) == count:
                return None
            each = given if op is aten.split.Tensor else max(1, -(-length // given))
            return [
                x.narrow(dim, place, min(each, length - place))
                for place in range(0, number_of_pieces(length, each) * each, each)
            ]

    def _pieces_wanted(self, x: Traced, dim: int) -> int:
        """How many pieces there are along an axis. Of one that data says, there may be as many as turns are wanted, and
        those that are missing are like the last one."""
        length, wanted = x.example.size(dim), self._ways.turns
        size = x.fact.shape[dim]
        if wanted is None or not length or isinstance(size, int) or not self._tracer.dims.is_of_data(size.values):
            return length
        return max(length, wanted)

    def number(self, size: Size) -> None:
        """A number that the model computes from sizes or from data."""
        if self.is_off or self._tracer._depth or not size.from_data or not isinstance(size.origin, Computed):
            return
        if size.origin.function is operator.pow and size.is_int() and not self._is_index(size):
            raise CannotExplore("it raises a number to a power that data says, which Python does without any bound")
        operands = tuple(map(self._number, size.origin.operands))
        at = self._at()
        self.items.append(Op(size.origin.function, operands, {}, (self._name(size),), at))

    def rows(self, result: Any) -> Any:
        """What an operator found whose result is as long as data says."""
        if not isinstance(result, torch.Tensor) or not result.dim():
            return result
        return with_rows(result, self.read(result.size(0)))

    def read(self, natural: Any) -> Any:
        """A number that the model reads from its data."""
        place, turns = self._at().place, self._lengths.turns
        return self.readings.read(place, turns, natural, astray=self.is_astray)

    # --- decisions ---------------------------------------------------------------------------------------------------
    def decide(
        self, predicate: Any, answer: Any, expression: str, *, of_sizes: bool = False, of_turns: bool = False
    ) -> Any:
        """Python asks for a plain answer, and gets one."""
        if self.is_off:
            return answer
        at = self._at()
        if not at.place:
            raise CannotExplore("it asks in code that has no lines")
        known = self._answered.get(id(predicate))
        if known is not None and known[0] != at.place and known[1] is getattr(predicate, "node", None):
            return known[2]  # what a function returns after `a or b` is asked once more by its caller
        if at.place in self._ways.across:
            at = replace(at, frame=0)
        if len(self.answers) > _MOST_ANSWERS:
            raise TooMuch("it asks again and again, whatever the answers are")
        template = self.encode(predicate)
        is_kept = isinstance(answer, bool) and (self._of_sizes or not of_sizes)
        is_kept = is_kept and (not of_turns or at.place in self._ways.asked)
        is_kept = is_kept and not (of_sizes and self._tracer.decisions.never_flips(predicate))
        if of_sizes and at.place in self._assumed:
            is_kept, answer = False, self._assumed[at.place]
        made = self.made
        if is_kept:
            answer = self._answer(at, answer)
            self.answers.append(answer)
        elif of_turns and self._ways.is_steady:
            natural, answer = answer, self._first.setdefault(at.place, answer)
            self.is_astray |= answer is not natural
        self.items.append(
            Decision(template, answer, at, expression, is_kept, made=made, of_turns=of_turns, of_sizes=of_sizes)
        )
        if isinstance(answer, bool):
            self._alive.append(predicate)
            self._answered[id(predicate)] = (at.place, getattr(predicate, "node", None), answer)
        if is_kept:
            rule = self._ways.rules.get(at.place)
            before = self._asked[at.frame, at.place[-1:]][:-1]
            in_turn = rule is not None and _streak(before, rule[0]) > 0
            self.variables.look(at, self._frames, self._ways.counters, in_turn=in_turn)
        return answer

    def _answer(self, at: At, natural: bool) -> bool:
        key = (at.frame, at.place[-1:])
        before = self._asked.setdefault(key, [])
        self._places[key] = at.place
        number = len(self.answers)
        ways = self._ways
        if at.place in ways.rules and before and before[-1] is ways.rules[at.place][0]:
            self._count_anew(self._moments[key] + 1)
        self._moments[key] = number
        if number < len(ways.answers):
            answer = ways.answers[number]
        elif at.place in ways.rules:
            goes_on, times = ways.rules[at.place]
            answer = goes_on if _streak(before, goes_on) < times else not goes_on
            self._begin_turn(at)
            self._lengths.asked((at.frame, at.place), is_end=answer is not goes_on)
        elif self._hints.get(at.place):
            answer = self._hints[at.place].pop(0)
        elif before and _streak(before, before[-1]) >= _TURNS:
            answer = not before[-1]
        elif ways.draw is not None:
            answer = ways.draw.answer()
        else:  # the same in every turn of a loop, so that turns are alike
            answer = self._first.get(at.place, natural)
        self._first.setdefault(at.place, answer)
        before.append(answer)
        self.is_astray |= answer is not natural
        return answer

    def _begin_turn(self, at: At) -> None:
        """A loop asks whether to go on: questions inside of its turns are counted anew."""
        for key, before in self._asked.items():
            if key != (at.frame, at.place[-1:]) and self._places.get(key) not in self._ways.rules:
                before.clear()

    def _count_anew(self, since: int) -> None:
        """A turn is over: loops inside of it begin anew in the next one, even if something else has ended them."""
        for key, moment in self._moments.items():
            if moment >= since:
                self._asked[key].clear()

    def commit(self, size: Size) -> Any:
        """Python asks for the number that a size is."""
        answer = size.values[0]
        if not size.is_bool():
            if not self.is_without_data(size):
                return self.decide(size, answer, written(size))
            self.has_plain_sizes = self.has_plain_sizes or not size.is_uniform
            return answer
        if self._is_index(size):
            return self.decide(size, bool(answer), written(size), of_turns=True)
        of_data = size.from_data or self._tracer.decisions.varies_with_data(size)
        if not of_data and self._one_sided and (asked := self._one_sided.get(user_source())) is not None:
            return asked
        if not of_data and not self.is_off:
            self.settled.setdefault(self._at().place, set()).add(answer if size.is_settled_at_probes else None)
            question = question_of(size)
            if question is not None:
                self.questions[question] = None
        return self.decide(size, bool(answer), written(size), of_sizes=not of_data)

    # --- loops -------------------------------------------------------------------------------------------------------
    def new_loop(self) -> int:
        self._loops += 1
        return self._loops

    def index(self, number: int, count: Any = None) -> Any:
        """The number of a turn, as one that is followed: a plain number would hide what is computed from it.

        `count` is how many turns there are, where that follows sizes."""
        if self.is_off:
            return number
        self._heeded.add("plain_indices")
        if self._ways.plain_indices:
            return number
        tracer = self._tracer
        node = tracer.graph.create_node("call_function", operator.index, (number,))
        data_sizes = tracer.elsewhere.data_sizes
        counts = count.node.values if isinstance(count, torch.SymInt) and not count.node.from_data else None
        others = data_sizes.numbers(number) if counts is None else data_sizes.turn_numbers(number, counts)
        values = (number, *others)
        node.meta.update(val=SizeFact(values), scope=tracer.scopes.current, source=None)
        size = Size(tracer, values, NumberOf(node))
        self._alive.append(size)
        self._templates[id(size)] = number
        self._indices.add(node)
        return symbol(size)

    def _is_index(self, size: Size) -> bool:
        """Whether a number is computed from numbers of turns, and from no data."""
        return size.from_data and self.is_without_data(size)

    def is_without_data(self, size: Size) -> bool:
        """Whether a number is computed from sizes, numbers of turns and variables alone."""
        if isinstance(size.origin, NumberOf):
            return size.origin.node in self._indices
        if isinstance(size.origin, Computed):
            return all(self.is_without_data(each) for each in size.origin.operands)
        return True

    def turn(self, loop: int, number: int, count: Any, *, is_end: bool = False) -> None:
        """A turn of a loop begins, or there is none any more."""
        if not self.is_off:
            template = self.encode(count)
            self._lengths.turn(loop, count, is_end=is_end)
            is_static = not isinstance(count, SYMBOLIC)
            expression = None if is_static else expression_of(count.node)
            if expression is not None:
                self.counts[Expression(operator.index, (expression,))] = None
            self.has_plain_sizes = self.has_plain_sizes or not is_static  # Python can count the turns
            if loop in self._turn_moments:
                self._count_anew(self._turn_moments[loop])
            self._turn_moments[loop] = len(self.answers)
            self.items.append(Turn(loop, number, template, is_static, is_end, self._at()))

    def turns_of(self, count: Any, natural: int) -> int:
        """How many turns a loop is to have: those of a loop over an axis do not get more."""
        wanted = self._ways.turns
        if self.is_off or wanted is None or not isinstance(count, SYMBOLIC):
            return natural
        return wanted if count.node.from_data else min(wanted, natural)

    def turns_here(self) -> int | None:
        """How many turns the loop that begins here is to have, in place of those that are written."""
        rule = None if self.is_off else self._ways.rules.get(self._at().place)
        return None if rule is None else rule[1]

    def count_of(self, pieces: Sequence[torch.Tensor]) -> Any:
        """How many pieces an operator gave, as a number that follows the size; None if it follows none."""
        last = self.items[-1] if self.items else None
        if not pieces:  # the operator before has given none
            return self._piece_counts.get(last.pieces) if isinstance(last, Op) and last.pieces is not None else None
        known = self._templates.get(id(pieces[0]))
        return self._piece_counts[known.pieces] if isinstance(known, Piece) else None

    def begin_pieces(self, pieces: Sequence[torch.Tensor]) -> int:
        """A loop over pieces begins. `split` makes one empty piece of nothing, for which a count has no turn."""
        known = self._templates.get(id(pieces[0])) if pieces else None
        if isinstance(known, Piece) and known.pieces in self._of_nothing:
            raise CannotExplore("it goes over the pieces of a tensor that may be empty, which is one empty piece")
        return self.new_loop()

    # --- where -------------------------------------------------------------------------------------------------------
    def _at(self) -> At:
        stack = user_frames(self._root)[::-1]
        frames: list[tuple[FrameType, int]] = []
        same = True
        for level, each in enumerate(stack):
            same = same and level < len(self._frames) and self._frames[level][0] is each
            if same:
                frames.append(self._frames[level])
            else:
                self._frame_count += 1
                frames.append((each, self._frame_count))
        self._frames = frames
        place = tuple((_code_key(each.f_code), _position(each)) for each in stack)
        scopes = self._tracer.scopes
        asks = bool(stack) and stack[-1].f_code.co_code[stack[-1].f_lasti] in _QUESTIONS
        in_for = bool(stack) and is_in_for(stack[-1].f_code, stack[-1].f_lasti)
        return At(place, frames[-1][1] if frames else 0, user_source(), scopes.current, scopes.call, asks, in_for)

    def finish(self) -> None:
        """Let go of the frames and of the tensors."""
        self._frames, self._root = [], None
        self.variables.forget()
        self._alive.clear()
        self._templates.clear()


def _streak(answers: Sequence[bool], wanted: bool) -> int:
    """How often an answer was given without interruption, to the end."""
    count = 0
    for each in reversed(answers):
        if each is not wanted:
            break
        count += 1
    return count


_QUESTIONS = frozenset(
    code for name, code in dis.opmap.items() if name.startswith(("POP_JUMP", "JUMP_IF", "TO_BOOL", "UNARY_NOT"))
)
_POSITIONS: dict[CodeType, list[Any]] = {}


def _position(frame: FrameType) -> Any:
    """Where a function is: with columns where Python has them, so that `a and b` are two places on one line."""
    code = frame.f_code
    if not hasattr(code, "co_positions"):
        return frame.f_lineno
    known = _POSITIONS.get(code)
    if known is None:
        known = _POSITIONS[code] = list(code.co_positions())
    return known[frame.f_lasti // 2]


_CODES: dict[tuple[str, int, str], int] = {}


def _code_key(code: CodeType) -> int:
    return _CODES.setdefault((code.co_filename, code.co_firstlineno, code.co_name), len(_CODES))


def ceiling(size: Any, each: Any) -> Any:
    return -(-size // each)


def piece_bounds(op: Op) -> tuple[Any, int, Any]:
    """The tensor, the axis, and how long each piece is; None where a piece has lost the axis."""
    dim, given = _LISTS[op.target](*op.args, **op.kwargs)
    if op.target is aten.unbind.int:
        return op.args[0], dim, None
    if op.target is aten.split.Tensor:
        return op.args[0], dim, given
    return op.args[0], dim, Calc(ceiling, (SizeOf(op.args[0].value, dim), given))


def _count(op: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """How many pieces there are, as a number that follows the size."""
    dim, given = _LISTS[op](x, *args, **kwargs)
    size = x.size(dim)
    if op is aten.unbind.int:
        return size
    return ceiling(size, given if op is aten.split.Tensor else ceiling(size, given))


def _may_be_empty(op: Any, x: Any, *args: Any, **kwargs: Any) -> bool:
    """Whether the axis that is taken apart has no elements at some sizes."""
    size = x.size(_LISTS[op](x, *args, **kwargs)[0])
    return 0 in (size.node.tracer.dims.live(size.node.values) if isinstance(size, SYMBOLIC) else (size,))
