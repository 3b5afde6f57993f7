"""Random numbers: their dtype, shape, range and moments, and that every run draws anew."""

from __future__ import annotations

import warnings
from typing import Any

import onnx
import pytest
import torch

import onward
from onward.verify import Session
from tests.opsets import NEWEST

OPSETS = (9, 11, 13, 15, 18, 22, NEWEST)
wide = torch.zeros(200, 100)


class _Module(torch.nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def session_of(function, args, opset, *, dynamic=True) -> Session:
    axes = {"x": {0: "batch"}} if dynamic else {}
    names = ["x", "y"][: len(args)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        program = onward.export(
            _Module(function), args, input_names=names, dynamic_axes=axes, opset_version=opset, verify=False
        )
    onnx.checker.check_model(program.proto(), full_check=True)
    return Session(program.model)


def about(value: torch.Tensor, mean: float, std: float) -> None:
    """Within five standard errors of the mean: by chance one draw in a million is not."""
    tolerance = 5 * std / value.numel() ** 0.5
    assert abs(value.double().mean() - mean) < tolerance
    assert abs(value.double().std() - std) < tolerance


UNIFORM = 12**-0.5
DRAWS = {
    "rand": (lambda x: torch.rand(x.shape[0], 100), 0.5, UNIFORM),
    "rand float64": (lambda x: torch.rand(x.shape[0], 100, dtype=torch.float64), 0.5, UNIFORM),
    "rand float16": (lambda x: torch.rand(x.shape[0], 100, dtype=torch.float16), 0.5, UNIFORM),
    "randn": (lambda x: torch.randn(x.shape[0], 100), 0.0, 1.0),
    "randn float64": (lambda x: torch.randn(x.shape, dtype=torch.float64), 0.0, 1.0),
    "rand_like": (lambda x: torch.rand_like(x), 0.5, UNIFORM),
    "rand_like to a dtype": (lambda x: torch.rand_like(x, dtype=torch.float64), 0.5, UNIFORM),
    "randn_like": (lambda x: torch.randn_like(x), 0.0, 1.0),
    "uniform_": (lambda x: x.clone().uniform_(2, 4), 3.0, 2 * UNIFORM),
    "normal_": (lambda x: x.clone().normal_(3, 2), 3.0, 2.0),
    "normal of a mean": (lambda x: torch.normal(x + 3, 2.0), 3.0, 2.0),
    "normal of a deviation": (lambda x: torch.normal(3.0, x + 2), 3.0, 2.0),
    "normal of both": (lambda x: torch.normal(x + 3, x[:1] + 2), 3.0, 2.0),
    "normal of a size": (lambda x: torch.normal(3.0, 2.0, (x.shape[0], 100)), 3.0, 2.0),
    "exponential_": (lambda x: x.clone().exponential_(2), 0.5, 0.5),
    "bernoulli": (lambda x: torch.bernoulli(x + 0.3), 0.3, 0.21**0.5),
    "bernoulli of a number": (lambda x: torch.bernoulli(x, 0.3), 0.3, 0.21**0.5),
    "bernoulli_": (lambda x: x.clone().bernoulli_(0.3), 0.3, 0.21**0.5),
    "bernoulli_ of integers": (lambda x: torch.zeros_like(x, dtype=torch.int64).bernoulli_(0.3), 0.3, 0.21**0.5),
    "randint": (lambda x: torch.randint(10, (x.shape[0], 100)), 4.5, 99**0.5 * UNIFORM),
    "randint from low": (lambda x: torch.randint(-5, 5, (x.shape[0], 100)), -0.5, 99**0.5 * UNIFORM),
    "randint_like": (lambda x: torch.randint_like(x, 10), 4.5, 99**0.5 * UNIFORM),
    "randint_like from low": (lambda x: torch.randint_like(x, -5, 5), -0.5, 99**0.5 * UNIFORM),
    "randint int32": (lambda x: torch.randint(0, 10, x.shape, dtype=torch.int32), 4.5, 99**0.5 * UNIFORM),
}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.clone().normal_(3, 0),
        lambda x: torch.normal(3.0, 0.0, (x.shape[0], 100)),
        lambda x: torch.normal(3.0, 0.0, (2, 100), dtype=torch.float64),
    ],
)
def test_a_deviation_of_zero_gives_the_mean(function: Any, opset: int) -> None:
    x = torch.zeros(2, 100)
    program = onward.export(function, (x,), dynamic_axes={"x": {0: "n"}}, opset_version=opset)
    assert torch.equal(program(x), function(x))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", DRAWS)
def test_draws(name, opset) -> None:
    function, mean, std = DRAWS[name]
    session = session_of(function, (wide,), opset)
    eager = function(wide)
    first, second = session.run([wide])[0], session.run([wide])[0]
    assert (first.dtype, first.shape) == (eager.dtype, eager.shape)
    about(first, mean, std)
    assert not torch.equal(first, second)
    assert session.run([wide[:7]])[0].shape == (7, 100)


@pytest.mark.parametrize("opset", (9, 13, NEWEST))
def test_fixed_sizes(opset) -> None:
    session = session_of(lambda x: (torch.rand(3, 4) + x.sum() * 0, torch.rand_like(x)), (wide,), opset, dynamic=False)
    assert [value.shape for value in session.run([wide])] == [(3, 4), (200, 100)]


@pytest.mark.parametrize("opset", (9, 13, NEWEST))
def test_ranges(opset) -> None:
    session = session_of(lambda x: (torch.rand_like(x), torch.randint_like(x, -3, 4)), (wide,), opset)
    uniform, integers = session.run([wide])
    assert 0 <= uniform.min() < 0.01
    assert 0.99 < uniform.max() < 1
    assert integers.unique().tolist() == [-3, -2, -1, 0, 1, 2, 3]


@pytest.mark.parametrize("opset", (9, NEWEST))
@pytest.mark.parametrize("high", (1, 3))
def test_short_types_do_not_round_up_to_the_end(opset, high) -> None:
    session = session_of(lambda x: x.half().uniform_(-1, high), (wide,), opset)
    assert max(session.run([wide])[0].max() for _ in range(5)) < high


@pytest.mark.parametrize("opset", (10, 11, 13, NEWEST))
def test_randperm(opset) -> None:
    session = session_of(lambda x: torch.randperm(x.shape[0]), (wide,), opset)
    first, second = session.run([wide])[0], session.run([wide])[0]
    assert first.sort().values.tolist() == list(range(200))
    assert not torch.equal(first, second)
    assert sorted(session.run([wide[:5]])[0].tolist()) == [0, 1, 2, 3, 4]


def test_randperm_of_a_size_needs_opset_10() -> None:
    with pytest.raises(
        onward.LoweringError, match=r"aten.randperm.default has no lowering for opset 9 \(exists from 10"
    ):
        session_of(lambda x: torch.randperm(x.shape[0]), (wide,), 9)


WEIGHTS = torch.tensor([[0.0, 1.0, 3.0, 0.0], [2.0, 0.0, 0.0, 2.0]])


@pytest.mark.parametrize("opset", (9, 11, 13, NEWEST))
@pytest.mark.parametrize("rows", (WEIGHTS, WEIGHTS[0]), ids=("rows", "row"))
def test_multinomial_with_replacement(opset, rows) -> None:
    session = session_of(lambda x: torch.multinomial(x, 4000, replacement=True), (rows,), opset, dynamic=False)
    drawn = session.run([rows])[0].reshape(-1, 4000)
    assert drawn.dtype is torch.int64
    assert set(drawn[0].tolist()) == {1, 2}
    assert abs((drawn[0] == 2).double().mean() - 0.75) < 0.05


@pytest.mark.parametrize("opset", (9, 11, 13, NEWEST))
def test_multinomial_without_replacement(opset) -> None:
    rows = WEIGHTS[:1].expand(2000, 4).contiguous()
    session = session_of(lambda x: (torch.multinomial(x, 2), torch.multinomial(x, 1)), (rows,), opset)
    pairs, ones = session.run([rows])
    assert (pairs.shape, ones.shape) == ((2000, 2), (2000, 1))
    assert pairs.sort(1).values.unique(dim=0).tolist() == [[1, 2]]
    assert abs((ones == 2).double().mean() - 0.75) < 0.05
    assert abs((pairs[:, 0] == 2).double().mean() - 0.75) < 0.05


def test_two_draws_are_two_draws() -> None:
    session = session_of(lambda x: (torch.randn_like(x), torch.randn_like(x)), (wide,), 17)
    first, second = session.run([wide])
    assert not torch.equal(first, second)
