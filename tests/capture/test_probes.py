"""Sizes to probe at: no two axes alike, and all within their bounds."""

from __future__ import annotations

import itertools

import pytest

from onward.capture.ground.axes import AxisSpace, Formula
from onward.capture.sizes.probes import PROBES, plans


@pytest.mark.parametrize("low", [1, 2, 7])
@pytest.mark.parametrize("high", [8, 9, 16, 64, 1000, None])
def test_every_plan_keeps_to_the_bounds(low: int, high: int | None) -> None:
    space = AxisSpace(bounds={"a": (low, high), "b": (0, 12)})
    made = list(plans({"a": 7 if high == 8 else 8, "b": 8, "c": 3}, space))
    assert {plan.label.split(",")[0] for plan in made} >= {"any", "multiples", "nearby"}
    for plan in made:
        assert all(low <= size <= (high or size) for size in plan.sizes["a"])
        assert all(1 <= size <= 12 for size in plan.sizes["b"])
        free = [values for name, values in plan.sizes.items() if name not in plan.tied]
        assert len(set(free)) == len(free) and all(len(set(values)) > 1 for values in free)
        assert all(len(values) == PROBES for values in free)


def test_what_has_no_bounds_is_probed_as_ever() -> None:
    bounded = AxisSpace(bounds={"b": (2, 4)})
    with_bounds, without = (next(iter(plans({"a": 8, "b": 3}, space))) for space in (bounded, None))
    assert with_bounds.sizes["a"] == without.sizes["a"] and with_bounds.sizes["b"] != without.sizes["b"]


def test_multiples_stay_multiples_within_bounds() -> None:
    plan = next(plan for plan in plans({"a": 32}, AxisSpace(bounds={"a": (16, 96)})) if plan.label == "multiples")
    assert {size % 32 for size in plan.sizes["a"]} == {0}
    plan = next(plan for plan in plans({"a": 32}, AxisSpace(bounds={"a": (16, 48)})) if plan.label == "multiples")
    assert {size % 16 for size in plan.sizes["a"]} == {0}


def test_odd_and_even_sizes_are_probed_within_bounds() -> None:
    plan = next(iter(plans({"a": 8}, AxisSpace(bounds={"a": (2, 12)}))))
    assert {size % 2 for size in plan.sizes["a"]} == {0, 1}


def test_what_follows_is_never_empty() -> None:
    space = AxisSpace(bounds={"n": (0, 9)}, formulas={"n - 4": Formula((("n", 1),), -4)})
    for plan in plans({"n": 6}, space):
        assert all(5 <= size <= 9 for size in plan.sizes["n"])


def test_many_axes_with_two_sizes_each_are_told_apart_or_not_probed() -> None:
    names = [f"axis_{i}" for i in range(7)]
    space = AxisSpace(bounds=dict.fromkeys(names, (3, 4)))
    independent = [plan for plan in plans(dict.fromkeys(names, 3), space) if not plan.tied and not plan.enlarged]
    assert independent
    for plan in independent:
        assert all(a != b for a, b in itertools.combinations(plan.sizes.values(), 2))
    more = [f"axis_{i}" for i in range(9)]  # three probes of two sizes have no nine patterns
    space = AxisSpace(bounds=dict.fromkeys(more, (3, 4)))
    assert all(plan.tied for plan in plans(dict.fromkeys(more, 3), space))
