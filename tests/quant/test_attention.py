"""Attention in integers: every form of it computes what PyTorch's does, and exports to what was evaluated."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import onward
import onward.backend
from onward.errors import QuantizationError
from onward.quant import Activations, QuantConfig, Rule, Weights, calibration, initialise

from .harness import left_in_float, products_of_activations, quantized, through_onnxruntime


class Attention(nn.Module):
    """Heads of a sequence that attend to each other, with whatever arguments."""

    def __init__(self, heads: int = 4, kv_heads: int = 4, **how: Any) -> None:
        super().__init__()
        self.query = nn.Linear(16, heads * 8)
        self.key, self.value = (nn.Linear(16, kv_heads * 8) for _ in range(2))
        self.how = how

    def forward(self, x: Tensor, *mask: Tensor) -> Tensor:
        q, k, v = (each(x).unflatten(-1, (-1, 8)).transpose(1, 2) for each in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, *mask, **self.how)
        return y.transpose(1, 2).flatten(2)


class ByHand(Attention):
    def forward(self, x: Tensor, *mask: Tensor) -> Tensor:
        q, k, v = (each(x).unflatten(-1, (-1, 8)).transpose(1, 2) for each in (self.query, self.key, self.value))
        scores = q @ k.transpose(-2, -1) / math.sqrt(8)
        for each in mask:
            scores = scores + each
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class ByEinsum(Attention):
    def forward(self, x: Tensor, *mask: Tensor) -> Tensor:
        q, k, v = (each(x).unflatten(-1, (-1, 8)) for each in (self.query, self.key, self.value))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * 8**-0.5
        return torch.einsum("bhqk,bkhd->bqhd", F.softmax(scores, dim=-1), v).flatten(2)


class ByEinsumOfAnyAxes(Attention):
    def forward(self, x: Tensor, *mask: Tensor) -> Tensor:
        q, k, v = (each(x).unflatten(-1, (-1, 8)).transpose(1, 2) for each in (self.query, self.key, self.value))
        scores = torch.einsum("... q d, ... k d", q, k) * 8**-0.5
        return torch.einsum("...qk,...kd->...qd", F.softmax(scores, dim=-1), v).transpose(1, 2).flatten(2)


class ByBaddbmm(Attention):
    def forward(self, x: Tensor, *mask: Tensor) -> Tensor:
        q, k, v = (each(x) for each in (self.query, self.key, self.value))
        none = torch.zeros(1, 1, 1)
        scores = torch.baddbmm(none, q, k.transpose(1, 2), beta=0, alpha=0.2)
        return torch.bmm(torch.softmax(scores, -1), v)


def float_mask() -> Tensor:
    return torch.randn(2, 1, 6, 6).masked_fill(torch.rand(2, 1, 6, 6) < 0.3, -math.inf)


FORMS = {
    "plain": (lambda: Attention(), None),
    "causal": (lambda: Attention(is_causal=True), None),
    "scale": (lambda: Attention(scale=0.3), None),
    "shared keys": (lambda: Attention(kv_heads=2, enable_gqa=True), None),
    "mask of bools": (lambda: Attention(), lambda: torch.rand(2, 1, 6, 6) < 0.7),
    "mask of numbers": (lambda: Attention(), float_mask),
    "by hand": (lambda: ByHand(), None),
    "by hand, masked by -10000": (lambda: ByHand(), lambda: -10000.0 * (torch.rand(2, 1, 1, 6) < 0.3)),
    "by hand, masked by -inf": (
        lambda: ByHand(),
        lambda: torch.zeros(6, 6).masked_fill(torch.ones(6, 6).triu(1) > 0, -math.inf),
    ),
    "by einsum": (lambda: ByEinsum(), None),
    "by einsum of any axes": (lambda: ByEinsumOfAnyAxes(), None),
    "by baddbmm": (lambda: ByBaddbmm(), None),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, mask = FORMS[form]
    model = make()

    def example() -> tuple[Tensor, ...]:
        return (torch.randn(2, 6, 16), mask()) if mask else (torch.randn(2, 6, 16),)

    given = example()
    with torch.no_grad():
        wanted = model(*given)
    quantized(model, lambda: given)
    outcome = through_onnxruntime(model, example(), tmp_path, fresh=example())
    assert outcome.equal >= 0.999
    assert outcome.steps < 1.01
    assert left_in_float(outcome) == {}
    assert products_of_activations(outcome) == 2
    assert _noise(model(*given), wanted) < 0.04


def _noise(x: Tensor, wanted: Tensor) -> float:
    return float((x - wanted).detach().norm() / wanted.norm())


def test_a_row_in_which_everything_is_masked_is_zero(tmp_path: Path) -> None:
    torch.manual_seed(0)
    mask = torch.ones(6, 6, dtype=torch.bool)
    mask[2] = False
    model = quantized(Attention(), lambda: (torch.randn(2, 6, 16), mask))
    outcome = through_onnxruntime(model, (torch.randn(2, 6, 16), mask), tmp_path)
    assert outcome.equal >= 0.999
    assert torch.equal(model(torch.randn(2, 6, 16), mask)[:, 2], torch.zeros(2, 32))


class Twice(nn.Module):
    """One mask for two layers, which turn it as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = ByHand(), ByHand()
        self.back = nn.Linear(32, 16)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        mask = torch.where(mask, 0.0, -math.inf)
        return self.second(self.back(self.first(x, mask)), mask[None, None])


def test_a_mask_for_several_layers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    model = quantized(Twice(), lambda: (torch.randn(2, 6, 16), mask))
    outcome = through_onnxruntime(model, (torch.randn(2, 6, 16), mask), tmp_path, fresh=(torch.randn(2, 6, 16), mask))
    assert outcome.equal >= 0.999
    assert left_in_float(outcome) == {}


@pytest.mark.parametrize("opset", [13, 17, 23])
def test_opsets(opset: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(nn.TransformerEncoderLayer(**ENCODER), lambda: torch.randn(2, 6, 16))
    outcome = through_onnxruntime(model, torch.randn(2, 6, 16), tmp_path, fresh=torch.randn(2, 6, 16), opset=opset)
    assert outcome.close >= 0.999
    assert outcome.steps < 1.01
    assert left_in_float(outcome) == {}


def test_one_element_to_attend_to(tmp_path: Path) -> None:
    """onnxruntime's QLinearSoftmax gives zero there: it must not be used."""
    torch.manual_seed(0)
    model = quantized(Attention(), lambda: torch.randn(2, 6, 16))
    axes = {"x": {0: "n", 1: "length"}}
    outcome = through_onnxruntime(
        model, torch.randn(2, 6, 16), tmp_path, fresh=torch.randn(3, 1, 16), dynamic_axes=axes
    )
    assert outcome.equal == 1
    assert float(model(torch.randn(3, 1, 16)).abs().max()) > 0.1
    assert not outcome.fused["QLinearSoftmax"]


def test_sixteen_bits(tmp_path: Path) -> None:
    """There are no integer kernels for them: float products, from grid to grid."""
    torch.manual_seed(0)
    model = Attention()
    x = torch.randn(2, 6, 16)
    wanted = model(x).detach()
    quantized(model, lambda: x, QuantConfig(activations=Activations(bits=16)))
    outcome = through_onnxruntime(model, x, tmp_path)
    assert outcome.close >= 0.999
    assert outcome.steps <= 2
    assert _noise(model(x), wanted) < 0.01  # what is left is that of 8-bit weights


class Multi(nn.Module):
    def __init__(self, need_weights: bool, **how: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, **how)
        self.need_weights = need_weights

    def forward(self, x: Tensor, *rest: Tensor) -> Any:
        keys = rest[0] if rest and rest[0].shape[:2] == x.shape[:2] and rest[0].dim() == 3 else x
        masks = {name: each for each in rest for name in [_mask_name(each, x)] if each is not keys}
        y, weights = self.attention(x, keys, keys, need_weights=self.need_weights, **masks)
        return (y, weights) if self.need_weights else y


def _mask_name(mask: Tensor, x: Tensor) -> str:
    return "key_padding_mask" if mask.shape == (2, 6) else "attn_mask"


def padding() -> Tensor:
    return torch.tensor([[False] * 6, [False] * 4 + [True] * 2])


LAYERS = {
    "plain": (lambda: Multi(False), [(6, 2, 16)], []),
    "weights": (lambda: Multi(True), [(6, 2, 16)], []),
    "batch first": (lambda: Multi(True, batch_first=True), [(2, 6, 16)], []),
    "no batch": (lambda: Multi(True), [(6, 16)], []),
    "no bias": (lambda: Multi(False, bias=False), [(6, 2, 16)], []),
    "appended": (lambda: Multi(False, add_bias_kv=True, add_zero_attn=True), [(6, 2, 16)], []),
    "other sizes": (lambda: Multi(False, kdim=12, vdim=12), [(6, 2, 16), (6, 2, 12)], []),
    "padding": (lambda: Multi(True, batch_first=True), [(2, 6, 16)], [padding]),
    "appended, padding": (lambda: Multi(False, batch_first=True, add_bias_kv=True), [(2, 6, 16)], [padding]),
    "mask": (lambda: Multi(False), [(6, 2, 16)], [lambda: torch.ones(6, 6).triu(1) > 0]),
    "masks": (lambda: Multi(False, batch_first=True), [(2, 6, 16)], [lambda: torch.randn(8, 6, 6), padding]),
}


@pytest.mark.parametrize("form", LAYERS)
def test_multihead_attention(form: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    make, shapes, masks = LAYERS[form]
    model = make()

    def example() -> tuple[Tensor, ...]:
        return (*(torch.randn(shape) for shape in shapes), *(mask() for mask in masks))

    given = example()
    reference = copy.deepcopy(model).eval()
    with torch.no_grad():
        wanted = reference(*given)
    initialise(model)
    with calibration(model):  # in float, by our own composition
        seen = model(*given)
    torch.testing.assert_close(seen, wanted)
    model.eval()
    outcome = through_onnxruntime(model, example(), tmp_path, fresh=example())
    assert outcome.close >= 0.999
    assert outcome.steps < 2.01
    assert left_in_float(outcome) == {}
    assert (outcome.fused["QGemm"], products_of_activations(outcome)) == (4, 2)
    first = model(*given)
    assert (
        _noise(first[0] if isinstance(first, tuple) else first, wanted[0] if isinstance(wanted, tuple) else wanted)
        < 0.06
    )


ENCODER = dict(d_model=16, nhead=4, dim_feedforward=32, batch_first=True)
STACKS = {
    "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**ENCODER), 2),
    "encoder, norm first": lambda: nn.TransformerEncoderLayer(**ENCODER, norm_first=True, activation="gelu"),
    "decoder": lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(**ENCODER), 2),
}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", STACKS)
def test_stacks(name: str, tmp_path: Path) -> None:
    """The fused path that PyTorch takes without gradients would pass us by: it is not taken."""
    torch.manual_seed(0)
    model = STACKS[name]()

    def example() -> tuple[Tensor, ...]:
        return tuple(torch.randn(2, 6, 16) for _ in range(2 if name == "decoder" else 1))

    with torch.no_grad():
        quantized(model, example)
        outcome = through_onnxruntime(model, example(), tmp_path, fresh=example())
    assert outcome.close >= 0.999
    assert outcome.steps < 1.01
    assert left_in_float(outcome) == {}
    model.train()(*example()).square().mean().backward()
    assert all(each.grad is not None and each.grad.isfinite().all() for each in model.parameters())


CONFIGS = {
    "powers of two": QuantConfig(weights=Weights(power_of_two=True), activations=Activations(power_of_two=True)),
    "symmetric": QuantConfig(activations=Activations(symmetric=True)),
    "four bits": QuantConfig(weights=Weights(bits=4), activations=Activations(bits=4)),
    "half up": QuantConfig(rounding="half_up"),
    "sixteen bits": QuantConfig(activations=Activations(bits=16)),
    "sixteen symmetric bits": QuantConfig(activations=Activations(bits=16, symmetric=True)),
    "attention off": QuantConfig(rules=[Rule("self_attn", off=True)]),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_configurations(config: QuantConfig, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(nn.TransformerEncoderLayer(**ENCODER), lambda: torch.randn(2, 6, 16), config)
    outcome = through_onnxruntime(model, torch.randn(2, 6, 16), tmp_path, fresh=torch.randn(2, 6, 16))
    assert outcome.close >= 0.999
    assert outcome.steps < 1.01


class Products(nn.Module):
    """Weights that are no layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Parameter(torch.randn(16, 24)), nn.Parameter(torch.randn(8, 24))
        self.bias = nn.Parameter(torch.randn(24))
        self.register_buffer("fixed", torch.randn(8, 8))
        self.register_buffer("vector", torch.randn(8))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = torch.relu(torch.addmm(self.bias, x, self.inner))
        y = F.linear(y, self.outer) @ self.fixed
        return y, (y.unsqueeze(0) @ self.vector).softmax(-1), torch.mv(y, vec=self.vector)


def test_weights_that_are_no_layers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Products(), lambda: torch.randn(9, 16))
    outcome = through_onnxruntime(model, torch.randn(9, 16), tmp_path, fresh=torch.randn(9, 16))
    assert outcome.equal == 1
    assert left_in_float(outcome) == {}


class Views(nn.Module):
    """Weights that are views of parameters, and worked out from them."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.heads = nn.Parameter(torch.randn(8, 2, 4))
        self.factor = nn.Parameter(torch.rand(8) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.words(x) @ (self.words.weight * self.factor).T
        y = y @ self.words.weight
        return torch.einsum("bsd,dhk->bhsk", y, self.heads)


def test_weights_that_are_made_of_weights(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Views(), lambda: torch.randint(0, 20, (3, 5)))
    outcome = through_onnxruntime(model, torch.randint(0, 20, (3, 5)), tmp_path, fresh=torch.randint(0, 20, (3, 5)))
    assert outcome.equal == 1
    assert outcome.fused["QGemm"] == 3
    model.train()(torch.randint(0, 20, (3, 5))).sum().backward()
    assert all(bool(each.grad.any()) for each in model.parameters())


class Computed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.maker = nn.Linear(16, 8 * 16)
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(16, 16))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.maker(x[0]).view(8, 16)
        return F.linear(self.normed(x), weight, weight[:, 0])


def test_weights_that_are_computed(tmp_path: Path) -> None:
    """From activations, and by a parametrisation."""
    torch.manual_seed(0)
    model = quantized(Computed(), lambda: torch.randn(9, 16))
    outcome = through_onnxruntime(model, torch.randn(9, 16), tmp_path, fresh=torch.randn(9, 16))
    assert outcome.equal == 1
    assert left_in_float(outcome) == {}


CHIP = QuantConfig(
    weights=Weights(per_channel=False, power_of_two=True),
    activations=Activations(symmetric=True, power_of_two=True),
    rounding="half_up",
    platform="venusA",
)


@pytest.mark.parametrize("form", ["plain", "causal", "by hand"])
def test_for_chips(form: str, tmp_path: Path) -> None:
    """One over the root of 8 is no power of two: scores are multiplied by it, and not their scale."""
    torch.manual_seed(0)
    model = quantized(FORMS[form][0](), lambda: torch.randn(2, 6, 16), CHIP)
    x = torch.randn(2, 6, 16)
    onward.export(model, (x,), tmp_path / "chip.onnx", quant_format="linger")
    result = onward.backend.prepare(tmp_path / "chip.onnx").run(x)
    torch.testing.assert_close(torch.as_tensor(result[0]), model(x).detach(), rtol=0, atol=0)
    assert sum(node.op_type == "QMatmul" for node in onnx.load(tmp_path / "chip.onnx").graph.node) == 2


class SometimesMasked(Attention):
    """It makes its mask itself, or does not, and has another sum behind it."""

    how_masked: str = "not"

    def forward(self, x: Tensor, *mask: Tensor) -> Tensor:
        q, k, v = (each(x).unflatten(-1, (-1, 8)).transpose(1, 2) for each in (self.query, self.key, self.value))
        scores = q @ k.transpose(-2, -1) / math.sqrt(8)
        if self.how_masked != "not":
            later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            made = torch.zeros(later.shape)
            if self.how_masked == "causal":
                made[later] = torch.finfo(torch.float32).min
            scores = scores + made[None, None]
        y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return y + F.pad(x, (0, 16))


@pytest.mark.parametrize("how", ["causal", "by nothing"])
def test_a_mask_that_calibration_has_not_seen(how: str, tmp_path: Path) -> None:
    """It is added in float, and the sum behind it keeps its name and range: the error is what it is without a mask."""
    torch.manual_seed(0)
    in_float = SometimesMasked()
    model = quantized(copy.deepcopy(in_float), lambda: 3 * torch.randn(2, 9, 16))
    assert [name for name in model.state_dict() if "quant_add" in name] == ["quant_add_0_output"]
    x = torch.randn(2, 9, 16)

    def error() -> float:
        with torch.no_grad():
            return float((model(x) - in_float(x)).std())

    unmasked, before = error(), in_float(x).detach()
    model.how_masked = in_float.how_masked = how
    assert error() < 1.2 * unmasked
    assert (
        how == "by nothing" or float((in_float(x).detach() - before).std()) > 3 * unmasked
    )  # a lost one would be seen
    outcome = through_onnxruntime(model, x, tmp_path, fresh=torch.randn(2, 9, 16))
    assert outcome.equal == 1
    model.train()
    assert error() < 1.2 * unmasked


class Scores(nn.Module):
    """A product of activations, times a number, and what becomes of that."""

    def __init__(self, end: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.one, self.two, self.end = nn.Linear(16, 16), nn.Linear(16, 16), end

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self.one(x) @ self.two(x).transpose(-2, -1))


@pytest.mark.parametrize(
    ("end", "kernel", "sites"),
    [
        (lambda y: torch.softmax(y, -1), "MatMulIntegerToFloat", []),
        (lambda y: torch.softmax(y * 0.3, -1), "MatMulIntegerToFloat", []),
        (lambda y: torch.softmax(y / 3, -1), "MatMulIntegerToFloat", []),
        (lambda y: torch.relu(y * 0.3), "QLinearMatMul", ["quant_relu_0_output"]),
        (lambda y: y * 0.3, "QLinearMatMul", ["quant_matmul_0_scaled_output"]),
        (lambda y: y * 0.3 + y * 0.3, "QLinearMatMul", ["quant_matmul_0_scaled_output", "quant_add_0_output"]),
    ],
)
def test_scores_are_rounded_where_no_softmax_follows(
    end: Callable[[Tensor], Tensor], kernel: str, sites: list[str], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = quantized(Scores(end), lambda: torch.randn(2, 6, 16))
    outcome = through_onnxruntime(model, torch.randn(2, 6, 16), tmp_path, fresh=torch.randn(2, 6, 16))
    assert outcome.equal == 1
    assert outcome.fused[kernel] >= 1
    assert sorted(name for name, _ in model.named_buffers(recurse=False)) == sorted(sites)


class Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen[str(func)] += 1
        return func(*args, **(kwargs or {}))


def test_scores_that_are_scaled_are_multiplied_once() -> None:
    torch.manual_seed(0)
    model = quantized(Scores(lambda y: torch.softmax(y * 0.3, -1)), lambda: torch.randn(2, 6, 16))
    with Counting() as count, torch.no_grad():
        model(torch.randn(2, 6, 16))
    assert count.seen["onward.matmul.default"] == 1


class Rotated(nn.Module):
    """Positions that are counted while the model runs: their waves are made of no tensor of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        angle = torch.arange(x.shape[1])[:, None] / 100 ** (torch.arange(4) / 4)
        one, other = y.chunk(2, -1)
        return torch.cat([one * angle.cos() - other * angle.sin(), one * angle.sin() + other * angle.cos()], -1)


def test_positions_that_are_counted(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Rotated(), lambda: torch.randn(2, 5, 8))
    axes = {"x": {0: "batch", 1: "length"}}
    found = through_onnxruntime(
        model, torch.randn(2, 5, 8), tmp_path, fresh=torch.randn(3, 9, 8), dynamic_axes=axes, input_names=["x"]
    )
    assert found.equal == 1


def test_one_tensor_for_three_inputs_is_told_of(tmp_path: Path) -> None:
    model, x = initialise(nn.MultiheadAttention(16, 2, batch_first=True)), torch.randn(2, 5, 16)
    for given, fails in ((x, True), (x.clone(), False)):
        with calibration(model):
            model(x, given, given if fails else x.clone())
        model.eval()
        if fails:
            for run in (lambda *args: onward.export(model, args, tmp_path / "attention.onnx"), model):
                with pytest.raises(QuantizationError, match="one tensor given there for two inputs was seen as one"):
                    run(x, x.clone(), x.clone())
            with pytest.raises(QuantizationError, match="one tensor given there for two inputs was seen as one"):
                onward.export(model, (x, x, x), tmp_path / "attention.onnx")
        else:
            onward.export(model, (x, x, x), tmp_path / "attention.onnx")


class TwoWays(nn.Module):
    """The second way is not calibrated, whatever the inputs were."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.both = nn.Linear(4, 4), nn.Linear(4, 4), False

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        z = self.a(x) + self.a(y)
        result: Tensor = self.b(z.sigmoid().cumsum(1)) if self.both else z
        return result


def test_a_range_that_is_missing_for_another_reason() -> None:
    model, x = initialise(TwoWays()), torch.randn(2, 4)
    with calibration(model):
        model(x, x.clone())
    model.eval().both = True
    for run in (model, lambda *args: onward.export(model, args)):
        with pytest.raises(QuantizationError, match="has no range yet") as caught:
            run(x, x.clone())
        assert "clone" not in str(caught.value)


class MaskedLike(nn.Module):
    """Scores from which a mask is subtracted that was given the type of an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.ones(x.shape[:2]).type_as(x)[:, None].to(x)
        return torch.softmax(self.one(x) @ self.two(x).mT - 1e6 * (1 - mask), -1) @ x


def test_a_mask_with_the_type_of_an_activation(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(MaskedLike(), lambda: torch.randn(2, 6, 16))
    outcome = through_onnxruntime(model, torch.randn(2, 6, 16), tmp_path, fresh=torch.randn(2, 6, 16))
    assert outcome.equal == 1
