"""A8: `dynamic_axes` in all its forms; what is not named is fixed; outputs that follow an input axis get its name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

import onward

from .nets import Encoder
from .running import assert_same, load, run, shapes

MODEL = Encoder().eval()
EXAMPLE = (torch.randn(2, 5, 4), torch.rand(2, 5))


def resized(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, length, 4), torch.rand(batch, length)


FORMS = {
    "names": ({"x": {0: "batch", 1: "length"}, "mask": {0: "batch", 1: "length"}}, "batch", "length"),
    "negative axes": ({"x": {-3: "batch", -2: "length"}, "mask": {-2: "batch", -1: "length"}}, "batch", "length"),
    "lists": ({"x": [0, 1], "mask": [0, 1]}, "x_axis_0", "x_axis_1"),
    "tuples": ({"x": (0, 1), "mask": (0, 1)}, "x_axis_0", "x_axis_1"),
    "mixed": ({"x": {0: "batch", 1: "length"}, "mask": [0, 1]}, "batch", "length"),
    "mixed, the list first": ({"x": [0, 1], "mask": {0: "batch", 1: "length"}}, "x_axis_0", "x_axis_1"),
}


@pytest.mark.parametrize(("axes", "batch", "length"), FORMS.values(), ids=FORMS.keys())
def test_every_form_makes_the_axes_dynamic(axes: dict[str, Any], batch: str, length: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", onward.CaptureWarning)  # of axes that turn out to be one; tested below
        onward.export(MODEL, EXAMPLE, path, dynamic_axes=axes, verify=True)
    graph = load(path).graph
    assert shapes(graph.input) == {"x": (batch, length, 4), "mask": (batch, length)}
    assert shapes(graph.output) == {"output": (batch, length, 6)}
    for sizes in ((2, 5), (1, 1), (7, 3), (1, 40)):
        inputs = resized(*sizes)
        assert_same(run(path, inputs), [MODEL(*inputs)])


def test_generated_names_are_those_of_the_input_and_the_axis(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onward.export(lambda x: x + 1, torch.randn(2, 3), path, input_names=["pixels"], dynamic_axes={"pixels": [-1]})
    assert shapes(load(path).graph.input) == {"pixels": (2, "pixels_axis_1")}


def test_axes_that_must_be_equal_are_joined_and_said_so() -> None:
    message = r"axis 0 of 'mask' is written as 'x_axis_0' \(axis 0 of 'x'\): the model refuses different sizes"
    with pytest.warns(onward.CaptureWarning, match=message) as caught:
        program = onward.export(MODEL, EXAMPLE, dynamic_axes={"x": [0], "mask": [0]})
    assert caught[0].filename == __file__
    assert program.inputs[1].shape == ("x_axis_0", 5)
    assert any("axis 0 of 'mask'" in text for text in program.warnings)


def test_axes_of_different_names_are_independent(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    axes = {"x": {0: "rows"}, "y": {0: "columns"}}
    onward.export(lambda x, y: x @ y.t(), (torch.randn(3, 4), torch.randn(3, 4)), path, dynamic_axes=axes, verify=True)
    assert shapes(load(path).graph.output) == {"output": ("rows", "columns")}
    x, y = torch.randn(2, 4), torch.randn(5, 4)
    assert_same(run(path, [x, y]), [x @ y.t()])


# Fixed otherwise -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axes", [None, {}, {"x": {1: "length"}, "mask": {1: "length"}}], ids=["none", "empty", "one"])
def test_what_is_not_named_is_fixed(axes: dict[str, Any] | None, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onward.export(MODEL, EXAMPLE, path, dynamic_axes=axes)
    length = "length" if axes else 5
    assert shapes(load(path).graph.input) == {"x": (2, length, 4), "mask": (2, length)}
    assert shapes(load(path).graph.output) == {"output": (2, length, 6)}
    assert_same(run(path, EXAMPLE), [MODEL(*EXAMPLE)])
    with pytest.raises(InvalidArgument, match="Got invalid dimensions for input"):
        run(path, resized(3, 5))
    if not axes:
        with pytest.raises(InvalidArgument, match="Got invalid dimensions for input"):
            run(path, resized(2, 6))


def test_the_program_refuses_a_fixed_axis_too() -> None:
    program = onward.export(MODEL, EXAMPLE)
    with pytest.raises(
        onward.InputError, match=r"the input 'x' has the shape \[3, 5, 4\], and the model takes \[2, 5, 4\]"
    ):
        program(*resized(3, 5))


# Outputs -------------------------------------------------------------------------------------------------------------

CONVOLUTION = torch.nn.Conv2d(3, 4, 3, padding=1)
FOLLOWING = {
    "elementwise": (lambda x: x.relu() * 2, (2, 3), {0: "n"}, ("n", 3)),
    "transposed": (lambda x: x.t(), (2, 3), {0: "n"}, (3, "n")),
    "a convolution": (CONVOLUTION, (2, 3, 8, 9), {0: "n", 2: "h", 3: "w"}, ("n", 4, "h", "w")),
    "reduced": (lambda x: x.sum(1), (2, 3, 4), {0: "n", 2: "c"}, ("n", "c")),
    "split and joined": (lambda x: torch.cat([x[:, 1:], x[:, :1]], 1), (2, 3), {0: "n"}, ("n", 3)),
    "folded and unfolded": (lambda x: x.reshape(-1, 4).reshape(x.shape), (2, 3, 4), {0: "n", 1: "s"}, ("n", "s", 4)),
    "created": (lambda x: torch.zeros(x.shape[0], 2) + x[:, :2], (2, 3), {0: "n"}, ("n", 2)),
}


@pytest.mark.parametrize(("model", "example", "axes", "expected"), FOLLOWING.values(), ids=FOLLOWING.keys())
def test_outputs_get_the_name_of_the_axis_they_follow(
    model: Callable[..., torch.Tensor], example: tuple, axes: dict[int, str], expected: tuple, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    onward.export(model, torch.randn(example), path, input_names=["x"], dynamic_axes={"x": axes}, verify=True)
    assert shapes(load(path).graph.output) == {"output": expected}
    other = torch.randn([size + 2 if axis in axes else size for axis, size in enumerate(example)])
    assert_same(run(path, [other]), [model(other)])


def test_an_axis_that_is_computed_says_how() -> None:
    program = onward.export(
        lambda x: (torch.cat([x, x]), x.reshape(-1), x[1:]), torch.randn(4, 3), dynamic_axes={"x": {0: "n"}}
    )
    assert [port.shape for port in program.outputs] == [("2*n", 3), ("3*n",), ("n - 1", 3)]


def test_an_output_axis_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    axes = {"x": {0: "batch"}, "y": {0: "batch"}, "z": {0: "both"}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onward.export(
            lambda x: (x + 1, torch.cat([x, x])), torch.randn(2, 3), path, output_names=["y", "z"], dynamic_axes=axes
        )
    assert shapes(load(path).graph.output) == {"y": ("batch", 3), "z": ("both", 3)}


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"x": {0: "batch"}, "y": {0: "n"}}, r"dynamic_axes\['y'\]\[0\] is 'n', but that axis always equals 'batch'"),
        ({"x": {0: "batch"}, "y": {1: "n"}}, r"dynamic_axes\['y'\]\[1\] is 'n', but the model always gives 3 there"),
        ({"y": {0: "batch"}}, r"dynamic_axes\['y'\]\[0\] is 'batch', but the model always gives 2 there"),
    ],
)
def test_a_name_that_cannot_be_given_is_said(axes: dict[str, Any], message: str) -> None:
    with pytest.warns(onward.CaptureWarning, match=message) as caught:
        onward.export(lambda x: x + 1, torch.randn(2, 3), output_names=["y"], dynamic_axes=axes)
    assert caught[0].filename == __file__


# Size 1 --------------------------------------------------------------------------------------------------------------


def test_an_example_of_size_one_is_as_good_as_any(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onward.export(MODEL, resized(1, 1), path, dynamic_axes=FORMS["names"][0], verify=True)
    assert shapes(load(path).graph.output) == {"output": ("batch", "length", 6)}
    for sizes in ((1, 1), (3, 1), (1, 8), (4, 2)):
        inputs = resized(*sizes)
        assert_same(run(path, inputs), [MODEL(*inputs)])
