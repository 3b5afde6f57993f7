"""Sizes that remember where they come from.

`x.shape[0]` on a traced tensor is a `torch.SymInt` around a `Size`: one value per probe, and the expression that made
them. PyTorch's SymInt only asks its node for a handful of methods by name, so a small class of our own serves; no
symbolic algebra is involved. Python code that needs a plain number (`int(s)`, `range(s)`, `if s > 4`) asks the node to
commit. That is the moment at which a dynamic axis would be baked into the graph, and the moment at which we notice.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, Protocol

import torch
from torch import fx

from ..ground.source import is_our_text, user_source, writing_line
from .arithmetic import applied, explodes, is_astray, made_to_fit
from .code_checks import is_shown_at
from .dims import DimTable

Number = int | float | bool


class AxisOf:
    """Origin of a size: axis `axis` of the tensor computed by `node`."""

    __slots__ = ("axis", "node")

    def __init__(self, node: fx.Node, axis: int) -> None:
        self.node, self.axis = node, axis


class Computed:
    """Origin of a size: `function` applied to other sizes and numbers."""

    __slots__ = ("function", "operands")

    def __init__(self, function: Callable[..., Any], operands: tuple[Size, ...]) -> None:
        self.function, self.operands = function, operands


class NumberOf:
    """Origin of a number: read from a tensor, or handed to a body of control flow. It depends on data."""

    __slots__ = ("node",)

    def __init__(self, node: fx.Node) -> None:
        self.node = node


class HeldBy(NumberOf):
    """Origin of a number: read from a tensor that depends on sizes alone (`size_tensors.py`)."""

    __slots__ = ()


class MemoryOf:
    """Origin of a number: how a tensor lies in memory (`memory_questions.py`). It has no form in the graph."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


Origin = AxisOf | Computed | NumberOf | MemoryOf


class SizeDecisions(Protocol):
    """What a size asks where Python wants more of it than its formula."""

    def commit(self, size: Size) -> Any:
        """The plain number that Python goes on with."""

    def offer(self, size: Size) -> None:
        """Python has a number, and may use it as a plain one."""

    def is_settled(self, size: Size) -> bool:
        """Whether a size is one plain number at all probes and points."""

    def axes_of(self, size: Size) -> frozenset[str]:
        """The input axes that a size follows."""

    def note_key(self, size: Size, frame: FrameType) -> None:
        """The code of this frame asks a size for its hash."""

    def is_key_lookup(self, frame: FrameType) -> bool:
        """Whether the frame compares keys of a table."""


class SizeRecorder(Protocol):
    """What a size asks of a run that is explored."""

    @property
    def is_off(self) -> bool:
        """Whether what happens is no part of the run."""

    @property
    def is_astray(self) -> bool:
        """Whether the run is on a way that the example does not take."""

    @property
    def is_on_one_way(self) -> bool:
        """Whether sizes may be related otherwise on other ways."""

    def number(self, size: Size) -> None:
        """The model computes a number."""

    def commit(self, size: Size) -> Any:
        """Python asks for a plain number."""


class FailedNumbers(Protocol):
    """What is told of arithmetic that fails."""

    def number_failed(self, error: Exception, failing: set[int]) -> None:
        """Python's arithmetic fails at these probes and points."""


class SizeTrace(Protocol):
    """What a size needs of the trace that it belongs to."""

    @property
    def dims(self) -> DimTable: ...

    @property
    def probes(self) -> int: ...

    @property
    def decisions(self) -> SizeDecisions: ...

    @property
    def recorder(self) -> SizeRecorder | None: ...

    @property
    def other_sizes(self) -> FailedNumbers: ...

    @property
    def untaken(self) -> int:
        """How many sides of branches are being traced that are not the example's."""


class Size:
    """What `torch.SymInt`, `SymFloat` and `SymBool` wrap while a model is traced."""

    __slots__ = ("from_data", "origin", "tracer", "values")

    def __init__(self, tracer: SizeTrace, values: tuple[Any, ...], origin: Origin | None) -> None:
        self.tracer, self.values, self.origin = tracer, values, origin
        self.from_data: bool = type(origin) is NumberOf or (
            isinstance(origin, Computed) and any(each.from_data for each in origin.operands)
        )

    @property
    def is_uniform(self) -> bool:
        """All probes and points agree, so the number depends on no dynamic axis; on data it may depend even so."""
        return not self.from_data and self.tracer.dims.is_one(self.values)

    @property
    def is_settled_at_probes(self) -> bool:
        """All probes agree, whatever the points say."""
        probes = self.tracer.probes
        return not self.from_data and self.values[:probes].count(self.values[0]) == probes

    @property
    def at_probes(self) -> tuple[Any, ...]:
        """The values at the probes, without those at the points."""
        return self.values[: self.tracer.probes]

    @property
    def live(self) -> tuple[Any, ...]:
        """The values with the example's in place of those at dead points."""
        return self.tracer.dims.live(self.values)

    def commit(self) -> Any:
        """Python wants a plain number, and gets the example's."""
        return self.tracer.decisions.commit(self)

    def offer(self) -> None:
        """Python has the number, and may use it as a plain one."""
        self.tracer.decisions.offer(self)

    @property
    def axes(self) -> frozenset[str]:
        """The input axes that the number follows."""
        return self.tracer.decisions.axes_of(self)

    def note_key(self, frame: FrameType) -> None:
        """The code of this frame asks for a hash of the number."""
        self.tracer.decisions.note_key(self, frame)

    def is_key_lookup(self, frame: FrameType) -> bool:
        """Whether the frame compares keys of a table."""
        return self.tracer.decisions.is_key_lookup(frame)

    def at(self, sizes: Mapping[str, int]) -> Number | None:
        """The number at other sizes of the axes; None where a kernel made it and the formula is not known."""
        return evaluator(self)(sizes)

    # --- what kind of number this is -------------------------------------------------------------------------------
    def is_int(self) -> bool:
        return type(self.values[0]) is int

    def is_float(self) -> bool:
        return type(self.values[0]) is float

    def is_bool(self) -> bool:
        return type(self.values[0]) is bool

    def is_symbolic(self) -> bool:
        return True

    def is_constant(self) -> bool:
        return False

    def is_nested_int(self) -> bool:
        return False

    def has_hint(self) -> bool:
        return True

    def maybe_as_int(self) -> int | None:
        return self.values[0] if self.is_int() and self.tracer.decisions.is_settled(self) else None

    def maybe_as_float(self) -> float | None:
        return self.values[0] if self.is_float() and self.tracer.decisions.is_settled(self) else None

    def maybe_as_bool(self) -> bool | None:
        return self.values[0] if self.is_bool() and self.tracer.decisions.is_settled(self) else None

    def nested_int(self) -> int | None:
        return None

    def clone(self) -> Size:
        return self

    def __str__(self) -> str:
        return self.tracer.dims.describe(self.values)

    def _graph_repr(self) -> str:
        """Python writes the number: into a message, or into the name of something that it looks for."""
        # By us, by the model, or by a library that it calls.
        shown = is_our_text(__file__) or is_shown_at(user_source()) or is_shown_at(writing_line())
        return repr(self.values[0]) if shown else SizeText.of(self)

    def hash(self) -> int:
        return hash(self.values)

    # --- numbers entering an expression ----------------------------------------------------------------------------
    def wrap_int(self, number: Number) -> Size:
        return constant(self.tracer, number)

    wrap_float = wrap_bool = wrap_int

    # --- Python asks for a plain number ----------------------------------------------------------------------------
    def guard_int(self, file: str, line: int) -> int:
        return int(self.tracer.decisions.commit(self))

    def guard_float(self, file: str, line: int) -> float:
        return float(self.tracer.decisions.commit(self))

    def guard_bool(self, file: str, line: int) -> bool:
        return bool(self.tracer.decisions.commit(self))

    def int_(self) -> int:
        return int(self.tracer.decisions.commit(self))

    def float_(self) -> float:
        return float(self.tracer.decisions.commit(self))

    def bool_(self) -> bool:
        return bool(self.tracer.decisions.commit(self))

    # C++ kernels assert facts on sizes; these are not decisions of the model's. Where the probes disagree the answer
    # is the one for a size that is neither 0 nor 1: the last probe never is, whatever the example.
    def guard_size_oblivious(self, file: str, line: int) -> bool:
        return bool(self.values[self.tracer.probes - 1])

    def guard_or_false(self, file: str, line: int) -> bool:
        return all(self.values) and self.tracer.decisions.is_settled(self)

    def guard_or_true(self, file: str, line: int) -> bool:
        return any(self.values) or not self.tracer.decisions.is_settled(self)

    def expect_true(self, file: str, line: int) -> bool:
        return bool(self.values[0])

    def expect_size(self, file: str, line: int) -> bool:
        return True

    def statically_known_true(self, file: str, line: int) -> bool:
        recorder, origin = self.tracer.recorder, self.origin
        are_sizes = isinstance(origin, Computed) and not any(each.is_uniform for each in origin.operands)
        if are_sizes and recorder is not None and recorder.is_on_one_way:  # they may be equal on this way alone
            return False
        return all(self.values) and self.tracer.decisions.is_settled(self)


def evaluator(size: Size) -> Callable[[Mapping[str, int]], Number | None]:
    """`size.at`, for many sizes: what does not depend on them is looked up once."""
    origin = size.origin
    if size.from_data:
        return lambda sizes: None
    if not isinstance(origin, Computed):
        if size.is_uniform:
            return lambda sizes: size.values[0]
        dims = size.tracer.dims
        name = dims.name_of(size.values) or ""
        return lambda sizes: sizes.get(name)
    function, operands = origin.function, [evaluator(each) for each in origin.operands]

    def at(sizes: Mapping[str, int]) -> Number | None:
        values = [each(sizes) for each in operands]
        if None in values:
            return None
        try:
            found: Number = function(*values)
        except (ArithmeticError, ValueError):  # it fails there, and so does the model
            return None
        return found

    return at


def constant(tracer: SizeTrace, number: Any) -> Size:
    """A number that is the same everywhere."""
    return Size(tracer, (number,) * tracer.dims.width, None)


def computed(function: Callable[..., Any], *operands: Size, is_the_models: bool = True) -> Size:
    """A function of numbers. Where it fails at a point, as a division by zero does, the model fails there too."""
    tracer = operands[0].tracer
    rows = list(zip(*(each.values for each in operands), strict=True))
    try:
        if any(explodes(function, row) for row in rows):
            raise OverflowError
        values = tuple(applied(function, row) for row in rows)
    except (ArithmeticError, ValueError):
        values = _where_it_works(tracer, function, rows, is_the_models)
    made = Size(tracer, values, Computed(function, operands))
    tracer.dims.note_computed(values, made)
    if tracer.recorder is not None:
        tracer.recorder.number(made)
    return made


def _where_it_works(
    tracer: SizeTrace, function: Callable[..., Any], rows: Sequence[tuple[Any, ...]], is_the_models: bool
) -> tuple[Any, ...]:
    """The values, with the example's where there is none. A probe at which it fails cannot go on; a point is dead."""
    found: dict[int, Any] = {}
    errors: dict[int, Exception] = {}
    for place, row in enumerate(rows):
        try:
            if place >= tracer.probes and explodes(function, row):
                raise OverflowError
            found[place] = applied(function, row)
        except (ArithmeticError, ValueError) as error:
            try:
                if not is_astray(tracer):
                    raise
                found[place] = applied(function, made_to_fit(row))
            except (ArithmeticError, ValueError):
                errors[place] = error
    if is_the_models and errors:
        tracer.other_sizes.number_failed(next(iter(errors.values())), set(errors))
        if 0 in found:
            tracer.dims.refuse(errors)
    for place in range(tracer.probes):
        if place in errors:
            raise errors[place]
    return tuple(found.get(place, found[0]) for place in range(len(rows)))


# Method name on the node -> the function it computes. The function is also the target of the fx node recorded for it.
_METHODS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "abs": operator.abs,
    "mod": operator.mod,
    "python_mod": operator.mod,
    "floordiv": operator.floordiv,
    "int_floordiv": operator.floordiv,
    "truediv": operator.truediv,
    "int_truediv": operator.truediv,
    "float_truediv": operator.truediv,
    "pow": operator.pow,
    "pow_by_natural": operator.pow,
    "float_pow": operator.pow,
    "sym_max": torch.sym_max,
    "sym_min": torch.sym_min,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
    "sym_sqrt": math.sqrt,
    "sym_float": torch.sym_float,
    "sym_int": torch.sym_int,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "sym_not": torch.sym_not,
    "sym_and": operator.and_,
    "sym_or": operator.or_,
    "and_": operator.and_,
    "or_": operator.or_,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
    "sym_ite": torch.sym_ite,
}


def _define(name: str, function: Callable[..., Any]) -> None:
    def method(self: Size, *others: Size | int | None) -> Size:
        given = (each for each in others if each is not None)  # `round` may name the digits, or not
        operands = (self, *(each if isinstance(each, Size) else self.wrap_int(each) for each in given))
        return computed(function, *operands)

    method.__name__ = name
    setattr(Size, name, method)


for _name, _function in _METHODS.items():
    _define(_name, _function)
Size.str = Size.__str__  # type: ignore[attr-defined]  # PyTorch's name for it; as a `def` it would hide the type


class SizeText(str):
    """The text of a size, `str(x.shape[0])`. As a key it is like no other: a table that was filled before the trace has
    nothing under it, so that it is made anew at the example's size as at all others."""

    size: Size

    @staticmethod
    def of(size: Size) -> SizeText:
        text = SizeText(size.commit())
        text.size = size
        return text

    def __hash__(self) -> int:
        self.size.note_key(sys._getframe(1))
        return hash(("the text of a size", str.__str__(self)))

    def __eq__(self, other: object) -> bool:
        if self.size.is_key_lookup(sys._getframe(1)):
            return isinstance(other, SizeText) and str.__eq__(self, other)
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not str.__eq__(self, other)


SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def is_from_data(value: Any) -> bool:
    """Whether a number depends on what is in a tensor."""
    return isinstance(value, SYMBOLIC) and value.node.from_data


def either(condition: Any, then: Any, otherwise: Any) -> Any:
    """`then if condition else otherwise` of numbers of one type. PyTorch's own function takes its own nodes alone."""
    node: Any = condition.node
    numbers = [each.node if isinstance(each, SYMBOLIC) else node.wrap_int(each) for each in (then, otherwise)]
    return symbol(node.sym_ite(*numbers))


def size_lines(size: Size) -> frozenset[Any]:
    """The lines of the model at which data was asked that a number depends on."""
    if isinstance(size.origin, Computed):
        return frozenset[Any]().union(*map(size_lines, size.origin.operands))
    dims = size.tracer.dims
    lines = dims.lines_of(size.values)
    return lines or (frozenset((None,)) if size.from_data else lines)


def symbol(size: Size) -> Any:
    """The Python number for a size: a plain one where the probes agree, otherwise PyTorch's symbolic wrapper."""
    if size.is_uniform:
        return size.values[0]
    first = size.values[0]
    if type(first) is bool:
        return torch.SymBool(size)
    return torch.SymFloat(size) if type(first) is float else torch.SymInt(size)


def number_dtype(value: Any) -> torch.dtype:
    """The dtype of an output that is a number."""
    if isinstance(value, torch.SymBool):
        return torch.bool
    return torch.float32 if isinstance(value, torch.SymFloat) else torch.int64
