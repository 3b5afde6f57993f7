"""Clamp training: what a layer computes with, what the parameters are, and what is left when it ends."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import prune

import onward
from onward import Clamp, QuantConfig, Rule
from onward.errors import InputError
from onward.quant import initialise
from onward.quant.setup.constrain import is_constrained


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.norm = nn.BatchNorm2d(3)
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.norm(self.conv(x))).mean((2, 3)))


def clamped_by_hand(model: Net, x: Tensor, clamp: Clamp) -> Tensor:
    def bounded(value: Tensor, limit: float | Tensor | None) -> Tensor:
        return value if limit is None else torch.clamp(value, -limit, limit)

    def weight(w: Tensor) -> Tensor:
        return bounded(
            w, clamp.weight if clamp.weight_factor is None else clamp.weight_factor * w.detach().abs().mean()
        )

    conv, norm, head = model.conv, model.norm, model.head
    y = bounded(F.conv2d(x, weight(conv.weight), bounded(conv.bias, clamp.bias)), clamp.activation)
    y = F.batch_norm(y, norm.running_mean.clone(), norm.running_var.clone(), norm.weight, norm.bias, model.training)
    y = F.relu(bounded(y, clamp.activation)).mean((2, 3))
    return bounded(F.linear(y, weight(head.weight), bounded(head.bias, clamp.bias)), clamp.activation)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "clamp",
    [
        Clamp(weight=0.1),
        Clamp(weight_factor=1.2),
        Clamp(weight=0.1, weight_factor=1.2),
        Clamp(bias=0.05),
        Clamp(activation=0.3),
        Clamp(weight=0.2, bias=0.1, activation=0.5),
    ],
    ids=str,
)
def test_layers_compute_with_clamped_values_and_gradients(clamp: Clamp, training: bool) -> None:
    torch.manual_seed(0)
    model, x = Net().train(training), torch.randn(4, 1, 6, 6)
    wanted = clamped_by_hand(model, x, clamp)
    wanted.square().sum().backward()
    grads = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
    model.zero_grad()
    names = list(model.state_dict())
    assert onward.constrain(model, clamp) is model
    out = model(x)
    assert torch.equal(out, wanted)
    out.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and torch.allclose(parameter.grad, grads[name])
    assert list(model.state_dict()) == names
    assert isinstance(model.conv.weight, nn.Parameter) and "weight" not in model.conv.__dict__


def test_the_end_leaves_the_clamped_weights() -> None:
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(4, 1, 6, 6)
    clamp = Clamp(weight=0.1, bias=0.05)
    wanted = clamped_by_hand(model, x, clamp)
    onward.constrain(model, clamp)
    assert is_constrained(model)
    assert onward.unconstrain(model) is model
    assert not is_constrained(model)
    assert torch.equal(model(x), wanted)
    assert float(model.conv.weight.detach().abs().max()) == pytest.approx(0.1)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    initialise(model)


def test_linger_s_bounds_are_the_default() -> None:
    model = nn.Linear(2, 1, bias=False)
    model.weight.data = torch.tensor([[100.0, 0.0]])
    onward.constrain(model)
    assert model(torch.tensor([[1.0, 0.0]])).item() == 8
    assert model(torch.tensor([[0.01, 0.0]])).item() == 1  # 7 times the mean of 50 is above 100


def test_training_keeps_values_near_and_what_is_outside_is_not_pushed_on() -> None:
    torch.manual_seed(0)
    model = onward.constrain(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1)), Clamp(weight=0.5, activation=2.0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x = torch.randn(64, 4)
    for _ in range(50):
        optimizer.zero_grad()
        (model(x) - 50).square().mean().backward()
        optimizer.step()
    assert float(model(x).detach().max()) <= 2
    onward.unconstrain(model)
    assert all(float(each.weight.detach().abs().max()) <= 0.5 for each in model)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind: Any) -> None:
    torch.manual_seed(0)
    layer, x = kind(3, 5, batch_first=True), torch.randn(2, 7, 3)
    twin = copy.deepcopy(layer)
    with torch.no_grad():
        for name, parameter in twin.named_parameters():
            parameter.clamp_(-0.2, 0.2) if name.startswith("weight") else None
    onward.constrain(layer, Clamp(weight=0.2, activation=0.05))
    out, state = layer(x)
    wanted, wanted_state = twin(x)
    assert torch.equal(out, wanted.clamp(-0.05, 0.05))
    assert torch.equal(state[0] if kind is nn.LSTM else state, wanted_state[0] if kind is nn.LSTM else wanted_state)
    out.sum().backward()
    assert all(each.grad is not None for each in layer.parameters())
    assert all(isinstance(each, nn.Parameter) for each in layer._flat_weights)


def test_copies_files_and_errors_in_between(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = onward.constrain(Net(), Clamp(weight=0.1)).eval(), torch.randn(2, 1, 6, 6)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(x), model(x))
        assert not is_constrained(onward.unconstrain(other)) and is_constrained(model)
    with pytest.raises(RuntimeError):
        model(torch.randn(2, 5, 6, 6))
    assert "weight" not in model.conv.__dict__
    float_model = Net()
    float_model.load_state_dict(model.state_dict())


def test_what_stays_as_it_is() -> None:
    config = QuantConfig(clamp=Clamp(activation=0.1), rules=[Rule("head", off=True)])
    model = onward.constrain(Net(), config=config)
    assert not model.head._forward_hooks and model.conv._forward_hooks
    model = onward.constrain(Net(), disable_module=nn.Conv2d, disable_submodel="norm")
    assert [name for name, each in model.named_modules() if each._forward_hooks] == ["head"]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(7, 8), nn.Linear(8, 7, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.table(x.long().sum((1, 2, 3)) % 7))
        return result


class Attention(nn.Module):
    """That takes the weight of its last projection, and does not call it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.attention = nn.Linear(4, 8), nn.MultiheadAttention(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x.flatten(0, 1))
        result: Tensor = self.attention(y, y, y)[0]
        return result


def pruned() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), prune.l1_unstructured(nn.Linear(4, 4), "weight", 0.5))


@pytest.mark.filterwarnings("ignore::onward.QuantizationWarning")
@pytest.mark.parametrize("make", [Tied, Attention, pruned])
def test_what_is_left_is_what_was_trained(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    model, x = make(), torch.randn(3, 1, 4, 4) * 9
    with torch.no_grad():
        for each in model.parameters():
            each[:1] *= 50
        onward.constrain(model, Clamp(weight_factor=1.5))
        wanted = model(x)
        assert torch.equal(onward.unconstrain(model)(x), wanted)


def test_weights_that_cannot_be_clamped_are_named() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)))
    with pytest.warns(
        onward.QuantizationWarning, match="^constrain: a weight of 1 is made of other .* not clamped"
    ) as seen:
        onward.constrain(model)
    assert seen[0].filename == __file__


def test_the_bounds_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "quant.yaml"
    onward.save_config(QuantConfig(clamp=Clamp(activation=0.01)), path)
    model = onward.constrain(nn.Linear(2, 2), config_file=path)
    assert float(model(torch.ones(1, 2)).detach().abs().max()) <= 0.01 + 1e-6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: onward.constrain(nn.Linear(2, 2), Clamp()), "a clamp without any bound"),
        (lambda: onward.constrain(nn.Linear(2, 2), config=QuantConfig()), "a clamp without any bound"),
        (lambda: onward.constrain(nn.Linear(2, 2), 8.0), "clamp must be a Clamp, not 8.0"),  # type: ignore[arg-type]
        (lambda: onward.constrain(nn.ReLU()), "finds no layer to clamp"),
        (lambda: onward.constrain(torch.ones(1)), "takes an nn.Module, not Tensor"),  # type: ignore[arg-type]
        (lambda: onward.constrain(initialise(nn.Linear(2, 2))), "quantization-aware already"),
        (lambda: onward.constrain(onward.constrain(nn.Linear(2, 2))), "constrained already"),
        (lambda: onward.constrain(nn.Linear(2, 2), config={}), "config must be a QuantConfig, not dict"),  # type: ignore[arg-type]
        (lambda: onward.unconstrain(nn.Linear(2, 2)), "is not constrained"),
        (lambda: onward.unconstrain(None), "takes an nn.Module, not NoneType"),  # type: ignore[arg-type]
        (lambda: initialise(onward.constrain(nn.Sequential(nn.Linear(2, 2)))), "onward.unconstrain"),
        (lambda: onward.constrain(Net(), disable_submodel="haed"), "did you mean 'head'"),
    ],
)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
