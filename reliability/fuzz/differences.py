"""In which elements two results differ, and whether rounding alone explains it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from onward.verify import Tolerance, compare, tolerances

from .program import FuzzProgram

_TIMES = 4.0  # an element may be this much further off than noise has moved it


@dataclass(frozen=True)
class Raised:
    """In place of results: there are none."""

    text: str


@dataclass(frozen=True)
class Difference:
    """One thing that is not as expected.

    output  the number of the output; None if it is not about one
    error   how far off every element is, 0 where it is within the tolerance; None if they cannot be compared
    """

    text: str
    output: int | None = None
    error: torch.Tensor | None = None


def differences(program: FuzzProgram, expected: Any, actual: Any) -> list[Difference]:
    """Everything that is different; nothing if nothing is."""
    if isinstance(actual, Raised):
        return [Difference(f"it does not run: {actual.text}")]
    wanted, first = tree_flatten(expected)
    found, second = tree_flatten(actual)
    if len(wanted) != len(found) or first != second:
        return [Difference(f"the structure is {second}, expected {first}")]
    coarse = program.coarse_of(len(wanted))
    pairs = zip(wanted, found, coarse, strict=True)
    each = (_difference(at, want, have, dtype) for at, (want, have, dtype) in enumerate(pairs))
    return [difference for difference in each if difference is not None]


def _difference(at: int, want: Any, have: Any, coarse: torch.dtype | None) -> Difference | None:
    if not isinstance(want, torch.Tensor):
        return _of_numbers(at, want, have)
    if not isinstance(have, torch.Tensor):
        return Difference(f"output {at} is {type(have).__name__}, expected a tensor", at)
    tolerance = None
    if want.is_floating_point() and coarse is not None:
        tolerance = max((tolerances(coarse), tolerances(want.dtype)), key=lambda each: each.atol)
    compared = compare(want, have, str(at), tolerance)
    if compared.ok:
        return None
    if compared.problem is not None:
        return Difference(str(compared), at)
    error = _errors(want, have)
    return Difference(
        str(compared), at, torch.where(error > _allowed(want, compared.tolerance, compared.scale), error, 0)
    )


def _of_numbers(at: int, want: Any, have: Any) -> Difference | None:
    """Integers and truth values are exact and of one type; a float may be off by rounding."""
    if isinstance(have, torch.Tensor):
        have = have.item() if have.numel() == 1 else have
    if type(want) is not type(have):
        return Difference(f"output {at} is {have!r}, expected the {type(want).__name__} {want!r}", at)
    same = want == have
    if isinstance(want, float):
        same = same or (math.isnan(want) and math.isnan(have)) or abs(want - have) <= 1e-5 * abs(want)
    if same:
        return None
    numbers = isinstance(want, (bool, int, float))
    error = _errors(torch.tensor(want), torch.tensor(have)) if numbers else None
    return Difference(f"output {at} is the number {have}, expected {want}", at, error)


def _allowed(want: torch.Tensor, tolerance: Tolerance, scale: float) -> torch.Tensor:
    if not want.is_floating_point():
        return torch.zeros(want.shape, dtype=torch.float64)
    size = torch.where(torch.isfinite(want), want.abs(), 0).double()
    return tolerance.rtol * size + tolerance.atol * scale + torch.finfo(want.dtype).tiny


def _errors(want: torch.Tensor, have: torch.Tensor) -> torch.Tensor:
    """How far each element is off; infinite where only one is NaN, or an infinity is not matched."""
    want, have = want.detach(), have.detach()
    if not want.is_floating_point():
        return torch.where(want != have, (have.double() - want.double()).abs().clamp(min=1), 0.0)
    left, right = want.double(), have.double()
    same = (left == right) | (torch.isnan(left) & torch.isnan(right))
    off = (right - left).abs()
    return torch.where(same, 0.0, torch.where(torch.isnan(off), torch.inf, off))


def unexplained(found: list[Difference], expected: Any, actual: Any, draws: Iterable[Any]) -> list[Difference]:
    """The differences that are no rounding error: `draws` are PyTorch's own results with noise of that size.

    An element is explained if noise has moved this very element, and nearly as far; an integer if noise has moved it at
    all. Another structure or shape is explained if a draw has this very structure or shape; and a file that does not
    run, if PyTorch does not run either.
    """
    left = list(found)
    moved: dict[int, torch.Tensor] = {}
    for draw in draws:
        left = [each for each in left if not _explains(draw, each, expected, actual, moved)]
        if not left:
            break
    return left


def _explains(draw: Any, each: Difference, expected: Any, actual: Any, moved: dict[int, torch.Tensor]) -> bool:
    if isinstance(draw, Raised) or isinstance(actual, Raised):
        return isinstance(draw, Raised) and isinstance(actual, Raised)
    drawn, structure = tree_flatten(draw)
    have, other = tree_flatten(actual)
    if each.output is None:
        return structure == other and structure != tree_flatten(expected)[1]
    if each.output >= len(drawn) or each.output >= len(have):
        return False
    its, theirs = drawn[each.output], have[each.output]
    if each.error is None:
        return _kind(its) == _kind(theirs)
    want = tree_flatten(expected)[0][each.output]
    if _kind(its) != _kind(want):
        return False
    its, want = torch.as_tensor(its), torch.as_tensor(want)
    error = _errors(want, its)
    before = moved.get(each.output)
    furthest = moved[each.output] = error if before is None else torch.maximum(before, error)
    within = each.error <= _TIMES * furthest if want.is_floating_point() else furthest > 0
    return bool((within | (each.error == 0)).all())


def _kind(value: Any) -> Any:
    return (value.dtype, tuple(value.shape)) if isinstance(value, torch.Tensor) else type(value)
