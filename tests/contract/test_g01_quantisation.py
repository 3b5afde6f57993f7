"""G1: one line makes a model quantisation-aware, it trains as before, and export writes the integer model."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onward as linger


@pytest.fixture(autouse=True)
def routing_ends():
    yield
    linger.restore()


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
        )
        self.head = nn.Linear(16 * 16, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.features(x).flatten(1))
        return result


def quadrants(count: int) -> tuple[Tensor, Tensor]:
    """Pictures with a bright spot in one of four corners."""
    label = torch.randint(0, 4, (count,))
    picture = torch.randn(count, 1, 8, 8) * 0.3
    for number, corner in enumerate(label.tolist()):
        row, column = 4 * (corner // 2), 4 * (corner % 2)
        picture[number, 0, row : row + 4, column : column + 4] += 1
    return picture, label


def train(model: nn.Module, steps: int) -> None:
    """What a user's training code looks like; it knows nothing of quantisation."""
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    model.train()
    for _ in range(steps):
        x, y = quadrants(64)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def accuracy(logits: Tensor, label: Tensor) -> float:
    return float((logits.argmax(1) == label).float().mean())


def test_one_line_trained_as_before_exported_to_integers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Classifier()
    train(model, 20)
    names = set(model.state_dict())

    linger.init(model)
    train(model, 20)
    model.eval()
    x, y = quadrants(256)
    torch.onnx.export(model, (x,), tmp_path / "m.onnx", input_names=["x"], opset_version=13)

    assert names <= set(model.state_dict())
    with torch.no_grad():
        eager = model(x)
    assert accuracy(eager, y) > 0.9
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", options, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": x.numpy()})
    assert torch.equal(torch.from_numpy(result), eager)
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
    ran = Counter(node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node)
    assert (ran["QLinearConv"], ran["QGemm"]) == (2, 1)
    assert not ran["Conv"] and not ran["Gemm"] and not ran["MatMul"]


def test_init_returns_the_model_and_routes_exports() -> None:
    model = Classifier()
    assert linger.init(model) is model
    assert torch.onnx.export is linger.export
    linger.restore()
    assert torch.onnx.export is not linger.export


def test_parts_stay_in_float() -> None:
    """`disable_module` by type and `disable_submodel` by name, as linger has them."""
    torch.manual_seed(0)
    x = torch.randn(2, 1, 8, 8)
    model = linger.init(Classifier(), disable_module=nn.Linear, disable_submodel=("features.0",))
    with linger.calibration(model):
        model(x)
    kinds = Counter(node.op_type for node in linger.export(model, (x,)).model.graph)
    assert kinds["Conv"] == 2 and kinds["Gemm"] == 1
    assert kinds["QuantizeLinear"] == 2  # what enters the second convolution, and what leaves it


def test_how_to_quantise_without_what() -> None:
    with pytest.raises(linger.InputError, match="init is given how to quantise, and no model"):
        linger.init(config=linger.QuantConfig())
