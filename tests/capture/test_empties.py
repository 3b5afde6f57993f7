"""Tensors without elements inside a model whose inputs are not empty: onnxruntime refuses some operators on them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import onward

LAYERS: list[Any] = [
    nn.MaxPool2d(2),
    nn.MaxPool2d(2, return_indices=True),
    nn.AvgPool2d(2, ceil_mode=True),
    nn.AdaptiveAvgPool2d(2),
    nn.AdaptiveMaxPool2d(1),
    nn.ConvTranspose2d(3, 2, 3, stride=2),
    nn.Conv2d(3, 2, 3, padding=1),
    nn.GroupNorm(3, 3),
    nn.Upsample(scale_factor=2),
    lambda x: x.flatten(1).softmax(1),
    lambda x: torch.einsum("bcij,bcij->b", x, x),
    lambda x: x.permute(0, 2, 3, 1).flatten(1, 2),
    lambda x: F.glu(torch.cat([x, x]), 0),
]


@pytest.mark.parametrize("place", range(len(LAYERS)))
def test_a_batch_of_none(place: int) -> None:
    def model(x: torch.Tensor) -> Any:
        return LAYERS[place](x[1:])

    program = onward.export(model, torch.randn(3, 3, 6, 6), dynamic_axes={"x": {0: "batch", 2: "height"}})
    for batch, height in ((1, 6), (2, 5), (3, 6), (1, 9)):
        x = torch.randn(batch, 3, height, 6)
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


def test_a_loop_over_no_rows_leaves_it_known_that_there_may_be_none() -> None:
    def model(x: torch.Tensor) -> Any:
        rows = x[1::2, :2]
        total = rows.sum()
        for row in rows:
            total = total + row.max()
        return total, F.pad(rows[:, None], (1, 1), mode="circular")

    program = onward.export(model, torch.randn(4, 2), dynamic_axes={"x": {0: "batch", 1: "length"}})
    for batch, length in ((1, 1), (1, 2), (2, 2), (5, 3)):
        x = torch.randn(batch, length)
        torch.testing.assert_close(program(x), model(x))


def _side(rows: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    if total > 1e3:
        total = total + rows.unfold(0, 4, 1).sum()
    return total


def _nested_side(rows: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    if total > 1e3:
        total = total + rows.view(2, 2).sum()
    elif total > 900:
        total = total - rows.sum() / rows.shape[0]
    return total


@pytest.mark.parametrize("model", [_side, _nested_side])
def test_what_a_side_refuses_says_nothing_of_what_is_behind_it(model: Any) -> None:
    """`min(n, 4)` is not 4 behind a side that works with four rows alone."""

    def whole(x: torch.Tensor) -> Any:
        rows = x[:4]
        total = model(rows, x.sum())
        return total, rows.sum() / rows.shape[0], torch.arange(rows.shape[0]) + x.sum()

    program = onward.export(whole, torch.randn(6), dynamic_axes={"x": {0: "n"}})
    assert any("kept as If" in each for each in program.warnings)
    for size in (1, 2, 3, 4, 5, 9):
        x = torch.randn(size)
        torch.testing.assert_close(program(x), whole(x))
    x = torch.randn(4) + 1e4
    torch.testing.assert_close(program(x), whole(x))


def test_what_the_turns_of_a_loop_refuse_says_nothing_of_what_is_behind_it() -> None:
    def model(x: torch.Tensor) -> Any:
        rows = x[1::2]
        total = rows.sum()
        for row in rows:
            total = total + row.max() * rows.unfold(0, 1, 1).sum()
        return total, F.pad(rows[:, None], (1, 1), mode="circular")

    program = onward.export(model, torch.randn(4, 2), dynamic_axes={"x": {0: "batch"}})
    for batch in (1, 2, 3, 5):
        x = torch.randn(batch, 2)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize(
    "layer",
    [
        nn.GRU(3, 4, batch_first=True),
        nn.GRU(3, 4, 2, bidirectional=True),
        nn.LSTM(3, 4, batch_first=True, bidirectional=True),
        nn.LSTM(3, 4, 2),
        nn.LSTM(3, 4, proj_size=2),
        nn.RNN(3, 4),
    ],
)
def test_a_recurrent_layer_of_no_sequences(layer: nn.RNNBase) -> None:
    axis = 0 if layer.batch_first else 1

    def model(x: torch.Tensor) -> Any:
        return layer(x.narrow(axis, 1, x.shape[axis] - 1))

    shape = [3, 5, 3] if layer.batch_first else [5, 3, 3]
    program = onward.export(model, torch.randn(shape), dynamic_axes={"x": {axis: "batch"}})
    for batch in (1, 2, 4):
        shape[axis] = batch
        x = torch.randn(shape)
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


ONE, ROW, SOME = torch.randn(4, 5), torch.randn(4), torch.randn(2, 4, 5)
PRODUCTS: list[Any] = [
    lambda x: x.mT @ ONE,
    lambda x: F.linear(x.mT, ONE.t(), ONE[0]),
    lambda x: F.linear(x.mT, ROW),
    lambda x: ONE.t() @ x,
    lambda x: x.mT @ ROW,
    lambda x: ROW @ x,
    lambda x: x[:, None].mT @ SOME,
    lambda x: SOME[:1].mT @ x,
    lambda x: x.mT @ x,
]


@pytest.mark.parametrize("place", range(len(PRODUCTS)))
@pytest.mark.parametrize("opset", [9, 20])
def test_products_of_no_matrices(place: int, opset: int) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return PRODUCTS[place](x[1:])

    program = onward.export(model, torch.randn(3, 4, 3), dynamic_axes={"x": {0: "batch"}}, opset_version=opset)
    for batch in (1, 2, 4):
        x = torch.randn(batch, 4, 3)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)


KEYS = torch.randn(1, 3, 5, 6, dtype=torch.float64)
IN_DOUBLES: list[Any] = [
    nn.Conv2d(3, 4, 3, padding=1).double(),
    nn.Conv2d(3, 6, 3, groups=3).double(),
    lambda x: F.conv1d(x.flatten(2), torch.ones(2, 3, 2, dtype=x.dtype)),
    lambda x: F.interpolate(x, (4, 9), mode="bilinear"),
    lambda x: F.interpolate(x, (4, 9), mode="bicubic", antialias=True),
    lambda x: F.interpolate(x[..., None], (4, 3, 3), mode="trilinear"),
    lambda x: F.scaled_dot_product_attention(x, KEYS, KEYS),
]


@pytest.mark.parametrize("place", range(len(IN_DOUBLES)))
@pytest.mark.parametrize("opset", [9, 20])
def test_what_float64_writes_as_products_of_no_matrices(place: int, opset: int) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return IN_DOUBLES[place](x[1::2])

    example = torch.randn(4, 3, 6, 6, dtype=torch.float64)
    with torch.no_grad():
        program = onward.export(model, example, dynamic_axes={"x": {0: "batch"}}, opset_version=opset)
        for batch in (1, 2, 5):
            x = torch.randn(batch, 3, 6, 6, dtype=torch.float64)
            torch.testing.assert_close(program(x), model(x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "layer",
    [
        nn.ConvTranspose1d(2, 2, 1, stride=2, padding=1, output_padding=1),
        nn.ConvTranspose1d(2, 2, 2, padding=1),
        nn.ConvTranspose1d(2, 2, 3, stride=2, padding=2, dilation=1),
    ],
)
def test_a_transposed_convolution_that_leaves_nothing(layer: nn.Module) -> None:
    program = onward.export(layer, torch.randn(2, 2, 6), dynamic_axes={"input": {2: "length"}})
    for length in (1, 2, 3, 6, 7):
        x = torch.randn(2, 2, length)
        try:
            with torch.no_grad():
                expected = layer(x)
        except RuntimeError:  # less than nothing
            continue
        torch.testing.assert_close(program(x), expected, rtol=1e-4, atol=1e-5)


def test_nothing_is_divided_by_a_size_of_none() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        rest = x[1:]
        return rest.index_select(0, (rest > 0).long().flatten() % rest.shape[0])

    program = onward.export(model, torch.randn(4), dynamic_axes={"x": {0: "n"}})
    for size in (1, 2, 5):
        x = torch.randn(size)
        torch.testing.assert_close(program(x), model(x))


def test_what_is_always_empty_follows_the_other_axes() -> None:
    program = onward.export(
        lambda x: F.conv1d(x, torch.ones(2, 3, 2))[..., 5:5] * 2, torch.randn(2, 3, 8),
        dynamic_axes={"x": {0: "batch"}}, allow_constant_outputs=True,
    )  # fmt: skip
    assert program(torch.randn(4, 3, 8)).shape == (4, 2, 0)


@pytest.mark.parametrize("layer", [nn.ConvTranspose1d(6, 6, 1, 2, 1, output_padding=1), nn.MaxPool1d(2)])
def test_a_write_to_the_flattened_result_reaches_it(layer: nn.Module) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        result = layer(x[1:])
        result.flatten()[:1] = 7.0
        return result

    axes = {"x": {0: "batch", 2: "length"}}
    with torch.no_grad():
        program = onward.export(model, torch.randn(3, 6, 4), dynamic_axes=axes, verify=False)
        x = torch.randn(4, 6, 7)
        torch.testing.assert_close(program(x), model(x), rtol=1e-4, atol=1e-5)
