"""Activation functions, softmax and dropout."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import onward
from onward.verify import Session
from tests.opsets import NEWEST

from ..harness import ALL_OPSETS, SOME_OPSETS, bools, case, check, f32, floats, ints, run

FEW = (9, 13, 18, NEWEST)
BATCH = {0: {0: "batch"}}

x = f32(3, 4) * 3
image = f32(2, 3, 4, 5)
extreme = torch.tensor([-200.0, -50.0, -1.0, 0.0, 1.0, 50.0, 200.0, math.inf, -math.inf])

ACTIVATIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "hardtanh with bounds": lambda x: F.hardtanh(x, -0.5, 2.0),
    "leaky_relu": F.leaky_relu,
    "leaky_relu with slope": lambda x: F.leaky_relu(x, 0.3),
    "rrelu": F.rrelu,
    "rrelu with bounds": lambda x: F.rrelu(x, 0.2, 0.4),
    "threshold": lambda x: F.threshold(x, 0.5, -1.5),
    "threshold at its value": lambda x: F.threshold(x, 0.5, 0.5),
    "threshold at zero": lambda x: F.threshold(x, 0.0, 0.0),
    "threshold to zero": lambda x: F.threshold(x, 0.5, 0.0),
    "hardshrink": F.hardshrink,
    "hardshrink with lambda": lambda x: F.hardshrink(x, 1.0),
    "softshrink": F.softshrink,
    "softshrink with lambda": lambda x: F.softshrink(x, 1.0),
    "tanhshrink": F.tanhshrink,
    "elu": F.elu,
    "elu with alpha": lambda x: F.elu(x, 0.3),
    "elu with scales": lambda x: torch.ops.aten.elu(x, 0.5, 2.0, 3.0),
    "selu": F.selu,
    "celu": F.celu,
    "celu with alpha": lambda x: F.celu(x, 2.5),
    "gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "softplus": F.softplus,
    "softplus with beta": lambda x: F.softplus(x, 2.0),
    "softplus with threshold": lambda x: F.softplus(x, 1.5, 2.0),
    "softsign": F.softsign,
    "logsigmoid": F.logsigmoid,
    "glu": F.glu,
    "glu over axis 1": lambda x: F.glu(x, 1),
    "softmax": lambda x: F.softmax(x, -1),
    "softmax over axis 0": lambda x: F.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "log_softmax over axis 0": lambda x: F.log_softmax(x, 0),
    "softmin": lambda x: F.softmin(x, 1),
    "dropout in eval": lambda x: F.dropout(x, 0.5, False) + 1,
}
PLAIN = [case(name, function, [x], dynamic=BATCH) for name, function in ACTIVATIONS.items()]
WIDE = [case(f"{name} float64", function, [x.double()], opsets=FEW) for name, function in ACTIVATIONS.items()]
HALF = [case(f"{name} float16", function, [x.half()], opsets=(9, 17, NEWEST)) for name, function in ACTIVATIONS.items()]
FAR = [
    case(f"{name} of extremes", ACTIVATIONS[name], [extreme], opsets=SOME_OPSETS)
    for name in ("relu", "elu", "silu", "softplus", "logsigmoid", "hardswish", "relu6", "mish", "selu", "celu", "gelu")
    if name not in ("silu", "hardswish", "mish", "gelu")  # -inf times zero: eager's own answer differs between kernels
]

LIMITS = (0.1, 0.3, 0.7, 0.9)  # half-precision numbers lie beside them, and only some of them are beyond
weight3, weight1 = f32(3, seed=1).abs(), torch.tensor([0.3])
VARIANTS = [
    case("relu keeps nan", F.relu, [torch.tensor([math.nan, -1.0, 1.0])]),
    *(case(f"relu of {dtype}", F.relu, [ints(2, 3).to(dtype)])
      for dtype in (torch.int64, torch.int32, torch.int16, torch.int8)),
    case("hardtanh of integers", lambda x: F.hardtanh(x, -2, 3), [ints(2, 3)], opsets=SOME_OPSETS),
    case("threshold keeps nan", lambda x: F.threshold(x, 1.0, 5.0), [torch.tensor([math.nan, -1.0, 2.0])]),
    case("threshold of integers", lambda x: F.threshold(x, 2, 7), [ints(2, 3)], opsets=SOME_OPSETS),
    case("relu and clamp in float64", lambda x: (F.relu(x).clamp(0, 3), F.relu(x).clamp(max=2), F.relu6(F.relu(x))),
         [f32(3, 4).double()], opsets=(9, 11, 12, 13, 18, NEWEST)),
    case("bfloat16", lambda x: (F.relu(x), F.gelu(x), F.silu(x), F.softmax(x, -1), F.hardtanh(x)),
         [floats(3, 4, dtype=torch.bfloat16)], opsets=(13, 17, NEWEST)),
    *(case(f"limits of {dtype}", lambda x: (*(F.threshold(x, each, 5.0) for each in LIMITS),
                                            *(F.hardshrink(x, each) for each in LIMITS),
                                            *(F.softplus(x, 1, each) for each in LIMITS)),
           [torch.tensor([*LIMITS, *(-each for each in LIMITS)], dtype=dtype)], opsets=FEW)
      for dtype in (torch.float16, torch.float32, torch.float64)),
    case("limits of bfloat16", lambda x: (*(F.threshold(x, each, 5.0) for each in LIMITS),
                                          *(F.hardshrink(x, each) for each in LIMITS),
                                          *(F.softplus(x, 1, each) for each in LIMITS)),
         [torch.tensor([*LIMITS, *(-each for each in LIMITS)], dtype=torch.bfloat16)], opsets=(13, 17, NEWEST)),
    *(case(f"prelu, one slope, rank {rank}", F.prelu, [f32(*[2, 3, 4, 5, 2][:rank]), weight1],
           dynamic=BATCH if rank else None, opsets=ALL_OPSETS if rank in (2, 4) else FEW) for rank in range(6)),
    *(case(f"prelu, a slope per channel, rank {rank}", F.prelu, [f32(*[2, 3, 4, 5, 2][:rank]), weight3],
           dynamic=BATCH, opsets=ALL_OPSETS if rank in (2, 4) else FEW) for rank in range(2, 6)),
    case("prelu module", torch.nn.PReLU(3), [image], dynamic={0: {0: "batch", 3: "width"}}),
    case("prelu float64", F.prelu, [image.double(), weight3.double()], opsets=FEW),
    case("prelu float16", F.prelu, [image.half(), weight3.half()], opsets=FEW),
    *(case(f"softmax over axis {axis}", lambda x, a=axis: (F.softmax(x, a), F.log_softmax(x, a)), [image],
           dynamic={0: {0: "batch", 2: "height"}}) for axis in (0, 1, 2, 3, -1, -2)),
    case("softmax of 0-d", lambda x: (F.softmax(x, 0), F.log_softmax(x, 0)), [torch.tensor(2.0)], opsets=FEW),
    case("softmax to a dtype", lambda x: (F.softmax(x, -1, dtype=torch.float64), F.softmax(x, 1, dtype=torch.float16)),
         [x], opsets=SOME_OPSETS),
    case("softmax of integers", lambda x: F.softmax(x, 0, dtype=torch.float32), [ints(2, 3)], opsets=SOME_OPSETS),
    case("_softmax", lambda x: (torch._softmax(x, 1, False), torch._log_softmax(x, 0, False)), [x], opsets=FEW),
    case("softmax of masked rows", lambda x, m: F.softmax(x.masked_fill(m, -1e9), -1), [x, bools(3, 4)], opsets=FEW),
    *(case(f"glu over axis {axis}", lambda x, a=axis: F.glu(x, a), [f32(4, 6, 2)], dynamic={0: {0: "n", 1: "m"}},
           inputs_at=lambda size: [f32(2 * size, 2 * size + 2, 2)]) for axis in (0, 1, -1, -2)),
    case("dropouts of everything",
         lambda x: (F.dropout(x, 1.0, True), F.dropout2d(x, 1.0, True), F.alpha_dropout(x, 1.0, True),
                    F.feature_alpha_dropout(x, 1.0, True), *torch.native_dropout(x, 1.0, True)),
         [f32(2, 3, 4, 5)], opsets=FEW),
    case("dropouts in eval",
         lambda x: (F.dropout2d(x, 0.5, False) + 1, F.alpha_dropout(x, 0.5, False) + 1,
                    F.feature_alpha_dropout(x, 0.5, False) * 2, F.dropout(x, 0.0, True) - 1),
         [image], opsets=SOME_OPSETS),
    case("gelu of a number", lambda x: x + F.gelu(x.sum()) - F.gelu(x[0, 0], approximate="tanh"), [x]),
    case("in place", lambda x: F.relu_(F.hardtanh_(F.elu_(x.clone()))), [x], opsets=FEW),
]  # fmt: skip


@pytest.mark.parametrize("case", PLAIN + WIDE + HALF + FAR + VARIANTS, ids=str)
def test_case(case) -> None:
    run(case)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (F.relu, ["Relu"]),
        (F.relu6, ["Clip"]),
        (F.gelu, ["Gelu"]),
        (F.silu, ["Sigmoid", "Mul"]),
        (F.hardswish, ["HardSwish"]),
        (F.mish, ["Mish"]),
        (F.softplus, ["Softplus"]),
        (F.celu, ["Celu"]),
        (lambda x: F.softmax(x, 0), ["Softmax"]),
        (lambda x: F.threshold(x, 0.0, 0.0), ["Relu"]),
    ],
)
def test_the_native_operator_is_used(function, expected) -> None:
    proto = check(case("", function, [x], dynamic=BATCH), 20)
    assert [node.op_type for node in proto.graph.node] == expected


class _Training(torch.nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def _export_training(function, value, opset):
    axes = {"x": {0: "batch"}}
    program = onward.export(
        _Training(function), (value,), input_names=["x"], dynamic_axes=axes, opset_version=opset, verify=False
    )
    return program, Session(program.model)


@pytest.mark.parametrize("opset", [12, 13, 17, 22, NEWEST])
def test_dropout_in_training_drops(opset) -> None:
    ones = torch.ones(100, 100)
    program, session = _export_training(lambda x: F.dropout(x, 0.25, True), ones, opset)
    first, second = session.run([ones])[0], session.run([ones])[0]
    assert [node.op_type for node in program.proto().graph.node] == ["Dropout"]
    assert set(first.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert 0.2 < (first == 0).float().mean() < 0.3
    assert not torch.equal(first, second)


def test_dropout_in_training_before_opset_12_is_the_operator_with_its_ratio() -> None:
    program, _ = _export_training(lambda x: F.dropout(x, 0.25, True), torch.ones(4, 4), 9)
    node = program.proto().graph.node[0]
    assert (node.op_type, node.attribute[0].name, node.attribute[0].f) == ("Dropout", "ratio", 0.25)


@pytest.mark.parametrize("opset", [9, 11, 12, NEWEST])
def test_native_dropout_in_training_tells_what_it_keeps(opset) -> None:
    value = f32(100, 100)
    _, session = _export_training(lambda x: torch.native_dropout(x, 0.25, True), value, opset)
    result, kept = session.run([value])
    assert kept.dtype is torch.bool
    assert 0.7 < kept.float().mean() < 0.8
    torch.testing.assert_close(result, torch.where(kept, value / 0.75, 0))


@pytest.mark.parametrize("opset", [9, 11, 12, 17, NEWEST])
def test_feature_dropout_in_training_drops_whole_channels(opset) -> None:
    ones = torch.ones(50, 40, 2, 2)
    _, session = _export_training(lambda x: F.dropout2d(x, 0.5, True), ones, opset)
    dropped = session.run([ones])[0]
    assert not torch.equal(dropped, session.run([ones])[0])
    assert bool((dropped == dropped[:, :, :1, :1]).all())
    assert 0.4 < (dropped[:, :, 0, 0] == 0).float().mean() < 0.6


@pytest.mark.parametrize("opset", [9, 11, 12, 17, NEWEST])
def test_alpha_dropout_in_training_keeps_mean_and_variance(opset) -> None:
    value = f32(300, 300)
    _, session = _export_training(lambda x: F.alpha_dropout(x, 0.3, True), value, opset)
    result = session.run([value])[0]
    assert not torch.equal(result, value)
    assert abs(result.mean()) < 0.03
    assert abs(result.std() - 1) < 0.03


@pytest.mark.parametrize("opset", [9, 17, NEWEST])
def test_rrelu_in_training_draws_slopes(opset) -> None:
    value = -torch.ones(100, 100)
    _, session = _export_training(lambda x: F.rrelu(x, 0.2, 0.6, True), value, opset)
    slopes = -session.run([value])[0]
    assert 0.2 <= slopes.min() < 0.22
    assert 0.58 < slopes.max() <= 0.6
