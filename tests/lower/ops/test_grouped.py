"""Products of groups of rows, and sizes that agree with others on the probes alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import onward

from ..harness import NEWEST, SOME_OPSETS, Case, case, f32, run

MATRICES = f32(4, 8, 4, seed=1)
TABLE = f32(9, 6)


def experts(x: torch.Tensor, choice: torch.Tensor) -> torch.Tensor:
    """As a mixture of experts does it: sort rows by expert, multiply group by group, put them back."""
    order = choice.argsort(stable=True)
    counts = torch.histc(choice[order].float(), bins=4, min=0, max=3)
    ends = counts.cumsum(0, dtype=torch.int32)
    return torch._grouped_mm(x[order], MATRICES, offs=ends)[order.argsort()]


def around(table: torch.Tensor, length: int) -> torch.Tensor:
    """Five rows either side of the middle, zeros beyond them, cut to 2 * length - 1."""
    table = F.pad(table, (0, 0, max(length - 5, 0), max(length - 5, 0)))
    start = max(5 - length, 0)
    return table[start : start + 2 * length - 1]


CASES = [
    case("a mixture of experts", experts, [f32(10, 8), torch.tensor([2, 0, 0, 3, 2, 1, 0, 3, 3, 3])], since=13,
         dynamic={0: {0: "rows"}, 1: {0: "rows"}}),
    case("an expert without rows", experts, [f32(4, 8), torch.tensor([2, 0, 0, 2])], opsets=(13, NEWEST)),
    case("batches of matrices", lambda x: torch._grouped_mm(x, MATRICES), [f32(4, 12, 8)], opsets=(9, NEWEST)),
    case("as long as the padding, by chance",
         lambda x: (x @ around(TABLE, x.shape[1]).T).flatten(1).view(x.shape[0], 2 * x.shape[1] - 1, -1),
         [f32(2, 7, 6)], dynamic={0: {1: "length"}}, sizes=(1, 3, 5, 9), opsets=[o for o in SOME_OPSETS if o > 10]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run(case)


def test_groups_of_unknown_length_need_opset_13() -> None:
    with pytest.raises(onward.ExportError, match=r"aten\._grouped_mm.*opset 12"):
        onward.export(experts, (f32(4, 8), torch.tensor([2, 0, 0, 2])), opset_version=12)
