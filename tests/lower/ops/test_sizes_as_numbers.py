"""Numbers from sizes and from data where an operator takes a number: factors, ends of ranges, elements of tensors."""

from __future__ import annotations

import pytest
import torch

from tests.opsets import NEWEST

from ..harness import Case, case, f32, run

FEW = (9, 13, 18, NEWEST)
BOTH = {0: {0: "batch", 1: "width"}}
BATCH = {0: {0: "batch"}}
x = f32(2, 3)
i64, i32, u8, f64, f16 = torch.int64, torch.int32, torch.uint8, torch.float64, torch.float16
Tensor = torch.Tensor


def _factors(x: Tensor, beta: object, alpha: object) -> tuple[Tensor, ...]:
    square = x.new_ones(x.shape[1], x.shape[1])
    return (
        torch.addmm(x, x, square, beta=beta, alpha=alpha),  # type: ignore[arg-type]
        torch.baddbmm(x[None], x[None], square[None], beta=beta, alpha=alpha),  # type: ignore[call-overload]
        torch.addbmm(x, x[None], square[None], beta=beta, alpha=alpha),  # type: ignore[call-overload]
        torch.addmv(x[:, 0], x, square[0], beta=beta, alpha=alpha),  # type: ignore[call-overload]
        torch.addr(x, x[:, 0], x[0], beta=beta, alpha=alpha),  # type: ignore[call-overload]
        torch.addcmul(x, x, x, value=alpha),  # type: ignore[call-overload]
        torch.addcdiv(x, x, x.abs() + 1, value=alpha),  # type: ignore[call-overload]
        torch.add(x, x, alpha=alpha),  # type: ignore[call-overload]
        torch.rsub(x, x, alpha=alpha),  # type: ignore[call-overload]
        torch.nn.functional.threshold(x, alpha, 0.5),  # type: ignore[arg-type]
    )


def _ranges(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, ...]:
    end = x.abs().sum() + 2
    return (
        torch.arange(end, dtype=dtype),
        torch.arange(0.9, end, 1.9, dtype=dtype),
        torch.arange(0, end.item(), dtype=dtype),
        torch.arange(x.shape[0] / 2 + 0.7, dtype=dtype),
        torch.linspace(x.shape[0] + 0.6, 0.9, 5, dtype=dtype),
    )


def _elements(x: Tensor) -> tuple[Tensor, ...]:
    n, m = x.shape
    likes, floats = (x, x.double(), x.half(), (x * 10).long(), x > 0), (x, x.double(), x.half())
    data = ([n, 1.0], [n, 2], [n * 1.5, 2], [[n, m], [1, 2.5]], [n > 2, True], [True, n / 2], x.shape)
    made = [like.new_tensor(each) for like in likes for each in data]
    return (*made, *(like.new_tensor([x.sum(), n]) for like in floats))


CASES = [
    case("factors from sizes", lambda x: _factors(x, x.shape[0], x.shape[1]), [x], dynamic=BOTH, opsets=FEW),
    case("factors from sizes, divided", lambda x: _factors(x, x.shape[0] / 2, 2), [x], dynamic=BOTH, opsets=FEW),
    case("factors from data", lambda x: _factors(x, x.sum(), x.mean()), [x], dynamic=BOTH, opsets=FEW),
    case("whole ranges with fractions", lambda x: _ranges(x, i64), [x], dynamic=BATCH, opsets=FEW),
    case("short ranges with fractions", lambda x: _ranges(x, i32) + _ranges(x, u8), [x], dynamic=BATCH, opsets=FEW),
    case("downwards", lambda x: torch.arange(3.9, -x.shape[0] - 0.5, -1.5, dtype=i64), [x], dynamic=BATCH, opsets=FEW),
    case("elements of a new tensor", _elements, [x], dynamic=BOTH, opsets=(13, NEWEST)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_numbers_from_sizes(case: Case) -> None:
    run(case)


def test_a_factor_of_nothing_leaves_out_what_is_no_number() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.baddbmm(x[None] / 0, x[None], x.new_ones(1, 3, 3), beta=x.shape[0] - 2)  # type: ignore[call-overload]

    run(case("beta becomes 0", model, [x.abs()], dynamic=BATCH, opsets=FEW, sizes=(2, 3)))
