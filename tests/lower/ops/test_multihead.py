"""`nn.MultiheadAttention` and the transformer layers built on it: what is computed batch first agrees with eager."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

import onward
from tests.opsets import NEWEST

from ..harness import bools, case, check, f32, run

FEW = (9, 13, 18, NEWEST)


class Attention(nn.Module):
    """One, two or three different inputs, then masks by keyword."""

    def __init__(self, *names: str, call: dict[str, Any] | None = None, **settings: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.names, self.call = names, call or {}
        self.inner = nn.MultiheadAttention(8, 2, **{"batch_first": True, **settings})

    def forward(self, *inputs: torch.Tensor) -> Any:
        masks = dict(zip(self.names, inputs[len(inputs) - len(self.names) :], strict=True))
        tensors = list(inputs[: len(inputs) - len(self.names)])
        tensors += [tensors[-1]] * (3 - len(tensors))
        return self.inner(*tensors, **masks, **self.call)


def padding() -> torch.Tensor:
    return torch.tensor([[False, False, True], [False, False, False]])


QUIET = {"need_weights": False}
BATCH = {0: {0: "b", 1: "s"}}
CASES = [
    case("self attention", Attention(call=QUIET), [f32(2, 3, 8)], dynamic=BATCH),
    case("sequence first", Attention(call=QUIET, batch_first=False), [f32(3, 2, 8)], dynamic=BATCH, opsets=FEW),
    case("unbatched", Attention(call=QUIET), [f32(3, 8)], opsets=FEW),
    case("without bias", Attention(call=QUIET, bias=False), [f32(2, 3, 8)], opsets=FEW),
    case("with weights", Attention(), [f32(2, 3, 8)], dynamic=BATCH, opsets=FEW),
    case("with weights per head", Attention(call={"average_attn_weights": False}), [f32(2, 3, 8)], opsets=FEW),
    case("two inputs", Attention(call=QUIET), [f32(2, 3, 8), f32(2, 5, 8, seed=1)], opsets=FEW),
    case("three inputs", Attention(), [f32(2, 3, 8), f32(2, 5, 8, seed=1), f32(2, 5, 8, seed=2)], opsets=FEW),
    case("padding", Attention("key_padding_mask", call=QUIET), [f32(2, 3, 8), padding()], opsets=FEW),
    case(
        "padding of numbers",
        Attention("key_padding_mask", call=QUIET),
        [f32(2, 3, 8), torch.zeros(2, 3).masked_fill(padding(), float("-inf"))],
        opsets=FEW,
    ),
    case(
        "mask",
        Attention("attn_mask", call=QUIET),
        [f32(2, 3, 8), bools(3, 3) & ~torch.eye(3, dtype=torch.bool)],
        opsets=FEW,
    ),
    case("mask of numbers", Attention("attn_mask", call=QUIET), [f32(2, 3, 8), f32(3, 3)], opsets=FEW),
    case("mask per head", Attention("attn_mask", call=QUIET), [f32(2, 3, 8), f32(4, 3, 3)], opsets=FEW),
    case(
        "padding and mask",
        Attention("key_padding_mask", "attn_mask", call=QUIET),
        [f32(2, 3, 8), padding(), torch.ones(3, 3, dtype=torch.bool).triu(1)],
        opsets=FEW,
    ),
    case(
        "padding and mask, with weights",
        Attention("key_padding_mask", "attn_mask"),
        [f32(2, 3, 8), padding(), torch.ones(3, 3, dtype=torch.bool).triu(1)],
        opsets=FEW,
    ),
    case(
        "causal",
        Attention("attn_mask", call={"is_causal": True, **QUIET}),
        [f32(2, 3, 8), torch.full((3, 3), float("-inf")).triu(1)],
        opsets=FEW,
    ),
    case("extra key and value", Attention(add_bias_kv=True, add_zero_attn=True), [f32(2, 3, 8)], opsets=FEW),
    case(
        "separate weights",
        Attention(kdim=4, vdim=6),
        [f32(2, 3, 8), f32(2, 5, 4), f32(2, 5, 6)],
        opsets=FEW,
    ),
    case(
        "encoder layer",
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        [f32(2, 3, 8)],
        dynamic=BATCH,
        opsets=FEW,
    ),
    case(
        "decoder layer",
        nn.TransformerDecoderLayer(8, 2, 16, batch_first=True),
        [f32(2, 3, 8), f32(2, 4, 8, seed=1)],
        dynamic={0: {0: "b", 1: "s"}, 1: {0: "b", 1: "t"}},
        opsets=FEW,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case):
    run(case)


def test_no_needless_movement():
    """Heads are split and merged once; the transposes of `batch_first` are gone."""
    counts = Counter(node.op_type for node in check(CASES[0], 18).graph.node)
    assert counts["Reshape"] == 2
    assert counts["Transpose"] == 3
    assert sum(counts.values()) == 16


class _ScaledInPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        attended = self.attention(x, x, x)[0] * 1
        flat = attended.flatten()
        flat *= 2
        return attended, flat


def test_a_view_of_the_result_is_a_view() -> None:
    """PyTorch's result is contiguous, so `flatten` gives a view of it, and a write into that view changes both."""
    onward.export(_ScaledInPlace().eval(), (f32(2, 3, 6),), verify=True)
