"""B6: a pool over a whole axis, its size made an int or not."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from .control import OPSETS, check


class AsInt(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.max_pool1d(x, int(x.size(2)))


class AsSize(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.max_pool1d(x, x.size(2))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("model", [AsInt(), AsSize()], ids=["int", "size"])
def test_both_forms_export(model: torch.nn.Module, opset: int) -> None:
    check(model, (torch.randn(2, 3, 5),), [(torch.randn(2, 3, 5),)], opset_version=opset)
    axes = {"x": {0: "batch", 2: "length"}}
    check(model, (torch.randn(2, 3, 5),), [(torch.randn(1, 3, 9),)], dynamic_axes=axes, opset_version=opset)
