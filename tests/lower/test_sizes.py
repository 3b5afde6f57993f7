"""Arithmetic on sizes and on numbers from data: every operator, at sizes that the example does not have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onward
from tests.opsets import NEWEST

Tensor = torch.Tensor
Function = Callable[[Any, Any], Any]
OTHERS = ((1, 1), (3, 5), (4, 2), (7, 8), (12, 6), (25, 3))

BITS: dict[str, Function] = {
    "and": lambda n, m: (n & 3) + (6 & m) + (n & m),
    "or": lambda n, m: (n | 4) + (1 | m) + (n | m),
    "xor": lambda n, m: (n ^ 5) + (n ^ m),
    "of negative numbers": lambda n, m: (-n & 3) + (-n | 5) + (-n ^ m),
    "rounded up to a multiple": lambda n, m: ((n + 3) & -4) + ((m + 1) & ~1),
    "a power of two or not": lambda n, m: (n & (n - 1)) + m,
    "shifts": lambda n, m: (n << 2) + (1 << n % 5) + (m >> 1) + (-m >> 1) + (n << 1 | 1),
}
ROUNDED: dict[str, Function] = {
    "to a digit": lambda n, m: round(n / 20, 1) + round(m * 0.05, 1),
    "to two digits": lambda n, m: round(n * 2.675, 2) + round(-m / 8, 2),
    "to tens": lambda n, m: round(n * 7.5, -1) + m,
    "to whole numbers": lambda n, m: round(n / 4) + round(-m / 2) + math.floor(-n / 3) + math.ceil(m / 7),
}


def _check(function: Function, numbers: Callable[[Tensor], Any], opset: int) -> None:
    def model(x: Tensor) -> Tensor:
        return x + function(*numbers(x))

    program = onward.export(
        model, (torch.ones(2, 3),), input_names=["x"], dynamic_axes={"x": {0: "n", 1: "m"}}, opset_version=opset
    )
    for sizes in OTHERS:
        torch.testing.assert_close(program(torch.ones(sizes)), model(torch.ones(sizes)))


@pytest.mark.parametrize("opset", (9, 13, 17, 18, NEWEST))
@pytest.mark.parametrize("name", BITS)
def test_bits_of_sizes(name: str, opset: int) -> None:
    _check(BITS[name], lambda x: x.shape, opset)


@pytest.mark.parametrize("opset", (9, 20))
@pytest.mark.parametrize("name", BITS)
def test_bits_of_data(name: str, opset: int) -> None:
    _check(BITS[name], lambda x: (x.sum().long().item(), (x > 0).sum().item()), opset)


def test_truth_values_are_not_numbers() -> None:
    _check(lambda n, m: torch.tensor([(n > 3) & (m > 2), (n > 3) | (m > 2)]).sum(), lambda x: x.shape, 17)


@pytest.mark.parametrize("opset", (9, 20))
@pytest.mark.parametrize("name", ROUNDED)
def test_rounding_of_sizes(name: str, opset: int) -> None:
    _check(ROUNDED[name], lambda x: x.shape, opset)


def test_a_comparison_that_is_a_factor_is_not_frozen() -> None:
    _check(lambda n, m: torch.ones(()) * (n == 3), lambda x: x.shape, 17)


def test_numbers_of_data_that_python_refuses_as_symbols_are_read_out() -> None:
    def model(x: Tensor) -> Tensor:
        n = x.sum().long().item()
        return x * ~n + len(f"{n:5d}") + n.real

    with pytest.warns(onward.CaptureWarning, match="a value was read out of a tensor"):
        program = onward.export(model, (torch.ones(2, 3),))
    torch.testing.assert_close(program(torch.ones(2, 3)), model(torch.ones(2, 3)))
