"""Sizes that remember where they come from.

`x.shape[0]` on a traced tensor is a `torch.SymInt` around a `Size`: one value per probe, and the expression that made
them. PyTorch's SymInt only asks its node for a handful of methods by name, so a small class of our own serves; no
symbolic algebra is involved. Python code that needs a plain number (`int(s)`, `range(s)`, `if s > 4`) asks the node to
commit. That is the moment at which a dynamic axis would be baked into the graph, and the moment at which we notice.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from ..ground.axes import Expression
from ..ground.source import is_our_text, user_source, writing_line
from ..program.facts import bit_length
from .arithmetic import applied, explodes, is_astray, made_to_fit
from .checks import is_shown_at
from .lines import line

if TYPE_CHECKING:
    from ..record.tracer import Tracer

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


class Size:
    """What `torch.SymInt`, `SymFloat` and `SymBool` wrap while a model is traced."""

    __slots__ = ("from_data", "origin", "tracer", "values")

    def __init__(self, tracer: Tracer, values: tuple[Any, ...], origin: Origin | None) -> None:
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
        name = size.tracer.dims.name_of(size.values) or ""
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


def expression_of(size: Size, seen: frozenset[tuple[Any, ...]] = frozenset()) -> Expression | str | float | None:
    """How a number follows the named axes, in a form that outlives the trace; None where that is not known.

    `seen` are the values of the numbers that are being looked at."""
    if size.from_data:
        return None
    if isinstance(size.origin, Computed):
        operands = tuple(expression_of(each, seen) for each in size.origin.operands)
        if not any(each is None for each in operands):
            return Expression(size.origin.function, operands)  # type: ignore[arg-type]
    if size.is_uniform:
        return size.values[0]
    named = size.tracer.dims.name_of(size.values)
    if named is not None or size.values in seen:
        return named
    alike = size.tracer.dims.computed.get(size.values)  # `x[: 4 * count].shape[0]` is what `4 * count` is
    if alike is not None:
        return expression_of(alike, seen | {size.values})
    found = _line_of(size)
    return None if found is None else found[0]


def _line_of(size: Size) -> tuple[Expression, str] | None:
    """How the size of a tensor follows one of the axes, if it is that simple."""
    dims = size.tracer.dims
    if isinstance(size.origin, Computed) or size.from_data or not size.is_int():
        return None
    values = dims.live(size.values)
    lines = (line(name, dims.live(axis), values) for name, axis in dims.axes.items())
    return next((each for each in lines if each is not None), None)


def question_of(size: Size) -> Expression | None:
    """How a number, or a yes or no, follows the named axes; None where that is not known."""
    found = expression_of(size)
    return found if isinstance(found, Expression) else None


def constant(tracer: Tracer, number: Any) -> Size:
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
    tracer.dims.computed.setdefault(values, made)
    if tracer.recorder is not None:
        tracer.recorder.number(made)
    return made


def _where_it_works(
    tracer: Tracer, function: Callable[..., Any], rows: Sequence[tuple[Any, ...]], is_the_models: bool
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
        tracer.elsewhere.number_failed(next(iter(errors.values())), set(errors))
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

_SIGNS = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.mod: "%",
    operator.floordiv: "//",
    operator.truediv: "/",
    operator.pow: "**",
    operator.eq: "==",
    operator.ne: "!=",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.and_: "&",
    operator.or_: "|",
    operator.xor: "^",
    operator.lshift: "<<",
    operator.rshift: ">>",
}
_OF_TRUTHS = {"&": "and", "|": "or"}

_PYTHONS_NAMES = {"trunc": "int", "sym_int": "int", "sym_float": "float", "sym_max": "max", "sym_min": "min"}


def written(size: Size) -> str:
    """The expression as a person would write it: `batch > 2`, `height // 2 + 1`."""
    if len(set(size.values)) == 1 and not size.from_data and not isinstance(size.origin, (Computed, HeldBy)):
        return repr(size.values[0])
    if isinstance(size.origin, Computed) and size.tracer.dims.name_of(size.values) is None:
        operands = [written(operand) for operand in size.origin.operands]
        sign = _SIGNS.get(size.origin.function)
        if sign and len(operands) == 2:
            sign = _OF_TRUTHS.get(sign, sign) if size.is_bool() else sign
            operands = [f"({each})" if _is_open(each) else each for each in operands]
            return f"{operands[0]} {sign} {operands[1]}"
        name = size.origin.function.__name__
        return f"{_PYTHONS_NAMES.get(name, name)}({', '.join(operands)})"
    dims = size.tracer.dims
    if isinstance(size.origin, MemoryOf):
        return size.origin.text
    if isinstance(size.origin, HeldBy):
        operator_name = getattr(size.origin.node.args[0].target, "_opname", None)  # type: ignore[union-attr]
        return f"{operator_name}(...)" if operator_name else "what the tensor holds"
    found = None if dims.has_formula(size.values) else _line_of(size)
    if found is not None:
        return found[1]
    if isinstance(size.origin, AxisOf) and not dims.has_formula(size.values):
        operator_name = getattr(size.origin.node.target, "_opname", None)
        if operator_name:
            return f"{operator_name}(...).shape[{size.origin.axis}]"
    return dims.describe(size.values)


def _is_open(text: str) -> bool:
    """Whether an expression has an operator outside of all parentheses: `a + b`, but not `int(a / b)`."""
    depth = 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == " " and depth == 0:
            return True
    return False


class SizeText(str):
    """The text of a size, `str(x.shape[0])`. As a key it is like no other: a table that was filled before the trace has
    nothing under it, so that it is made anew at the example's size as at all others."""

    size: Size

    @staticmethod
    def of(size: Size) -> SizeText:
        text = SizeText(size.tracer.decisions.commit(size))
        text.size = size
        return text

    def __hash__(self) -> int:
        self.size.tracer.decisions.keys.note(self.size, sys._getframe(1))
        return hash(("the text of a size", str.__str__(self)))

    def __eq__(self, other: object) -> bool:
        if self.size.tracer.decisions.keys.is_lookup(sys._getframe(1)):
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
    lines = size.tracer.dims.lines_of(size.values)
    return lines or (frozenset((None,)) if size.from_data else lines)


Function = Callable[..., Any]


def symbolic_extremes(smallest: Function, largest: Function) -> tuple[Function, Function]:
    """Python's `min` and `max` for sizes too: `min(height, 7)` is a size, where Python would decide for one of them."""
    return extremes(smallest, largest, SYMBOLIC, (int, float, torch.SymInt, torch.SymFloat), functools.reduce)


def extremes(
    smallest: Function, largest: Function, ours: Any, all_of: Any, reduce: Callable[[Function, Sequence[Any]], Any]
) -> tuple[Function, Function]:
    """`min` and `max` that `reduce` numbers if one is of `ours` and all are of `all_of`, and else are Python's."""

    def extended(decide: Function, combine: Function) -> Function:
        @functools.wraps(decide)
        def extreme(*args: Any, **kwargs: Any) -> Any:
            numbers = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
            if kwargs or len(numbers) < 2 or not any(isinstance(each, ours) for each in numbers):
                return decide(*args, **kwargs)
            if not all(isinstance(each, all_of) for each in numbers):
                return decide(*args, **kwargs)
            return reduce(combine, numbers)

        return extreme

    return extended(smallest, torch.sym_min), extended(largest, torch.sym_max)


def symbolic_divmod(divide: Callable[..., Any]) -> Callable[..., Any]:
    """Python's `divmod` for sizes too, which PyTorch's numbers do not have."""

    @functools.wraps(divide)
    def extended(one: Any, other: Any, /) -> Any:
        followed = isinstance(one, SYMBOLIC) or isinstance(other, SYMBOLIC)
        return (one // other, one % other) if followed else divide(one, other)

    return extended


def symbolic_round(keep: Callable[..., Any]) -> Callable[..., Any]:
    """`round(size, -1)`, whose digits a SymInt ignores. A half goes to the even multiple, as in Python."""

    @functools.wraps(keep)
    def extended(size: Any, digits: Any = None) -> Any:
        if digits is None or not isinstance(size.node, Size) or (places := -operator.index(digits)) <= 0:
            return keep(size, digits)
        unit = 10**places
        return (size + (unit // 2 - 1 + size // unit % 2)) // unit * unit

    return extended


def symbolic_bit_length(ask: Callable[..., Any]) -> Callable[..., Any]:
    """`size.bit_length()`, for which PyTorch makes a plain number of the size."""

    @functools.wraps(ask)
    def extended(size: Any) -> Any:
        return symbol(computed(bit_length, size.node)) if isinstance(size.node, Size) else ask(size)

    return extended


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
