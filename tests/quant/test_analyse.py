"""What `analyse`, `trace_layers` and `dump_layers` find, on models where the answer is known."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path

import numpy
import pytest
import torch
from torch import Tensor, nn

import onward
from onward.errors import InputError
from onward.report import write_report

from .harness import quantized
from .test_exact import Residual, with_statistics


def residual() -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = quantized(with_statistics(Residual()), lambda: torch.randn(2, 3, 16, 16))
    return model


def batches() -> list[Tensor]:
    return [torch.randn(2, 3, 16, 16) for _ in range(2)]


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.good, self.bad = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.bad(torch.relu(self.good(x)))
        return result


def test_the_dearest_layer_comes_first() -> None:
    """Three bits for one layer: it is the one that costs."""
    config = onward.QuantConfig(rules=[onward.Rule("bad", weights={"bits": 3})])
    model = quantized(TwoLayers(), lambda: torch.randn(16, 32), config)
    found = onward.analyse(model, [torch.randn(16, 32)])
    assert [each.module for each in found.costs] == ["bad", "good"]
    assert found.costs[0].decibels + 10 < found.costs[1].decibels
    assert found.costs[1].told == "good + the model itself"
    noise = {each.module: each.alone for each in found.weights}
    assert noise["bad"] < 20 < 40 < noise["good"]


def test_a_range_that_is_too_narrow_cuts_off() -> None:
    model = quantized(TwoLayers(), lambda: torch.randn(16, 32))
    model.good.quant_linear_0_input.copy_(torch.tensor([-1.0, 1.0]))
    (entry,) = [each for each in onward.analyse(model, [torch.randn(64, 32)]).sites if each.name == "linear_0_input"]
    assert (entry.low, entry.high) == (-1, 1)
    assert entry.outside == pytest.approx(0.317, abs=0.03)  # of a normal distribution
    assert entry.used == 1


def test_a_range_that_is_too_wide_is_not_used() -> None:
    model = quantized(TwoLayers(), lambda: torch.randn(16, 32))
    model.good.quant_linear_0_input.copy_(torch.tensor([-100.0, 100.0]))
    (entry,) = [each for each in onward.analyse(model, [torch.randn(64, 32)]).sites if each.name == "linear_0_input"]
    assert entry.used < 0.06
    assert entry.outside == 0


class Functions(nn.Module):
    """What has no weights: an activation that is a module, and functions of the model itself."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.act, self.last = nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.first(x))
        result: Tensor = self.last(torch.relu(y + torch.tanh(y)))
        return result


@pytest.mark.parametrize(
    ("site", "told"),
    [
        ("first.quant_linear_0_output", "first"),
        ("act.quant_gelu_0_output", "act"),
        ("quant_tanh_0_output", "the model itself"),
        ("quant_relu_0_output", "the model itself (add_0)"),
        ("last.quant_linear_0_output", "last"),
    ],
)
def test_what_cuts_off_most_comes_first(site: str, told: str) -> None:
    model = quantized(Functions(), lambda: torch.randn(16, 32))
    assert "exact" not in str(onward.analyse(model, [torch.randn(16, 32)]))
    model.get_buffer(site).mul_(0.1)
    found = onward.analyse(model, [torch.randn(16, 32)])
    assert (found.costs[0].told, len(found.costs)) == (told, 5)
    assert found.costs[0].decibels + 10 < found.costs[1].decibels


def test_the_float_self_has_tables_in_float() -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 3))
    float_self = copy.deepcopy(layers)
    config = onward.QuantConfig(weights=onward.Weights(bits=4))
    model = quantized(layers, lambda: torch.randint(0, 20, (6, 5)), config)
    x = torch.randint(0, 20, (6, 5))
    found = onward.analyse(model, [x])
    with torch.no_grad():
        wanted = float_self(x).double()
        noise = model(x).double() - wanted
    assert found.total == pytest.approx(float(10 * torch.log10(wanted.square().sum() / noise.square().sum())))
    assert [each.module for each in found.costs] == ["0", "1"]


def test_weights_have_batch_norms_folded_in() -> None:
    """One factor of 20, which a tensor with one scale has no room for."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
    nn.init.constant_(layers[1].weight[:1].data, 20.0)
    folded = (layers[0].weight * layers[1].weight.reshape(-1, 1, 1, 1)).detach() / math.sqrt(1 + 1e-5)
    config = onward.QuantConfig(weights=onward.Weights(per_channel=False))
    found = onward.analyse(quantized(layers.eval(), lambda: torch.randn(2, 3, 8, 8), config), [torch.randn(2, 3, 8, 8)])
    (weight,) = found.weights
    scale = folded.abs().max() / 127
    noise = ((folded / scale).round() * scale - folded).double()
    assert weight.alone == pytest.approx(float(10 * torch.log10(folded.double().square().sum() / noise.square().sum())))
    assert weight.channels > 15
    assert [each.told for each in found.costs] == ["0 + 1"]


class Several(nn.Module):
    """Modules that have more than one weight, and none called `weight`."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.attention = nn.GRU(16, 16), nn.MultiheadAttention(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.rnn(x)[0]
        result: Tensor = self.attention(y, y, y)[0]
        return result


BLOCKS = onward.QuantConfig(weights=onward.Weights(bits=4, block_size=16), weight_only=True)


@pytest.mark.parametrize("config", [onward.QuantConfig(), BLOCKS])
def test_all_weights_of_a_module(config: onward.QuantConfig) -> None:
    torch.manual_seed(0)
    found = onward.analyse(quantized(Several(), lambda: torch.randn(5, 2, 16), config), [torch.randn(5, 2, 16)])
    names = [f"{each.module} {each.name}" for each in found.weights]
    assert names[:2] == ["rnn weight_ih_l0", "rnn weight_hh_l0"] and names[2].startswith("attention linear_0")
    assert all(math.isfinite(each.alone) for each in found.weights)
    assert "rnn weight_hh_l0" in str(found)
    assert {each.module for each in found.costs} == {"rnn", "attention"}


def test_an_outlier_among_the_weights() -> None:
    model = TwoLayers()
    with torch.no_grad():
        model.good.weight[3, 5] = 10
    found = onward.analyse(quantized(model, lambda: torch.randn(16, 32)), [torch.randn(16, 32)], costs=False)
    good, bad = (next(each for each in found.weights if each.module == name) for name in ("good", "bad"))
    assert good.largest == 10 and good.outlier > 20 and good.channels > 50
    assert bad.outlier < 2 and bad.channels < 1.2
    assert found.costs == ()


def test_noise_grows_through_the_model() -> None:
    found = onward.analyse(residual(), batches(), costs=False)
    assert all(each.in_place <= each.alone + 0.01 for each in found.sites)
    assert found.sites[-1].in_place == pytest.approx(found.total, abs=0.01)
    assert 25 < found.total < 60


def test_the_model_is_left_as_it_was() -> None:
    model = residual().train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    onward.analyse(model, batches())
    assert model.training
    now = model.state_dict()
    assert now.keys() == before.keys()
    assert all(torch.equal(now[name], tensor) for name, tensor in before.items())


def test_as_text_and_as_a_page(tmp_path: Path) -> None:
    model = residual()
    found = onward.analyse(model, batches())
    assert "stem conv_0_input" in str(found) and "blocks.0.conv1" in str(found)
    program = onward.export(model, (torch.randn(1, 3, 16, 16),))
    write_report(program, tmp_path / "page.html", more=found.sections())
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "What each layer costs" in page and "blocks.0.relu relu_0_call1_output" in page
    assert (
        "the shorter the bar, the more it costs" in page and "Quantized weights" in page
    )  # the page has "Weights" too


def test_names_are_escaped() -> None:
    model = nn.Sequential()
    model.add_module("<script>", nn.Linear(4, 4))
    found = onward.analyse(quantized(model, lambda: torch.randn(4, 4)), [torch.randn(4, 4)])
    assert "<script>" not in "".join(body for _, body in found.sections())


def test_decibels() -> None:
    from onward.quant.tools.analyze import decibels

    assert decibels(100, 1) == pytest.approx(20)
    assert decibels(1, 0) == math.inf
    assert math.isnan(decibels(0, 0))


@pytest.mark.parametrize("given", [[], torch.randn(2, 3, 16, 16)])
def test_without_batches(given: object) -> None:
    with pytest.raises(InputError, match="analyse needs a list with at least one batch"):
        onward.analyse(residual(), given)  # type: ignore[arg-type]


def test_a_float_model() -> None:
    with pytest.raises(InputError, match="analyse: Residual is not quantization-aware"):
        onward.analyse(Residual(), batches())


def test_which_layers_become_one() -> None:
    found = onward.trace_layers(residual(), torch.randn(1, 3, 16, 16))
    assert str(found).splitlines()[:3] == [
        "stem (conv_0) + norm (BatchNorm2d) + the model itself (Residual)",
        "blocks.0.conv1 (conv_0) + blocks.0.norm1 (BatchNorm2d) + blocks.0.relu (ReLU)",
        "blocks.0.conv2 (conv_0) + blocks.0.norm2 (BatchNorm2d)",
    ]


def test_every_tensor_in_files(tmp_path: Path) -> None:
    model = residual()
    x = torch.randn(1, 3, 16, 16)
    folder = onward.dump_layers(model, x, tmp_path / "run")
    entries = json.loads((folder / "layers.json").read_text())
    assert {path.name for path in folder.iterdir()} == {"layers.json", *(each["file"] for each in entries)}
    last = entries[-1]
    q = numpy.load(folder / last["file"]).astype(numpy.float32)
    with torch.no_grad():
        wanted = model(x).numpy()
    assert numpy.array_equal((q - last["zero_point"]) * numpy.float32(last["scale"]), wanted)


def test_names_that_are_no_names_of_files(tmp_path: Path) -> None:
    layers = nn.Sequential(nn.ModuleDict({"1/4": nn.Linear(4, 4), "1_4": nn.Linear(4, 4)}))
    layers.forward = lambda x: layers[0]["1_4"](layers[0]["1/4"](x))  # type: ignore[assignment,operator,index]
    model = quantized(layers, lambda: torch.randn(2, 4))
    folder = onward.dump_layers(model, torch.randn(2, 4), tmp_path / "run")
    assert sorted(path.name for path in folder.iterdir()) == [
        "0.1_4.linear_0_input.npy", "0.1_4.linear_0_output.1.npy", "0.1_4.linear_0_output.npy", "layers.json",
    ]  # fmt: skip
    entries = json.loads((folder / "layers.json").read_text())
    assert [each["module"] for each in entries] == ["0.1/4", "0.1/4", "0.1_4"]


class Again(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layer(torch.relu(self.layer(x))))


def test_a_module_that_is_called_again_is_one_row() -> None:
    found = onward.analyse(quantized(Again(), lambda: torch.randn(8, 4)), [torch.randn(8, 4)])
    assert [each.told for each in found.costs] == ["layer + the model itself"]
    assert [each.module for each in found.weights] == ["layer"]


def test_a_dump_over_something_else(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exists already"):
        onward.dump_layers(residual(), torch.randn(1, 3, 16, 16), tmp_path)


def test_a_dump_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        onward.dump_layers(residual(), torch.randn(1, 4, 16, 16), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
