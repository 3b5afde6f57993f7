"""Functions that the runtime itself computes, one node at a time, against whole graphs: their float32 bits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from onward.quant.exact.runtime import runtime_function

from .runtime import Graph, assert_same

Build = Callable[[Graph, str], str]


def one(op: str, **attributes: float | str) -> Build:
    return lambda graph, x: graph.node(op, x, **attributes)


FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], Build, int]] = {
    "gelu": (runtime_function("Gelu", 20), one("Gelu"), 20),
    "gelu, tanh": (runtime_function("Gelu", 20, approximate="tanh"), one("Gelu", approximate="tanh"), 20),
    "elu": (runtime_function("Elu", 13), one("Elu"), 13),
    "exp": (runtime_function("Exp", 13), one("Exp"), 13),
}


@pytest.mark.parametrize(("function", "build", "opset"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_float_bits(function: Callable[[Tensor], Tensor], build: Build, opset: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([torch.randn(30001, generator=generator) * each for each in (0.1, 2, 9)])
    ours = function(x)
    graph = Graph(opset)
    assert_same(ours, graph.run(build(graph, graph.input(x)), ours)[0])
