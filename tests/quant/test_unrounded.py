"""What a norm or a recurrent layer reads is rounded only where something else wants it so."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onward
from onward.quant import Activations, QuantConfig, Weights
from onward.quant.grids.sites import ranges_of

from .harness import left_in_float, quantized, through_onnxruntime

CHIP = QuantConfig(
    weights=Weights(per_channel=False, power_of_two=True),
    activations=Activations(symmetric=True, power_of_two=True),
    rounding="half_up",
)


class Around(nn.Module):
    """A linear layer and what goes around it, and something that reads the sum."""

    def __init__(self, read: Callable[[Around, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second, self.third, self.last = (nn.Linear(16, 16) for _ in range(4))
        self.norm, self.again = nn.LayerNorm(16), nn.LayerNorm(16)
        self.drop = nn.Dropout(0.5)
        self.read = read

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.read(self, F.relu(self.first(x)), x))


def before_norm(m: Around, h: Tensor, x: Tensor) -> Tensor:
    h = h + m.drop(m.second(m.norm(h)))
    h = h + m.third(m.norm(h))
    return m.again(h)


def behind_norm(m: Around, h: Tensor, x: Tensor) -> Tensor:
    h = m.norm(h + m.second(h))
    return m.again(m.third(h) + h)


def in_place(m: Around, h: Tensor, x: Tensor) -> Tensor:
    y = m.second(h)
    y += m.third(h)
    y += h
    return m.norm(y)


def viewed(m: Around, h: Tensor, x: Tensor) -> Tensor:
    rows = m.second(h.view(-1, 16))
    return m.norm(rows.view(2, -1, 16) + h)


def written(m: Around, h: Tensor, x: Tensor) -> Tensor:
    """A view sees what is written into the product that it is a view of."""
    y = m.second(h)
    seen = y.view(2, -1, 16)
    y += 1
    return m.norm(seen + h)


def integers(m: Around, h: Tensor, x: Tensor) -> Tensor:
    return F.relu(h + m.second(h))


def norm_and_integers(m: Around, h: Tensor, x: Tensor) -> Tensor:
    y = h + m.second(h)
    return m.norm(y) + m.third(y)


def integers_and_norm(m: Around, h: Tensor, x: Tensor) -> Tensor:
    y = h + m.second(h)
    return m.third(y) + m.norm(y)


# What reads, how many sums are of integers, and how many DequantizeLinear onnxruntime runs: one is the output's.
READERS: dict[str, tuple[Callable[[Around, Tensor, Tensor], Tensor], int, int]] = {
    "before the norm": (before_norm, 0, 3),
    "behind the norm": (behind_norm, 0, 2),
    "in place": (in_place, 0, 2),
    "viewed": (viewed, 0, 2),
    "written": (written, 0, 4),
    "integers": (integers, 1, 1),
    "norm and integers": (norm_and_integers, 1, 2),
    "integers and norm": (integers_and_norm, 2, 2),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("opset", [13, 21])
def test_sums(name: str, opset: int, tmp_path: Path) -> None:
    """Every element is equal: the layer norms of evaluation are onnxruntime's."""
    torch.manual_seed(0)
    read, sums, floats = READERS[name]
    model = quantized(Around(read), lambda: torch.randn(2, 7, 16))
    shapes = ({1: "n"},)
    fresh = torch.randn(2, 300, 16)
    found = through_onnxruntime(model, torch.randn(2, 7, 16), tmp_path, fresh=fresh, opset=opset, dynamic_shapes=shapes)
    assert found.equal == 1
    assert not left_in_float(found)
    if opset == 21:  # before 17 a norm is several nodes, which read from a DequantizeLinear each
        assert (found.fused["QLinearAdd"], found.fused["DequantizeLinear"]) == (sums, floats)


@pytest.mark.parametrize("name", READERS)
def test_float_and_training_agree_about_what_is_rounded(name: str) -> None:
    """Training meets the tensors that calibration has met, and no others: a learned range would have no start."""
    torch.manual_seed(0)
    config = QuantConfig(activations=Activations(learned=True))
    model = quantized(Around(READERS[name][0]), lambda: torch.randn(2, 7, 16), config)
    before = set(ranges_of(model))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.train()(torch.randn(2, 7, 16)).sum().backward()
    assert set(ranges_of(model)) == before
    missing = [name for name, each in model.named_parameters() if each.grad is None and "quant" not in name]
    used = {"before the norm": 0, "behind the norm": 0, "norm and integers": 2, "integers and norm": 2}
    assert len(missing) == used.get(name, len(missing))


@pytest.mark.parametrize(
    ("config", "count"), [(None, 5), (CHIP, 9), (QuantConfig(activations=Activations(bits=16)), 9)]
)
def test_chips_and_sixteen_bits_have_every_grid(config: QuantConfig | None, count: int) -> None:
    torch.manual_seed(0)
    model = quantized(Around(behind_norm), lambda: torch.randn(2, 7, 16), config)
    assert len(ranges_of(model)) == count


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.first, self.norm = nn.Linear(8, 8), nn.LSTM(8, 16), nn.LayerNorm(16)
        self.second, self.after = nn.GRU(16, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.second(self.norm(self.first(self.before(x))[0]))[0])


def test_recurrent_layers_read_floats(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Stack(), lambda: torch.randn(5, 3, 8))
    found = through_onnxruntime(model, torch.randn(5, 3, 8), tmp_path, fresh=torch.randn(5, 3, 8))
    assert found.close == 1
    assert (found.fused["QuantizeLinear"], found.fused["DequantizeLinear"]) == (2, 1)
    assert not left_in_float(found)


def test_gradients_go_through_a_product_that_is_dropped_in_float() -> None:
    """What is dropped has no gradient, the rest has a larger one; the same where the product is rounded after all."""
    torch.manual_seed(0)
    model = onward.init(nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5)))
    with onward.calibration(model):
        model.eval()(torch.randn(8, 4))
    model.train()
    y = model(torch.randn(8, 4))
    y.sum().backward()
    share = float((y == 0).float().mean())
    assert 0.3 < share < 0.7
    assert model[0].bias.grad.unique().numel() > 1
    assert set((model[0].bias.grad / 2).tolist()) <= {float(each) for each in range(9)}
