"""Calibration methods against brute force, over batches in any order, and on values that have no range."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

from onward.errors import InputError, QuantizationError
from onward.quant import (
    Activations,
    Observer,
    QuantConfig,
    RangeError,
    Weights,
    calibration,
    initialise,
    register_calibrate_method,
    unregister_calibrate_method,
)
from onward.quant.grids.grid import grid_from_range, weight_grid
from onward.quant.grids.histogram import Histogram, MeanSquaredError
from onward.quant.grids.ranges import calibrate_methods, make_observer, weight_range

METHODS = ("minmax", "moving_average", "percentile", "topk", "entropy", "mse")
ORDER_FREE = ("minmax", "percentile", "topk", "entropy", "mse")


def normal(count: int = 20_000) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(1))


def outliers(count: int = 20_000) -> Tensor:
    x = normal(count)
    x[::997] *= 60
    return x


VALUES = {
    "normal": normal(),
    "relu": normal().relu(),
    "negative": -normal().abs() - 3,
    "skewed": normal().exp() - 0.5,
    "outliers": outliers(),
    "tiny": normal() * 1e-30,
    "huge": normal() * 1e37,
    "few": torch.tensor([0.5, -0.25, 3.0]),
}


def observed(spec: Activations, *batches: Tensor) -> Observer:
    observer = make_observer(spec)
    for batch in batches:
        observer.observe(batch)
    return observer


def ends(spec: Activations, *batches: Tensor) -> tuple[float, float]:
    low, high = observed(spec, *batches).range()
    return float(low), float(high)


def squared_error(x: Tensor, low: float, high: float, spec: Activations) -> float:
    """Written out: quantize, dequantize, compare."""
    grid = grid_from_range(low, high, spec)
    q = torch.clamp(torch.round(x / grid.scale) + grid.zero_point, grid.low, grid.high)
    return float(((q - grid.zero_point) * grid.scale - x).double().square().sum())


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("method", ORDER_FREE)
def test_neither_order_nor_batches_matter(method: str, values: str) -> None:
    x = VALUES[values]
    mixed = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(2))]
    for symmetric in (False, True):
        spec = Activations(range=method, symmetric=symmetric, bins=512)
        assert (
            ends(spec, x) == ends(spec, *mixed.split(max(len(x) // 7, 1))) == ends(spec, *x.sort().values.split(4999))
        )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("values", VALUES)
def test_a_range_is_inside_the_values(method: str, values: str) -> None:
    x = VALUES[values]
    low, high = ends(Activations(range=method), *x.split(5000))
    assert float(x.min()) <= low <= high <= float(x.max())


def test_minmax_and_moving_average() -> None:
    batches = [torch.tensor([0.0, 1.0]), torch.tensor([-2.0, 0.5]), torch.tensor([-1.0, 3.0])]
    assert ends(Activations(range="minmax"), *batches) == (-2.0, 3.0)
    assert ends(Activations(range="moving_average", averaging=0.01), *batches) == pytest.approx((-1, 1.5))  # the mean
    # From the third batch on the average moves: 1 / 3 is less than 0.4.
    assert ends(Activations(range="moving_average", averaging=0.4), *batches) == pytest.approx(
        (0.6 * (0 - 2) / 2 + 0.4 * -1, 0.6 * (1 + 0.5) / 2 + 0.4 * 3)
    )


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("percentile", [60, 99, 99.9, 100])
def test_percentile_is_the_quantile_within_a_bin(values: str, percentile: float) -> None:
    x = VALUES[values]
    observer = observed(Activations(range="percentile", percentile=percentile), *x.split(3001))
    assert isinstance(observer, Histogram)
    cut = (100 - percentile) / 200
    for end, share, way in zip(observer.range(), (cut, 1 - cut), ("lower", "higher"), strict=True):
        wanted = float(torch.quantile(x.double(), share, interpolation="linear"))
        near = float(torch.quantile(x.double(), share, interpolation=way))  # between two far values any is right
        assert min(wanted, near) - observer.width <= float(end) <= max(wanted, near) + observer.width


@pytest.mark.parametrize("symmetric", [False, True])
def test_topk_is_the_kth_value(symmetric: bool) -> None:
    x = VALUES["outliers"]
    low, high = ends(Activations(range="topk", top_k=10, symmetric=symmetric), *x.split(700))
    if symmetric:
        kth = float(x.abs().sort().values[-10])
        assert (low, high) == (-kth, kth)
    else:
        ordered = x.sort().values
        assert (low, high) == (float(ordered[9]), float(ordered[-10]))
    between = torch.tensor([-3.0, -1.0, 0.5, 5.0])  # of four the third largest is below the third smallest
    assert ends(Activations(range="topk", top_k=3, symmetric=symmetric), between) == ((-1, 1) if symmetric else (-3, 5))
    few = torch.tensor([-1.0, 5.0])  # no more than k: every value is kept
    assert ends(Activations(range="topk", top_k=2, symmetric=symmetric), few) == (-5.0 if symmetric else -1.0, 5.0)


@pytest.mark.parametrize("power_of_two", [False, True])
@pytest.mark.parametrize("bits", [3, 4, 8])
@pytest.mark.parametrize("values", ["normal", "relu", "negative", "outliers", "tiny", "skewed"])
def test_mse_finds_the_best_threshold(values: str, bits: int, power_of_two: bool) -> None:
    """One end to look for: every edge of every bin is tried, and none is better by more than the grain of a bin."""
    x = VALUES[values][:5000]
    spec = Activations(range="mse", bits=bits, symmetric=values != "relu", power_of_two=power_of_two, bins=1024)
    observer = observed(spec, *x.split(999))
    assert isinstance(observer, MeanSquaredError)
    low, high = map(float, observer.range())
    reach = float(x.abs().max())
    found = squared_error(x, low, high, spec)
    thresholds = torch.arange(1, int(reach / observer.width) + 2)[::3] * observer.width
    best = min(squared_error(x, -float(t) if spec.symmetric else 0.0, float(t), spec) for t in thresholds)
    assert found <= best * 1.01


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("values", ["normal", "skewed", "outliers"])
def test_mse_finds_both_ends(values: str, bits: int) -> None:
    x = VALUES[values]
    spec = Activations(range="mse", bits=bits)
    low, high = ends(spec, *x.split(5000))
    shares = torch.exp2(-torch.arange(0, 6, 0.25))
    best = min(squared_error(x, float(x.min() * a), float(x.max() * b), spec) for a in shares for b in shares)
    assert squared_error(x, low, high, spec) <= best * 1.02
    assert squared_error(x, low, high, spec) <= squared_error(x, float(x.min()), float(x.max()), spec)


def test_entropy_keeps_what_has_no_outliers_and_clips_them_where_they_are() -> None:
    spec = Activations(range="entropy", symmetric=True)
    uniform = torch.linspace(-1, 1, 100_001)
    assert ends(spec, uniform) == pytest.approx((-1, 1), abs=0.01)
    x = torch.cat([uniform, torch.tensor([7.0, -7.0])])
    low, high = ends(spec, x)
    assert 1 <= high < 2 and low == -high


@pytest.mark.parametrize("values", VALUES)
def test_the_histogram_counts_every_value_in_its_bin(values: str) -> None:
    x = VALUES[values]
    observer = observed(Activations(range="mse", bins=64), *x.split(333))
    assert isinstance(observer, Histogram)
    edges = observer.edges()
    assert int(observer.counts.sum()) + observer.zeros == len(x) and observer.zeros == int((x == 0).sum())
    inside = x[x != 0].double()
    by_hand = torch.stack([((inside >= a) & (inside < b)).sum() for a, b in itertools.pairwise(edges)])
    assert torch.equal(observer.counts, by_hand)
    span = max(float(x.max()), 0) - min(float(x.min()), 0)
    assert span / 128 < observer.width <= span / 64 and observer.counts.numel() <= 130


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(
    ("batches", "range_"),
    [
        ([torch.zeros(5)], (0, 0)),
        ([torch.zeros(5), torch.empty(0, 3)], (0, 0)),
        ([torch.full((40,), 2.5)], (2.5, 2.5)),
        ([torch.full((40,), -2.5, dtype=torch.float64)], (-2.5, -2.5)),
        ([torch.tensor([1.0, float("nan"), 2.0, float("inf")])], (1, 2)),
        ([torch.full((3,), float("nan")), torch.tensor([1.0, 2.0], dtype=torch.bfloat16)], (1, 2)),
        ([torch.tensor([1.0, 2.0, -float("inf")])], (1, 2)),
        ([torch.tensor([-(2.0**127), 2.0**127])], (-(2.0**127), 2.0**127)),
    ],
)
def test_odd_values(method: str, symmetric: bool, batches: list[Tensor], range_: tuple[float, float]) -> None:
    spec = Activations(range=method, symmetric=symmetric, percentile=100)
    low, high = observed(spec, *batches).range()
    assert low.dtype == high.dtype == torch.float32
    wanted = max(map(abs, range_))
    if method == "topk" and symmetric:
        assert (float(low), float(high)) == pytest.approx((-wanted, wanted))
    elif method in ("minmax", "moving_average", "percentile", "topk"):
        assert (float(low), float(high)) == pytest.approx(range_)
    else:
        assert min(range_[0], 0) <= float(low) <= float(high) <= max(range_[1], 0)
        assert max(-float(low), float(high)) == pytest.approx(wanted, rel=0.02)
    grid_from_range(low, high, spec)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("batches", "text"),
    [
        ([], "no value was seen"),
        ([torch.empty(0)], "no value was seen"),
        ([torch.full((4,), float("nan")), torch.full((2,), float("nan"))], "every one of the 6 values was NaN"),
        ([torch.full((4,), float("inf"))], "every one of the 4 values was infinite"),
        ([torch.tensor([float("inf"), float("nan")])], "every one of the 2 values was NaN or infinite"),
    ],
)
def test_no_range(method: str, batches: list[Tensor], text: str) -> None:
    with pytest.raises(RangeError, match=text):
        observed(Activations(range=method), *batches).range()


def test_what_was_left_out_is_counted() -> None:
    observer = observed(Activations(), torch.tensor([float("nan"), 1.0, float("inf"), -float("inf")]), torch.ones(2))
    assert (observer.nans, observer.infinities, observer.values) == (1, 2, 3)
    with pytest.raises(RangeError, match="a tensor of torch.int64 has no range to find"):
        observer.observe(torch.ones(2, dtype=torch.int64))


def test_observing_keeps_no_graph() -> None:
    observer = observed(Activations(), torch.ones(3, requires_grad=True) * 2, torch.ones(3, requires_grad=True) * 3)
    assert not any(end.requires_grad for end in observer.range())


class Half(Observer):
    def update(self, values: Tensor, low: Tensor, high: Tensor) -> None:
        self.low, self.high = low / 2, high / 2

    def found(self) -> tuple[Tensor, Tensor]:
        return self.low, self.high


@pytest.fixture
def half() -> Iterator[None]:
    register_calibrate_method("half", Half)
    yield
    if "half" in calibrate_methods():
        unregister_calibrate_method("half")


def test_a_method_of_ones_own(half: None) -> None:
    spec = Activations(range="half")
    assert ends(spec, torch.tensor([-4.0, 2.0])) == (-2, 1)
    register_calibrate_method("half", Half)  # the same again is no conflict: a notebook's cell runs twice
    unregister_calibrate_method("half")
    with pytest.raises(InputError, match="'half' is not registered any more"):
        make_observer(spec)
    with pytest.raises(InputError, match="activations.range must be"):
        Activations(range="half")


@pytest.mark.parametrize(
    ("name", "cls", "text"),
    [
        ("minmax", Half, "the calibration method 'minmax' is one of onward's own"),
        ("half", type("Other", (Half,), {}), "there is a calibration method 'half' already: Half"),
        ("a b", Half, "must be a plain word, not 'a b'"),
        ("third", int, "must be a subclass of onward.quant.Observer"),
        ("third", Observer, "'third' does not override update and found\n  update\\(values, low, high\\) looks"),
        ("third", Half(Activations()), "must be a subclass of onward.quant.Observer"),
    ],
)
def test_registering_is_checked(half: None, name: str, cls: type[Observer], text: str) -> None:
    with pytest.raises(InputError, match=text):
        register_calibrate_method(name, cls)
    with pytest.raises(InputError, match="no registered calibration method 'hal'\n  did you mean 'half'"):
        unregister_calibrate_method("hal")


@pytest.mark.parametrize("found", [(-1, 2.0), (numpy.float32(-1), torch.tensor([2.0])), torch.tensor([-1.0, 2.0])])
def test_a_method_may_find_numbers(found: Any) -> None:
    """And need not know that there is an `__init__` to call."""
    cls = type("Found", (Half,), {"found": lambda self: found, "__init__": lambda self, spec: None})
    observer = cls(Activations())
    observer.observe(torch.ones(3))
    assert tuple(map(float, observer.range())) == (-1, 2)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, "has to find a low and a high number, not None"),
        ((1, 2, 3), r"has to find a low and a high number, not \(1, 2, 3\)"),
        (("a", "b"), r"has to find a low and a high number, not \('a', 'b'\)"),
        ((torch.zeros(3), torch.ones(3)), "has to find a low and a high number"),
        ((float("nan"), 1), "has found a range from nan to 1"),
        ((-float("inf"), 1), "has found a range from -inf to 1"),
        ((2, -2), "has found a range from 2 to -2"),
    ],
)
def test_what_a_method_finds_is_checked_and_the_module_named(half: None, found: Any, text: str) -> None:
    register_calibrate_method("found", type("Found", (Half,), {"found": lambda self: found}))
    try:
        model = initialise(nn.Sequential(nn.Linear(2, 2)), QuantConfig(activations=Activations(range="found")))
        said = rf"^0 \(linear_0_input\): the calibration method 'found' {text}.*\n  its found\(\) gives two finite"
        with pytest.raises(QuantizationError, match=said), calibration(model):
            model(torch.ones(1, 2))
        assert "0.quant_linear_0_input" not in model.state_dict()
    finally:
        unregister_calibrate_method("found")


def test_weight_ranges() -> None:
    w = normal(2 * 3 * 5 * 4).reshape(2, 3, 5, 4)
    assert torch.equal(weight_range(w, Weights()), w.abs().amax((1, 2, 3)))
    assert torch.equal(weight_range(w, Weights(), axis=1), w.abs().amax((0, 2, 3)))
    assert torch.equal(weight_range(w, Weights(per_channel=False)), w.abs().max())
    flat = normal(3 * 40).reshape(3, 40)
    blocks = weight_range(flat, Weights(bits=4, block_size=32))
    assert torch.equal(blocks, torch.stack([flat[:, :32].abs().amax(1), flat[:, 32:].abs().amax(1)], 1))
    assert torch.equal(weight_range(torch.tensor([-2.0, 1.0]), Weights()), torch.tensor([2.0, 1.0]))


def dequantized(w: Tensor, high: Tensor, spec: Weights) -> Tensor:
    grid = weight_grid(high, spec)
    scale = grid.scale_for(w.dim())
    return torch.clamp(torch.round(w / scale), grid.low, grid.high) * scale


@pytest.mark.parametrize("power_of_two", [False, True])
@pytest.mark.parametrize("bits", [3, 4, 8])
def test_mse_of_weights_is_the_best_of_many(bits: int, power_of_two: bool) -> None:
    w = outliers(16 * 300).reshape(16, 300)
    spec = Weights(bits=bits, range="mse", power_of_two=power_of_two)
    high = weight_range(w, spec)
    errors = (dequantized(w, high, spec) - w).square().sum(1)
    full = w.abs().amax(1)
    tried = [(dequantized(w, full * k / 500, spec) - w).square().sum(1) for k in range(100, 501)]
    # At 8 bits the error of so short a row jumps by some percent from one threshold to the next.
    assert bool((errors <= torch.stack(tried).amin(0) * (1.06 if bits == 8 else 1.02)).all())


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        (torch.tensor([[1.0, float("nan")]]), "1 of 2 values of the weight are NaN or infinite"),
        (torch.ones(2, 2, dtype=torch.int8), "a weight of torch.int8 and the shape \\(2, 2\\) has no range"),
        (torch.ones(0, 2), "the shape \\(0, 2\\) has no range to find"),
    ],
)
def test_weights_without_a_range(weight: Tensor, text: str) -> None:
    with pytest.raises(RangeError, match=text):
        weight_range(weight, Weights())
