"""Fake quantization against the kernels that it imitates, and its gradients against formulas written out."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import onward
from onward.quant import Activations, Weights, native
from onward.quant.exact.integers import dequantize, quantize
from onward.quant.grids import fake_quantize as fake
from onward.quant.grids.fake_quantize import fake_quantize_weight
from onward.quant.grids.grid import grid_from_range, scale_and_zero_point, weight_grid
from onward.quant.grids.learned import fake_quantize_learned
from onward.quant.grids.plain_grids import UNBOUNDED, Bounds, follow_, plain_scale_and_zero_point
from onward.quant.grids.ranges import weight_range
from onward.quant.grids.sites import Site

from .harness import check_compiled

SPECS = [
    Activations(bits=bits, symmetric=symmetric, power_of_two=power_of_two)
    for bits, symmetric, power_of_two in itertools.product((2, 4, 8, 16), (False, True), (False, True))
]
RANGES = [(-1.0, 1.7), (0.0, 2.0), (-3.0, 0.0), (-2.0, 2.0), (0.4, 0.9), (0.0, 0.0), (-1e-3, 5e4), (-9e29, 9e29)]


@pytest.fixture(params=["compiled", "PyTorch"], autouse=True)
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything here, with the compiled loops and without."""
    if request.param == "compiled":
        check_compiled()
    else:
        monkeypatch.setattr(native, "_loops", None)


def site(spec: Activations, rounding: str = "half_even") -> Site:
    return Site(nn.Identity(), "layer", "relu_0_output", spec, rounding)


def fake_quantize(
    x: Tensor, low: Tensor, high: Tensor, spec: Activations, rounding: str = "half_even", bounds: Bounds = UNBOUNDED
) -> Tensor:
    if not spec.learned:
        return fake.fake_quantize(x, low, high, spec, rounding=rounding, bounds=bounds)
    out = fake_quantize_learned(x, torch.stack([low, high]), site(spec, rounding), bounds)
    assert out is not None
    return out


def values(low: float, high: float, scale: float) -> Tensor:
    """Inside and outside of the range, and ties."""
    generator = torch.Generator().manual_seed(5)
    spread = torch.randn(2000, generator=generator) * max(high - low, 1e-3)
    ties = (torch.randint(-300, 300, (500,), generator=generator) + 0.5) * scale
    return torch.cat([spread, ties, torch.tensor([0.0, low, high, 2 * low, 2 * high])])


def tensors(low: float, high: float, learn: bool = False) -> tuple[Tensor, Tensor]:
    return torch.tensor(low, requires_grad=learn), torch.tensor(high, requires_grad=learn)


@pytest.mark.parametrize("range_", RANGES)
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_it_is_what_the_kernels_compute(spec: Activations, range_: tuple[float, float]) -> None:
    low, high = tensors(*range_)
    grid = grid_from_range(low, high, spec)
    x = values(*range_, float(grid.scale))
    wanted = dequantize(quantize(x, grid), grid)
    assert torch.equal(fake_quantize(x, low, high, spec), wanted)
    assert torch.equal(fake_quantize(x, *tensors(*range_, learn=True), replace(spec, learned=True)), wanted)
    assert torch.equal(fake_quantize(x.double(), low, high, spec), wanted.double())


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_plain_numbers_and_tensors_agree_to_the_last_bit(spec: Activations) -> None:
    generator = torch.Generator().manual_seed(6)
    ends = torch.randn(3000, 2, generator=generator) * torch.exp(20 * torch.randn(3000, 1, generator=generator))
    low, high = ends.sort(1).values.unbind(1)
    low, high = (torch.cat([end, torch.tensor([each[i] for each in RANGES])]) for i, end in enumerate((low, high)))
    scale, zero, first, last = scale_and_zero_point(low, high, spec)
    plain = [plain_scale_and_zero_point(a, b, spec) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    assert [each[0] for each in plain] == scale.tolist() and [each[1] for each in plain] == zero.tolist()
    assert {each[2:] for each in plain} == {(first, last)}


@pytest.mark.parametrize("learned", [False, True])
def test_half_up(learned: bool) -> None:
    low, high = tensors(-8.0, 8.0, learned)
    spec = Activations(symmetric=True, power_of_two=True, learned=learned)  # steps of 1 / 16
    x = torch.tensor([0.5, 1.5, -0.5, -1.5, 2.49, 1000.0, -1000.0]) / 16
    assert (fake_quantize(x, low, high, spec, rounding="half_up") * 16).tolist() == [1, 2, 0, -1, 2, 127, -128]
    assert (fake_quantize(x, low, high, spec) * 16).tolist() == [0, 2, 0, -2, 2, 127, -128]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_types_come_back_as_they_were(dtype: torch.dtype) -> None:
    low, high = tensors(-1.0, 2.0)
    x = torch.linspace(-2, 3, 501, dtype=dtype).requires_grad_()
    y = fake_quantize(x, low, high, Activations())
    assert y.dtype == dtype
    assert torch.equal(y, fake_quantize(x.float(), low, high, Activations()).to(dtype))
    y.sum().backward()
    assert x.grad is not None and x.grad.dtype == dtype and set(x.grad.tolist()) == {0.0, 1.0}


def test_autocast_changes_nothing() -> None:
    low, high = tensors(-1.0, 2.0, learn=True)
    x = torch.linspace(-2, 3, 501)
    plain = fake_quantize(x, low, high, Activations(learned=True))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = fake_quantize(x, low, high, Activations(learned=True))
        weight = fake_quantize_weight(x.reshape(3, -1), Weights(), high=torch.ones(3))
    assert torch.equal(plain, cast)
    assert torch.equal(weight, fake_quantize_weight(x.reshape(3, -1), Weights(), high=torch.ones(3)))


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("spec", SPECS[:8], ids=str)
def test_the_gradient_passes_inside_and_stops_outside(spec: Activations, learned: bool) -> None:
    low, high = tensors(-1.0, 2.0, learned)
    grid = grid_from_range(low, high, spec)
    x = (torch.rand(2001, generator=torch.Generator().manual_seed(4)) * 12 - 6).requires_grad_()
    upstream = torch.linspace(1, 2, 2001)
    (fake_quantize(x, low, high, replace(spec, learned=learned)) * upstream).sum().backward()
    bottom, top = (float((end - grid.zero_point) * grid.scale) for end in (grid.low, grid.high))
    inside = (x > bottom - grid.scale / 2) & (x < top + grid.scale / 2)
    assert x.grad is not None and torch.equal(x.grad, upstream * inside)


def straight_through(x: Tensor, low: Tensor, high: Tensor, spec: Activations) -> Tensor:
    """The same in differentiable operations: every rounding is replaced by itself with the gradient 1."""

    def through(value: Tensor, rounded: Tensor) -> Tensor:
        return value + (rounded - value).detach()

    n = (1 << (spec.bits - 1)) - 1 if spec.symmetric else (1 << spec.bits) - 1
    span = high if spec.symmetric else high - low
    scale = span / n
    if spec.power_of_two:
        ideal = span / (n + 1)
        scale = ideal * (torch.exp2(torch.ceil(torch.log2(ideal))) / ideal).detach()
    zero = torch.tensor(float(1 << (spec.bits - 1))) if spec.symmetric else -low / scale
    zero = through(zero, torch.round(zero))
    q = x / scale
    q = through(q, torch.round(q)) + zero
    return (torch.clamp(q, 0, (1 << spec.bits) - 1) - zero) * scale


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_ends_get_the_gradients_of_straight_through_rounding(spec: Activations) -> None:
    spec = replace(spec, learned=True)
    generator = torch.Generator().manual_seed(7)
    x, upstream = torch.randn(2, 4000, generator=generator)
    low, high = tensors(-2.1 if spec.symmetric else -1.3, 2.1, learn=True)
    (fake_quantize(x, low, high, spec) * upstream).sum().backward()
    low64, high64 = (end.detach().double().requires_grad_() for end in (low, high))
    (straight_through(x.double(), low64, high64, spec) * upstream).sum().backward()
    steps = (1 << (spec.bits - 1)) - 1 if spec.symmetric else (1 << spec.bits) - 1
    size = min(steps**1.5 / 4000**0.5, 1)
    assert low.grad is not None and high.grad is not None and high64.grad is not None
    assert float(high.grad) == pytest.approx(float(high64.grad) * size, rel=1e-3, abs=1e-3 * size)
    if spec.symmetric:
        assert float(low.grad) == -float(high.grad)
    else:
        assert low64.grad is not None
        assert float(low.grad) == pytest.approx(float(low64.grad) * size, rel=1e-3, abs=1e-3 * size)


@pytest.mark.parametrize("bits", [2, 4, 8, 16])
@pytest.mark.parametrize("symmetric", [False, True])
def test_a_clipped_value_moves_its_end_no_further_than_a_bias_would_move_it(symmetric: bool, bits: int) -> None:
    """By LSQ's proportion alone up to millions of times as far: with SGD the range is gone after one step."""
    low, high = tensors(0.0, 1.0, learn=True)
    spec = Activations(bits=bits, symmetric=symmetric, learned=True)
    fake_quantize(torch.tensor([3.0, 0.0, 0.0, 0.0]), low, high, spec)[0].backward()
    assert high.grad is not None
    steps = (1 << (bits - int(symmetric))) - 1
    assert float(high.grad) == pytest.approx(min(steps**1.5 / 2, 1), rel=1e-3)


def test_an_end_at_zero_stays_there() -> None:
    low, high = tensors(0.0, 2.0, learn=True)
    (fake_quantize(torch.rand(100) * 3, low, high, Activations(learned=True)).square().sum()).backward()
    assert low.grad is not None and float(low.grad) == 0
    assert high.grad is not None and float(high.grad) != 0


@pytest.mark.parametrize(("bits", "symmetric"), [(4, False), (4, True), (8, False), (8, True)])
def test_learning_improves_a_range_that_is_wrong(bits: int, symmetric: bool) -> None:
    """From a range that is far too wide, and one that is far too narrow, to one of less error than either."""
    x = torch.randn(4096, generator=torch.Generator().manual_seed(8))
    spec = Activations(bits=bits, symmetric=symmetric, learned=True)
    for start in (0.7, 20.0):
        low, high = tensors(-start, start, learn=True)
        optimiser = torch.optim.Adam([low, high], lr=0.05 * start)
        errors = []
        for _ in range(120):
            error = (fake_quantize(x, low, high, spec) - x).square().mean()
            errors.append(float(error.detach()))
            optimiser.zero_grad()
            error.backward()
            optimiser.step()
        assert min(errors[-10:]) < 0.3 * errors[0]


@pytest.mark.parametrize("axis", [0, 1, 3])
@pytest.mark.parametrize(
    "spec",
    [
        Weights(),
        Weights(bits=4),
        Weights(per_channel=False),
        Weights(power_of_two=True),
        Weights(reduce_range=True),
        Weights(bits=4, range="mse"),
    ],
    ids=str,
)
def test_weights(spec: Weights, axis: int) -> None:
    w = torch.randn(4, 3, 5, 6, generator=torch.Generator().manual_seed(9)).requires_grad_()
    high = weight_range(w, spec, axis)
    grid = weight_grid(high, spec, axis)
    out = fake_quantize_weight(w, spec, axis=axis)
    assert torch.equal(out, dequantize(quantize(w.detach(), grid), grid))
    out.sum().backward()
    steps = w.detach() / grid.scale_for(4)
    assert w.grad is not None
    assert torch.equal(w.grad, ((steps > grid.low - 0.5) & (steps < grid.high + 0.5)).float())


def test_weights_in_blocks() -> None:
    w = torch.randn(3, 40, generator=torch.Generator().manual_seed(10)).requires_grad_()
    spec = Weights(bits=4, block_size=32)
    out = fake_quantize_weight(w, spec)
    for part in (slice(0, 32), slice(32, 40)):
        scale = w.detach()[:, part].abs().amax(1, keepdim=True) / 7
        assert torch.allclose(out[:, part], torch.round(w.detach()[:, part] / scale) * scale, atol=1e-6)
    out.sum().backward()
    assert w.grad is not None and torch.equal(w.grad, torch.ones_like(w))


def test_ranges_follow() -> None:
    held = torch.tensor([-1.0, 3.0])
    assert follow_(held, torch.empty(0), 0.5) == (-1, 3)
    assert follow_(held, torch.full((3,), float("nan")), 0.5) == (-1, 3)
    assert follow_(held, torch.tensor([-2.0, 1.0], dtype=torch.bfloat16, requires_grad=True), 0.25) == (-1.25, 2.5)
    assert follow_(held, torch.tensor([-1.25, 4.5, float("inf")]), 0.5) == (-1.25, 3.5)
    assert follow_(held, torch.tensor([-9.0, 9.0]), 0.5, (0, 5.5)) == (-0.625, 4.5)
    assert held.tolist() == [-0.625, 4.5]


def test_a_batch_that_overflows_does_not_spoil_a_range() -> None:
    try:
        model = onward.init(nn.Sequential(nn.Linear(2, 2))).train()
        x = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
        model(x)
        before = {key: value.clone() for key, value in model.state_dict().items() if "quant_" in key}
        model(x * float("nan"))
        assert before and all(torch.equal(model.state_dict()[key], value) for key, value in before.items())
    finally:
        onward.restore()


class Masked(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        scores = torch.matmul(x, x.transpose(0, 1)).masked_fill(mask, float("-inf"))
        return scores.softmax(-1) + 0


def test_a_mask_of_infinities_stays_one_in_training() -> None:
    try:
        model = onward.init(Masked()).train()
        x, mask = torch.randn(3, 4, generator=torch.Generator().manual_seed(11)), torch.eye(3) > 0
        for _ in range(3):
            assert bool(model(x, mask).isfinite().all())
        assert not any(bool(value.isnan().any()) for value in model.state_dict().values())
    finally:
        onward.restore()


def test_weights_are_rounded_half_to_even_in_evaluation_too() -> None:
    """2.5 steps are 2, whatever the activations do."""
    config = onward.QuantConfig(
        weights=Weights(per_channel=False, power_of_two=True),
        activations=Activations(symmetric=True, power_of_two=True, range="minmax"),
        rounding="half_up",
    )
    try:
        model = onward.init(nn.Sequential(nn.Linear(2, 1, bias=False)), config)
        model[0].weight.data = torch.tensor([[1.0, 2.5 / 128]])
        with onward.calibration(model):
            model(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
        assert float(model.eval()(torch.tensor([[0.0, 0.5]]))) == 0.5 * 2 / 128
        assert float(model.train()(torch.tensor([[0.0, 0.5]])).detach()) == 0.5 * 2 / 128
    finally:
        onward.restore()


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("bounds", [(0, None), (0, 6), (-1, 1), (None, 0.7), (3, None)], ids=str)
def test_bounds_are_those_of_an_activation_before_it(bounds: tuple[float | None, float | None], learned: bool) -> None:
    spec = Activations(learned=learned)
    x, other = (values(-1, 2, 3 / 255).requires_grad_() for _ in range(2))
    out = fake_quantize(x, *tensors(-1.0, 2.0, learned), spec, bounds=bounds)
    wanted = fake_quantize(torch.clamp(other, *bounds), *tensors(-1.0, 2.0, learned), spec)
    assert torch.equal(out, wanted)
    out.sum().backward()
    wanted.sum().backward()
    assert x.grad is not None and other.grad is not None
    at_a_bound = torch.isin(x.detach(), torch.tensor([each for each in bounds if each is not None]))
    assert torch.equal(x.grad[~at_a_bound], other.grad[~at_a_bound])  # clamp has a gradient at its bounds, relu none
