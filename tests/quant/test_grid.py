"""The grid refuses what has no meaning, by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from onward.errors import InputError
from onward.quant.grids.grid import Grid, dtype_bounds, torch_dtype

ONE = torch.tensor(1.0)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (dict(scale=ONE, dtype="float16"), "cannot have the dtype 'float16'"),
        (dict(scale=ONE, zero_point=256), "the zero point 256 of a grid is not inside uint8"),
        (dict(scale=ONE, zero_point=-9, dtype="int4"), "the zero point -9"),
        (dict(scale=ONE, low=-1), "the bounds -1..255"),
        (dict(scale=ONE, low=9, high=8), "the bounds 9..8"),
        (dict(scale=ONE.double()), "is float32, not torch.float64"),
        (dict(scale=torch.ones(3)), "has the shape (3,) and its axis is None"),
        (dict(scale=ONE, axis=0), "has the shape () and its axis is 0"),
        (dict(scale=torch.ones(3), axis=-1), "counted from the front"),
        (dict(scale=ONE * 0), "above zero and finite"),
        (dict(scale=-ONE), "above zero and finite"),
        (dict(scale=ONE * float("nan")), "above zero and finite"),
        (dict(scale=torch.tensor([1.0, float("inf")]), axis=0), "above zero and finite"),
    ],
)
def test_refuses(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        Grid(**arguments)
    assert complaint in str(caught.value)


def test_bounds_are_those_of_the_type_and_only_get_tighter() -> None:
    grid = Grid(ONE, 3, "int16")
    assert (grid.low, grid.high) == dtype_bounds("int16") == (-32768, 32767)
    assert grid.torch_dtype == torch_dtype("int16") == torch.int16
    relu = grid.bounded(low=3)
    assert (relu.low, relu.high) == (3, 32767)
    assert (relu.bounded(low=-5, high=9).low, relu.bounded(low=-5, high=9).high) == (3, 9)
    assert relu.same_as(grid)


def test_same_as_compares_what_the_integers_mean() -> None:
    channels = Grid(torch.tensor([1.0, 2.0]), axis=0)
    assert channels.same_as(Grid(torch.tensor([1.0, 2.0]), axis=0))
    assert not channels.same_as(Grid(torch.tensor([1.0, 2.0]), axis=1))
    assert not channels.same_as(Grid(torch.tensor([1.0, 3.0]), axis=0))
    assert not channels.same_as(Grid(ONE))
    assert not Grid(ONE).same_as(Grid(ONE, 1))
    assert not Grid(ONE).same_as(Grid(ONE, dtype="int8"))
    assert channels.scale_for(3).shape == (2, 1, 1)
