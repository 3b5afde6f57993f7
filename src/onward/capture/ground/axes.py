"""Which sizes the dynamic axes of the inputs may have.

An axis is known by its name, and the same name is the same size. Some names are bounded (`Dim("batch", max=64)`), some
follow others (`2*batch`, `past + sequence`), and some need not be dynamic at all (`Dim.AUTO`). Whoever chooses sizes,
for probing, for trying a branch out or for verifying, asks here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Bounds = tuple[int, int | None]  # the smallest and the largest size; None for no limit
UNBOUNDED: Bounds = (0, None)


@dataclass(frozen=True, slots=True)
class Formula:
    """A size that follows others: `2*batch + 1`, `past + sequence`. All factors are positive."""

    terms: tuple[tuple[str, int], ...]
    offset: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.terms)

    def at(self, sizes: Mapping[str, int]) -> int:
        return self.offset + sum(factor * sizes[name] for name, factor in self.terms)

    def along(self, axes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
        """The sizes where each axis takes these sizes, one after the other."""
        columns = zip(*(axes[name] for name in self.names), strict=True)
        return tuple(self.at(dict(zip(self.names, sizes, strict=True))) for sizes in columns)

    def solved_for(self, unknown: str, size: int, known: Mapping[str, int]) -> int | None:
        """The size of one name at which the formula gives `size`, if there is one."""
        rest = self.offset + sum(factor * known[name] for name, factor in self.terms if name != unknown)
        quotient, remainder = divmod(size - rest, dict(self.terms)[unknown])
        return quotient if remainder == 0 and quotient > 0 else None

    def renamed(self, names: Mapping[str, str]) -> Formula:
        factors: dict[str, int] = {}
        for name, factor in self.terms:
            factors[names.get(name, name)] = factors.get(names.get(name, name), 0) + factor
        return Formula(tuple(factors.items()), self.offset)

    def __str__(self) -> str:
        text = " + ".join(name if factor == 1 else f"{factor}*{name}" for name, factor in self.terms)
        return f"{text} {'+' if self.offset > 0 else '-'} {abs(self.offset)}" if self.offset else text


@dataclass(frozen=True)
class Expression:
    """A number or an answer that follows sizes: a function of other such numbers, of names and of plain numbers."""

    function: Callable[..., Any]
    operands: tuple[Expression | str | float, ...]

    def at(self, sizes: Mapping[str, int]) -> Any:
        """What it is at these sizes; None if one is missing, or there is no such number."""
        operands = [_operand_at(each, sizes) for each in self.operands]
        if any(each is None for each in operands):
            return None
        try:
            return self.function(*operands)
        except (ArithmeticError, ValueError):
            return None

    @property
    def functions(self) -> frozenset[Callable[..., Any]]:
        """What it is computed with."""
        inner = (each.functions for each in self.operands if isinstance(each, Expression))
        return frozenset((self.function,)).union(*inner)

    @property
    def names(self) -> frozenset[str]:
        """The names that it follows."""
        inner = (each.names if isinstance(each, Expression) else frozenset((each,)) for each in self.operands
                 if isinstance(each, (Expression, str)))  # fmt: skip
        return frozenset[str]().union(*inner)


def _operand_at(operand: Expression | str | float, sizes: Mapping[str, int]) -> Any:
    if isinstance(operand, Expression):
        return operand.at(sizes)
    return sizes.get(operand) if isinstance(operand, str) else operand


@dataclass(frozen=True)
class AxisSpace:
    """What is asked of the named axes beyond being dynamic.

    bounds      of names that are limited
    formulas    names that follow others, which may themselves be on no axis
    optional    names that may turn out fixed without anybody minding
    made_up     names that nobody chose: axes that turn out equal share one of them without a warning
    """

    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    formulas: Mapping[str, Formula] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    made_up: frozenset[str] = frozenset()

    def expand(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The given sizes, and those of the names that follow them."""
        following = {
            name: formula.at(sizes)
            for name, formula in self.formulas.items()
            if all(each in sizes for each in formula.names)
        }
        return {**sizes, **following}

    def allows(self, sizes: Mapping[str, int]) -> bool:
        """Whether these sizes, and those that follow them, are within their bounds and not empty."""
        every = self.expand(sizes)
        for name, size in every.items():
            low, high = self.bounds.get(name, UNBOUNDED)
            if size < max(low, 1) or (high is not None and size > high):
                return False
        return True

    def limits(self, names: Collection[str]) -> tuple[int, int | None]:
        """The sizes that all of these names may have at once, if they are one axis."""
        low, high = 1, None
        for name in names:
            least, most = self.bounds.get(name, UNBOUNDED)
            low = max(low, least)
            high = most if high is None else high if most is None else min(high, most)
            for formula in self.formulas.values():  # what follows must not be empty either
                if formula.names == (name,):
                    low = max(low, -((formula.offset - 1) // formula.terms[0][1]))
        return low, high

    def bounds_of(self, name: str) -> Bounds | None:
        """The declared bounds of a name, also of one that follows bounded ones."""
        formula = self.formulas.get(name)
        if formula is None:
            return self.bounds.get(name)
        each = [self.bounds.get(root, UNBOUNDED) for root in formula.names]
        if all(bounds == UNBOUNDED for bounds in each):
            return None
        low = formula.at(dict(zip(formula.names, (bounds[0] for bounds in each), strict=True)))
        highs = {root: bounds[1] for root, bounds in zip(formula.names, each, strict=True) if bounds[1] is not None}
        return max(low, 0), formula.at(highs) if len(highs) == len(each) else None

    def roots(self, name: str) -> tuple[str, ...]:
        """The names that decide over a name's size: itself, or those that it follows."""
        return self.formulas[name].names if name in self.formulas else (name,)

    def without(self, fixed: Collection[str]) -> AxisSpace:
        """The same for the case that some axes do not vary."""
        kept = {name: each for name, each in self.formulas.items() if not set(each.names) & set(fixed)}
        return replace(self, formulas=kept, optional=self.optional - set(fixed))

    def tied(self, tied: Mapping[str, str]) -> AxisSpace:
        """The same with some names replaced by those that they turned out to equal."""
        if not tied:
            return self
        bounds = dict(self.bounds)
        for leader in set(tied.values()):
            group = [leader, *(name for name, follows in tied.items() if follows == leader)]
            if any(name in self.bounds for name in group):
                least = max(self.bounds.get(name, UNBOUNDED)[0] for name in group)
                bounds[leader] = (least, self.limits(group)[1])
        formulas = {name: formula.renamed(tied) for name, formula in self.formulas.items()}
        return replace(self, bounds=bounds, formulas=formulas)


_TERM = re.compile(r"(?:(\d+)\s*\*\s*)?([A-Za-z_]\w*)(?:\s*\*\s*(\d+))?|(\d+)")


def read_formula(text: str, known: Collection[str]) -> Formula | None:
    """`past + sequence`, `2*batch - 1` as a formula of known names; None for a plain name."""
    factors: dict[str, int] = {}
    offset, sign, position = 0, 1, 0
    text = text.strip()
    while True:
        match = _TERM.match(text, position)
        if match is None:
            return None
        before, name, after, number = match.groups()
        if name is None:
            offset += sign * int(number)
        elif name not in known or name == text or sign < 0:
            return None
        else:
            factors[name] = factors.get(name, 0) + int(before or 1) * int(after or 1)
        rest = text[match.end() :].lstrip()
        if not rest:
            break
        if rest[0] not in "+-":
            return None
        sign = 1 if rest[0] == "+" else -1
        position = len(text) - len(rest[1:].lstrip())
    return Formula(tuple(factors.items()), offset) if factors and all(factors.values()) else None
