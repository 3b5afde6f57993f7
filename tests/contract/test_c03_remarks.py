"""Contract row C3: none of the "not supported" remarks in the founding documents' operator list holds any more.

Each remark, as the documents have it, with calls that it ruled out. All at every opset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import onward

from ..lower.harness import ALL_OPSETS, Case, bools, case, check, f32, floats, ints, run
from .d01_table import module
from .running import open_session

X, Y = f32(2, 3), f32(2, 3, seed=1)
WHOLE, MORE = ints(2, 3), ints(2, 3, seed=1)
CUBE, IMAGE = f32(2, 3, 4), f32(2, 3, 4, 5)
WORDS = ints(2, 4, low=0, high=5)
TABLE = f32(5, 3) * 2

B = {0: {0: "b"}}
BN = {0: {0: "b", 1: "n"}}
BOTH = {0: {0: "b", 1: "n"}, 1: {0: "b", 1: "n"}}


def with_alpha(function: Callable[..., torch.Tensor]) -> list[Case]:
    return [
        case("a number", lambda x, y: function(x, y, alpha=2.5), [X, Y], dynamic=BOTH),
        case("negative", lambda x, y: function(x, y, alpha=-1), [X, Y], dynamic=BOTH),
        case("zero", lambda x, y: function(x, y, alpha=0), [X, Y], dynamic=BOTH),
        case("broadcast", lambda x, y: function(x, y, alpha=3), [CUBE, f32(3, 1)], dynamic=B),
        case("integers", lambda x, y: function(x, y, alpha=3), [WHOLE, MORE], dynamic=BOTH),
        case("integers and floats", lambda x, y: function(x, y, alpha=0.5), [WHOLE, Y], dynamic=BOTH),
        case("a scalar", lambda x: function(x, 2, alpha=3), [X], dynamic=BN),
        case("float64", lambda x, y: function(x, y, alpha=0.1), [X.double(), Y.double()], dynamic=BOTH),
    ]


REMARKS: dict[str, list[Case]] = {
    "embedding (no optional argument is supported)": [
        case("padding_idx", module(lambda: nn.Embedding(5, 3, padding_idx=0)), [WORDS], dynamic=BN),
        case("negative padding_idx", lambda i, w: F.embedding(i, w, padding_idx=-1), [WORDS, TABLE], dynamic=BN),
        case("max_norm", module(lambda: nn.Embedding(5, 3, max_norm=0.7)), [WORDS], dynamic=BN),
        case("max_norm of an input", lambda i, w: F.embedding(i, w, max_norm=1.0), [WORDS, TABLE], dynamic=BN),
        case("norm_type", lambda i, w: F.embedding(i, w, max_norm=1.5, norm_type=1.0), [WORDS, TABLE], dynamic=BN),
        case(
            "scale_grad_by_freq and sparse",
            lambda i, w: F.embedding(i, w, scale_grad_by_freq=True, sparse=True),
            [WORDS, TABLE],
            dynamic=BN,
        ),
    ],
    "add (nonzero alpha is not supported)": with_alpha(torch.add),
    "sub (nonzero alpha is not supported)": [
        *with_alpha(torch.sub),
        case("rsub", lambda x, y: torch.rsub(x, y, alpha=2.5), [X, Y], dynamic=BOTH),
    ],
    "prelu (a single weight shared among input channels is not supported)": [
        case("shared", module(lambda: nn.PReLU()), [IMAGE], dynamic={0: {0: "b", 1: "c", 2: "h"}}),
        case("shared, without channels", module(lambda: nn.PReLU()), [f32(5)], dynamic=B),
        case("shared, of no axes", module(lambda: nn.PReLU()), [torch.tensor(-2.0)]),
        case("shared, an input", F.prelu, [IMAGE, f32(1)], dynamic=B),
        case("one for each channel", module(lambda: nn.PReLU(3)), [IMAGE], dynamic=B),
    ],
    "softmax (only dim=-1 supported)": [
        *[
            case(f"dim={dim}", lambda x, dim=dim: F.softmax(x, dim), [IMAGE], dynamic={0: {0: "b", 2: "h"}})
            for dim in range(-4, 4)
        ],
        case("in another type", lambda x: F.softmax(x, 1, dtype=torch.float64), [CUBE], dynamic=BN),
        case("of no axes", lambda x: F.softmax(x, 0), [torch.tensor(2.0)]),
        case("of one axis", lambda x: F.softmax(x, 0), [f32(5)], dynamic=B),
    ],
    "threshold (nonzero threshold/nonzero value not supported)": [
        case("both", lambda x: F.threshold(x, 0.3, 20.0), [X], dynamic=BN),
        case("negative", nn.Threshold(-0.5, -7), [X], dynamic=BN),
        case("value alone", lambda x: F.threshold(x, 0, 1.5), [X], dynamic=BN),
        case("threshold alone", lambda x: F.threshold(x, 0.3, 0), [X], dynamic=BN),
        case("integers", lambda x: F.threshold(x, 2, 7), [WHOLE], dynamic=BN),
        case("equal is below", lambda x: F.threshold(x, 1, 9), [torch.tensor([0.0, 1.0, 2.0])], dynamic=B),
        case("float64", lambda x: F.threshold(x, 0.1, 0.7), [floats(2, 3, dtype=torch.float64)], dynamic=BN),
    ],
    "unfold (experimental support with ATen-Caffe2 integration)": [
        case("along an axis", lambda x: x.unfold(1, 3, 2), [f32(2, 8)], dynamic=B),
        case("along a dynamic axis", lambda x: x.unfold(0, 2, 1), [f32(6, 3)], dynamic=B, sizes=(2, 5)),
        case("overlapping, twice", lambda x: x.unfold(1, 2, 1).unfold(2, 2, 2), [IMAGE], dynamic=B),
        case("windows of an image", lambda x: F.unfold(x, 3, padding=1), [IMAGE], dynamic=B),
        case("windows apart", lambda x: F.unfold(x, 2, dilation=2, stride=(1, 2)), [IMAGE], dynamic=B),
        case("of bools", lambda x: x.unfold(-1, 2, 1), [bools(2, 5)], dynamic=B),
    ],
}


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{remark.split()[0]} {row}") for remark, rows in REMARKS.items() for row in rows]
)
def test_no_longer(row: Case) -> None:
    run(row)


@pytest.mark.parametrize("remark", REMARKS, ids=lambda remark: remark.split()[0])
def test_in_plain_onnx(remark: str) -> None:
    """No ATen node and no domain of anybody's own."""
    for row in REMARKS[remark]:
        file = check(row, 18)
        assert {node.domain for node in file.graph.node} <= {""}
        assert [domain.domain for domain in file.opset_import] == [""]


class _FeatureDropout(nn.Module):
    """FeatureDropout (training mode not supported)"""

    def __init__(self, dropout: Callable[..., Any], share: float) -> None:
        super().__init__()
        self.dropout, self.share = dropout, share

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(x, self.share, True)


@pytest.mark.parametrize("dropout", [F.dropout1d, F.dropout2d, F.dropout3d, torch.feature_dropout])
def test_feature_dropout_in_training_mode(dropout: Callable[..., Any]) -> None:
    """Whole channels are dropped, about as many as asked for, others each time; the rest makes up for them."""
    rank = {F.dropout1d: 3, F.dropout3d: 5}.get(dropout, 4)
    x = f32(2, 40, *[3] * (rank - 2)).abs() + 1
    for opset in ALL_OPSETS:
        program = onward.export(
            _FeatureDropout(dropout, 0.25),
            x,
            input_names=["x"],
            dynamic_axes={"x": {0: "b"}},
            opset_version=opset,
            verify=False,
        )
        session = open_session(program.proto().SerializeToString())
        many = x.repeat(10, *[1] * (rank - 1))
        first, again = (torch.from_numpy(session.run(None, {"x": many.numpy()})[0]) for _ in range(2))
        assert first.shape == many.shape
        dropped = (first == 0).flatten(2)
        assert torch.equal(dropped.all(2), dropped.any(2))
        kept = ~dropped.all(2)
        torch.testing.assert_close(first[kept], many[kept] / 0.75)
        assert kept.float().mean().item() == pytest.approx(0.75, abs=0.08)  # 800 channels: 5 deviations
        assert not torch.equal(first, again)
