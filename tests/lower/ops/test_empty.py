"""Tensors without elements, and axes that may turn out to have none: one row per family."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.lower.harness import NEWEST, Case, case, f32, ints, run

FEW = (9, 13, 20, NEWEST)
NONE = torch.zeros(0, 3)
BATCH = {0: {0: "batch"}}

NOTHING_IN = [
    case("sums", lambda x: (x.sum(), x.sum(0), x.sum(0, keepdim=True), x.sum(1)), [NONE], opsets=FEW),
    case("means", lambda x: (x.mean(), x.mean(0), x.mean(1)), [NONE], opsets=FEW),
    case("products", lambda x: (x.prod(), x.prod(0)), [NONE], opsets=FEW),
    case("norms", lambda x: (x.norm(), x.norm(1, 0), torch.logsumexp(x, 0)), [NONE], opsets=FEW),
    case("moments", lambda x: (*torch.var_mean(x, unbiased=True), *torch.std_mean(x, 0)), [NONE], opsets=FEW),
    case("any and all", lambda x: (x.any(), x.any(0), x.all(), x.all(0)), [NONE > 0], opsets=FEW),
    case("medians", lambda x: (x.median(), x.nanmedian()), [NONE], opsets=FEW),
]

NOTHING_OUT = [
    case("matmul", lambda x, y: x @ y, [NONE, f32(3, 4)], opsets=FEW),
    case("conv2d", lambda x, w: F.conv2d(x, w), [torch.zeros(0, 3, 5, 5), f32(2, 3, 3, 3)], opsets=FEW),
    case("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x, (2, 3, 2)), [torch.zeros(0, 2, 5, 5, 5)]),
    case("max_pool2d", lambda x: F.max_pool2d(x, 2, return_indices=True), [torch.zeros(0, 2, 4, 4)], opsets=FEW),
    case("circular pad", lambda x: F.pad(x, (1, 2), mode="circular"), [torch.zeros(0, 3, 3)], opsets=FEW),
    case("batch_norm", lambda x, m: F.batch_norm(x, m, m, training=True), [torch.zeros(0), torch.zeros(0)], opsets=FEW),
    case("interpolate", lambda x: F.interpolate(x, scale_factor=2), [torch.zeros(0, 1, 4, 4)], opsets=FEW),
    case("pdist of one", F.pdist, [f32(1, 4)], opsets=FEW),
    case("nonzero_static", lambda x: torch.nonzero_static(x, size=3), [torch.tensor(2.0)], opsets=FEW),
]  # fmt: skip

ANY = {0: {0: "batch", 1: "length"}}
SIZES = (0, 1, 5)

AT_ANOTHER_SIZE = [
    case("circular pad", lambda x: F.pad(x[1:], (1, 1), mode="circular"), [f32(3, 1, 4)], dynamic=BATCH, sizes=(1, 5)),
    case("running products", lambda x: (x.cumprod(0), x.cumprod(1)), [f32(2, 3)], dynamic=ANY, sizes=SIZES, opsets=FEW),
    case("running products of a batch", lambda x: x.cumprod(1), [f32(2, 3)], dynamic=BATCH, sizes=SIZES, opsets=FEW),
    case("running products along a batch", lambda x: x.cumprod(0), [f32(2, 3)], dynamic=BATCH, sizes=SIZES, opsets=FEW),
    case(
        "running log-sums",
        lambda x: (x.logcumsumexp(0), x.logcumsumexp(1)),
        [f32(2, 3)],
        dynamic=ANY,
        sizes=SIZES,
        opsets=FEW,
    ),
    case("running extremes", lambda x: (*x.cummax(0), *x.cummin(1)), [f32(2, 3)], dynamic=ANY, sizes=SIZES, opsets=FEW),
    case(
        "means",
        lambda x: (x[1:].mean(), x[1:].mean(0), x[:, 1:].mean(1, keepdim=True), x[1:].half().mean()),
        [f32(2, 3)],
        dynamic=ANY,
        sizes=(1, 5),
        opsets=FEW,
    ),
    case(
        "moments",
        lambda x: (*torch.var_mean(x[1:], 0), torch.std_mean(x[1:])[1]),
        [f32(4, 3)],
        dynamic=BATCH,
        sizes=(1, 5),
        opsets=FEW,
    ),
    case(
        "losses",
        lambda x: (F.mse_loss(x[1:], x[1:] + 1), F.l1_loss(x[1:], x[1:] * 2)),
        [f32(2, 3)],
        dynamic=BATCH,
        sizes=(1, 5),
        opsets=FEW,
    ),
    case(
        "largest of each row",
        lambda x: (x.argmax(-1), x.argmin(-1, keepdim=True), x.max(-1)[1]),
        [f32(2, 4, 3)],
        dynamic=BATCH,
        sizes=SIZES,
        opsets=FEW,
    ),
    case(
        "adaptive_max_pool1d",
        lambda x: F.adaptive_max_pool1d(x, 3, True),
        [f32(2, 4, 4)],
        dynamic=BATCH,
        sizes=SIZES,
        opsets=FEW,
    ),
    case(
        "matrix times vector",
        lambda x, y: (x @ y, torch.addmv(x[:, 0], x, y)),
        [f32(2, 3), f32(3)],
        dynamic=BATCH,
        sizes=SIZES,
        opsets=FEW,
    ),
    case(
        "einsum",
        lambda x: torch.einsum("bij,bkj->bik", x, x),
        [f32(2, 3, 4)],
        dynamic=BATCH,
        sizes=SIZES,
        opsets=(12, 13, 20, NEWEST),
    ),
    case("any", lambda x: (x.any(), x.any(0), x.any(1)), [ints(2, 3, low=0, high=2) > 0], dynamic=BATCH, sizes=(0, 5)),
    case("all", lambda x: (x.all(), x.all(0), x.all(1)), [ints(2, 3, low=0, high=2) > 0], dynamic=BATCH, sizes=(0, 5)),
    case(
        "axes beside those that are split",
        lambda x: (x.unflatten(0, (-1, 2)), x.flatten(0, 1), x.unflatten(1, (2, 3))),
        [f32(2, 6, 3, 4)],
        dynamic={0: {2: "height", 3: "width"}},
        sizes=SIZES,
        opsets=(15, 20, NEWEST),
    ),
    case("isin", torch.isin, [f32(4), f32(2)], dynamic={1: {0: "tests"}}, sizes=SIZES, opsets=FEW),
    case("all of numbers", lambda x: x.all(0), [ints(2, 3, low=0, high=2)], dynamic=BATCH, sizes=(0, 5), opsets=FEW),
]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom:UserWarning")
@pytest.mark.parametrize("case", [*NOTHING_IN, *NOTHING_OUT, *AT_ANOTHER_SIZE], ids=str)
def test_case(case: Case) -> None:
    run(case)
