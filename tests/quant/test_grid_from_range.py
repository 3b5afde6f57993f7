"""Grids made from ranges: zero is exact, the ends are reached, a range of nothing has a scale all the same."""

from __future__ import annotations

import math

import pytest
import torch

from onward.errors import InputError
from onward.quant import Activations, Weights
from onward.quant.grids.grid import grid_from_range, weight_grid


@pytest.mark.parametrize(
    ("low", "high", "spec", "wanted"),
    [
        (0.0, 2.55, Activations(), ("uint8", 0, 0, 255, 0.01)),  # what a ReLU leaves
        (1.0, 2.55, Activations(), ("uint8", 0, 0, 255, 0.01)),  # widened to have zero
        (-2.55, -1.0, Activations(), ("uint8", 255, 0, 255, 0.01)),
        (-1.0, 1.55, Activations(), ("uint8", 100, 0, 255, 0.01)),
        (-0.5, 1.0, Activations(bits=4), ("uint8", 5, 0, 15, 0.1)),
        (-1.27, 0.3, Activations(symmetric=True), ("uint8", 128, 0, 255, 0.01)),
        (0.0, 1.27, Activations(symmetric=True), ("uint8", 128, 0, 255, 0.01)),
        (-0.7, 0.3, Activations(symmetric=True, bits=4), ("uint8", 8, 0, 15, 0.1)),
        (0.0, 65.535, Activations(bits=16), ("uint16", 0, 0, 65535, 0.001)),
        (-32.767, 1.0, Activations(bits=16, symmetric=True), ("int16", 0, -32768, 32767, 0.001)),
        (0.0, 2.0, Activations(power_of_two=True), ("uint8", 0, 0, 255, 2**-7)),
        (0.0, 2.1, Activations(power_of_two=True), ("uint8", 0, 0, 255, 2**-6)),
        (-1.0, 1.0, Activations(power_of_two=True, symmetric=True), ("uint8", 128, 0, 255, 2**-7)),
        (-1.01, 1.0, Activations(power_of_two=True, symmetric=True), ("uint8", 128, 0, 255, 2**-6)),
        (0.0, 0.0, Activations(), ("uint8", 0, 0, 255, 1.0)),
        (0.0, 0.0, Activations(power_of_two=True), ("uint8", 0, 0, 255, 1.0)),
        (0.0, 0.0, Activations(symmetric=True), ("uint8", 128, 0, 255, 1.0)),
        (-1e-40, 1e-40, Activations(), ("uint8", 0, 0, 255, 1.0)),  # no float32 scale is so small
        (-3e38, 3e38, Activations(), ("uint8", 128, 0, 255, 6e38 / 255)),
    ],
)
def test_grids(low: float, high: float, spec: Activations, wanted: tuple[str, int, int, int, float]) -> None:
    grid = grid_from_range(torch.tensor(low), torch.tensor(high), spec)
    assert (grid.dtype, grid.zero_point, grid.low, grid.high) == wanted[:4]
    assert float(grid.scale) == pytest.approx(wanted[4], rel=1e-6)
    if spec.power_of_two:
        assert math.frexp(float(grid.scale))[0] == 0.5


def test_few_symmetric_bits_of_a_chip_lie_around_128() -> None:
    grid = grid_from_range(torch.tensor(-0.7), torch.tensor(0.3), Activations(symmetric=True, bits=4), "half_up")
    assert (grid.dtype, grid.zero_point, grid.low, grid.high) == ("uint8", 128, 120, 135)


def test_the_ends_are_within_a_step() -> None:
    generator = torch.Generator().manual_seed(3)
    for _ in range(300):
        low, high = (torch.randn(2, generator=generator) * torch.exp(8 * torch.randn(1, generator=generator))).sort()[0]
        spec = Activations(
            bits=int(torch.randint(2, 9, (), generator=generator)),
            symmetric=bool(torch.randint(2, (), generator=generator)),
            power_of_two=bool(torch.randint(2, (), generator=generator)),
        )
        grid = grid_from_range(low, high, spec)
        step = float(grid.scale)
        assert (grid.low - grid.zero_point) * step <= min(float(low), 0) + step * 1.01
        assert (grid.high - grid.zero_point) * step >= max(float(high), 0) - step * 1.01


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (2.0, 1.0, "no grid for the range from 2 to 1"),
        (float("nan"), 1.0, "no grid for the range from nan to 1"),
        (0.0, float("inf"), "no grid for the range from 0 to inf"),
        (torch.zeros(3), torch.ones(3), r"one range, not ends of the shapes \(3,\) and \(3,\)"),
    ],
)
def test_no_grid(low: float, high: float, text: str) -> None:
    with pytest.raises(InputError, match=text):
        grid_from_range(low, high, Activations())


@pytest.mark.parametrize(
    ("spec", "bounds", "scale"),
    [
        (Weights(), (-127, 127), 2.54 / 127),
        (Weights(reduce_range=True), (-63, 63), 2.54 / 63),
        (Weights(bits=4), (-7, 7), 2.54 / 7),
        (Weights(bits=2), (-1, 1), 2.54),
        (Weights(power_of_two=True), (-128, 127), 2**-5),
    ],
)
def test_weight_grids(spec: Weights, bounds: tuple[int, int], scale: float) -> None:
    grid = weight_grid(torch.tensor([2.54, 0.0]), spec, axis=1)
    assert (grid.dtype, grid.zero_point, (grid.low, grid.high), grid.axis) == ("int8", 0, bounds, 1)
    assert grid.scale.tolist() == pytest.approx([scale, 1.0])
    assert weight_grid(torch.tensor(2.54), spec).axis is None
