"""Sizes as expressions: in a form that outlives the trace, and as a person would write them."""

from __future__ import annotations

import operator
from typing import Any

from ..ground.axes import Expression
from .linear_sizes import line
from .sizes import AxisOf, Computed, HeldBy, MemoryOf, Size


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
    dims = size.tracer.dims
    named = dims.name_of(size.values)
    if named is not None or size.values in seen:
        return named
    alike = dims.computed_as(size.values)  # `x[: 4 * count].shape[0]` is what `4 * count` is
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
    dims, origin = size.tracer.dims, size.origin
    if isinstance(origin, Computed) and dims.name_of(size.values) is None:
        operands = [written(operand) for operand in origin.operands]
        sign = _SIGNS.get(origin.function)
        if sign and len(operands) == 2:
            sign = _OF_TRUTHS.get(sign, sign) if size.is_bool() else sign
            operands = [f"({each})" if _is_open(each) else each for each in operands]
            return f"{operands[0]} {sign} {operands[1]}"
        name = origin.function.__name__
        return f"{_PYTHONS_NAMES.get(name, name)}({', '.join(operands)})"
    if isinstance(origin, MemoryOf):
        return origin.text
    if isinstance(origin, HeldBy):
        operator_name = getattr(origin.node.args[0].target, "_opname", None)  # type: ignore[union-attr]
        return f"{operator_name}(...)" if operator_name else "what the tensor holds"
    found = None if dims.has_formula(size.values) else _line_of(size)
    if found is not None:
        return found[1]
    if isinstance(origin, AxisOf) and not dims.has_formula(size.values):
        operator_name = getattr(origin.node.target, "_opname", None)
        if operator_name:
            return f"{operator_name}(...).shape[{origin.axis}]"
    return dims.describe(size.values)


def _is_open(text: str) -> bool:
    """Whether an expression has an operator outside of all parentheses: `a + b`, but not `int(a / b)`."""
    depth = 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == " " and depth == 0:
            return True
    return False
