"""Formulas that sizes are read to have, from their values at many points."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onward.capture.sizes.linear_sizes import line

POINTS = (*range(1, 30), 64, 100, 513, 4096)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (lambda n: min(n, 2), "min(n, 2)"),
        (lambda n: min(n, 3), "min(n, 3)"),
        (lambda n: min(max(n - 1, 0), 1), "min(n - 1, 1)"),
        (lambda n: min(max(n - 4, 0), 1), "min(max(n - 4, 0), 1)"),
        (lambda n: min(max(n - 4, 0), 2), "min(max(n - 4, 0), 2)"),
        (lambda n: max(n - 4, 0), "max(n - 4, 0)"),
        (lambda n: (n + 1) // 2, "(n + 1) // 2"),
    ],
)
def test_a_formula_is_found(size: Callable[[int], int], text: str) -> None:
    found = line("n", POINTS, tuple(map(size, POINTS)))
    assert found is not None and found[1] == text
    assert all(found[0].at({"n": each}) == size(each) for each in range(1, 5000, 7))


@pytest.mark.parametrize(
    "size", [lambda n: n % 3, lambda n: int(n**0.5), lambda n: 2 if n > 4 else 1, lambda n: 1 if n == 3 else 0]
)
def test_what_is_no_line_has_no_formula(size: Callable[[int], int]) -> None:
    assert line("n", POINTS, tuple(map(size, POINTS))) is None
