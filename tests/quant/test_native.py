"""The compiled loops against the same in PyTorch's operations, to the last bit; and tensors that they cannot read."""

from __future__ import annotations

import gc
import itertools
import math
import os
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onward
from onward.quant import Activations, Weights, native
from onward.quant.grids.fake_quantize import fake_quantize, fake_quantize_following, fake_quantize_weight
from onward.quant.grids.learned import fake_quantize_learned
from onward.quant.grids.plain_grids import Bounds, follow, steps_between, steps_of
from onward.quant.grids.sites import Site

from .harness import check_compiled

SPECS = [
    Activations(bits=bits, symmetric=symmetric, power_of_two=power_of_two)
    for bits, symmetric, power_of_two in itertools.product((2, 5, 8, 16), (False, True), (False, True))
]
BOUNDS: list[Bounds] = [(None, None), (0, None), (0, 6), (-1, 1), (None, 0.7), (3, None), (-0.5, -0.25)]
LARGE = 1 << 20  # shared out among threads


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    check_compiled()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_loops", None)


def site(spec: Activations, rounding: str = "half_even") -> Site:
    return Site(nn.Identity(), "layer", "relu_0_output", spec, rounding)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ranges() -> list[tuple[float, float]]:
    ends = noise(200, 2) * torch.exp(20 * noise(200, 1, seed=1))
    found = [(low, high) for low, high in ends.tolist()]
    return [*found, (0.0, 0.0), (0.0, 1e-44), (0.5, 1.0), (-1.0, 0.0), (1.0, -1.0), (0.25, 0.25)]


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_grids_are_the_same_to_the_last_bit(spec: Activations, bounds: Bounds) -> None:
    for low, high in ranges():
        held = torch.tensor([low, high])
        if held[0] < -1e30 or not math.isfinite(float(held[1] - held[0])):
            continue
        assert steps_of(held, site(spec), bounds) == steps_between(*held.tolist(), spec, bounds)


@pytest.mark.parametrize("size", [1000, LARGE])
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_ranges_follow_in_the_same_way(bounds: Bounds, size: int) -> None:
    spec = Activations(averaging=0.3)
    one, two = torch.tensor([-0.3, 0.4]), torch.tensor([-0.3, 0.4])
    for seed in range(5):
        x = noise(size, seed=seed) * 1.7**seed
        found, steps = native.follow(x, one, spec, bounds), follow(two, x, site(spec), bounds)
        assert found is not None and steps is not None
        assert found[:3] == steps[:3] and torch.equal(one, two)
        assert bool(found[3]) == bool(((x <= steps.low) | (x >= steps.high)).any())


def test_masks_and_ranges_that_training_has_spoilt(monkeypatch: pytest.MonkeyPatch) -> None:
    x = noise(10)
    for _ in range(2):
        for held in (torch.tensor([-2e30, 1.0]), torch.tensor([-math.inf, math.inf])):
            before = held.clone()
            assert steps_of(held, site(Activations())) is None
            assert fake_quantize_following(x, held, site(Activations())) is None and torch.equal(held, before)
        for held, said in ((torch.tensor([math.nan, 1.0]), "nan to 1"), (torch.tensor([0.0, math.inf]), "0 to inf")):
            for read in (lambda held, site: fake_quantize_following(x, held, site), steps_of):
                with pytest.raises(onward.QuantizationError, match=f"of layer .* from {said}\n.*training has diverged"):
                    read(held, site(Activations()))
        without(monkeypatch)


def test_ends() -> None:
    for x in (noise(1), noise(17), -noise(1000).abs(), noise(LARGE + 3), torch.tensor([-0.0, 1e-44, -1e-40])):
        assert native.ends(x) == (float(x.min()), float(x.max()))
    for bad in (math.nan, -math.nan, math.inf, -math.inf):
        for size in (1, 20, LARGE):
            x = noise(size)
            x[size // 2] = bad
            assert native.ends(x) is None
    assert native.ends(torch.empty(0)) is None


@pytest.mark.parametrize("rounding", ["half_even", "half_up"])
@pytest.mark.parametrize("size", [3, 1000, 1 << 17, LARGE])
@pytest.mark.parametrize("width", [1.0, 9.0], ids=["clipped", "not clipped"])
def test_values_and_gradients(width: float, size: int, rounding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream, held = noise(size, seed=3), torch.tensor([-0.9 * width, width])
    found = []
    for _ in range(2):
        x = noise(size).requires_grad_()
        fixed = fake_quantize(x, *held, Activations(bits=5), rounding=rounding)
        moving = fake_quantize_following(x, held.clone(), site(Activations(bits=5), rounding), (0, None))
        assert moving is not None
        (fixed * upstream).sum().backward()
        first = x.grad
        x.grad = None
        (moving * upstream).sum().backward()
        found.append([fixed.detach(), moving.detach(), first, x.grad])
        without(monkeypatch)
    for one, two in zip(*found, strict=True):
        assert one is not None and two is not None and torch.equal(one, two)


@pytest.mark.parametrize("after_relu", [False, True])
@pytest.mark.parametrize("size", [5, 70000, LARGE])
def test_gradients_of_learned_ends(size: int, after_relu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their sums are added in another order."""
    upstream, found = noise(size, seed=3), []
    for _ in range(2):
        x, held = noise(size).requires_grad_(), torch.tensor([0.0 if after_relu else -1.0, 1.2], requires_grad=True)
        out = fake_quantize_learned(x, held, site(Activations(bits=4)), (0, None) if after_relu else (None, None))
        assert out is not None
        (out * upstream).sum().backward()
        assert x.grad is not None and held.grad is not None
        found.append((out.detach(), x.grad, held.grad))
        without(monkeypatch)
    (out, grad, ends), (out_, grad_, ends_) = found
    assert torch.equal(out, out_) and torch.equal(grad, grad_)
    torch.testing.assert_close(ends, ends_, rtol=2e-3, atol=2e-3 * float(ends_.abs().max()))
    assert not after_relu or float(ends[0]) == 0


@pytest.mark.parametrize("size", [6, 1 << 17])
@pytest.mark.parametrize(
    "after",
    [lambda y: y.transpose(1, 2).flatten(2), lambda y: y.mean(1), lambda y: y[:, ::2], lambda y: y],
    ids=["transposed", "expanded", "every second", "as it is"],
)
@pytest.mark.parametrize("learned", [False, True])
def test_gradients_in_another_order(
    learned: bool, after: Callable[[Tensor], Tensor], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of heads of attention, of a mean: the loops read them all the same."""
    found: list[list[Tensor]] = []
    passes: list[object] = []
    loop = native.gradients if learned else native.keep
    monkeypatch.setattr(native, loop.__name__, lambda *args: (passes.append(args), loop(*args))[1])
    for _ in range(2):
        x = noise(2, 4, size // 8 + 3, 8).requires_grad_()
        held = torch.tensor([-1.0, 1.2], requires_grad=learned)
        spec = site(Activations(bits=4, learned=learned))
        out = fake_quantize_learned(x, held, spec) if learned else fake_quantize_following(x, held, spec)
        assert out is not None
        y = after(out)
        (y * noise(*y.shape, seed=3)).sum().backward()
        found.append([each.grad for each in (x, held) if each.grad is not None])
        without(monkeypatch)
    assert len(passes) == (learned or size > 6) and len(found[0]) == 1 + learned
    assert torch.equal(found[0][0], found[1][0])
    if learned:
        torch.testing.assert_close(found[0][1], found[1][1], rtol=2e-3, atol=2e-3 * float(found[1][1].abs().max()))


@pytest.mark.parametrize("symmetric", [False, True])
def test_no_values_move_no_learned_end(symmetric: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of an expert that no token was given to: nothing, and not 0 / 0."""
    spec = Activations(learned=True, symmetric=symmetric)
    for _ in range(2):
        x, held = torch.empty(0, 3, requires_grad=True), torch.tensor([-1.0, 2.0], requires_grad=True)
        out = fake_quantize_learned(x, held, site(spec))
        assert out is not None
        out.backward(torch.empty(0, 3))
        assert held.grad is not None and held.grad.tolist() == [0, 0] and x.grad is not None
        without(monkeypatch)


@pytest.mark.parametrize("shape", [(7,), (5, 3), (4, 6, 3, 3), (512, 2100), (1, 1)], ids=str)
@pytest.mark.parametrize("spec", [Weights(), Weights(bits=4), Weights(per_channel=False)], ids=str)
def test_weights(spec: Weights, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    weight = noise(*shape)
    weight.reshape(-1)[:1] = 0.0
    if shape == (5, 3):
        weight[1], weight[2, 0], weight[3, 1] = 1e-42, math.nan, math.inf
    axes = (0, 1) if len(shape) > 1 else (0,)
    found = []
    for _ in range(2):
        found.append([fake_quantize_weight(weight, spec, axis=axis) for axis in axes])
        without(monkeypatch)
    for one, two in zip(*found, strict=True):
        assert torch.equal(one.nan_to_num(7.0), two.nan_to_num(7.0))


@pytest.mark.parametrize(
    "made",
    [
        lambda x: x.transpose(0, 1),
        lambda x: x[:, ::2],
        lambda x: x[:1].expand(5, -1, -1, -1),
        lambda x: x.contiguous(memory_format=torch.channels_last),
        lambda x: x.contiguous(memory_format=torch.channels_last).permute(0, 2, 3, 1),
        lambda x: x.double(),
        lambda x: x.to(torch.bfloat16),
        lambda x: x[:0],
    ],
)
def test_any_layout_and_type(made: object, monkeypatch: pytest.MonkeyPatch) -> None:
    x = made(noise(6, 4, 5, 3))  # type: ignore[operator]
    found = []
    for _ in range(2):
        out = fake_quantize_following(x, torch.tensor([-1.0, 1.5]), site(Activations()))
        assert out is not None and out.shape == x.shape and out.dtype == x.dtype
        found.append(out)
        without(monkeypatch)
    assert torch.equal(*found)


def test_nothing_is_read_that_has_no_memory() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    spec = Activations()
    with FakeTensorMode():
        assert fake_quantize(torch.empty(3), -1.0, 1.0, spec).shape == (3,)
    rows = torch.func.vmap(lambda row: fake_quantize(row, -1.0, 1.0, spec))(noise(3, 4))
    assert torch.equal(rows, fake_quantize(noise(3, 4), -1.0, 1.0, spec))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(noise(1 << 17), torch.ones(1 << 17))
        tangent = torch.autograd.forward_ad.unpack_dual(fake_quantize(dual, -1.0, 1.0, spec)).tangent
    assert tangent is not None and set(tangent.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("learned", [False, True])
def test_a_gradient_of_the_gradient(learned: bool) -> None:
    x = noise(1 << 17).requires_grad_()
    held = torch.tensor([-1.28, 1.27], requires_grad=learned)
    spec = Activations(learned=learned)
    out = fake_quantize_learned(x, held, site(spec)) if learned else fake_quantize(x, -1.28, 1.27, spec)
    assert out is not None
    (first,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    inside = (x.detach() > -1.285) & (x.detach() < 1.275)
    assert 0 < float(inside.float().mean()) < 1 and torch.equal(second, 2 * inside.float())


def test_a_process_that_was_forked_has_threads_of_its_own() -> None:
    x = noise(LARGE)
    wanted = native.ends(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if native.ends(x) == wanted else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(F.gelu(self.first(x)))
        return y


@pytest.mark.parametrize("mode", [True, False], ids=["train", "eval"])
def test_a_run_that_is_not_followed_by_backward_leaves_nothing_behind(mode: bool) -> None:
    seen: list[weakref.ref[Tensor]] = []

    def remember(module: nn.Module, args: tuple[Tensor, ...], result: Tensor) -> None:
        seen.extend(weakref.ref(each) for each in (*args, result))

    model = Two()
    model.first.register_forward_hook(remember)
    model.second.register_forward_hook(remember)
    try:
        model = onward.init(model)
        model.train()(noise(3, 4))
        model.train(mode)
        seen.clear()
        model(noise(3, 4))
        gc.collect()
        assert len(seen) == 4 and not [each for each in seen if each() is not None]
    finally:
        onward.restore()
