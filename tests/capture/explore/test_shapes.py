"""Branches on sizes whose sides give other sizes: a run with a forced answer follows the sizes of the run before it."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import onward

LENGTH = {"x": {1: "length"}}


def check(
    model: nn.Module, example: torch.Tensor, axes: dict[str, dict[int, str]], *others: torch.Tensor
) -> onward.Program:
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        program = onward.export(model.eval(), (example,), input_names=["x"], dynamic_axes=axes, verify=False)
    for x in (example, *others):
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
    return program


class PadIfOdd(nn.Module):
    """A row or a column of ones is added where there is none to pair: at even sizes nothing of it does no harm."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        height = x.shape[-2]
        if x.shape[-2] % 2:
            x = F.pad(x, (0, 0, 0, 1), value=1.0)
        half = F.max_pool2d(x, (2, 1)).relu()
        return torch.cat([F.interpolate(half, scale_factor=(2.0, 1.0)), x.sin()], 1)[:, :, :height]


@pytest.mark.parametrize("height", [6, 7])
def test_padding_of_odd_sizes(height: int) -> None:
    others = [torch.randn(1, 1, size, 3) for size in (2, 5, 8, 9)]
    program = check(PadIfOdd(), torch.randn(1, 1, height, 3), {"x": {2: "height"}}, *others)
    assert program.outputs[0].shape == (1, 2, "height", 3)


class Chunk(nn.Module):
    """Pairs first, and then what is left over; every layer insists on what it gives."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found, length = [], x.shape[1]
        pairs = length // 2 * 2
        if pairs > 0:
            found.append(x[:, :pairs].sin())
        if length - pairs > 0:
            found.append(x[:, pairs:].cos())
        y = torch.cat(found, 1)
        if y.shape != (2, length):
            raise ValueError(f"{y.shape}")
        return y + x


@pytest.mark.parametrize("length", [7, 8])
def test_lists_that_are_longer_on_one_side(length: int) -> None:
    layers = nn.Sequential(Chunk(), Chunk())
    program = check(layers, torch.randn(2, length), LENGTH, *(torch.randn(2, size) for size in (1, 2, 3, 4, 9)))
    assert program.outputs[0].shape == (2, "length")


class FarAway(nn.Module):
    """One branch that the probes tell of, and one that only large sizes take."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.cos() if x.shape[1] % 2 else x.sin().relu()
        if x.shape[1] > 2000:
            y = y * self.factor
        return y


def test_a_side_far_away_that_does_the_same() -> None:
    program = check(FarAway(1.0), torch.randn(2, 5), LENGTH, *(torch.randn(2, size) for size in (4, 2001)))
    assert [node.op_type for node in program.model.graph].count("If") == 1


def test_a_side_far_away_that_differs_is_kept_as_well() -> None:
    check(FarAway(2.0), torch.randn(2, 5), LENGTH, *(torch.randn(2, size) for size in (4, 2001, 2002)))
