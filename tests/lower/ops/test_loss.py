"""Losses that are loops, or operators of their own: ctc_loss, linear_cross_entropy."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import onward

from ..harness import NEWEST, SOME_OPSETS, Case, case, check, f32, run

FEW = (9, 13, 20, NEWEST)
LOGITS = f32(8, 3, 5).log_softmax(-1)
ROWS = torch.tensor([[1, 2, 2], [3, 1, 4], [4, 4, 4]])
SEEN, WANTED = torch.tensor([8, 6, 7]), torch.tensor([3, 2, 0])
SIZES = {0: {0: "time", 1: "batch"}, 1: {0: "batch"}, 2: {0: "batch"}, 3: {0: "batch"}}


def _ctc(**how):
    return lambda x, rows, seen, wanted: F.ctc_loss(x, rows, seen, wanted, **how)


def _at(batch: int) -> list[torch.Tensor]:
    logits = f32(batch + 6, batch, 5, seed=batch).log_softmax(-1)
    rows = torch.arange(batch * 3).reshape(batch, 3) % 4 + 1
    return [logits, rows, torch.full((batch,), batch + 6), torch.arange(batch) % 4]


CASES = [
    case("ctc_loss", _ctc(reduction="none"), [LOGITS, ROWS, SEEN, WANTED], dynamic=SIZES, inputs_at=_at),
    case("ctc_loss mean", _ctc(), [LOGITS, ROWS, SEEN, WANTED], opsets=SOME_OPSETS),
    case("ctc_loss sum", _ctc(reduction="sum", blank=0), [LOGITS.double(), ROWS, SEEN, WANTED], opsets=FEW),
    case(
        "ctc_loss of what is impossible",
        _ctc(reduction="none", zero_infinity=True),
        [LOGITS[:3], ROWS, torch.tensor([3, 3, 2]), torch.tensor([3, 2, 2])],
        opsets=FEW,
    ),
    case(
        "ctc_loss of targets in one row",
        lambda x, row: F.ctc_loss(x, row, (8, 6, 7), (3, 2, 1), blank=4, reduction="none"),
        [LOGITS, torch.tensor([1, 2, 2, 3, 1, 0])],
        opsets=FEW,
    ),
    case("ctc_loss without a batch", lambda x, y: F.ctc_loss(x, y, (8,), (3,)), [LOGITS[:, 0], ROWS[0]], opsets=FEW),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    run(case)


def test_targets_in_one_row_need_lengths_that_are_known() -> None:
    row = torch.tensor([1, 2, 2, 3, 1])
    unknown = case("ctc_loss", _ctc(), [LOGITS, row, SEEN, WANTED])
    with pytest.raises(onward.LoweringError, match=r"targets in one row.*give them as rows"):
        check(unknown, 20)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_linear_cross_entropy_in_chunks(reduction: str) -> None:
    options = pytest.importorskip("torch.nn.modules.linear_cross_entropy_options")
    chunks = options.LinearCrossEntropyOptions(batch_chunk_size=2)
    target = torch.tensor([3, 0, 1, 2, 2])
    run(
        case(
            "linear_cross_entropy",
            lambda x, w, t: F.linear_cross_entropy(x, w, t, reduction=reduction, options=chunks),
            [f32(5, 3), f32(4, 3, seed=1), target],
            opsets=FEW,
        )
    )
