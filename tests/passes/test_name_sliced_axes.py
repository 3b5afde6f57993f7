"""Slices of opset 10 have axes with names of their own."""

from __future__ import annotations

import pytest
import torch

import onward
from onward.passes.for_onnxruntime.name_sliced_axes import name_sliced_axes

from .running import apply

MODEL = """<ir_version: 5, opset_import: ["" : OPSET]>
g (float[n, 3] x) => (float[k, 3] z) <int64[1] s = {0}, int64[1] e = {-1}, int64[1] a = {0}, float[?, 3] y> {
    y = Slice(x, s, e, a)
    z = Abs(y)
}"""


def test_an_unknown_axis_is_named_after_the_value() -> None:
    changed, model = apply(name_sliced_axes, MODEL.replace("OPSET", "10"))
    assert changed
    assert str(model.graph[0].outputs[0].shape) == "[y_axis_0,3]"


@pytest.mark.parametrize(
    "text", [MODEL.replace("OPSET", "11"), MODEL.replace("OPSET", "10").replace("[?, 3] y", "[2, 3] y")]
)
def test_declines(text: str) -> None:
    changed, _ = apply(name_sliced_axes, text)
    assert not changed


def test_onnxruntime_does_not_give_a_slice_the_memory_of_a_longer_value() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            z = torch.zeros_like(y)
            z[-1] = z[0] + 1
            z += y
            return x * z

    axes = {"x": {0: "n"}, "y": {0: "n"}}
    onward.export(Model(), (torch.randn(2, 1), torch.randn(2)), dynamic_axes=axes, opset_version=10, verify=True)
