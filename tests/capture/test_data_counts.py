"""Numbers from data as sizes of what is made, repeated, divided or padded, and more of what has a size from data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from ..contract.control import OPSETS, check
from .test_data_sizes import OTHER_NUMBERS, ROWS, TABLE, Case, check_fixed, check_names, draw

FROM_ONE = OTHER_NUMBERS[1:]
DIVISORS = tuple((draw(rows, 4), torch.tensor(n)) for rows, n in ((8, 1), (8, 8), (12, 4), (11, 11)))
MASKS = tuple((x, torch.tensor(1)) for x in (-TABLE.abs(), TABLE.abs() + 1, draw(11, 4), draw(1, 4)))
THREE, FOUR = (TABLE, torch.tensor(3)), (TABLE, torch.tensor(4))


def made(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A model of a table and a number in a tensor that only makes a tensor of the number."""

    def model(x: Tensor, n: Tensor) -> Tensor:
        return function(n.item()) + x.sum() * 0

    return model


def put(x: Tensor, n: Tensor) -> Tensor:
    y, mask = x.clone(), x[:, 0] > 0
    y[mask] = (x * 2)[mask.flip(0)]
    y[mask, 1] = 5.0
    y.index_put_((mask,), torch.tensor(1.0), accumulate=True)
    return y


def put_as_many_as_counted(x: Tensor, n: Tensor) -> Tensor:
    y = x.clone()
    y[x > 0] = x.abs().flatten()[: int((x > 0).sum())]
    return y


def last_rows_written(x: Tensor, n: Tensor) -> Tensor:
    y = x.clone()
    y[-n.item() :] = 0
    y[: n.item()] += 1
    return y


def lengths_of_two(x: Tensor, n: Tensor) -> Any:
    first, second = x.split(torch.stack([n, x.shape[0] - n]).tolist())
    return first * 2, second.sum(0)


def classes(x: Tensor, n: Tensor) -> Any:
    ids = (x[:, 0] > 0).long()
    return F.one_hot(ids, n.item() + 2), F.one_hot(ids[0], int(n) + 2), F.one_hot(ids, num_classes=n + 2)


N = "n"
CASES = {
    # made of a number
    "linspace": Case(made(lambda n: torch.linspace(0.0, n, n)), THREE, OTHER_NUMBERS, ((N,),), ROWS),
    "linspace, tensors": Case(
        lambda x, n: torch.linspace(x[0, 0], x[0, 1], steps=n.item()), THREE, OTHER_NUMBERS, ((N,),), ROWS
    ),
    "linspace, a tensor of steps": Case(lambda x, n: torch.linspace(0, 1, n), THREE, OTHER_NUMBERS, ((N,),), ROWS),
    "logspace": Case(made(lambda n: torch.logspace(0.0, 1.0, n, base=2)), THREE, OTHER_NUMBERS, ((N,),), ROWS),
    "arange": Case(made(lambda n: torch.arange(1, n + 1, 2)), THREE, OTHER_NUMBERS, (("dim_1",),), ROWS),
    "zeros": Case(lambda x, n: torch.zeros(n, 4) + x[0], THREE, OTHER_NUMBERS, ((N, 4),), ROWS),
    "full": Case(lambda x, n: torch.full((n.item(), 2), n.item()), THREE, OTHER_NUMBERS, ((N, 2),), ROWS),
    "eye": Case(made(lambda n: torch.eye(n, n + 1)), THREE, OTHER_NUMBERS, ((N, "n + 1"),), ROWS),
    "randperm": Case(lambda x, n: torch.randperm(n.item()).sort()[0], THREE, OTHER_NUMBERS, ((N,),), ROWS, 11),
    "tril_indices": Case(made(lambda n: torch.tril_indices(n, n)), THREE, OTHER_NUMBERS, ((2, "dim_1"),), ROWS),
    "triu_indices": Case(made(lambda n: torch.triu_indices(n, 3, 1)), THREE, OTHER_NUMBERS, ((2, "dim_1"),), ROWS),
    "tril": Case(made(lambda n: torch.tril(torch.ones(n, n), n - 2)), THREE, OTHER_NUMBERS, ((N, N),), ROWS),
    "one_hot": Case(classes, THREE, OTHER_NUMBERS, (("rows", "n + 2"), ("n + 2",), ("rows", "number_1")), ROWS),
    "one_hot, of the data": Case(
        lambda x, n: F.one_hot((x[:, 0] > 0).long() + n), THREE, OTHER_NUMBERS, (("rows", "max_1 + 1"),), ROWS
    ),
    "combinations": Case(
        lambda x, n: torch.combinations(x[:n, 0]), THREE, OTHER_NUMBERS, (("dim_1", 2),), ROWS
    ),
    # repeated, divided, padded
    "repeat": Case(lambda x, n: x[:1].repeat(n, 2), THREE, OTHER_NUMBERS, ((N, 8),), ROWS),
    "tile": Case(lambda x, n: torch.tile(x[:1], (n.item(), 1)), THREE, OTHER_NUMBERS, ((N, 4),), ROWS),
    "expand": Case(lambda x, n: x[:1].expand(n.item(), -1), THREE, OTHER_NUMBERS, ((N, 4),), ROWS),
    "repeat_interleave": Case(
        lambda x, n: x.repeat_interleave(n.item(), dim=0), THREE, OTHER_NUMBERS, (("rows*n", 4),), ROWS
    ),
    "repeat_interleave, a tensor": Case(
        lambda x, n: x.repeat_interleave(n, dim=0), THREE, OTHER_NUMBERS, (("repeat_interleave_1", 4),), ROWS
    ),
    "split": Case(lengths_of_two, THREE, FROM_ONE, (("number_1", 4), (4,)), ROWS),
    "narrow": Case(lambda x, n: x.narrow(0, n // 2, 2), THREE, FROM_ONE, ((2, 4),), ROWS),
    "pad": Case(lambda x, n: F.pad(x, (0, n), value=1.0), THREE, OTHER_NUMBERS, (("rows", "n + 4"),), ROWS),
    "roll": Case(lambda x, n: torch.roll(x, n.item(), 0), THREE, OTHER_NUMBERS, (("rows", 4),), ROWS),
    "interpolate": Case(
        lambda x, n: F.interpolate(x[None], size=int(n) + 1), THREE, OTHER_NUMBERS, ((1, "rows", "n + 1"),), ROWS
    ),
    "interpolate, bilinear": Case(
        lambda x, n: F.interpolate(x[None, None], size=(n.item() + 1, 5), mode="bilinear"),
        THREE, OTHER_NUMBERS, ((1, 1, "n + 1", 5),), ROWS, 11,
    ),
    "reshape": Case(lambda x, n: x.reshape(n.item(), -1), FOUR, DIVISORS, ((N, "reshape_1"),), ROWS),
    "reshape, last": Case(lambda x, n: x.t().reshape(-1, n.item()), FOUR, DIVISORS, (("reshape_1", N),), ROWS),
    "view": Case(lambda x, n: x.view(n.item(), x.shape[0] // n.item(), 4), FOUR, DIVISORS, ((N, "dim_1", 4),), ROWS),
    "unflatten": Case(
        lambda x, n: x.unflatten(0, (n.item(), -1)).sum(1), FOUR, DIVISORS, ((N, 4),), ROWS
    ),
    # of a size from data
    "masked, in pairs": Case(
        lambda x, n: x[(x[:, :1] > 0).expand_as(x)].reshape(-1, 4) * 2, THREE, MASKS, (("nonzero_1_1", 4),), ROWS
    ),
    "masked, as it was": Case(
        lambda x, n: x[x > 0].reshape(-1, 1).flatten() + x[x > 0], THREE, MASKS, (("nonzero_1",),), ROWS
    ),
    "masked and put": Case(put, THREE, MASKS, (("rows", 4),), ROWS, 11),
    "counted and put": Case(put_as_many_as_counted, THREE, MASKS, (("rows", 4),), ROWS),
    "sliced and written": Case(last_rows_written, THREE, FROM_ONE, (("rows", 4),), ROWS),
    "masked_scatter": Case(
        lambda x, n: x.masked_scatter(x > 0, x[x > 0] * 2 + 1), THREE, MASKS, (("rows", 4),), ROWS, 11
    ),
    "nonzero_static": Case(
        lambda x, n: torch.nonzero_static(x > 0, size=7, fill_value=9), THREE, MASKS, ((7, 2),), ROWS
    ),
    "nonzero_static, a number": Case(
        lambda x, n: torch.nonzero_static(x > 0, size=n.item()), THREE, OTHER_NUMBERS, ((N, 2),), ROWS
    ),
    "bincount": Case(
        lambda x, n: torch.bincount((x[:, 0] > 0).long() + n, weights=x[:, 1], minlength=4),
        THREE, OTHER_NUMBERS, (("bincount_1",),), ROWS,
    ),
    "unique, columns": Case(
        lambda x, n: torch.unique((x > 0).long(), dim=1, return_inverse=True, return_counts=True),
        THREE, MASKS, (("rows", "unique_1"), (4,), ("unique_1",)), ROWS, 11,
    ),
    "unique_consecutive, columns": Case(
        lambda x, n: torch.unique_consecutive((x > 0).long(), dim=1, return_counts=True),
        THREE, MASKS, (("rows", "unique_consecutive_1"), ("unique_consecutive_1",)), ROWS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_axis_is_named_and_other_data_gives_other_sizes(name: str) -> None:
    check_names(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_without_dynamic_axes(name: str) -> None:
    check_fixed(CASES[name])


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", ["linspace", "tril_indices", "one_hot", "split", "reshape", "masked, in pairs"])
def test_at_every_opset(name: str, opset: int) -> None:
    case = CASES[name]
    check(case.function, case.example, case.others, dynamic_axes=case.dynamic, opset_version=opset)


@pytest.mark.parametrize("function", [torch.linspace, torch.logspace])
def test_a_dynamic_axis_is_a_number_of_steps(function: Callable[..., Tensor]) -> None:
    def steps(x: Tensor) -> Tensor:
        return x * function(0.0, 1.0, x.shape[0])[:, None]

    program = check(steps, (TABLE,), [(draw(3, 4),), (draw(1, 4),)], dynamic_axes=ROWS)
    assert program.warnings == ()


def test_indices_of_a_triangle_of_a_dynamic_axis() -> None:
    def triangle(x: Tensor) -> Tensor:
        products = x @ x.t()
        row, column = torch.triu_indices(x.shape[0], x.shape[0], 1)
        return products[row, column]

    program = check(triangle, (TABLE,), [(draw(3, 4),), (draw(1, 4),)], dynamic_axes=ROWS)
    assert program.warnings == ()
