"""Quantisation that a model does itself."""

from __future__ import annotations

import pytest
import torch

import onward

from ..harness import SOME_OPSETS, Case, case, check, f32

BATCH = {0: {0: "batch"}}
SCALES, ZEROS = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2], dtype=torch.int32)

CASES = [
    case("fake, uint8", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255), [f32(2, 3)], dynamic=BATCH),
    case("fake, int8", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, -3, -128, 127), [f32(2, 3)],
         dynamic=BATCH, opsets=SOME_OPSETS),
    case("fake, four bits", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.3, 1, 0, 15), [f32(2, 3)],
         dynamic=BATCH, opsets=SOME_OPSETS),
    case("fake, with tensors",
         lambda x, s: torch.fake_quantize_per_tensor_affine(x, s, torch.tensor([2], dtype=torch.int32), 0, 255),
         [f32(2, 3), torch.tensor([0.2])], dynamic=BATCH, opsets=SOME_OPSETS),
    case("fake, per channel", lambda x: torch.fake_quantize_per_channel_affine(x, SCALES, ZEROS, 1, -128, 127),
         [f32(2, 3, 4)], dynamic=BATCH),
    case("fake, per channel, seven bits",
         lambda x: torch.fake_quantize_per_channel_affine(x, SCALES, ZEROS, 2, -64, 63), [f32(2, 4, 3)],
         dynamic=BATCH, opsets=SOME_OPSETS),
    case("fake, float16", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.125, 3, 0, 255), [f32(2, 3).half()],
         opsets=SOME_OPSETS),
    case("there and back", lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8).dequantize(), [f32(2, 3)],
         dynamic=BATCH, since=10),
    case("integers", lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.qint8).int_repr(), [f32(2, 3)],
         dynamic=BATCH, since=10, opsets=SOME_OPSETS),
    case("there and back, per channel",
         lambda x: torch.quantize_per_channel(x, SCALES, ZEROS, 1, torch.qint8).dequantize(), [f32(2, 3, 4)],
         dynamic=BATCH, since=13),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor, torch.quantize_per_channel:UserWarning")
@pytest.mark.parametrize(("case", "opset"), [pytest.param(c, o, id=f"{c.name}-{o}") for c in CASES for o in c.opsets])
def test_it_agrees(case: Case, opset: int) -> None:
    check(case, opset)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor, torch.quantize_per_channel:UserWarning")
def test_what_has_no_form() -> None:
    x = torch.randn(2, 3)
    with pytest.raises(onward.LoweringError, match="torch.qint32: QuantizeLinear makes uint8 and int8"):
        onward.export(lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.qint32).dequantize(), x)
    with pytest.raises(onward.LoweringError, match="exists from 10"):
        onward.export(lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8).dequantize(), x, opset_version=9)
