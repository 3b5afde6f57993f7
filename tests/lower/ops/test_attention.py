"""Attention against eager: masks of both kinds, causal, grouped heads, rows without any key."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from tests.opsets import NEWEST

from ..harness import SOME_OPSETS, bools, case, f32, floats, run

FEW = (9, 13, 18, NEWEST)


def attention(**settings: object):
    return lambda q, k, v, *mask: scaled_dot_product_attention(q, k, v, *mask, **settings)  # type: ignore[arg-type]


def qkv(*shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [floats(*shape, dtype=dtype, seed=seed) for seed in range(3)]


def some_rows_closed(*shape: int) -> torch.Tensor:
    mask = bools(*shape)
    mask[..., 1, :] = False
    mask[..., 0, 0] = True
    return mask


SEQUENCE = {0: {0: "b", 2: "s"}, 1: {0: "b", 2: "s"}, 2: {0: "b", 2: "s"}}
CASES = [
    case("plain", attention(), qkv(2, 2, 3, 4)),
    case("plain, dynamic", attention(), qkv(2, 2, 3, 4), dynamic=SEQUENCE),
    case("causal", attention(is_causal=True), qkv(2, 2, 3, 4), opsets=SOME_OPSETS),
    case("causal, dynamic", attention(is_causal=True), qkv(2, 2, 3, 4), dynamic=SEQUENCE),
    case(
        "causal, more keys than queries",
        attention(is_causal=True),
        [f32(2, 2, 3, 4), f32(2, 2, 5, 4), f32(2, 2, 5, 6)],
        opsets=FEW,
    ),
    case("scale", attention(scale=0.3), qkv(1, 3, 4), opsets=FEW),
    case("bool mask", attention(), [*qkv(2, 2, 3, 4), some_rows_closed(2, 1, 3, 3)]),
    case(
        "bool mask, dynamic",
        attention(),
        [*qkv(2, 2, 3, 4), some_rows_closed(2, 1, 3, 3)],
        dynamic=SEQUENCE | {3: {0: "b", 2: "s", 3: "s"}},
        opsets=SOME_OPSETS,
    ),
    case("bool mask of two axes", attention(), [*qkv(2, 2, 3, 4), bools(3, 3)], opsets=FEW),
    case("float mask", attention(), [*qkv(2, 2, 3, 4), f32(2, 1, 3, 3)], opsets=SOME_OPSETS),
    case(
        "float mask with minus infinity",
        attention(),
        [*qkv(2, 2, 3, 4), torch.zeros(2, 1, 3, 3).masked_fill(~some_rows_closed(2, 1, 3, 3), float("-inf"))],
        opsets=SOME_OPSETS,
    ),
    case(
        "constant mask",
        lambda q: scaled_dot_product_attention(q, q, q, torch.ones(3, 3).tril().bool()),
        [f32(2, 2, 3, 4)],
        opsets=FEW,
    ),
    case("float64", attention(is_causal=True), qkv(2, 2, 3, 4, dtype=torch.float64), opsets=FEW),
    case("float16", attention(is_causal=True), qkv(2, 2, 3, 4, dtype=torch.float16), opsets=FEW),
    case("bfloat16", attention(), qkv(2, 2, 3, 4, dtype=torch.bfloat16), opsets=(13, NEWEST)),
    case(
        "the CPU's own form",
        lambda q, k, v: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True),
        qkv(2, 2, 3, 4),
        opsets=FEW,
    ),
    case(
        "as plain operators",
        lambda q, k, v: torch.ops.aten._scaled_dot_product_attention_math(q, k, v, None, 0.0, True),
        qkv(2, 2, 3, 4),
        opsets=FEW,
    ),
    case(
        "grouped heads",
        attention(enable_gqa=True, is_causal=True),
        [f32(2, 6, 3, 4), f32(2, 2, 3, 4), f32(2, 2, 3, 4)],
        dynamic=SEQUENCE,
        opsets=SOME_OPSETS,
    ),
    case(
        "grouped heads with a mask per head",
        attention(enable_gqa=True),
        [f32(2, 6, 3, 4), f32(2, 2, 3, 4), f32(2, 2, 3, 4), some_rows_closed(2, 6, 3, 3)],
        opsets=FEW,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    run(case)
