"""Weights and layers at the ends of what there is: nothing in them, too much, not a number, or used more than once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onward
from onward.quant import Activations, QuantConfig, Rule, Weights

from .harness import left_in_float, quantized, through_onnxruntime


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))


def rows() -> Tensor:
    return torch.randn(4, 16)


POWERS = QuantConfig(weights=Weights(power_of_two=True), activations=Activations(power_of_two=True))
ONE_SCALE = QuantConfig(weights=Weights(per_channel=False))


@pytest.mark.parametrize("config", [None, POWERS, ONE_SCALE], ids=["default", "powers of two", "one scale"])
@pytest.mark.parametrize("size", [0.0, 1e-8, 1e-20, 1e-42])
def test_a_bias_survives_weights_of_next_to_nothing(size: float, config: QuantConfig | None, tmp_path: Path) -> None:
    """Its steps are those of the sums, which shrink with the weights: int32 would have no room."""
    torch.manual_seed(0)
    model = mlp()
    with torch.no_grad():
        model[2].weight[:] = model[2].weight.sign() * size
        model[2].bias[:] = torch.tensor([0.5, -0.3, 0.0, 2.0])
    quantized(model, rows, config)
    outcome = through_onnxruntime(model, rows(), tmp_path, fresh=rows())
    assert outcome.equal == 1
    step = 2.5 / 255 if config is not POWERS else 2**-6
    torch.testing.assert_close(model(rows()), model[2].bias.expand(4, 4), atol=step, rtol=0)


def test_channels_that_a_batch_norm_has_switched_off(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
    with torch.no_grad():
        model[1].weight[:2] = torch.tensor([1e-9, 0.0])
        model[1].bias[:2] = torch.tensor([0.7, -0.4])
    quantized(model, lambda: torch.randn(2, 3, 8, 8))
    outcome = through_onnxruntime(model, torch.randn(2, 3, 8, 8), tmp_path, fresh=torch.randn(2, 3, 8, 8))
    assert outcome.equal == 1
    y = model(torch.randn(2, 3, 8, 8))
    assert float((y[:, 0] - 0.7).abs().max()) < 0.02
    assert float((y[:, 1] + 0.4).abs().max()) < 0.02


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.lstm(x)[0]
        return result


def ids() -> Tensor:
    return torch.randint(0, 9, (2, 5))


# the model, its input, the parameter that is spoilt, and what is said of it
SPOILT: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor], str, str]] = {
    "linear": (mlp, rows, "2.weight", "2: 1 of 32 values of the weight"),
    "bias": (mlp, rows, "2.bias", "2: 1 of 4 values of the bias"),
    "conv": (lambda: nn.Sequential(nn.Conv1d(4, 2, 1)), lambda: torch.randn(2, 4, 4), "0.weight", "0: 1 of 8 values"),
    "up": (
        lambda: nn.Sequential(nn.ConvTranspose1d(4, 2, 2)), lambda: torch.randn(2, 4, 4), "0.bias", "0: 1 of 2 values",
    ),
    "table": (lambda: nn.Sequential(nn.Embedding(9, 4)), ids, "0.weight", "0: values of the table"),
    "lstm": (Recurrent, rows, "lstm.weight_hh_l0", "lstm: 1 of 64 values of the weight"),
}  # fmt: skip


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("case", SPOILT)
def test_what_is_no_number_is_named(case: str, value: float) -> None:
    make, example, name, said = SPOILT[case]
    model = quantized(make(), example)
    model.get_parameter(name).data.view(-1)[0] = value
    for run in (lambda: model(example()), lambda: onward.export(model, (example(),))):
        with pytest.raises(onward.QuantizationError, match=f"^{said}.* NaN or infinite"):
            run()


@pytest.mark.parametrize(
    ("end", "weight", "bias", "said"),
    [
        (1e27, 1e18, 1.0, r"2: steps of .* have no products in float32"),
        (1e-22, 1e-22, 0.0, r"2: steps of .* have no products in float32"),
        (1e-30, 1.0, 1e30, r"2: its bias, up to 1e\+30, cannot be counted next to an input in steps of "),
    ],
)
def test_numbers_of_a_training_that_diverged_are_named(end: float, weight: float, bias: float, said: str) -> None:
    model: Any = quantized(mlp(), rows)
    model[1].quant_relu_0_output[1] = end
    model[2].weight.data.mul_(weight)
    model[2].bias.data.fill_(bias)
    with pytest.raises(onward.QuantizationError, match=f"^{said}"):
        model(rows())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("config", [None, QuantConfig(rules=[Rule("0", off=True)])], ids=["all", "some"])
def test_a_model_that_was_cast(dtype: torch.dtype, config: QuantConfig | None) -> None:
    model = quantized(mlp(), rows, config).to(dtype)
    with pytest.raises(onward.QuantizationError, match=f"parameters are of {dtype} by now"):
        model(rows().to(dtype))


def padded(mode: str) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, padding_mode=mode),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3, padding=(1, 2), padding_mode=mode),
    )


def shared() -> nn.Module:
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))
    model[2].weight = model[0].weight
    return model


class Twice(nn.Module):
    """Its results are of two sizes: each call has a range of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(torch.relu(self.layer(x)) * 100)
        return result


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(9, 16), nn.Linear(16, 9, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(torch.relu(self.words(x)))
        return result


class TwoNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = self.other = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.one(x) + self.other(2 * x)
        return result


def image() -> Tensor:
    return torch.randn(2, 3, 8, 8)


USES: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    **{f"padded by {mode}": (padded(mode), image) for mode in ("reflect", "circular", "replicate", "zeros")},
    "groups": (lambda: nn.Sequential(nn.Conv2d(3, 6, 3, groups=3), nn.ReLU(), nn.Conv2d(6, 6, 3, groups=6)), image),
    "no bias": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.Conv2d(4, 2, 1, bias=False)), image),
    "a shared weight": (shared, rows),
    "called twice": (Twice, rows),
    "tied to a table": (Tied, ids),
    "two names": (TwoNames, rows),
}


@pytest.mark.parametrize("name", USES)
def test_unusual_use(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, example = USES[name]
    seen: Any = example()
    in_float = make()
    wanted = in_float(seen).detach()
    model = quantized(in_float, lambda: seen, batches=1)  # a range that fits: what is left are steps
    assert float((model(seen) - wanted).abs().max()) < 0.05 * float(wanted.abs().max())
    outcome = through_onnxruntime(model, seen, tmp_path, fresh=example())
    assert outcome.equal == 1
    assert left_in_float(outcome) == {}


def test_a_module_that_comes_after_init_belongs_to_the_one_around_it() -> None:
    model, x = onward.quant.initialise(nn.Sequential(nn.Sequential(nn.Linear(4, 4)))), torch.randn(3, 4)
    with onward.calibration(model):
        model(x)
    model[0].add_module("new", nn.PReLU())
    with pytest.raises(onward.QuantizationError, match=r"0 \(prelu_0_output\) has no range yet"):
        model.eval()(x)
    with onward.calibration(model):
        model(x)
    assert model.eval()(x).isfinite().all()


class Fixed(nn.Module):
    """A parametrisation with a matrix of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("turn", torch.linalg.qr(torch.randn(16, 16))[0])

    def forward(self, weight: Tensor) -> Tensor:
        return weight @ self.turn


def turned(layer: nn.Module) -> nn.Module:
    return nn.utils.parametrize.register_parametrization(layer, "weight", Fixed())


MADE: dict[str, Callable[[nn.Module], nn.Module]] = {
    "spectral norm": nn.utils.parametrizations.spectral_norm,
    "spectral norm by hooks": nn.utils.spectral_norm,
    "weight norm": nn.utils.parametrizations.weight_norm,
    "a matrix that is a buffer": turned,
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_weights_that_are_made_when_they_are_read(made: Callable[[nn.Module], nn.Module], tmp_path: Path) -> None:
    """They are made in float, as of a float model, and quantized as weights."""
    torch.manual_seed(0)
    layer = made(nn.Linear(16, 8))
    model = nn.Sequential(layer, nn.ReLU(), nn.Linear(8, 4))
    as_float = copy.deepcopy(model)
    quantized(model, rows, QuantConfig(weights=Weights(bits=4), activations=Activations(bits=4, learned=True)))
    held = {name for name in model.state_dict() if "quant_" in name}
    assert held == {"0.quant_linear_0_input", "1.quant_relu_0_output", "2.quant_linear_0_output"}
    x = rows()
    for each in (model.train(), as_float.train()):  # a power iteration writes to its vectors
        each(x).sum().backward()
    assert {name for name in model.state_dict() if "quant_" in name} == held
    for name, value in as_float.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, atol=0, rtol=0)
    outcome = through_onnxruntime(model.eval(), x, tmp_path, fresh=rows())
    assert outcome.equal == 1 and outcome.fused["QGemm"] == 2
