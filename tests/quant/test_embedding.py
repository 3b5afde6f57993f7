"""Tables: what is stored and gathered are integers."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from torch import Tensor, nn

import onward
import onward.backend
from onward.quant import Activations, QuantConfig, Weights

from .harness import left_in_float, quantized, through_onnxruntime
from .test_exact import CONFIGS


class Lookup(nn.Module):
    def __init__(self, **how: object) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 8, **how), nn.Embedding(6, 8)  # type: ignore[arg-type]
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.words(x) + self.places(torch.arange(x.size(1))))


def example() -> Tensor:
    return torch.randint(0, 20, (3, 6))


@pytest.mark.parametrize(
    "config",
    [
        QuantConfig(),
        QuantConfig(activations=Activations(symmetric=True)),
        QuantConfig(weights=Weights(bits=4, power_of_two=True)),
    ],
    ids=["default", "symmetric", "four bits"],
)
@pytest.mark.parametrize("opset", [13, 21])
def test_integers_are_gathered(config: QuantConfig, opset: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Lookup(padding_idx=0), example, config)
    outcome = through_onnxruntime(
        model,
        example(),
        tmp_path,
        fresh=torch.randint(0, 20, (5, 4)),
        opset=opset,
        dynamic_axes={"x": {0: "n", 1: "s"}},
    )
    assert outcome.equal == 1
    assert outcome.fused["QLinearAdd"] == 1
    stored = [each for each in onnx.load(outcome.path).graph.initializer if list(each.dims) == [20, 8]]
    assert [each.data_type for each in stored] == [onnx.TensorProto.UINT8]


def test_a_table_whose_rows_are_bounded_stays_in_float(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Lookup(max_norm=1.0), example)
    outcome = through_onnxruntime(model, example(), tmp_path)
    assert outcome.equal == 1


class Bags(nn.Module):
    def __init__(self, mode: str, **how: object) -> None:
        super().__init__()
        self.words, self.head = nn.EmbeddingBag(20, 8, mode=mode, **how), nn.Linear(8, 4)  # type: ignore[arg-type]

    def forward(self, x: Tensor, *weights: Tensor) -> Tensor:
        return self.head(self.words(x, None, *weights))


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("mode", ["sum", "mean", "max", "weighted sum"])
def test_bags_of_one_size_are_sums_of_rows(mode: str, config: str, tmp_path: Path) -> None:
    def bags(count: int, size: int) -> tuple[Tensor, ...]:
        weights = (torch.rand(count, size),) if mode == "weighted sum" else ()
        return torch.randint(0, 20, (count, size)), *weights

    torch.manual_seed(0)
    model = Bags(mode.split()[-1])
    example = bags(3, 6)
    with torch.no_grad():
        wanted = model(*example)
    model = quantized(model, lambda: example, CONFIGS[config])
    assert float((model(*example) - wanted).detach().norm() / wanted.norm()) < (0.3 if config == "four bits" else 0.03)
    axes = {name: {0: "n", 1: "s"} for name in ("x", "weights_0")[: len(example)]}
    outcome = through_onnxruntime(model, example, tmp_path, fresh=bags(5, 4), dynamic_axes=axes)
    assert outcome.equal == 1
    assert left_in_float(outcome) == {}
    stored = [each for each in onnx.load(outcome.path).graph.initializer if list(each.dims) == [20, 8]]
    assert [each.data_type for each in stored] == [onnx.TensorProto.UINT8]


def test_bags_with_padding_stay_in_float(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Bags("mean", padding_idx=0), example)
    outcome = through_onnxruntime(model, example(), tmp_path, fresh=example())
    assert outcome.equal == 1
    assert outcome.fused["QGemm"] == 1


def test_training_reaches_the_rows_that_were_used() -> None:
    torch.manual_seed(0)
    model = quantized(Lookup(padding_idx=0), example)
    model.train()(torch.tensor([[0, 3, 7]])).sum().backward()
    used = model.words.weight.grad.abs().sum(1) > 0
    assert used.nonzero().flatten().tolist() == [3, 7]


def test_for_chips(tmp_path: Path) -> None:
    """A chip's integers have no zero point: those of the table neither."""
    torch.manual_seed(0)
    config = QuantConfig(
        weights=Weights(per_channel=False, power_of_two=True),
        activations=Activations(symmetric=True, power_of_two=True),
        rounding="half_up",
        platform="venusA",
    )
    model = quantized(Lookup(), example, config)
    x = example()
    onward.export(model, (x,), tmp_path / "chip.onnx", quant_format="linger")
    result = onward.backend.prepare(tmp_path / "chip.onnx").run(x)
    torch.testing.assert_close(torch.as_tensor(result[0]), model(x).detach(), rtol=0, atol=0)
    stored = [each for each in onnx.load(tmp_path / "chip.onnx").graph.initializer if list(each.dims) == [20, 8]]
    assert [each.data_type for each in stored] == [onnx.TensorProto.INT8]
