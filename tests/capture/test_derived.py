"""What plain ops make of weights, written down and done again with others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import onward
from onward.capture.program.derived_constants import Step, rederive

from .tracing import traced


class Model(nn.Module):
    def __init__(self, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.make, self.weight = make, nn.Parameter(torch.randn(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.make(self.weight)


def _written(weight: torch.Tensor) -> torch.Tensor:
    memory = torch.arange(12.0).reshape(4, 3)
    memory[1:3] = weight
    memory.mul_(2)
    return memory[:2]


def _written_late(weight: torch.Tensor) -> torch.Tensor:
    """A tensor that no weight has a part in changes after it was read."""
    plain = torch.ones(2, 3)
    result = weight * plain
    plain.zero_()
    return result + plain


MAKES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one op": lambda w: w * 2,
    "a view": lambda w: w[1:],
    "a view of a view": lambda w: w.t()[1:].t()[0, :1],
    "several results": lambda w: w.split([1, 1])[1] - w.max(0).values,
    "written into memory": _written,
    "read before a change": _written_late,
    "in place": lambda w: w.clone().add_(1).relu_(),
    "an out argument": lambda w: torch.mul(w, 3, out=torch.empty(2, 3)),
    "past autograd": lambda w: w.data + w.detach(),
    "a list of tensors": lambda w: torch.cat([w[:1], torch.ones(1, 3)]) + torch.stack([w[0], w[1]]),
}


@pytest.mark.parametrize("name", MAKES)
def test_done_again(name: str) -> None:
    torch.manual_seed(0)
    model, other = Model(MAKES[name]), torch.randn(2, 3)
    program = traced(model, torch.randn(2, 3))
    (constant,) = (name for name in program.constants)
    for weight in (model.weight, other, other.t().contiguous().t()):  # the last with other strides
        made = rederive(program.derived, {"weight": weight}).get(constant, weight)
        with torch.no_grad():
            assert torch.equal(made, MAKES[name](weight.detach()))
    assert program.constants[constant].tensor.equal(MAKES[name](model.weight.detach()))  # the old one is as it was


def test_only_what_is_needed_is_kept() -> None:
    def make(weight: torch.Tensor) -> torch.Tensor:
        weight.exp().sum()
        torch.ones(3) + 1
        return weight + 1

    steps = traced(Model(make), torch.randn(2, 3)).derived.steps
    assert [str(step.op) for step in steps if isinstance(step, Step)] == ["aten.add.Tensor"]


def test_a_model_without_such_constants_keeps_nothing() -> None:
    assert traced(nn.Linear(3, 2), torch.randn(1, 3)).derived.steps == ()


def test_names_say_where_a_constant_comes_from() -> None:
    program = traced(Model(lambda w: w.t().exp().t()), torch.randn(2, 3))
    assert [each.origin for each in program.constants.values()] == ["weight.exp"]


def test_a_read_is_asked_again() -> None:
    model = Model(lambda w: w * 2 if float(w[0, 0]) > 0 else w)
    with torch.no_grad():
        model.weight[0, 0] = 1
    program = traced(model, torch.randn(2, 3))
    rederive(program.derived, {"weight": model.weight})
    with pytest.raises(onward.CaptureError, match=r"it was 1\.0, and is 0\.5 with these\n  at .*test_derived\.py"):
        rederive(program.derived, {"weight": torch.full((2, 3), 0.5)})
