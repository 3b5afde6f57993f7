"""Windows as long as an axis."""

from __future__ import annotations

import pytest
import torch

from ..harness import NEWEST, SOME_OPSETS, Case, case, f32, run

ANY = {0: {0: "length"}}
FEW = (9, 17, NEWEST)


def windowed(function, *args, **options):
    """Added and not multiplied: ends that are 0 but for rounding are compared with a scale."""
    return lambda x: x + function(x.shape[0], *args, **options)


CASES: list[Case] = [
    case(f"{function.__name__} {args}", windowed(function, *args), [f32(7)], dynamic=ANY, sizes=(1, 2, 5, 12),
         opsets=opsets)
    for function, args, opsets in [
        (torch.hann_window, (), SOME_OPSETS),
        (torch.hann_window, (False,), FEW),
        (torch.hamming_window, (), FEW),
        (torch.hamming_window, (False, 0.6, 0.3), FEW),
        (torch.blackman_window, (), FEW),
        (torch.blackman_window, (False,), FEW),
        (torch.bartlett_window, (), FEW),
        (torch.bartlett_window, (False,), FEW),
        (torch.kaiser_window, (), SOME_OPSETS),
        (torch.kaiser_window, (False,), FEW),
        (torch.kaiser_window, (True, 5.0), FEW),
    ]
] + [
    case("in float64", windowed(torch.kaiser_window, dtype=torch.float64), [f32(7)], dynamic=ANY, opsets=FEW),
    case("of a fixed length", lambda x: x * torch.kaiser_window(7), [f32(7)], opsets=FEW),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run(case)
