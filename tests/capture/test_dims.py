"""The table of dimensions: points that die, and points that are alive again behind a body."""

from __future__ import annotations

from onward.capture.program.facts import SymDim
from onward.capture.sizes.dims import DimTable

# Two probes, and four points.
N = (8, 16, 1, 2, 3, 9)
AT_MOST_FOUR = tuple(min(n, 4) for n in N)


def table() -> tuple[DimTable, SymDim]:
    made = DimTable({"n": N}, probes=2, width=len(N))
    dim = made.dim(AT_MOST_FOUR)
    assert isinstance(dim, SymDim)
    return made, dim


def test_dimensions_are_equal_that_are_so_at_all_points_alive() -> None:
    dims, dim = table()
    dims.refuse({2, 3, 4})
    assert dims.dim(AT_MOST_FOUR) == 4 and dims.is_one(dim.values)


def test_points_that_die_in_a_body_are_alive_behind_it() -> None:
    dims, dim = table()
    dims.enter_body()
    dims.refuse({2, 3})
    dims.enter_body()
    dims.refuse({4})
    assert dims.dim(AT_MOST_FOUR) == 4
    assert dims.leave_body() == {4} and dims.dead == {2, 3}
    assert dim.values == (4, 4, 4, 4, 3, 4) and dims.dim(AT_MOST_FOUR) is dim
    assert dims.leave_body() == {2, 3} and not dims.dead
    assert dim.values == AT_MOST_FOUR and dims.dim(AT_MOST_FOUR) is dim


def test_a_point_that_was_dead_before_a_body_stays_dead() -> None:
    dims, dim = table()
    dims.refuse({2})
    dims.enter_body()
    dims.refuse({2, 3})
    assert dims.leave_body() == {3} and dims.dead == {2}
    assert dim.values == (4, 4, 4, 2, 3, 4)


def test_a_dimension_of_a_body_is_like_no_other_where_the_body_refuses() -> None:
    dims, _ = table()
    half = tuple(n // 2 for n in N)
    dims.enter_body()
    dims.refuse({2, 4, 5})  # odd sizes
    made = dims.dim(half)
    dims.leave_body()
    assert isinstance(made, SymDim)
    assert [made.values[place] for place in (0, 1, 3)] == [4, 8, 1] and dims.dim(made.values) is made
    assert all(made.values[place] > max(N) for place in (2, 4, 5))
    assert dims.dim(half) != made
    dims.refuse({2, 4, 5})
    assert dims.dim(half) is made or dims.dim(half) == made
