"""Whether a warning of the export had said that the file may be wrong in a run.

Every warning that excuses something is listed here by its text, with the check that decides. A warning that is not
listed excuses nothing, and neither does a condition that cannot be computed.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from .answers import Heard, listened
from .program import FuzzProgram


@dataclass
class Case:
    """A run whose results differ."""

    program: FuzzProgram
    reference: Any
    sizes: Mapping[str, int]
    inputs: tuple[torch.Tensor, ...]
    source: str = field(default="")  # of the model's file, whose lines the warnings name

    @cached_property
    def heard(self) -> tuple[Heard, Heard]:
        """At the example, and here."""
        runs = (self.program.example(), tuple(each.clone() for each in self.inputs))
        first, second = (listened(self.reference, each) for each in runs)
        return first, second

    def differs(self, what: str, lines: set[int]) -> bool:
        first, second = (getattr(each, what) for each in self.heard)
        return any(first.get(line) != second.get(line) for line in lines)


def excuses(warned: Sequence[str], case: Case) -> bool:
    """Whether one of the warnings speaks of this run."""
    return any(
        check(match, text, case) for text in warned for pattern, check in _LISTED if (match := pattern.search(text))
    )


# Sizes


def _number_of_pieces(size: int, each: int) -> int:
    return max(1, -(-size // each)) if each else 1


def _number_of_chunks(size: int, wanted: int) -> int:
    return _number_of_pieces(size, max(1, -(-size // wanted))) if size else wanted


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "number_of_chunks": _number_of_chunks, "number_of_pieces": _number_of_pieces, "min": min, "max": max, "abs": abs,
    "int": int, "float": float, "round": round, "bool": bool, "floor": math.floor, "ceil": math.ceil,
    "sqrt": math.sqrt, "sym_not": lambda value: not value, "not_": lambda value: not value,
}  # fmt: skip


class CannotCompute(Exception):
    """A condition that is not made of sizes alone."""


def computed(expression: str, sizes: Mapping[str, int]) -> Any:
    """What an expression of sizes is at these sizes."""
    try:
        return eval(expression, {"__builtins__": {}, **_FUNCTIONS, "math": math, **sizes})
    except Exception as error:
        raise CannotCompute(f"{expression}: {error}") from error


def _other_side(match: re.Match[str], text: str, case: Case) -> bool:
    """`the file holds where P is V`: it says so of sizes where P is something else."""
    try:
        return bool(computed(match[1], case.sizes) != ast.literal_eval(match[2]))
    except (CannotCompute, ValueError, SyntaxError):
        return False


def _not_the_sum(match: re.Match[str], text: str, case: Case) -> bool:
    try:
        return bool(computed(match[2], case.sizes) != case.sizes[match[1]])
    except (CannotCompute, KeyError):
        return False


def _axes_in(text: str, case: Case) -> set[str]:
    """The axes that a text names by their places: axis 0 of 'x0'."""
    shapes = {each.name: each.shape for each in case.program.arguments}
    places = [(name, int(place)) for place, name in re.findall(r"axis (\d+) of '(\w+)'", text)]
    found = [shapes[name][place] for name, place in places if name in shapes and place < len(shapes[name])]
    return {each for each in found if isinstance(each, str)}


def _not_equal(match: re.Match[str], text: str, case: Case) -> bool:
    return len({case.sizes[each] for each in _axes_in(text, case) | ({match[1]} & case.sizes.keys())}) > 1


def _another_size(match: re.Match[str], text: str, case: Case) -> bool:
    return any(case.sizes[each] != case.program.axes[each] for each in _axes_in(text, case))


# Data


def _lines(text: str) -> set[int]:
    return {int(line) for line in re.findall(r"fuzzed_\d+_\d+\.py:(\d+)", text)}


def _other_truth(match: re.Match[str], text: str, case: Case) -> bool:
    """An `if` on a tensor: only the answers at its line count."""
    return case.differs("truths", _lines(text))


def _other_number(match: re.Match[str], text: str, case: Case) -> bool:
    """A number was read. Where it only decides something, the way that is taken counts, and not the number."""
    lines = _lines(text)
    only_decides = match[1] in ("True", "False") or all(_only_decides(case.source, line) for line in lines)
    return case.differs("ways" if only_decides else "numbers", lines)


def _only_decides(source: str, line: int) -> bool:
    """Whether every number that is read out of a tensor at a line is part of a comparison."""
    read = []

    def visit(node: ast.AST, compared: bool) -> None:
        compared = compared or isinstance(node, ast.Compare)
        if isinstance(node, ast.Call) and node.lineno == line and _is_read(node):
            read.append(compared)
        for each in ast.iter_child_nodes(node):
            visit(each, compared)

    visit(ast.parse(source), False)
    return bool(read) and all(read)


def _is_read(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id in ("int", "float")
    return isinstance(function, ast.Attribute) and function.attr == "item"


def _other_list(match: re.Match[str], text: str, case: Case) -> bool:
    return case.differs("lists", _lines(text))


def _other_shape(match: re.Match[str], text: str, case: Case) -> bool:
    return case.differs("shapes", _lines(text))


_LISTED: list[tuple[re.Pattern[str], Callable[[re.Match[str], str, Case], bool]]] = [
    (re.compile(r"the file holds where `(.+?)` is (\S+), and "), _other_side),
    (re.compile(r"'(\w+)', is taken for (.+?), which it is in the example"), _not_the_sum),
    (re.compile(r"is written as '(\w+)' \(axis .*the model refuses different sizes"), _not_equal),
    (re.compile(r"^written as fixed: "), _another_size),
    (re.compile(r"read out of a tensor \(if, while, or bool\(\)\), and the file keeps the example's"), _other_truth),
    (re.compile(r"read out of a tensor \(.*\), and the file keeps the example's answer \((.*?)\)\."), _other_number),
    (re.compile(r"a tensor was read out of PyTorch \(\w+\), and the file keeps the example's values"), _other_list),
    (re.compile(r"how large (a tensor|the result of .*) is depends on data"), _other_shape),
]
