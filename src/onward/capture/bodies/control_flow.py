"""Branches and loops, captured with both sides and with their body.

A side or a body is traced into a graph of its own (`graph_levels.py`); `regions.py` says what is recorded. Python runs
every side and every body once, on the example. At the other probes, a branch returns what its sides agree on, and fresh
sizes where they do not agree. A loop's body is traced until what it is given and what it gives back have one form.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import CaptureError
from ..ground.tree import Structure, flatten
from ..memory.graph_levels import Level
from ..memory.tensor import Traced, computed
from ..program.facts import Dim, ListFact, SizeFact, TensorFact
from ..program.regions import FOREVER, Body, branch, dtype_of, loop
from ..sizes.sizes import SYMBOLIC, NumberOf, Size, symbol
from .carried_memory import CarriedMemory, note_origins, origins_of
from .sides import Leaf, Side
from .traced_list import ListTrace, TracedList

aten = torch.ops.aten
NUMBERS = (bool, int, float, *SYMBOLIC)
_ATTEMPTS = 6  # a body's carried values settle in two or three


class BodyTrace(ListTrace, Protocol):
    """What branches and loops need of their trace."""

    nested: bool  # whether there was any body
    untaken: int  # how many sides of branches are being traced, inside of each other, that are not the example's

    def write(self, target: Traced, result: Any, op: str) -> None:
        """Make `result` the new content of `target`."""

    def model_again(self) -> AbstractContextManager[Any]:
        """Ops inside are the model's own."""


# --- branches --------------------------------------------------------------------------------------------------------
def capture_branch(tracer: BodyTrace, predicate: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """`yes() if predicate else no()`, with both kept. The predicate is a traced tensor with one element or a number."""
    with _disable_current_modes():
        return _capture_branch(tracer, predicate, yes, no)


def _capture_branch(tracer: BodyTrace, predicate: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    taken = bool(predicate.example) if isinstance(predicate, Traced) else bool(predicate.node.values[0])
    answers = None if isinstance(predicate, Traced) or predicate.node.from_data else predicate.node.values
    sides = []
    for function, answer in ((yes, True), (no, False)):
        tracer.untaken += answer is not taken
        try:
            sides.append(_trace_side(tracer, functools.partial(_with_mode, tracer, function)))
        finally:
            tracer.untaken -= answer is not taken
    tracer.dims.refuse(_refused(sides, answers))
    if sides[0].structure.paths != sides[1].structure.paths:
        raise _cannot(tracer, "the two branches return different structures", "return the same structure from both")
    bases = {key: base for side in sides for key, (base, _, _) in side.writes.items()}
    constants, pairs = {}, []
    for place, pair in enumerate(zip(sides[0].leaves, sides[1].leaves, strict=True)):
        if all(not isinstance(each, (_Tensor, *NUMBERS)) for each in pair) or _same_number(*pair):
            if pair[0] != pair[1]:
                raise _cannot(
                    tracer,
                    f"the two branches return {pair[0]!r} and {pair[1]!r}",
                    "return tensors or numbers from both",
                )
            constants[place] = pair[0]
        else:
            pairs.append(pair)
    results = [[_as_result(tracer, side, pair[i]) for pair in pairs] for i, side in enumerate(sides)]
    for i, side in enumerate(sides):
        results[i] += [_written(tracer, side, key, base) for key, base in bases.items()]
    bodies = [_close(side, [node for node, _ in given]) for side, given in zip(sides, results, strict=True)]
    leaves = [
        _merged(tracer, first, second, taken, answers)
        for (_, first), (_, second) in zip(results[0], results[1], strict=True)
    ]
    condition = tracer.node_of(predicate) if isinstance(predicate, Traced) else tracer.size_node(predicate.node)
    args = (condition, bodies[0], sides[0].level.operands, bodies[1], sides[1].level.operands)
    made = results_of(tracer, branch, args, leaves)
    _put_writes(tracer, list(bases.values()), made[len(pairs) :], *sides)
    for value, pair in zip(made, pairs, strict=False):
        for leaf in (each[1] for each in pair if isinstance(each, _Tensor)):
            note_origins(value, origins_of(leaf))
    rest = iter(made[: len(pairs)])
    return sides[0].structure.unflatten(
        [constants[place] if place in constants else next(rest) for place in range(len(sides[0].leaves))]
    )


def _refused(sides: Sequence[Side], answers: Sequence[Any] | None) -> set[int]:
    """The points at which a branch cannot run: those that both sides refuse, or the side that sizes alone choose."""
    yes, no = (side.refused for side in sides)
    if answers is None:
        return yes & no
    return {place for place in yes if answers[place]} | {place for place in no if not answers[place]}


def _merged(tracer: BodyTrace, first: Leaf, second: Leaf, taken: bool, answers: Sequence[Any] | None) -> Leaf:
    """What is known of a value that comes from either side; `answers` say from which, where sizes alone decide."""
    chosen = first if taken else second
    if isinstance(first.fact, SizeFact) or isinstance(second.fact, SizeFact):
        if type(first.fact) is not type(second.fact) or dtype_of(first.fact) is not dtype_of(second.fact):
            raise _cannot(
                tracer,
                "the two branches return numbers of different kinds, or a number and a tensor: "
                f"{_text(_tensor_fact(first.fact))} and {_text(_tensor_fact(second.fact))}",
                "return numbers of one kind from both",
            )
        return chosen
    if isinstance(first.fact, ListFact) or isinstance(second.fact, ListFact):
        return Leaf(_joined(tracer, first.fact, second.fact, "the two branches return"), chosen.example)
    if first.fact.dtype is not second.fact.dtype or first.fact.rank != second.fact.rank:
        raise _cannot(
            tracer,
            f"the two branches return tensors of different kinds, {_text(first.fact)} and {_text(second.fact)}",
            "return tensors of one dtype and one number of axes from both",
        )
    sizes = chosen.example.size()
    shape = tuple(
        a if a == b else _either(tracer, sizes[axis], a, b, answers)
        for axis, (a, b) in enumerate(zip(first.fact.shape, second.fact.shape, strict=True))
    )
    return Leaf(TensorFact(first.fact.dtype, shape), chosen.example)


def _either(tracer: BodyTrace, example: int, first: Dim, second: Dim, answers: Sequence[Any] | None) -> Dim:
    """A dimension that is one or the other: at every probe and point, that of the side which is taken there."""
    dims = tracer.dims
    if answers is None or any(not isinstance(each, int) and dims.is_of_data(each.values) for each in (first, second)):
        return _fresh(tracer, example, "either")
    one, other = ((each,) * dims.width if isinstance(each, int) else each.values for each in (first, second))
    return dims.dim(tuple(a if answer else b for answer, a, b in zip(answers, one, other, strict=True)))


def _joined(tracer: BodyTrace, first: Any, second: Any, what: str) -> ListFact:
    """What is known of a list that is one or the other."""
    if type(first) is not type(second) or first.dtype is not second.dtype or first.rank != second.rank:
        raise _cannot(
            tracer,
            f"{what} {_text(first)} and {_text(second)}",
            "keep tensors of one dtype and one number of axes in a list",
        )
    return first.joined(second)


# --- loops -----------------------------------------------------------------------------------------------------------
Step = Callable[[Any, Any], tuple[Any, Any, Sequence[torch.Tensor]]]


def capture_loop(
    tracer: BodyTrace, limit: Any, condition: Any, carried: Any, step: Step, *, watched: bool = False
) -> tuple[Any, list[Traced]]:
    """A loop: `step(turn, carried) -> (go on, carried, slices)`, while the condition holds, at most `limit` times.

    Returns the carried values after the last turn and every slice stacked over the turns. `carried` is any structure of
    tensors and numbers, `limit` a number or None, the condition a tensor, a number, or True. The caller says whether it
    watches by itself that nobody writes to the slices.
    """
    with _disable_current_modes():
        return _capture_loop(tracer, limit, condition, carried, step, watched)


def _capture_loop(
    tracer: BodyTrace, limit: Any, condition: Any, carried: Any, step: Step, watched: bool
) -> tuple[Any, list[Traced]]:
    given, structure = flatten(carried)
    initial = [_leaf(tracer, each) for each in given]
    inputs = [leaf for _, leaf in initial]
    written: list[Traced] = []
    free, memory = Free(), CarriedMemory([leaf for _, leaf in initial])
    for _ in range(_ATTEMPTS):
        side, outputs = _trace_turn(tracer, limit, structure, inputs, written, memory, step)
        if condition is True and isinstance(limit, torch.SymInt) and not limit.node.from_data:
            tracer.dims.refuse({place for place in side.refused if limit.node.values[place] > 0})
        elif condition is True and isinstance(limit, int) and limit > 0:
            tracer.dims.refuse(side.refused)
        again = _widen(tracer, inputs, outputs[1 : 1 + len(inputs)], free)
        again = memory.grows(tracer, [leaf for _, leaf in outputs[1 : 1 + len(given)]]) or again
        more = [base for base, _, _ in side.writes.values() if all(base is not each for each in written)]
        if not again and not more:
            break
        written += more
        inputs += [_leaf(tracer, base)[1] for base in more]
        initial += [_leaf(tracer, base) for base in more]
    else:
        raise _cannot(tracer, "the loop's carried values never take the same form twice", "carry tensors of one shape")
    body = _close(side, [node for node, _ in outputs], inputs=1 + len(inputs))
    limit_node, limit_now = _number(tracer, FOREVER if limit is None else limit)
    condition_node, condition_now = _number(tracer, condition)
    operands = side.level.operands
    examples = _examples(tracer, side.level)
    with torch.no_grad():
        ends = loop(limit_now, condition_now, [leaf.example for _, leaf in initial], body, examples)
    leaves = []
    for place, (leaf, end) in enumerate(zip(inputs, ends, strict=False)):
        leaves.append(_after(tracer, leaf, end, {axis: key for (which, axis), key in free.items() if which == place}))
    turns = limit if condition is True and _goes_on(outputs[0]) else None
    stacked_by = object()  # all slices of one loop are as many
    for (_, leaf), end in zip(outputs[1 + len(inputs) :], ends[len(inputs) :], strict=True):
        assert isinstance(leaf.fact, TensorFact)
        leaves.append(
            Leaf(TensorFact(leaf.fact.dtype, (_turns(tracer, turns, end, stacked_by), *leaf.fact.shape)), end)
        )
    args = (limit_node, condition_node, [node for node, _ in initial], body, operands)
    made = results_of(tracer, loop, args, leaves)
    count = len(given)
    _put_writes(tracer, written, made[count : len(inputs)], side)
    surely = condition is True and _is_positive(tracer, limit)
    for value, (_, before), (_, leaf) in zip(made[:count], initial, outputs[1:], strict=False):
        note_origins(value, origins_of(leaf) if surely else {*origins_of(before), *origins_of(leaf)})
    if not watched:
        memory.note_slices(tracer, side, made[len(inputs) :], [leaf for _, leaf in outputs[1:]], len(inputs))
    return structure.unflatten(made[:count]), made[len(inputs) :]


def _trace_turn(
    tracer: BodyTrace,
    limit: Any,
    structure: Structure,
    inputs: list[Leaf],
    written: list[Traced],
    memory: CarriedMemory,
    step: Step,
) -> tuple[Side, list[tuple[fx.Node, Leaf]]]:
    """Trace a body once. Memory from outside that it writes to is carried after the model's own values."""
    count = len(inputs) - len(written)

    def body() -> Any:
        turn = _turn(tracer, limit)
        values = [_input(tracer, f"carried_{place}", leaf) for place, leaf in enumerate(inputs)]
        for base, value in zip(written, values[count:], strict=True):
            tracer.write(base, value, "loop")
        memory.enter(values[:count])
        with tracer.model_again():
            going, results, slices = step(turn, structure.unflatten(values[:count]))
        leaves, form = flatten(results)
        if form.paths != structure.paths:
            raise _cannot(
                tracer, "the loop's body returns another structure than it is given", "carry the same values on"
            )
        return [going, *leaves, *slices]

    side = _trace_side(tracer, body)
    found = [_as_result(tracer, side, leaf) for leaf in side.leaves]
    kept = [_written(tracer, side, id(base), base) for base in written]
    return side, [*found[: 1 + count], *kept, *found[1 + count :]]


def _is_positive(tracer: BodyTrace, number: Any) -> bool:
    if isinstance(number, torch.SymInt) and not number.node.from_data:
        return all(each > 0 for each in tracer.dims.live(number.node.values))
    return type(number) is int and number > 0


class Free(dict[tuple[int, int], tuple[Any, ...]]):
    """The axes whose size changes from turn to turn: by carried value and axis, a key that equal sizes share."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = object()


def _widen(tracer: BodyTrace, inputs: list[Leaf], outputs: list[tuple[fx.Node, Leaf]], free: Free) -> bool:
    """Free the axes of carried tensors that a turn changes; whether any were.

    Axes that begin alike and are alike after a turn are taken for one size, until a turn makes them differ.
    """
    changed = _untie(tracer, inputs, outputs, free)
    for place, (before, (_, after)) in enumerate(zip(inputs, outputs, strict=True)):
        if isinstance(before.fact, SizeFact) or isinstance(after.fact, SizeFact):
            if dtype_of(before.fact) is not dtype_of(after.fact):
                raise _cannot(
                    tracer,
                    f"the loop turns a carried {dtype_of(before.fact)} into a {dtype_of(after.fact)}",
                    "convert it before the loop",
                )
            continue
        if isinstance(before.fact, ListFact) or isinstance(after.fact, ListFact):
            fact = _joined(tracer, before.fact, after.fact, "the loop carries")
            changed = changed or fact != before.fact
            inputs[place] = Leaf(fact, before.example)
            continue
        if before.fact.dtype is not after.fact.dtype or before.fact.rank != after.fact.rank:
            raise _cannot(
                tracer,
                f"the loop turns a carried tensor {_text(before.fact)} into {_text(after.fact)}",
                "give it its dtype and its number of axes before the loop",
            )
        shape = list(before.fact.shape)
        for axis, (a, b) in enumerate(zip(before.fact.shape, after.fact.shape, strict=True)):
            if a != b and (place, axis) not in free:
                free[place, axis] = key = (free.loop, a, b)
                shape[axis] = _fresh(tracer, before.example.size(axis), "carried", key)
                changed = True
        inputs[place] = Leaf(TensorFact(before.fact.dtype, tuple(shape)), before.example)
    return changed


def _untie(tracer: BodyTrace, inputs: list[Leaf], outputs: list[tuple[fx.Node, Leaf]], free: Free) -> bool:
    """Give axes that were taken for one size, and are not one after a turn, sizes of their own; whether any were."""
    given: dict[tuple[int, int], Dim] = {}
    for place, axis in free:
        fact = outputs[place][1].fact
        assert isinstance(fact, TensorFact)
        given[place, axis] = fact.shape[axis]
    parted = [where for where, key in free.items() if len({given[each] for each in free if free[each] == key}) > 1]
    for place, axis in parted:
        free[place, axis] = key = (free.loop, free[place, axis], given[place, axis])
        fact, example = inputs[place].fact, inputs[place].example
        assert isinstance(fact, TensorFact)
        shape = list(fact.shape)
        shape[axis] = _fresh(tracer, example.size(axis), "carried", key)
        inputs[place] = Leaf(TensorFact(fact.dtype, tuple(shape)), example)
    return bool(parted)


def _after(tracer: BodyTrace, leaf: Leaf, end: Any, free: dict[int, tuple[Any, ...]]) -> Leaf:
    """A carried value after the last turn."""
    if isinstance(leaf.fact, SizeFact):
        return Leaf(leaf.fact, end.item() if isinstance(end, torch.Tensor) else end)
    if isinstance(leaf.fact, ListFact):
        return Leaf(leaf.fact, end)
    shape = tuple(
        _fresh(tracer, end.size(axis), "carried", ("after", end.size(axis), *free[axis])) if axis in free else dim
        for axis, dim in enumerate(leaf.fact.shape)
    )
    return Leaf(TensorFact(leaf.fact.dtype, shape), end)


def _turns(tracer: BodyTrace, limit: Any, end: torch.Tensor, key: Any) -> Dim:
    """The axis over which slices are stacked."""
    if type(limit) is int:
        return limit
    if isinstance(limit, torch.SymInt) and not limit.node.from_data:
        return tracer.dims.dim(limit.node.values)
    return _fresh(tracer, end.size(0), "turns", ("turns", key))


def _goes_on(condition: tuple[fx.Node, Leaf]) -> bool:
    """Whether a body always says to go on."""
    node = condition[0]
    return node.target is aten.scalar_tensor.default and node.args[0] is True


# --- bodies ----------------------------------------------------------------------------------------------------------
class _Tensor(tuple):
    """A tensor, or a list of them, among a body's results: (node, Leaf)."""

    __slots__ = ()


def _with_mode(tracer: BodyTrace, function: Callable[[], Any]) -> Any:
    """The model's own code sees the tracer in every op; ours does not."""
    with tracer.model_again():
        return function()


def _trace_side(tracer: BodyTrace, function: Callable[[], Any]) -> Side:
    level = Level(fx.Graph())
    tracer.levels.append(level)
    tracer.nested = True
    tracer.dims.enter_body()
    try:
        leaves, structure = flatten(function())
        found: list[Any] = []
        for leaf in leaves:
            leaf = tracer.plain.stand_in(leaf)
            if isinstance(leaf, torch.Tensor):
                traced = leaf if isinstance(leaf, Traced) else tracer.plain.lift(leaf)
                node = tracer.here(tracer.node_of(traced))
                found.append(_Tensor((node, Leaf(traced.fact, traced.example.clone(), traced.cell))))
            elif isinstance(leaf, TracedList):
                found.append(_Tensor((tracer.here(leaf.node), Leaf(leaf.fact, leaf.example))))
            else:
                found.append(leaf)
        writes = {id(base): (base, tracer.here(tracer.node_of(base)), base.example.clone()) for base in level.written}
        doubts = level.doubted
    finally:
        tracer.levels.pop()
        level.undo()
        refused = tracer.dims.leave_body()
    return Side(level, found, structure, writes, refused, doubts)


def _close(side: Side, nodes: list[fx.Node], inputs: int = 0) -> Body:
    """Finish a body's graph: only what its results need stays."""
    graph = side.level.graph
    graph.output(tuple(nodes))
    for node in reversed(graph.nodes):
        if not node.users and node.op == "call_function":
            graph.erase_node(node)
    return Body(graph, inputs)


def _as_result(tracer: BodyTrace, side: Side, leaf: Any) -> tuple[fx.Node, Leaf]:
    """A result of a body as a node of its graph; numbers become tensors without axes."""
    if isinstance(leaf, _Tensor):
        return leaf
    if not isinstance(leaf, NUMBERS):
        raise _cannot(tracer, f"a branch or a loop returns {leaf!r}", "return tensors and numbers")
    tracer.levels.append(side.level)
    try:
        values = leaf.node.values if isinstance(leaf, SYMBOLIC) else (leaf,) * tracer.dims.width
        fact = SizeFact(values)
        number = tracer.size_node(leaf.node) if isinstance(leaf, SYMBOLIC) else leaf
        node = tracer.create(aten.scalar_tensor.default, (number,), {"dtype": dtype_of(fact)})
        node.meta.update(val=TensorFact(dtype_of(fact), ()), scope=tracer.scopes.current, source=None)
    finally:
        tracer.levels.pop()
    return node, Leaf(fact, values[0])


def _written(tracer: BodyTrace, side: Side, key: int, base: Traced) -> tuple[fx.Node, Leaf]:
    """The content of memory from outside at the end of a body, changed or not."""
    if key in side.writes:
        _, node, example = side.writes[key]
        return node, Leaf(base.fact, example)
    tracer.levels.append(side.level)
    try:
        return tracer.here(tracer.node_of(base)), Leaf(base.fact, base.example.clone())
    finally:
        tracer.levels.pop()


def _put_writes(tracer: BodyTrace, bases: Sequence[Traced], contents: Sequence[Any], *sides: Side) -> None:
    for base, content in zip(bases, contents, strict=True):
        tracer.write(base, content, "branch")
    for cell, where in (each for side in sides for each in side.doubts):
        tracer.levels[-1].doubt(cell, where)


def results_of(tracer: BodyTrace, operation: Any, args: tuple, leaves: list[Leaf]) -> list[Any]:
    """Record the operation; its results as tensors and numbers."""
    node = tracer.make(operation, args, {}, tuple(_tensor_fact(leaf.fact) for leaf in leaves))
    made: list[Any] = []
    for place, leaf in enumerate(leaves):
        picked = tracer.make(operator.getitem, (node, place), {}, _tensor_fact(leaf.fact))
        if isinstance(leaf.fact, SizeFact):
            made.append(tracer.number(tracer.make(aten.item.default, (picked,), {}, leaf.fact), leaf.example))
        else:
            made.append(_value(tracer, picked, leaf))
    return made


def _value(tracer: BodyTrace, node: fx.Node, leaf: Leaf) -> Traced | TracedList:
    if isinstance(leaf.fact, ListFact):
        return TracedList(tracer, node, leaf.fact, leaf.example)
    assert isinstance(leaf.fact, TensorFact)
    return computed(tracer, node, leaf.fact, leaf.example)


def _input(tracer: BodyTrace, name: str, leaf: Leaf) -> Any:
    """An input of the body that is being traced."""
    node = tracer.levels[-1].placeholder(name, leaf.fact)
    if isinstance(leaf.fact, SizeFact):
        values = leaf.fact.values
        if leaf.fact.kind is int:
            values = (leaf.example, *tracer.data_sizes.numbers(leaf.example))
            node.meta["val"] = SizeFact(values)
        return symbol(Size(tracer, values, NumberOf(node)))
    return _value(tracer, node, leaf)


def _turn(tracer: BodyTrace, limit: Any) -> Any:
    """The number of the turn, an input of the body that is being traced."""
    data_sizes = tracer.data_sizes
    if isinstance(limit, torch.SymInt) and not limit.node.from_data:
        values = (0, *data_sizes.turn_numbers(0, limit.node.values))
    else:
        values = (0, *data_sizes.numbers(0))
    node = tracer.levels[-1].placeholder("turn", SizeFact(values))
    return symbol(Size(tracer, values, NumberOf(node)))


def _leaf(tracer: BodyTrace, value: Any) -> tuple[Any, Leaf]:
    """A value outside: its node and what is known of it."""
    value = tracer.plain.stand_in(value)
    if isinstance(value, torch.Tensor):
        traced = value if isinstance(value, Traced) else tracer.plain.lift(value)
        return tracer.node_of(traced), Leaf(traced.fact, traced.example.clone(), traced.cell)
    if isinstance(value, NUMBERS):
        node, now = _number(tracer, value)
        values = value.node.values if isinstance(value, SYMBOLIC) else (value,) * tracer.dims.width
        return node, Leaf(SizeFact(values), now)
    if isinstance(value, TracedList):
        return value.node, Leaf(value.fact, value.example)
    raise _cannot(tracer, f"a loop carries {value!r}", "carry tensors and numbers")


def _number(tracer: BodyTrace, value: Any) -> tuple[Any, Any]:
    """A limit, a condition or a carried number: as an argument of a node, and for the example."""
    if isinstance(value, Traced):
        return tracer.node_of(value), value.example
    if isinstance(value, SYMBOLIC):
        return tracer.size_node(value.node), value.node.values[0]
    return value, value


def _examples(tracer: BodyTrace, level: Level) -> list[Any]:
    """What a body takes from outside, for the example."""
    found: list[Any] = []
    for origin in level.origins:
        fact = origin.meta["val"]
        if origin.op == "get_attr":
            found.append(tracer.plain.constants[str(origin.target)].tensor)
        else:
            found.append(fact.values[0] if isinstance(fact, SizeFact) else _copied(level.examples[origin]))
    return found


def _copied(example: torch.Tensor | Sequence[torch.Tensor]) -> Any:
    return example.clone() if isinstance(example, torch.Tensor) else example


def _fresh(tracer: BodyTrace, example: int, stem: str, key: Any = None) -> Dim:
    return tracer.dims.at_probes((example, *tracer.data_sizes.fresh(key or object(), example, stem)))


def _tensor_fact(fact: TensorFact | SizeFact | ListFact) -> TensorFact | ListFact:
    return TensorFact(dtype_of(fact), ()) if isinstance(fact, SizeFact) else fact


def _same_number(first: Any, second: Any) -> bool:
    plain = (bool, int, float)
    return isinstance(first, plain) and type(first) is type(second) and first == second


def _text(fact: TensorFact | ListFact) -> str:
    sizes = ", ".join("?" if dim is None else str(dim) for dim in fact.shape)
    text = f"{str(fact.dtype).removeprefix('torch.')}[{sizes}]"
    return f"a list of {text}" if isinstance(fact, ListFact) else text


def _cannot(tracer: BodyTrace, what: str, hint: str) -> CaptureError:
    return CaptureError(what, source=tracer.where(), module=tracer.scopes.path or None, hint=hint)
