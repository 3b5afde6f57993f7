"""Of values that are equal, as many are on a grid, evaluation takes those that onnxruntime takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from onward.quant import Activations, QuantConfig, Rule

from .harness import quantized, through_onnxruntime

COARSE = Activations(bits=3)
ORDERS: dict[str, Callable[[Tensor], Any]] = {
    "largest": lambda x: torch.topk(x, 5),
    "smallest, along rows": lambda x: x.topk(3, dim=0, largest=False),
    "in any order": lambda x: x.topk(k=7, sorted=False),
    "of a softmax": lambda x: (x.softmax(-1).topk(2, -1).indices,),
    "sort": lambda x: torch.sort(x, descending=True),
    "sort, along rows": lambda x: x.sort(0),
    "argsort": lambda x: (x.argsort(),),
    "argsort, the largest first": lambda x: (torch.argsort(x, dim=-1, descending=True),),
}


class Ordered(nn.Module):
    def __init__(self, order: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.order = nn.Linear(8, 40), Order(order)

    def forward(self, x: Tensor) -> Any:
        return self.order(self.layer(x))


class Order(nn.Module):
    def __init__(self, order: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.order = order

    def forward(self, x: Tensor) -> Any:
        return tuple(self.order(x))


@pytest.mark.parametrize("rules", [(), (Rule("order", off=True),)], ids=["quantized", "in float"])
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_the_first_of_equals(order: Callable[[Tensor], Any], rules: tuple[Rule, ...], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Ordered(order), lambda: torch.randn(30, 8), QuantConfig(activations=COARSE, rules=rules))
    named = {"input_names": ["x"], "dynamic_axes": {"x": {0: "rows"}}}
    assert through_onnxruntime(model, torch.randn(30, 8), tmp_path, fresh=torch.randn(45, 8), **named).equal == 1


def test_too_many_are_refused_as_pytorch_does() -> None:
    model = quantized(Ordered(lambda x: x[:, :3].topk(3)), lambda: torch.randn(4, 8))
    model.order.order = lambda x: x.topk(41)
    with pytest.raises(RuntimeError, match="out of range"):
        model(torch.randn(4, 8))
