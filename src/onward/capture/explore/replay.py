"""A program, run on traced tensors: every operator is recorded again, branches and loops with their bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..bodies.control_flow import capture_branch, capture_loop
from ..bodies.traced_list import TracedList
from ..frontends.script.lists import is_known_outside
from ..ground.source import at_source
from ..ground.tree import flatten
from ..memory.tensor import Traced
from ..program.facts import ListFact, TensorFact
from ..record.tracer import Tracer
from ..sizes.sizes import SYMBOLIC, computed, constant, symbol
from .items import (
    Branch,
    Calc,
    CannotExplore,
    Const,
    Counted,
    Decision,
    Exit,
    Flag,
    Item,
    Last,
    Loop,
    Op,
    OtherSize,
    Piece,
    Program,
    Ragged,
    Ref,
    SizeOf,
    Star,
    Turns,
    is_of_numbers,
)
from .recorder import ceiling, piece_bounds

aten = torch.ops.aten
Env = dict[Any, Any]


def replay(tracer: Tracer, program: Program, inputs: Sequence[Any], *, with_lists: bool = False) -> list[Any]:
    """The leaves of what the model returns. `with_lists` has loops leave tensors of different sizes, as lists."""
    run = _Replay(tracer, with_lists)
    env: Env = dict(zip(program.inputs, inputs, strict=True))
    run.items(program.items, env)
    return [run.value(each, env) for each in program.results]


class _Replay:
    def __init__(self, tracer: Tracer, with_lists: bool) -> None:
        self._tracer, self._with_lists = tracer, with_lists

    def items(self, items: Sequence[Item], env: Env) -> None:
        for item in items:
            scopes, at = self._tracer.scopes, item.at
            with scopes.inside(at.scope, at.call), at_source(at.source):
                self._item(item, env)

    def _item(self, item: Item, env: Env) -> None:
        if isinstance(item, Op):
            self._op(item, env)
        elif isinstance(item, Branch):
            self._branch(item, env)
        elif isinstance(item, Loop):
            self._loop(item, env)
        elif isinstance(item, Last):
            row = _row(env[item.stacked], item.index)
            env[item.out] = row.item() if ("number", item.stacked) in env else row
        elif isinstance(item, Exit):
            env["left", item.number] = self._as_tensor(self._truth(item.predicate, env, item.leaves))
        elif isinstance(item, Decision) and not item.is_idle and not item.of_turns:
            asked = self.value(item.predicate, env)
            answer = bool(asked) if isinstance(item.answer, bool) else type(item.answer)(asked)
            if answer != item.answer:
                where = f"{item.at.source}: {item.expression}"
                raise OtherSize(f"a question that is not kept gets another answer ({where})")

    # --- operators ---------------------------------------------------------------------------------------------------
    def _op(self, op: Op, env: Env) -> None:
        if op.pieces is not None:
            tensor, axis, each = piece_bounds(op)
            env[op.pieces] = (self.value(tensor, env), axis, self.value(each, env))
            return
        if is_of_numbers(op):
            results: list[Any] = [self._number(op.target, op.args, env)]
        else:
            results = flatten(self._call(op, env))[0]
        for name, result in zip(op.outs, results, strict=True):
            if name is not None and name not in env:
                env[name] = result

    def _call(self, op: Op, env: Env) -> Any:
        stars = [each for each in op.args[:1] for leaf in _list(each) if type(leaf) is Star]
        if stars:
            return self._join(op, env)
        args, kwargs = self.value(op.args, env), self.value(dict(op.kwargs), env)
        return op.target(*args, **kwargs)

    def _join(self, op: Op, env: Env) -> Any:
        """`torch.stack` or `torch.cat` of tensors of which some come from the turns of a loop, stacked."""
        lists = [env.get(leaf.stacked) for leaf in op.args[0] if type(leaf) is Star]
        if any(isinstance(each, TracedList) for each in lists):
            return self._join_list(op, env)
        parts: list[torch.Tensor] = []
        axis = op.args[1] if len(op.args) > 1 else op.kwargs.get("dim", 0)
        for leaf in op.args[0]:
            if type(leaf) is not Star:
                part = self.value(leaf, env)
                made, axis = _to_cat(op.target, part.unsqueeze(0), axis)
                parts.append(made.squeeze(0))
                continue
            rows = [env[name] for name in leaf.names]
            if rows[0] is None:  # no turn has made anything yet
                continue
            if len(rows) == 1 and isinstance(rows[0], tuple) and rows[0][2] is not None:
                parts.append(self._put_back(op, axis, leaf.backwards, rows[0]))
                continue
            if len(rows) == 1 and op.target is aten.stack.default:
                whole = self._rows(rows[0], leaf.depth)
                axis = axis % whole.dim()
                parts.append((whole.flip(0) if leaf.backwards else whole).movedim(0, axis))
                continue
            found = []
            for each in rows[::-1] if leaf.backwards else rows:
                made, axis = _to_cat(op.target, self._rows(each, leaf.depth), axis)
                found.append(made.flip(0) if leaf.backwards else made)
            each_turn = found[0] if len(found) == 1 else torch.cat(found, axis + 1)
            parts.append(each_turn.movedim(0, axis).flatten(axis, axis + 1))
        return parts[0].clone() if len(parts) == 1 else torch.cat(parts, axis)  # new memory, as the model makes it

    def _join_list(self, op: Op, env: Env) -> Any:
        """The same for tensors of different sizes, or for those that all turns before have made: a list gets them."""
        axis = op.args[1] if len(op.args) > 1 else op.kwargs.get("dim", 0)
        (place,) = [place for place, leaf in enumerate(op.args[0]) if type(leaf) is Star] or [0]
        star = op.args[0][place]
        if type(star) is not Star or star.backwards or star.more or star.depth > 1:
            raise CannotExplore("it puts tensors of different sizes together in another order than they were made")
        if op.target not in (*_CATS, aten.stack.default):
            raise CannotExplore(f"{op.target} takes tensors of different sizes")
        rows: TracedList = env[star.stacked]
        for index, leaf in enumerate(op.args[0]):
            if index != place:
                rows = rows.inserted(index if index < place else None, self.value(leaf, env))
        return rows.cat(axis) if op.target in _CATS else rows.stack(axis)

    def _rows(self, rows: Any, depth: int) -> torch.Tensor:
        """The tensors of a list along a first axis."""
        if not isinstance(rows, tuple):
            made: torch.Tensor = rows
            return made.flatten(0, depth - 1) if depth > 1 else made
        tensor, along, each = rows
        if each is not None:
            raise CannotExplore("it puts parts of a tensor together with what the turns of a loop have made")
        return tensor.movedim(along, 0)

    def _put_back(self, op: Op, axis: int, backwards: bool, rows: Any) -> torch.Tensor:
        """The parts that a tensor was split into, put together again."""
        tensor, along, each = rows
        if op.target not in _CATS or along % tensor.dim() != axis % tensor.dim():
            raise CannotExplore("it puts parts of a tensor together along another axis")
        if not backwards:
            whole: torch.Tensor = tensor
            return whole
        if type(each) is not int or each != 1:
            raise CannotExplore("it puts parts of a tensor together from the last to the first")
        return tensor.flip(along)

    def _number(self, function: Any, operands: Sequence[Any], env: Env) -> Any:
        values = [self.value(each, env) for each in operands]
        if function is ceiling or not any(isinstance(each, SYMBOLIC) for each in values):
            return function(*values)
        sizes = [each.node if isinstance(each, SYMBOLIC) else constant(self._tracer, each) for each in values]
        made = computed(function, *sizes)
        return made.values[0] if made.is_uniform else symbol(made)

    # --- values ------------------------------------------------------------------------------------------------------
    def value(self, template: Any, env: Env) -> Any:
        """A template with the values in it."""
        kind = type(template)
        if kind is Ref:
            if template.value not in env:
                raise CannotExplore("what one side of a branch has made is used on another way")
            return env[template.value]
        if kind is Const:
            return template.tensor
        if kind is SizeOf and isinstance(env.get(template.value), tuple):  # how many pieces there are
            tensor, axis, each = env[template.value]
            length = tensor.size(axis)
            return length if each is None else self._number(ceiling, (length, each), env)
        if kind is SizeOf and isinstance(env.get(template.value), TracedList):
            return env[template.value].length()
        if kind is SizeOf:
            return self.value(Ref(template.value), env).size(template.axis)
        if kind is Calc:
            return self._number(template.function, template.operands, env)
        if kind is Counted:
            return template.start + template.step * env["turn", template.loop]
        if kind is Turns:
            return template.start + template.step * env[template.name]
        if kind is Piece:
            return self._piece(template, env)
        if isinstance(template, tuple) and hasattr(template, "_fields"):
            return kind(*(self.value(each, env) for each in template))
        if isinstance(template, (list, tuple)):
            return kind(self.value(each, env) for each in template)
        if isinstance(template, dict):
            return {key: self.value(each, env) for key, each in template.items()}
        return template

    def _piece(self, piece: Piece, env: Env) -> Any:
        index = self.value(piece.index, env)
        if isinstance(env[piece.pieces], (torch.Tensor, TracedList)):  # what the turns of a loop have left
            return _row(env[piece.pieces], index)
        tensor, axis, each = env[piece.pieces]
        if type(each) is int and each == 1 and not (type(index) is int and self._may_be_empty(tensor.size(axis))):
            return tensor.select(axis, index).unsqueeze(axis)
        if each is None:
            return tensor.select(axis, index)
        if self._tracer.data_sizes.slices_fit:
            raise CannotExplore("the last part of a tensor may be shorter than the others")
        return aten.slice.Tensor(tensor, axis, index * each, (index + 1) * each)

    def _may_be_empty(self, size: Any) -> bool:
        return 0 in (size.node.live if isinstance(size, SYMBOLIC) else (size,))

    # --- control flow ------------------------------------------------------------------------------------------------
    def _truth(self, template: Any, env: Env, wanted: bool = True) -> Any:
        """A predicate as a tensor with one truth value, or as a number."""
        value = self.value(template, env)
        if isinstance(value, torch.Tensor):
            value = value.reshape(()) if value.dim() else value
            value = value if value.dtype is torch.bool else value != 0
            return value if wanted else value.logical_not()
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            value = value != 0
        if wanted:
            return value
        return torch.sym_not(value) if isinstance(value, SYMBOLIC) else not value

    def _branch(self, branch: Branch, env: Env) -> None:
        if type(branch.predicate) is Flag:
            flag = branch.predicate
            predicate = env["left", flag.name] if flag.is_inside else env[flag.name]
        else:
            predicate = self._truth(branch.predicate, env)
        exits = [*_exits(branch.yes.items), *_exits(branch.no.items)]
        if not isinstance(predicate, (torch.Tensor, *SYMBOLIC)):
            results = self._side(branch.yes if predicate else branch.no, env, exits)
        else:
            results = capture_branch(
                self._tracer,
                predicate,
                lambda: self._side(branch.yes, env, exits),
                lambda: self._side(branch.no, env, exits),
            )
        env.update(zip((*branch.outs, *(("left", number) for number in exits)), results, strict=True))

    def _side(self, block: Any, env: Env, exits: Sequence[int]) -> list[Any]:
        inner = {**env, **{("left", number): torch.tensor(False) for number in exits}}
        self.items(block.items, inner)
        return [*(self.value(each, inner) for each in block.results), *(inner["left", number] for number in exits)]

    def _as_tensor(self, truth: Any) -> torch.Tensor:
        return truth if isinstance(truth, torch.Tensor) else torch.scalar_tensor(truth, dtype=torch.bool)

    def _loop(self, loop: Loop, env: Env) -> None:
        limit = None if loop.count is None else self.value(loop.count, env) - loop.skipped
        condition = True if loop.condition is None else self._truth(loop.condition, env, loop.goes_on)
        start = [self.value(each, env) for each in loop.start]
        lists: dict[int, ListFact] = {}  # what the turns leave in different sizes, by its name

        def step(turn: Any, carried: Any) -> Any:
            inner = {**env, **dict(zip(loop.state, carried, strict=False)), ("turn", loop.number): turn}
            grown = dict(zip(lists, carried[len(carried) - len(lists) :], strict=True))
            inner.update((name, grown.get(name)) for name, _ in loop.pasts)
            self.items(loop.body, inner)
            going = True if loop.going is None else self._truth(loop.going, inner, loop.goes_on)
            nexts = [self.value(each, inner) for each in loop.nexts]
            left: list[torch.Tensor] = []  # at each exit, unless it was left at one before
            for number, _ in loop.flags:
                now = inner["left", number]
                for before in left:
                    now = now.logical_and(before.logical_not())
                left.append(now)
                going = now.logical_not() if going is True else self._as_tensor(going).logical_and(now.logical_not())
            counted = [] if loop.turns is None else [turn + 1]
            numbers.update(out for out, each in loop.stacked if not _is_tensor(self.value(each, inner)))
            slices, longer = [], []
            for name, each in loop.stacked:
                if name not in lists:
                    slices.append(self._slice(name, each, inner))
            for name, each in loop.pasts:
                if name not in lists:  # now it is known what is in it
                    raise self._as_list(name, self.value(each, inner))
            for name, known in grown.items():
                longer.append(known.inserted(None, self.value({**dict(loop.stacked), **dict(loop.pasts)}[name], inner)))
            return going, [*nexts, *left, *counted, *longer], slices

        numbers: set[int] = set()
        start += [torch.tensor(False) for _ in loop.flags]
        names = [*loop.outs, *(name for _, name in loop.flags)]
        if loop.turns is not None:
            start.append(0)
            names.append(loop.turns)
        while True:
            try:
                empty = [TracedList.empty(self._tracer, fact) for fact in lists.values()]
                ends, stacked = capture_loop(self._tracer, limit, condition, [*start, *empty], step)
                break
            except _DifferentSizes as error:
                lists[error.name] = error.fact
        env.update(zip([*names, *lists], ends, strict=True))
        even = [out for out, _ in loop.stacked if out not in lists]
        env.update(zip(even, stacked, strict=True))
        env.update((("number", out), True) for out in numbers)

    def _slice(self, name: int, template: Any, env: Env) -> torch.Tensor:
        """What a turn leaves, which must have one size in all turns."""
        value = self.value(template, env)
        if not isinstance(value, torch.Tensor):
            return torch.scalar_tensor(value, dtype=_dtype_of(value))
        outside = self._tracer.levels[:-1]
        if isinstance(value, Traced) and not is_known_outside(self._tracer, outside, value.fact):
            if not self._with_lists:
                raise Ragged("what its turns leave has another size in every turn")
            raise self._as_list(name, value)
        return value

    def _as_list(self, name: int, value: Any) -> Exception:
        """What the turns of a loop make is to be a list: of tensors of this dtype, with as many axes."""
        if not isinstance(value, Traced):
            return CannotExplore("it keeps a list of plain values")
        outside, fact = self._tracer.levels[:-1], value.fact
        known = (is_known_outside(self._tracer, outside, TensorFact(fact.dtype, (dim,))) for dim in fact.shape)
        shape = (dim if is_known else None for dim, is_known in zip(fact.shape, known, strict=True))
        return _DifferentSizes(name, ListFact(fact.dtype, tuple(shape)))


class _DifferentSizes(Exception):
    """What the turns of a loop leave has another size in every turn: it has to be a list."""

    def __init__(self, name: int, fact: ListFact) -> None:
        super().__init__(name)
        self.name, self.fact = name, fact


def _row(rows: torch.Tensor | TracedList, index: Any) -> Any:
    """One of the tensors that the turns of a loop have left."""
    return rows.get(index) if isinstance(rows, TracedList) else rows.select(0, index)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _dtype_of(number: Any) -> torch.dtype:
    """What holds every number of a kind."""
    if isinstance(number, (bool, torch.SymBool)):
        return torch.bool
    return torch.int64 if isinstance(number, (int, torch.SymInt)) else torch.float64


def _exits(items: Sequence[Item]) -> list[int]:
    """The exits of a loop that stand among items, those of inner loops left out."""
    found: list[int] = []
    for item in items:
        if isinstance(item, Exit):
            found.append(item.number)
        elif isinstance(item, Branch):
            found += [*_exits(item.yes.items), *_exits(item.no.items)]
    return found


_CATS = (aten.cat.default, aten.concat.default)


def _to_cat(op: Any, rows: torch.Tensor, axis: int) -> tuple[torch.Tensor, int]:
    """Tensors along a first axis as `torch.cat` takes them to do what an operator does, and the axis it takes then."""
    rank = rows.dim() - 1
    if op is aten.stack.default:
        axis = axis % (rank + 1)
        return rows.unsqueeze(axis + 1), axis
    if op is aten.vstack.default:
        return (rows.reshape(rows.shape[0], 1, -1) if rank < 2 else rows), 0
    if op is aten.hstack.default:
        return (rows.unsqueeze(1) if not rank else rows), 0 if rank < 2 else 1
    return rows, axis % rank


def _list(template: Any) -> list[Any]:
    return template if isinstance(template, list) else []
