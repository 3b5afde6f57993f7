"""Training: gradients, batch norms, and that nothing of an ordinary training loop is different."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onward.errors import QuantizationError
from onward.quant import Activations, QuantConfig, QuantizationWarning, Rule, Weights, calibration, initialise
from onward.quant.grids.fake_quantize import fake_quantize, fake_quantize_weight
from onward.quant.grids.learned import fake_quantize_learned
from onward.quant.grids.sites import Site, ranges_of

from .harness import quantized, through_onnxruntime

LEARNED = QuantConfig(activations=Activations(learned=True))
CONFIGS = {
    "default": QuantConfig(),
    "learned": LEARNED,
    "powers of two": QuantConfig(weights=Weights(power_of_two=True), activations=Activations(power_of_two=True)),
    "per tensor": QuantConfig(weights=Weights(per_channel=False)),
    "ranges that stay": QuantConfig(activations=Activations(range="mse", averaging=0)),
    "four bits": QuantConfig(weights=Weights(bits=4), activations=Activations(bits=4, learned=True)),
}


class Net(nn.Module):
    """A convolution with a batch norm and a bias, a residual sum, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.mix = nn.Conv2d(6, 6, 1, bias=False)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.conv(x)))
        return self.head(F.relu(self.mix(x) + x).flatten(2).permute(0, 2, 1))


def made(config: QuantConfig | None = None, model: nn.Module | None = None, calibrated: bool = True) -> Any:
    torch.manual_seed(0)
    model = initialise(Net() if model is None else model, config)
    if calibrated:
        with calibration(model):
            model(data(0)[0])
    return model.train()


def data(seed: int, rows: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 2, 5, 5, generator=generator), torch.randint(3, (rows, 25), generator=generator)


def loss_of(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, seeds: range) -> list[float]:
    losses = []
    for seed in seeds:
        optimizer.zero_grad()
        loss = loss_of(model, data(seed))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


# Gradients


def test_a_case_by_hand() -> None:
    """One linear layer: inputs from -1 to 1.55 in steps of 0.01, weights in steps of 0.1, results in steps of 1."""
    model = initialise(nn.Sequential(nn.Linear(2, 1)), LEARNED).train()
    linear = model[0]
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[12.7, -3.14]]))
        linear.bias.copy_(torch.tensor([0.5]))
    linear.quant_linear_0_input = nn.Parameter(torch.tensor([-1.0, 1.55]))
    linear.quant_linear_0_output = nn.Parameter(torch.tensor([-100.0, 155.0]))
    x = torch.tensor([[0.123, 7.0], [-0.456, 0.2]], requires_grad=True)
    y = model(x)
    assert torch.allclose(y.detach(), torch.tensor([[-3.0], [-6.0]]))  # -2.781 and -5.962
    y.backward(torch.tensor([[1.0], [10.0]]))
    assert x.grad is not None and torch.allclose(x.grad, torch.tensor([[12.7, 0.0], [127.0, -31.0]]))  # 7.0 is clipped
    assert torch.allclose(linear.weight.grad, torch.tensor([[0.12 - 4.6, 1.55 + 2.0]]))
    assert linear.bias.grad.tolist() == [11]
    # The ends of the input: the clipped value moves the upper one, and errors of rounding both by their share.
    errors = 12.7 * (0.12 - 0.123) + 127 * (-0.46 + 0.456)
    high = -3.1 + errors / 2.55 - 0.0
    assert linear.quant_linear_0_input.grad[1].item() == pytest.approx(high, rel=1e-3)


def test_learned_ends_against_finite_differences() -> None:
    """A clipped value is the end that clips it: where both ends move by whole steps the grid has no jumps."""
    x = torch.cat([torch.full((40,), 90.0), torch.full((24,), -90.0)])
    upstream = torch.linspace(-1, 2, 64)
    spec = Activations(learned=True)
    ends = torch.tensor([-1.0, 1.55], requires_grad=True)  # steps of 0.01

    def out(ends: Tensor) -> Tensor:
        found = fake_quantize_learned(x, ends, Site(nn.Identity(), "layer", "relu_0_output", spec))
        assert found is not None
        return (found * upstream).sum()

    out(ends).backward()
    assert ends.grad is not None
    for end, change in ((0, torch.tensor([-0.2, 0.31])), (1, torch.tensor([-0.4, 0.62]))):  # the zero point stays 100
        with torch.no_grad():
            slope = float(out(ends + change) - out(ends - change)) / 2
        assert float((ends.grad * change).sum()) == pytest.approx(slope, rel=1e-4), end


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_every_parameter_gets_a_gradient_and_learns(config: QuantConfig) -> None:
    model = made(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    losses = steps(model, optimizer, range(1, 2)) + [steps(model, optimizer, range(1, 2))[0] for _ in range(30)]
    assert losses[-1] < 0.9 * losses[0]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name
        assert not torch.equal(parameter.detach(), before[name]) or name == "conv.bias", name  # the norm takes it out


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_learned_ranges_take_the_learning_rate_of_the_weights(bits: int) -> None:
    """Also without Adam, and where the loss wants small results: the ends do not leap over one another."""
    model = made(QuantConfig(activations=Activations(bits=bits, learned=True)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for seed in range(20):
        optimizer.zero_grad()
        loss = (model(data(seed)[0]) - 0.1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.2 * losses[0]
    assert all(bool(each[0] < each[1]) for each in ranges_of(model).values())


def test_learned_ranges_are_parameters_after_calibration() -> None:
    model = initialise(Net(), LEARNED).train()
    assert not [name for name, _ in model.named_parameters() if "quant_" in name]
    with pytest.raises(QuantizationError, match="is learned and has no start yet") as caught:
        model(data(0)[0])
    assert "before the optimizer is made" in str(caught.value)
    model = made(LEARNED)
    names = {name for name, _ in model.named_parameters() if "quant_" in name}
    assert names == set(ranges_of(model)) and len(names) == 5


# Batch norm


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_running_statistics_are_those_of_the_rounded_weights(config: QuantConfig) -> None:
    """What the batch norm sees is the convolution, in float, of rounded values with rounded weights: the weights as
    they are rounded when the batch norm is folded in, divided by its factor again."""
    model = made(config)
    with torch.no_grad():
        model.norm.weight.uniform_(0.2, 2)
        model.norm.running_var.uniform_(0.5, 3)
    norm, x = model.norm, data(3)[0]
    norm.momentum = 0.3
    mean, variance = norm.running_mean.clone(), norm.running_var.clone()
    factor = (norm.weight.detach() * torch.rsqrt(variance + norm.eps)).reshape(-1, 1, 1, 1)
    weight = fake_quantize_weight(model.conv.weight.detach() * factor, config.weights) / factor
    model(x)
    low, high = model.conv.quant_conv_0_input.detach().unbind(0)
    y = F.conv2d(fake_quantize(x, low, high, config.activations), weight, model.conv.bias, padding=1).detach()
    values = y.transpose(0, 1).flatten(1)
    assert torch.allclose(norm.running_mean, mean.lerp(values.mean(1), 0.3), atol=1e-6)
    assert torch.allclose(norm.running_var, variance.lerp(values.var(1), 0.3), atol=1e-5)
    assert int(norm.num_batches_tracked) == 1


def test_a_frozen_batch_norm() -> None:
    model = made()
    model.norm.eval()
    before = {key: value.clone() for key, value in model.norm.state_dict().items()}
    loss_of(model, data(1)).backward()
    assert all(torch.equal(value, before[key]) for key, value in model.norm.state_dict().items())
    assert model.norm.weight.grad is not None and float(model.norm.weight.grad.abs().sum()) > 0
    y, x = model.train()(data(2)[0]), data(2)[0]
    model.norm.eval()
    assert not torch.equal(model(x), y)


@pytest.mark.parametrize("part", ["weight", "bias", "running_mean", "running_var", "eps"])
def test_what_is_replaced_of_a_batch_norm_is_what_is_folded(part: str) -> None:
    """Also of one that was seen in runs before."""
    model, x = made().eval(), data(1)[0]
    before = model(x)
    old = getattr(model.norm, part)
    moved = old + 0.3 if part == "eps" else old.detach() + 0.3
    setattr(model.norm, part, nn.Parameter(moved) if isinstance(old, nn.Parameter) else moved)
    after = model(x)
    assert not torch.equal(after, before)
    assert torch.equal(copy.deepcopy(model)(x), after)  # a copy has seen no run


def test_the_norm_that_is_folded_is_what_was_trained() -> None:
    """With a frozen batch norm, training and evaluation compute the same up to the rounding of results."""
    model = made()
    steps(model, torch.optim.SGD(model.parameters(), lr=0.05), range(20))
    model.norm.eval()
    x = data(50)[0]
    with torch.no_grad():
        trained = model(x)
        evaluated = model.eval()(x)
    step = float((model.head.quant_linear_0_output[1] - model.head.quant_linear_0_output[0]) / 255)
    assert float((trained - evaluated).abs().max()) <= 4 * step
    assert float((trained - evaluated).abs().mean()) <= 0.5 * step


# An ordinary loop


class WithAuxiliaryHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.aux, self.head = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Any:
        y = torch.relu(self.body(x))
        return (self.head(y), self.aux(y)) if self.training else self.head(y)


def test_what_runs_in_training_alone_follows_the_batches_where_ranges_are_learned(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = initialise(WithAuxiliaryHead(), LEARNED), torch.randn(16, 8)
    with pytest.warns(QuantizationWarning, match="has not reached aux"), calibration(model):
        model.eval()(x)
    model.train()
    with pytest.warns(QuantizationWarning, match=r"has not reached aux .*it follows the batches"):
        sum(y.sum() for y in model(x)).backward()
    held = model.aux.quant_linear_0_output
    before = held.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        model(2 * x)
    assert not isinstance(held, nn.Parameter)
    assert (held - before).abs().sum() > 0
    assert isinstance(model.head.quant_linear_0_output, nn.Parameter)
    assert through_onnxruntime(model.eval(), x, tmp_path).equal == 1.0


@pytest.mark.parametrize("config", [QuantConfig(), LEARNED], ids=["default", "learned"])
def test_autocast(config: QuantConfig) -> None:
    model = made(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, data(1))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    assert all(each.dtype is torch.float32 for each in ranges_of(model).values())
    assert all(each.grad is not None and each.grad.dtype is torch.float32 for each in model.parameters())


class BehindFloat(nn.Module):
    """What a rule leaves in float gives shorter floats under autocast."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.conv, self.head = nn.Conv1d(2, 3, 1), nn.Conv1d(3, 3, 1), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        result: Tensor = self.conv(y) + self.head(y)
        return result


@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16])
def test_what_autocast_has_made_shorter_is_quantized(given: torch.dtype) -> None:
    names = []
    for enabled in (False, True):
        torch.manual_seed(0)
        model = initialise(BehindFloat(), QuantConfig(rules=[Rule("stem", off=True)])).train()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            y = model(torch.randn(64, 2, 8).to(given if enabled else torch.float32))
        assert y.dtype is torch.float32 and len(y.unique()) <= 256
        y.sum().backward()
        assert all(each.grad is not None for each in model.parameters())
        names.append(list(ranges_of(model)))
    assert names[0] == names[1] and len(names[0]) == 4


def test_gradient_accumulation() -> None:
    """Two backward passes before a step add up to the gradients of each."""
    model = made(LEARNED)
    model.norm.eval()
    parts = []
    for seed in (1, 2):
        twin = copy.deepcopy(model)
        loss_of(twin, data(seed)).backward()
        parts.append([each.grad for each in twin.parameters()])
    for seed in (1, 2):
        loss_of(model, data(seed)).backward()
    for parameter, one, two in zip(model.parameters(), *parts, strict=True):
        assert parameter.grad is not None and torch.allclose(parameter.grad, one + two, atol=1e-6)


@pytest.mark.parametrize(
    "make", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop], ids=lambda each: each.__name__
)
def test_optimizers(make: Any) -> None:
    model = made(LEARNED)
    optimizer = make(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    losses = []
    for _ in range(15):
        losses += steps(model, optimizer, range(1, 2))
        schedule.step()
    assert losses[-1] < losses[0]
    assert len(optimizer.param_groups[0]["params"]) == len(list(model.parameters()))


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_resuming_continues_exactly(config: QuantConfig) -> None:
    model = made(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    steps(model, optimizer, range(5))
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    wanted = steps(model, optimizer, range(5, 10))
    file.seek(0)
    saved = torch.load(file)
    again = initialise(Net(), config)
    again.load_state_dict(saved["model"])
    other = torch.optim.Adam(again.parameters(), lr=1e-2)
    other.load_state_dict(saved["optimizer"])
    again.train()
    assert steps(again, other, range(5, 10)) == wanted
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_what_was_trained_is_what_is_exported(config: QuantConfig, tmp_path: Path) -> None:
    model = made(config)
    steps(model, torch.optim.Adam(model.parameters(), lr=1e-2), range(10))
    model.eval()
    outcome = through_onnxruntime(model, data(0)[0], tmp_path, fresh=data(99)[0])
    assert outcome.equal == 1


def test_training_without_calibration_starts_with_the_first_batch() -> None:
    model = made(calibrated=False)
    x = data(0)[0]
    model(x)
    assert torch.equal(model.conv.quant_conv_0_input, torch.stack(torch.aminmax(x)))
    model(2 * x)
    low, high = torch.aminmax(x)
    rate = QuantConfig().activations.averaging
    assert torch.allclose(model.conv.quant_conv_0_input, (1 + rate) * torch.stack([low, high]))


def test_ranges_may_stay_where_calibration_has_put_them() -> None:
    """Nothing else stays: the weights learn."""
    model = made(CONFIGS["ranges that stay"])
    ranges = {name: each.clone() for name, each in ranges_of(model).items()}
    before = model.head.weight.detach().clone()
    steps(model, torch.optim.Adam(model.parameters(), lr=1e-2), range(5))
    assert ranges and all(torch.equal(each, ranges[name]) for name, each in ranges_of(model).items())
    assert not torch.equal(model.head.weight, before)


def test_ranges_that_stay_need_a_calibration() -> None:
    stays = QuantConfig(activations=Activations(averaging=0))
    with pytest.raises(
        QuantizationError, match="conv_0_input.* stays as calibration finds it .*averaging=0.*\n.*before training"
    ):
        made(stays, calibrated=False)(data(0)[0])

    class Auxiliary(Net):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return torch.sigmoid(y) if self.training else y

    model = made(stays, Auxiliary())
    with pytest.warns(
        QuantizationWarning, match="not reached the model itself .sigmoid_.*: its range is that of the first"
    ):
        model(data(0)[0])


class StartsWithNothing(nn.Module):
    """A branch whose factor is zero at first."""

    def __init__(self) -> None:
        super().__init__()
        self.branch, self.head = nn.Linear(8, 8), nn.Linear(8, 2)
        self.factor = nn.Parameter(torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(x + self.factor * self.branch(x)))


def calibrated_on_zeros(activations: Activations) -> tuple[Any, list[str]]:
    model = initialise(StartsWithNothing(), QuantConfig(activations=activations))
    with warnings.catch_warnings(record=True) as seen, calibration(model):
        warnings.simplefilter("always")
        model(torch.randn(16, 8))
    return model.train(), [str(each.message) for each in seen]


def test_what_was_nothing_but_zeros_in_calibration_follows_the_batches_where_ranges_are_learned() -> None:
    torch.manual_seed(0)
    model, _ = calibrated_on_zeros(Activations(learned=True))
    held = model.quant_mul_0_output
    assert isinstance(model.head.quant_linear_0_output, nn.Parameter) and not isinstance(held, nn.Parameter)
    loaded = initialise(StartsWithNothing(), LEARNED)
    loaded.load_state_dict(model.state_dict(), strict=True)
    assert not isinstance(loaded.quant_mul_0_output, nn.Parameter)
    optimizer, x = torch.optim.SGD(model.parameters(), 0.01), torch.randn(16, 8)
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        assert bool(model.factor.grad.any())
        optimizer.step()
    assert float(held[0]) < 0 < float(held[1])


def test_a_range_that_stays_at_zero_is_told_with_the_way_out() -> None:
    _, said = calibrated_on_zeros(Activations(averaging=0))
    assert said[0] == "the model itself (mul_0_input), the model itself (mul_0_output) have seen nothing but zeros"
    assert said[1] == (
        "the model itself (mul_0_input), the model itself (mul_0_output) stay at zero in training, where averaging=0 "
        "leaves ranges: a rule with activations={'averaging': 0.1} lets them follow the batches"
    )
    assert len(said) == 2 and len(calibrated_on_zeros(Activations())[1]) == 1


def by_bernoulli(x: Tensor) -> Tensor:
    return x * x.new_empty([len(x), 1]).bernoulli_(0.5).div_(0.5)


def by_rounding_down(x: Tensor) -> Tensor:
    return (0.5 + torch.rand([len(x), 1])).floor_() * x


class DropsPaths(nn.Module):
    """A residual branch that training leaves out for some rows."""

    def __init__(self, drop: Callable[[Tensor], Tensor], activation: nn.Module) -> None:
        super().__init__()
        self.branch, self.activation, self.head, self.drop = nn.Linear(8, 8), activation, nn.Linear(8, 2), drop

    def forward(self, x: Tensor) -> Tensor:
        y = self.activation(self.branch(x))
        return self.head(F.layer_norm(x + (self.drop(y) if self.training else y), (8,)))


@pytest.mark.parametrize("drop", [by_bernoulli, by_rounding_down])
@pytest.mark.parametrize("activation", [nn.Identity(), nn.GELU()], ids=["of a product", "of an activation"])
@pytest.mark.parametrize("activations", [Activations(learned=True), Activations(averaging=0)], ids=["learned", "stay"])
def test_dropped_paths_need_no_range(
    drop: Callable[[Tensor], Tensor], activation: nn.Module, activations: Activations
) -> None:
    """That of the first batch would be nothing at all where this is dropped altogether."""
    torch.manual_seed(0)
    model = made(QuantConfig(activations=activations), DropsPaths(drop, activation), calibrated=False)
    x = torch.randn(16, 8)
    with calibration(model):
        model(x)
    held = set(ranges_of(model))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.train()(x).sum().backward()
    assert set(ranges_of(model)) == held
    assert bool(model.branch.weight.grad.any())


def test_gradients_need_not_be_asked_for() -> None:
    """Training mode under no_grad: batch norms and ranges follow, nothing else changes."""
    model = made()
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    ranges = {name: each.clone() for name, each in ranges_of(model).items()}
    with torch.no_grad():
        model(5 * data(1)[0])
    assert all(torch.equal(each, before[name]) for name, each in model.named_parameters())
    assert all(not torch.equal(each, ranges[name]) for name, each in ranges_of(model).items())


def test_what_a_model_returns_has_eight_bits_at_least(tmp_path: Path) -> None:
    model = made(CONFIGS["four bits"]).eval()
    with torch.no_grad():
        assert 16 < len(model(data(1, 64)[0]).unique()) <= 256
    assert through_onnxruntime(model, data(0)[0], tmp_path, fresh=data(99)[0]).equal == 1


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_ranges_that_training_has_spoilt_are_named(learned: bool, mode: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    quantized(model, lambda: torch.randn(3, 4), QuantConfig(activations=Activations(learned=learned)))
    getattr(model, mode)()
    for place, site in ((0, "linear_0_input"), (2, "linear_0_output")):
        held = getattr(model[place], f"quant_{site}")
        before = held.detach().clone()
        held.data[:] = torch.nan
        with pytest.raises(QuantizationError, match=rf"the range of {place} \({site}\) is from nan to nan\n.*diverged"):
            model(torch.randn(3, 4))
        held.data[:] = before


def test_learned_ends_that_pass_each_other_mean_the_same_in_training_and_evaluation() -> None:
    """Both ends below zero: what is left is the range from the lower one that training sees up to zero."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.randn(3, 4)
    quantized(model, lambda: x, QuantConfig(activations=Activations(learned=True)))
    with torch.no_grad():
        model[0].quant_linear_0_output.copy_(torch.tensor([-0.2, -0.4]))
        trained = model.train()(x)
    torch.testing.assert_close(model.eval()(x), trained, atol=0.2 / 255 * 1.01, rtol=0)


class BothWays(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.rest = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        result: Tensor = self.rest(torch.relu(y)) + y
        return result


def test_a_result_that_is_read_as_it_is_and_bounded_has_one_range() -> None:
    """One that nobody uses would get no gradient, which distributed training does not forgive."""
    torch.manual_seed(0)
    model = quantized(BothWays(), lambda: torch.randn(3, 4), LEARNED)
    assert [name for name in ranges_of(model) if "relu" in name] == []
    model.train()(torch.randn(3, 4)).sum().backward()
    assert [name for name, each in model.named_parameters() if each.grad is None] == []


class BoundedTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.rest = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        result: Tensor = self.rest(torch.relu(torch.relu(y) - x)) + y
        return result


def test_what_is_bounded_behind_such_a_result_keeps_its_own_range(tmp_path: Path) -> None:
    """Calls are counted alike before and after it is known that the result is read as it is."""
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    model = quantized(BoundedTwice(), lambda: x)
    assert [name for name in ranges_of(model) if "relu" in name] == ["quant_relu_1_output"]
    assert through_onnxruntime(model, x, tmp_path).equal == 1
    fresh = initialise(BoundedTwice()).train()  # without calibration, from the first batch on
    for _ in range(3):
        fresh(x)
    assert bool(fresh.quant_relu_0_output.equal(fresh.layer.quant_linear_0_output.clamp(min=0)))


WRITES: dict[str, Any] = {
    "by index": lambda y: y.__setitem__((slice(None), slice(0, 2)), 0.0),
    "by a mask": lambda y: y.masked_fill_(y < 0, 0.0),
    "a function": lambda y: y.add_(torch.sigmoid(y)),
    "two functions": lambda y: y.clamp_(0, 1).add_(0.1),
    "a sum with a factor": lambda y: y.add_(torch.relu(y), alpha=0.3),
    "through a view": lambda y: y[:, 0].zero_(),
}


class Writes(nn.Module):
    def __init__(self, write: Any) -> None:
        super().__init__()
        self.write, self.layer, self.rest = write, nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        self.write(y)
        result: Tensor = self.rest(y)
        return result


@pytest.mark.parametrize("config", ["default", "learned"])
@pytest.mark.parametrize("name", WRITES)
def test_what_may_be_written_in_place_in_float_may_be_when_quantized(name: str, config: str) -> None:
    torch.manual_seed(0)
    model, x = Writes(WRITES[name]), torch.randn(64, 4)
    wanted = torch.autograd.grad(model(x).square().sum(), model.layer.weight)[0]
    quantized(model, lambda: 1.2 * x, CONFIGS[config]).train()  # wide ranges: what is clipped has no gradient
    found = torch.autograd.grad(model(x).square().sum(), model.layer.weight)[0]
    assert float((found - wanted).norm()) < 0.05 * float(wanted.norm())
