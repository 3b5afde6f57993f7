"""A10: with folding, what can be worked out beforehand is; without, the weights stand in the file as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import onward
from tests.opsets import NEWEST

from . import weighted
from .running import assert_same, load, run


@pytest.mark.parametrize("opset", [9, 13, 17, 20, NEWEST])
@pytest.mark.parametrize("name", ["recurrent", "convolutional"])
def test_off_the_weights_are_those_of_the_state_dict(name: str, opset: int, tmp_path: Path) -> None:
    model, x, axes = weighted.models()[name]
    file = tmp_path / "m.onnx"
    onward.export(
        model, x, file, input_names=["x"], dynamic_axes={"x": axes}, opset_version=opset,
        do_constant_folding=False, verify=True,
    )  # fmt: skip
    load(file)
    stored, state = weighted.initializers(file), model.state_dict()
    assert {key for key, _ in model.named_parameters()} <= set(stored)
    for key in set(stored) & set(state):
        assert torch.equal(stored[key], state[key]), key
    # Nothing else is of a weight's size: what is made of weights is made when the model runs.
    assert all(tensor.numel() <= 16 for key, tensor in stored.items() if key not in state)
    assert_same(run(file, [x]), [model(x)])


def kinds(program: onward.Program) -> list[str]:
    return [node.op_type for node in program.model.graph]


def test_what_folding_removes_stays() -> None:
    model, x, _ = weighted.models()["convolutional"]
    on, off = (onward.export(model, x, do_constant_folding=folding) for folding in (True, False))
    assert kinds(on) == ["Conv", "Relu", "ReduceMean", "Gemm"]
    assert kinds(off)[:3] == ["Conv", "BatchNormalization", "Relu"]
    assert set(kinds(off)) > set(kinds(on))
    assert "norm.running_var" not in weighted.initializers(on.proto())


def test_on_is_the_default() -> None:
    model, x, _ = weighted.models()["recurrent"]
    default, on = onward.export(model, x), onward.export(model, x, do_constant_folding=True)
    assert kinds(default) == kinds(on)
    assert kinds(on).count("Transpose") < kinds(onward.export(model, x, do_constant_folding=False)).count("Transpose")


def test_without_passes_too() -> None:
    model, x, _ = weighted.models()["convolutional"]
    program = onward.export(model, x, do_constant_folding=False, optimize=False)
    assert_same([program(x)], [model(x)])


class Writes(nn.Module):
    """A buffer that forward writes to, through a view, while another view is held."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(6.0).reshape(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before, first = self.table.t(), self.table[0]
        first.mul_(2)
        first.add_(x)
        return before.sum(1) + self.table[1]


class Cached(nn.Module):
    """Keeps what it computed of a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.kept: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept = self.layer.weight.t()
        return x @ self.kept


class Shares(nn.Module):
    """Two parameters in one piece of memory, and a slice of one that is no parameter."""

    def __init__(self) -> None:
        super().__init__()
        memory = torch.randn(4, 3)
        self.first, self.second = nn.Parameter(memory[:2]), nn.Parameter(memory[2:])
        self.part = self.first.detach()[1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.first.t() @ self.second + self.part


def _old_weight_norm() -> nn.Module:
    with pytest.warns(FutureWarning):
        return nn.Sequential(torch.nn.utils.weight_norm(nn.Linear(3, 3)))


@pytest.mark.parametrize("make", [Writes, Cached, Shares, _old_weight_norm])
def test_models_that_handle_their_weights(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    model = make().eval()
    x = torch.randn(2, 3) if not isinstance(model, Writes) else torch.randn(3)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    attributes = [{k: v for k, v in vars(each).items() if k != "weight"} for each in model.modules()]
    program = onward.export(model, x, do_constant_folding=False, verify=True)
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state_dict().items())
    assert attributes == [{k: v for k, v in vars(each).items() if k != "weight"} for each in model.modules()]
    for each in model.modules():
        assert all(type(value).__name__ != "Traced" for value in vars(each).values())
    got = program(x)
    with torch.no_grad():
        assert_same([got], [model(x)])
