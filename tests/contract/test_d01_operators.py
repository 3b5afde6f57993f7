"""Contract row D1: every operator of the founding documents' list, for every dtype and opset where ONNX can express it.

`d01_table.py` has the operators as users call them, in the order of the list below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import onnx
import pytest
import torch

import onward
from tests.opsets import NEWEST

from ..lower.harness import ALL_OPSETS, check, run
from .d01_table import TABLE, Row, X
from .running import open_session

# The contract's list; where it says 1d-3d, rnn/lstm/gru or "transposed", each is named.
LIST = """
batch_norm, constant_pad_nd, conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d, dropout,
embedding, feature_dropout, index, max_pool1d, max_pool2d, max_pool3d, rnn, lstm, gru, abs, acos, adaptive_avg_pool1d,
adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d, add, addmm,
and, arange, argmax, argmin, asin, atan, avg_pool1d, avg_pool2d, avg_pool3d, cat, ceil, clamp, clamp_max, clamp_min,
concat, cos, dim_arange, div, elu, eq, erf, exp, expand, expand_as, flatten, floor, full, full_like, gather, ge, glu,
gt, hardtanh, index_copy, index_fill, index_select, instance_norm, isnan, layer_norm, le, leaky_relu, log, log2,
log_sigmoid, log_softmax, logsumexp, lt, masked_fill, max, mean, min, mm, mul, narrow, ne, neg, nonzero, norm, ones,
ones_like, or, permute, pixel_shuffle, pow, prelu, prod, rand, randn, randn_like, reciprocal, reflection_pad, relu,
repeat, replication_pad, reshape, reshape_as, rrelu, rsub, scatter, scatter_add, select, selu, sigmoid, sign, sin,
size, slice, softmax, softplus, split, sqrt, squeeze, stack, sub, sum, t, tan, tanh, threshold, to, topk, transpose,
type_as, unfold, unsqueeze, upsample_nearest1d, upsample_nearest2d, upsample_nearest3d, view, where, zeros, zeros_like
"""

# The oldest, the two large revisions, the newest; the rarer types where forms differ most.
SOME_OPSETS = (9, 13, 18, NEWEST)
OTHER_TYPES: dict[torch.dtype, tuple[int, ...]] = {
    torch.float32: SOME_OPSETS,
    torch.float64: SOME_OPSETS,
    torch.float16: SOME_OPSETS,
    torch.bfloat16: (13, NEWEST),
    torch.int64: SOME_OPSETS,
    torch.int32: SOME_OPSETS,
    torch.int16: (9, NEWEST),
    torch.int8: (9, NEWEST),
    torch.uint8: SOME_OPSETS,
    torch.bool: SOME_OPSETS,
}


ROWS = [(name, number, row) for name, rows in TABLE.items() for number, row in enumerate(rows)]


def in_other_types() -> Iterator[Any]:
    """Every row in every type that PyTorch has it for, but for its own, which every opset gets."""
    for name, number, row in ROWS:
        for dtype, opsets in OTHER_TYPES.items():
            if dtype is not row.dtype and dtype not in row.skip and row.runs_in_eager(dtype):
                yield pytest.param(name, number, row, dtype, opsets, id=f"{name}-{number}-{str(dtype)[6:]}")


def in_bfloat16(row: Row) -> bool:
    return torch.bfloat16 not in row.skip and row.runs_in_eager(torch.bfloat16)


def test_the_table_has_every_name_of_the_list_in_its_order() -> None:
    assert list(TABLE) == re.findall(r"\w+", LIST)
    assert {name for name, rows in TABLE.items() if not rows} == set(RANDOM)


@pytest.mark.parametrize(("name", "number", "row"), [pytest.param(*row, id=f"{row[0]}-{row[1]}") for row in ROWS])
def test_at_every_opset(name: str, number: int, row: Row) -> None:
    assert row.runs_in_eager(row.dtype)
    opsets = [opset for opset in ALL_OPSETS if opset not in row.refused(row.dtype)]
    run(row.at(row.dtype, f"{name} {number}", opsets))


@pytest.mark.parametrize(("name", "number", "row", "dtype", "opsets"), in_other_types())
def test_in_other_types(name: str, number: int, row: Row, dtype: torch.dtype, opsets: tuple[int, ...]) -> None:
    opsets = tuple(opset for opset in opsets if opset not in row.refused(dtype))
    run(row.at(dtype, f"{name} {number} {dtype}", opsets))


@pytest.mark.parametrize(
    ("name", "number", "row"), [pytest.param(*row, id=f"{row[0]}-{row[1]}") for row in ROWS if row[2].refusal]
)
def test_what_has_no_file_is_refused_in_words(name: str, number: int, row: Row) -> None:
    for dtype in OTHER_TYPES:
        if dtype in row.skip or not row.runs_in_eager(dtype):
            continue
        for opset in row.refused(dtype):
            with pytest.raises(onward.LoweringError, match=row.refusal.says):
                check(row.at(dtype, f"{name} {number} {dtype}", [opset]), opset)


@pytest.mark.parametrize("name", [name for name, rows in TABLE.items() if rows and in_bfloat16(rows[-1])])
def test_bfloat16_is_refused_before_opset_13(name: str) -> None:
    """Cast, Constant and the arithmetic operators know the type from opset 13 on."""
    row = TABLE[name][-1]
    with pytest.raises(onward.LoweringError, match=r"opset 12 \(exists from 13\)"):
        check(row.at(torch.bfloat16, f"{name} bfloat16", [12]), 12)


# Random numbers: dtype, shape, range, and that they are drawn anew

RANDOM: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float, float]] = {
    "rand": (lambda x: torch.rand(x.size(0), 300, dtype=x.dtype), 0.5, 12**-0.5),
    "randn": (lambda x: torch.randn(x.size(0), 300, dtype=x.dtype), 0.0, 1.0),
    "randn_like": (lambda x: torch.randn_like(x.repeat(1, 100)), 0.0, 1.0),
}


class _Draw(torch.nn.Module):
    def __init__(self, draw: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.draw = draw

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.draw(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers(name: str, dtype: torch.dtype) -> None:
    draw, mean, deviation = RANDOM[name]
    for opset in ALL_OPSETS if dtype is torch.float32 else SOME_OPSETS:
        x = X.to(dtype)
        program = onward.export(
            _Draw(draw), x, input_names=["x"], dynamic_axes={"x": {0: "b"}}, opset_version=opset, verify=False
        )
        file = program.proto()
        onnx.checker.check_model(file, full_check=True)
        session = open_session(file.SerializeToString())
        feed = {"x": torch.zeros(7, 3, dtype=dtype).numpy()}
        first, again = (torch.from_numpy(session.run(None, feed)[0]) for _ in range(2))
        assert first.dtype is dtype
        assert first.shape == (7, 300)
        assert not torch.equal(first, again)
        assert first.double().mean().item() == pytest.approx(mean, abs=0.12)  # 2100 numbers: 5 deviations of a mean
        assert first.double().std().item() == pytest.approx(deviation, rel=0.1)
        if name == "rand":
            assert first.min() >= 0
            assert first.max() < 1
