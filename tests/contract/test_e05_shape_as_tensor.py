"""E5: sizes as tensors, ours and PyTorch's, in eager mode and dynamic in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.onnx.operators

import onward
from tests.opsets import NEWEST

from .running import assert_same, load, run, shapes

AXES = {"x": {0: "batch", 1: "length"}, "y": {0: "batch"}}
HOMES = [onward.operators, onward.onnx.operators, torch.onnx.operators]


class Model(torch.nn.Module):
    def __init__(self, home: Any) -> None:
        super().__init__()
        self.home = home

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        shape = self.home.shape_as_tensor(x)
        target = torch.cat([shape[:1], shape[1:2] * shape[2:], torch.tensor([-1])])
        return self.home.reshape_from_tensor_shape(x.exp(), target), shape, y + shape[0]


@pytest.mark.parametrize("opset", [9, 13, 20, NEWEST])
@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.__name__)
def test_they_stay_dynamic(tmp_path: Path, home: Any, opset: int) -> None:
    file = tmp_path / "model.onnx"
    model = Model(home)
    onward.export(model, (torch.randn(2, 3, 4), torch.randn(2, 5)), file, dynamic_axes=AXES, opset_version=opset)
    assert next(iter(shapes(load(file).graph.output).values()))[0] == "batch"
    for batch, length in ((2, 3), (1, 1), (5, 7)):
        inputs = [torch.randn(batch, length, 4), torch.randn(batch, 5)]
        assert_same(run(file, inputs), model(*inputs))


def test_in_eager_mode() -> None:
    x = torch.randn(2, 6)
    assert onward.operators.shape_as_tensor(x).tolist() == [2, 6]
    assert onward.operators.shape_as_tensor(x).dtype is torch.int64
    assert onward.operators.reshape_from_tensor_shape(x, torch.tensor([3, -1])).shape == (3, 4)


def test_a_shape_that_is_an_input_is_refused_where_axes_vary() -> None:
    def reshape(x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
        return onward.operators.reshape_from_tensor_shape(x, shape)

    example = (torch.randn(2, 6), torch.tensor([2, 3, 2]))
    with pytest.raises(onward.CaptureError) as caught:
        onward.export(reshape, example, dynamic_axes={"x": {0: "batch"}})
    assert str(caught.value).startswith("the sizes of a reshape depend on the data of a tensor\n  at ")
    program = onward.export(reshape, example)
    assert program.outputs[0].shape == (2, 3, 2)
