"""What convolutional networks call between their convolutions: every one equals onnxruntime on every element."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onward.quant import Activations, QuantConfig

from .harness import Outcome, left_in_float, quantized, through_onnxruntime
from .test_exact import CONFIGS

Function = Callable[..., Any]


class Around(nn.Module):
    """The function between two convolutions, the second of which takes whatever comes: `a` is on the grid of a
    convolution, `b` on that of a ReLU, both [2, 8, 12, 12]."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(3, 8, 3, padding=1)
        self.slope = nn.Parameter(torch.linspace(-0.3, 0.8, 8))

    def forward(self, x: Tensor) -> Any:
        a, b = self.first(x), F.relu(self.second(x))
        return self.function(a, b, self.slope) if self.function.__code__.co_argcount == 3 else self.function(a, b)


def run(function: Function, config: str, tmp_path: Path) -> Outcome:
    torch.manual_seed(0)
    model = quantized(Around(function), lambda: torch.randn(4, 3, 12, 12), CONFIGS[config])
    outcome = through_onnxruntime(model, torch.randn(2, 3, 12, 12), tmp_path, fresh=torch.randn(2, 3, 12, 12) * 1.2)
    assert left_in_float(outcome) == {}
    return outcome


def statistics(slope: Tensor) -> tuple[Tensor, Tensor]:
    return slope.detach(), slope.detach().abs() + 0.5


def turned(x: Tensor, align_corners: bool) -> Tensor:
    """The places of an image that is turned by some degrees."""
    theta = torch.tensor([[0.8, 0.1, 0.05], [-0.2, 1.1, 0.0]]).expand(x.shape[0], 2, 3)
    return F.affine_grid(theta, [x.shape[0], 1, 12, 12], align_corners)


EXACT: dict[str, Function] = {
    "cat": lambda a, b: torch.cat([a, b], 1),
    "cat of three, negative axis": lambda a, b: torch.cat((a, b, a), dim=-1),
    "cat of one grid": lambda a, b: torch.cat([b[:, :3], b[:, 5:]], 1),
    "cat then relu": lambda a, b: F.relu(torch.cat([a, b], 1)),
    "stack": lambda a, b: torch.stack([a, b], 2),
    "hstack and vstack": lambda a, b: (torch.hstack([a, b]), torch.vstack([a, b])),
    "split": lambda a, b: torch.cat(torch.split(a, [3, 5], 1)[::-1], 1),
    "max_pool": lambda a, b: (F.max_pool2d(a, 3, 2, 1), F.max_pool2d(b, 2), F.max_pool2d(a, 2, 1, dilation=2)),
    "max_pool, ceil": lambda a, b: F.max_pool2d(a, 3, 2, ceil_mode=True),
    "max_pool, ceil, of what is padded": lambda a, b: tuple(
        F.max_pool2d(F.pad(each, (0, 1, 0, 1)), 2, stride, ceil_mode=True)
        for each in (a, F.relu(b))
        for stride in (1, 2)
    ),
    "max_pool, channels last": lambda a, b: [
        pool(F.pad(a, (8, 0, 8, 0)).contiguous(memory_format=torch.channels_last))
        for pool in (lambda x: F.max_pool2d(x, 3, 2, 1), lambda x: F.adaptive_max_pool2d(x, 4))
    ],
    "max_pool with indices": lambda a, b: F.max_pool2d(a, 2, return_indices=True)[0],
    "max_pool1d and 3d": lambda a, b: (F.max_pool1d(a.flatten(2), 5), F.max_pool3d(a.unsqueeze(1), 2)),
    "adaptive_max_pool": lambda a, b: (F.adaptive_max_pool2d(a, 4), F.adaptive_max_pool2d(a, (5, 1))),
    "avg_pool": lambda a, b: (F.avg_pool2d(a, 2), F.avg_pool2d(b, 3, 2), F.avg_pool2d(b, (3, 4), 1)),
    "avg_pool, padded": lambda a, b: (F.avg_pool2d(a, 3, 2, 1), F.avg_pool2d(a, 3, 1, 1, count_include_pad=False)),
    "avg_pool, ceil": lambda a, b: (F.avg_pool2d(a, 3, 2, 1, True), F.avg_pool2d(a, 5, 3, 0, True)),
    "avg_pool, ceil, the last window in the padding": lambda a, b: [
        F.avg_pool2d(a, size, stride, padding, True) for size, stride, padding in ((2, 2, 1), (3, 3, 1), (4, 3, 2))
    ],
    "avg_pool, divisor": lambda a, b: F.avg_pool2d(a, 3, 2, divisor_override=7),
    "avg_pool1d and 3d": lambda a, b: (F.avg_pool1d(a.flatten(2), 4), F.avg_pool3d(a.unsqueeze(1), 2)),
    "adaptive_avg_pool": lambda a, b: (F.adaptive_avg_pool2d(a, 1), F.adaptive_avg_pool2d(a, (3, 6))),
    "adaptive_avg_pool, uneven": lambda a, b: (F.adaptive_avg_pool2d(a, (5, 7)), F.adaptive_avg_pool2d(b[0], (5, 4))),
    "interpolate, area": lambda a, b: (
        F.interpolate(a, (6, 4), mode="area"),
        F.interpolate(b, scale_factor=(1.7, 0.6), mode="area"),
        F.interpolate(b.flatten(2), scale_factor=0.3, mode="area"),
    ),
    "adaptive_avg_pool1d": lambda a, b: F.adaptive_avg_pool1d(a.flatten(2), 1),
    "adaptive_avg_pool of the size that is there": lambda a, b: F.relu(F.adaptive_avg_pool2d(a, (12, None))),
    "mean": lambda a, b: (a.mean((2, 3)), b.mean([-1, -2], keepdim=True), a.mean(1), a.mean((0, 3), keepdim=True)),
    "mean of all": lambda a, b: a * b.mean(),
    "sum": lambda a, b: (a.sum(1), torch.sum(b, dim=(2, 3))),
    "amax and amin": lambda a, b: (a.amax((2, 3)), b.amin(1, keepdim=True)),
    "max along an axis": lambda a, b: (a.max(1).values, torch.min(b, 2, keepdim=True)[0]),
    "max of two": lambda a, b: (torch.maximum(a, b), torch.min(a, a.flip(1))),
    "pad": lambda a, b: (F.pad(a, (1, 2, 0, 1)), F.pad(b, (2, 2), value=0.7), F.pad(a, (-1, 1))),
    "pad by reflection": lambda a, b: (F.pad(a, (1, 2, 2, 1), "reflect"), F.pad(a, (1, 2, 2, 1), "replicate")),
    "pad around": lambda a, b: F.pad(a, (1, 2, 2, 1), "circular"),
    "interpolate": lambda a, b: (F.interpolate(a, scale_factor=2), F.interpolate(b, size=(7, 30), mode="nearest")),
    "interpolate, bilinear": lambda a, b: F.interpolate(a, scale_factor=2, mode="bilinear"),
    "interpolate, by any factor": lambda a, b: [
        F.interpolate(a, scale_factor=factor, mode=mode, align_corners=corners)
        for factor in (3, (1.7, 0.6))
        for mode in ("bilinear", "bicubic")
        for corners in (False, True)
    ],
    "interpolate, to any size": lambda a, b: (
        F.interpolate(a, (31, 7), mode="bicubic"),
        F.interpolate(b, (23, 40), mode="bilinear", align_corners=True),
        F.interpolate(b, scale_factor=2.3, mode="bicubic", recompute_scale_factor=True),
    ),
    "interpolate, of sequences and volumes": lambda a, b: [
        F.interpolate(x, **how, mode=mode, align_corners=corners)
        for x, mode in ((a.flatten(2), "linear"), (b.unflatten(1, (4, 2)), "trilinear"))
        for how in ({"scale_factor": 1.7}, {"scale_factor": 0.6}, {"size": 7})
        for corners in (False, True)
    ],
    "interpolate, antialiased": lambda a, b: [
        F.interpolate(x, **how, mode=mode, antialias=True)
        for x in (a, b)
        for how in ({"scale_factor": 2}, {"scale_factor": (1.7, 0.6)}, {"scale_factor": 0.5}, {"size": (7, 20)})
        for mode in ("bilinear", "bicubic")
    ],
    "grid_sample": lambda a, b: [
        F.grid_sample(a, turned(a, corners), mode, padding, corners)
        for mode in ("bilinear", "nearest", "bicubic")
        for padding in ("zeros", "border", "reflection")
        for corners in (False, True)
    ],
    "grid_sample, at computed places": lambda a, b: F.grid_sample(
        b, torch.tanh(a[:, :2]).permute(0, 2, 3, 1), align_corners=False
    ),
    "pixel_shuffle": lambda a, b: (F.pixel_shuffle(a, 2), F.pixel_unshuffle(a, 3)),
    "channel_shuffle": lambda a, b: F.channel_shuffle(a, 4),
    "dropout": lambda a, b: F.relu(F.dropout(a, 0.5, training=False)),
    "glu": lambda a, b: F.glu(a, 1),
    "prelu": lambda a, b, slope: F.prelu(a, slope),
    "leaky_relu": lambda a, b: (F.leaky_relu(a, 0.25), F.leaky_relu(a)),
    "hardswish": lambda a, b: F.hardswish(a),
    "hardsigmoid": lambda a, b: F.hardsigmoid(a),
    "silu": lambda a, b: F.silu(a),
    "gelu": lambda a, b: (F.gelu(a), F.gelu(a, approximate="tanh")),
    "mish": lambda a, b: F.mish(a),
    "elu": lambda a, b: (F.elu(a), F.celu(a, 0.5), F.selu(a)),
    "softplus": lambda a, b: (F.softplus(a), F.logsigmoid(a)),
    "sigmoid and tanh": lambda a, b: (a.sigmoid(), torch.tanh(a), F.softsign(a)),
    "relu6": lambda a, b: (F.relu6(a), F.hardtanh(b, 0.1, 0.8)),
    "relu and what it is of": lambda a, b: (lambda y: (F.relu(a) * b, a, F.relu(y), y.sigmoid()))(a + b),
    "relu and relu6": lambda a, b: (lambda y: torch.cat([F.relu(y), F.relu6(y)], 1))(a + b),
    "a bound, and then in place": lambda a, b: a.add_(F.relu(a)),
    "threshold": lambda a, b: (F.threshold(a, 0.2, 0.2), F.threshold(b, 0.1, 0.0)),
    "shrinks": lambda a, b: (F.softshrink(a, 0.1), F.hardshrink(a, 0.3), F.tanhshrink(a)),
    "exp and abs": lambda a, b: (torch.exp(a), a.abs(), -a, a.square()),
    "where": lambda a, b: (torch.where(a > 0.2, a, b), torch.where(a > 0, a, 0), a.masked_fill(a > 0.3, 0.0)),
    "arithmetic": lambda a, b: (a + b, a * b, a - b, a * 0.3, a / 4, 1 - a, a + 1, -2 * a),
    "in place": lambda a, b: (a.add_(b).relu_(), b),
    "in place, and looked at before": lambda a, b: (a[:, :2], b.mul_(0.5), b + 0),
    "in place, of one whose view is written to": lambda a, b: (a[:, :2].mul_(2), a, a + b, a * 2),
    "in place, and read before": lambda a, b: (a.add_(a.sigmoid()), b),
    "in place, where a view has to see it": lambda a, b: (lambda v: (a.add_(1), v))(a[:, :2]),
    "sums with a factor": lambda a, b: (torch.add(a, b, alpha=0.3), a.sub(b, alpha=2), a.add_(b, alpha=-1)),
    "addcmul and lerp": lambda a, b: (torch.addcmul(a, a, b, value=0.1), a.lerp(b, 0.25), b.clone().addcmul_(a, b)),
    "in place, of a view": lambda a, b: (b[:, :2].mul_(-1), b * 1.5),
    "types and places": lambda a, b: a.to(torch.float32).cpu().float().type_as(b).contiguous().detach().clone() + b,
    "getters": lambda a, b: a[0, 0].T @ b[0, 0].data.mT,
    "flatten": lambda a, b: torch.flatten(a, 1).unflatten(1, (4, -1)).squeeze().unsqueeze(0),
    "a batch norm alone": lambda a, b, slope: F.relu(F.batch_norm(b, *statistics(slope), slope + 1, slope)),
    "triangles": lambda a, b: (a.tril(), b.triu(1)),
}


@pytest.mark.parametrize("config", ["default", "powers of two"])
@pytest.mark.parametrize("name", EXACT)
def test_a_function_equals_onnxruntime(name: str, config: str, tmp_path: Path) -> None:
    assert run(EXACT[name], config, tmp_path).equal == 1


@pytest.mark.parametrize("name", EXACT)
def test_a_function_trains(name: str) -> None:
    torch.manual_seed(0)
    model = quantized(Around(EXACT[name]), lambda: torch.randn(4, 3, 12, 12)).train()
    result = model(torch.randn(4, 3, 12, 12))
    parts = [result] if isinstance(result, Tensor) else list(result)
    total = sum((each * torch.randn_like(each)).sum() for each in parts)
    total.backward()
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    assert gradients and all(bool(each.isfinite().all()) and bool(each.any()) for each in gradients)


NORMS: dict[str, Function] = {
    "group_norm": lambda a, b: F.group_norm(a, 4),
    "group_norm, weights": lambda a, b, slope: F.group_norm(b, 2, slope, slope + 1, eps=1e-2),
    "instance_norm": lambda a, b: F.instance_norm(b),
    "instance_norm, weights": lambda a, b, slope: F.instance_norm(a.flatten(2), None, None, slope, slope),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_are_computed_as_onnxruntime_does(name: str, tmp_path: Path) -> None:
    """To the bit, which without grids behind them can be seen: most sums differ in another order."""
    torch.manual_seed(0)
    model = quantized(Around(NORMS[name]), lambda: torch.randn(4, 3, 12, 12), QuantConfig(outputs=False))
    outcome = through_onnxruntime(model, torch.randn(2, 3, 12, 12), tmp_path, dynamic_axes={"x": {0: "n", 2: "h"}})
    assert outcome.equal == 1
    assert outcome.fused["InstanceNormalization"] == 1
    assert run(NORMS[name], "default", tmp_path).equal == 1


def test_local_response_norms_are_within_a_step(tmp_path: Path) -> None:
    """Powers differ in the last bit."""

    def norms(a: Tensor, b: Tensor) -> Any:
        return F.local_response_norm(a, 3)

    assert run(norms, "default", tmp_path).equal > 0.999


MOVES: dict[str, Function] = {
    "max_pool": lambda a: F.max_pool2d(a, 2),
    "pad": lambda a: F.pad(a, (1, 1)),
    "reflect": lambda a: F.pad(a, (1, 1, 2, 0), "reflect"),
    "interpolate": lambda a: F.interpolate(a.flip(1), scale_factor=2),
    "amax": lambda a: a.amax(1),
    "relu of a view": lambda a: F.relu(a.reshape(2, 4, -1)),
    "masked_fill": lambda a: a.masked_fill(a > 0.1, 0),
    "fold": lambda a: F.fold(a.flatten(2), (24, 24), 2, stride=2),
}


@pytest.mark.parametrize("name", MOVES)
def test_integers_of_sixteen_bits_move(name: str) -> None:
    """torch lacks most kernels for these: the values are moved, and come back to the same integers."""
    torch.manual_seed(0)
    config = QuantConfig(activations=Activations(bits=16))
    model = quantized(Around(lambda a, b: (a, MOVES[name](a))), lambda: torch.randn(2, 3, 12, 12), config)
    with torch.no_grad():
        plain, result = model(torch.randn(2, 3, 12, 12))
    assert plain.unique().numel() > 256
    assert torch.equal(result, MOVES[name](plain))


@pytest.mark.parametrize("opset", [13, 18])
def test_patches_side_by_side_are_put_in_their_places(opset: int, tmp_path: Path) -> None:
    def folded(a: Tensor, b: Tensor) -> Any:
        patches = torch.cat([a, b, a], 1).flatten(2)
        return patches, F.fold(patches, (48, 36), (4, 3), stride=(4, 3)), F.fold(b[0].flatten(1), 24, 2, stride=2)

    torch.manual_seed(0)
    model = quantized(Around(folded), lambda: torch.randn(4, 3, 12, 12))
    given = torch.randn(2, 3, 12, 12)
    outcome = through_onnxruntime(model, given, tmp_path, opset=opset)
    assert outcome.equal == 1
    assert left_in_float(outcome) == {}
    assert outcome.fused["Col2Im"] == 0
    patches, image, _ = model(given)
    assert torch.equal(image, F.fold(patches, (48, 36), (4, 3), stride=(4, 3)))


def test_written_into_out_is_float(tmp_path: Path) -> None:
    def into(a: Tensor, b: Tensor) -> Any:
        result = torch.empty_like(a)
        torch.add(a, b, out=result)
        return result * 2, torch.mul(a, b, out=None)

    assert run(into, "default", tmp_path).equal == 1


def test_what_is_set_by_index_has_no_grid_any_more(tmp_path: Path) -> None:
    def assigned(a: Tensor, b: Tensor) -> Any:
        a[:, 0] = b[:, 1] * 3
        b[:, :2] += a[:, 2:4]
        return a * 2, b

    assert run(assigned, "default", tmp_path).equal == 1


@dataclasses.dataclass
class Result:
    scores: Tensor
    others: dict[str, Any]


def test_results_in_dataclasses_lie_on_their_grids() -> None:
    def packed(a: Tensor, b: Tensor) -> Any:
        return Result(a, {"two": [b, (a + b,)]})

    model = quantized(Around(packed), lambda: torch.randn(4, 3, 12, 12))
    with torch.no_grad():
        result = model(torch.randn(2, 3, 12, 12))
    for each in (result.scores, *result.others["two"][:1], *result.others["two"][1]):
        assert each.unique().numel() <= 256


SIZES_MAY_CHANGE = (
    "max_pool", "avg_pool, padded", "avg_pool, ceil, the last window in the padding", "mean", "sum", "cat", "pad",
    "interpolate", "elu",
)  # fmt: skip


@pytest.mark.parametrize("width", [26, 31])
@pytest.mark.parametrize("name", SIZES_MAY_CHANGE)
def test_sizes_may_change(name: str, width: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Around(EXACT[name]), lambda: torch.randn(4, 3, 12, 12))
    fresh, axes = torch.randn(3, 3, 12, width), {"x": {0: "n", 3: "w"}}
    outcome = through_onnxruntime(model, torch.randn(2, 3, 12, 12), tmp_path, fresh=fresh, dynamic_axes=axes)
    assert outcome.equal == 1


@pytest.mark.parametrize("config", ["default", "powers of two"])
def test_adaptive_pools_of_sizes_that_change(config: str, tmp_path: Path) -> None:
    """At some of the sizes all windows are equal, which evaluation computes in another way."""

    def pooled(a: Tensor, b: Tensor) -> Any:
        averages = [F.adaptive_avg_pool2d(b, size) for size in ((4, 4), (None, 1), (2, None), (None, 3))]
        return *averages, F.adaptive_max_pool2d(a, (None, 1)), F.interpolate(b, scale_factor=0.4, mode="area")

    torch.manual_seed(0)
    model = quantized(Around(pooled), lambda: torch.randn(4, 3, 12, 12), CONFIGS[config])
    axes = {"x": {0: "n", 2: "h", 3: "w"}}
    for size in ((12, 12), (36, 24), (17, 31)):
        fresh = torch.randn(6, 3, *size)
        outcome = through_onnxruntime(model, torch.randn(2, 3, 12, 12), tmp_path, fresh=fresh, dynamic_axes=axes)
        assert outcome.equal == 1
        assert left_in_float(outcome) == {}


SURROUNDINGS: dict[str, tuple[list[nn.Module], list[nn.Module]]] = {
    "behind an activation": ([nn.ReLU()], []),
    "before one": ([], [nn.ReLU()]),
    "before one in place": ([], [nn.ReLU(inplace=True)]),
    "before a norm and one": ([], [nn.BatchNorm2d(8), nn.ReLU6()]),
    "before a function": ([], [nn.Sigmoid()]),
    "alone": ([], []),
}


@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize("seen", [7, 14])
def test_an_adaptive_pool_that_has_nothing_to_do_at_one_size(around: str, seen: int, tmp_path: Path) -> None:
    """Images of the size that it gives, as of a VGG that is calibrated with the images that it was made for; or those
    are what it is evaluated with, in a file whose sizes vary."""
    torch.manual_seed(0)
    before, behind = SURROUNDINGS[around]
    pool = nn.Sequential(*before, nn.AdaptiveAvgPool2d(7), *behind)
    layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), *copy.deepcopy(pool), nn.Conv2d(8, 4, 3))
    model = quantized(layers, lambda: torch.randn(4, 3, seen, seen))
    for size in ((7, 7), (14, 21), (17, 9)):
        fresh, axes = torch.randn(3, 3, *size), {"input": {0: "n", 2: "h", 3: "w"}}
        outcome = through_onnxruntime(model, torch.randn(2, 3, seen, seen), tmp_path, fresh=fresh, dynamic_axes=axes)
        assert outcome.equal == 1
        assert left_in_float(outcome) == {}
    fixed = through_onnxruntime(model, torch.randn(2, 3, 7, 7), tmp_path)
    convolutions = 3 if "norm" in around else 2
    assert fixed.equal == 1 and (seen == 14 or fixed.nodes["Conv"] == convolutions)  # none for the pool


@pytest.mark.parametrize("size", [(None, 4), (3, None), (None, 1)], ids=str)
def test_largest_of_axes_that_change(size: tuple[int | None, int | None], tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.AdaptiveMaxPool2d(size), nn.Conv2d(8, 4, 1))
    model = quantized(layers, lambda: torch.randn(4, 3, 8, 8))
    for height, width in ((8, 8), (9, 7), (3, 16)):
        fresh, axes = torch.randn(3, 3, height, width), {"input": {0: "n", 2: "h", 3: "w"}}
        outcome = through_onnxruntime(model, torch.randn(2, 3, 8, 8), tmp_path, fresh=fresh, dynamic_axes=axes)
        assert outcome.equal == 1
        assert left_in_float(outcome) == {}


@pytest.mark.parametrize("factor", [0.6, 1.7, 2])
def test_cubic_resizing_between_convolutions(factor: float, tmp_path: Path) -> None:
    """onnxruntime moves the channels to the end between convolutions, where it has no such Resize to smaller sizes."""
    torch.manual_seed(0)
    resize = nn.Upsample(scale_factor=factor, mode="bicubic", align_corners=True)
    model = quantized(nn.Sequential(nn.Conv2d(3, 8, 3), resize, nn.Conv2d(8, 8, 3)), lambda: torch.randn(4, 3, 20, 20))
    fresh, axes = torch.randn(5, 3, 24, 30), {"input": {0: "n", 2: "h", 3: "w"}}
    outcome = through_onnxruntime(model, torch.randn(2, 3, 20, 20), tmp_path, fresh=fresh, dynamic_axes=axes)
    assert outcome.equal == 1
    assert outcome.fused["QLinearConv"] == 2


def test_inference_mode_computes_the_same() -> None:
    """Tensors have no versions there: what is written is known all the same."""
    torch.manual_seed(0)
    model = quantized(
        Around(lambda a, b: (a[:, :2].neg_(), b.mul_(0.5), F.relu(a) + b)), lambda: torch.randn(2, 3, 8, 8)
    )
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        wanted = model(x)
    with torch.inference_mode():
        got = model(x)
    assert all(torch.equal(one, other) for one, other in zip(wanted, got, strict=True))
