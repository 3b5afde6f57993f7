"""Graphs as onnxruntime's optimizer writes them, full of its own operators: they run here with the same results."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch import nn
from torch.nn import functional as F

import onward
from onward.backend import prepare


class Net(nn.Module):
    """Convolutions that add up, pool, and end in a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.last = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.first(x))
        y = F.leaky_relu(self.second(y) + y, 0.1)
        y = torch.cat([F.avg_pool2d(y, 2), F.max_pool2d(y * torch.sigmoid(y), 2)], 2)
        return F.softmax(self.last(F.adaptive_avg_pool2d(y, 1).flatten(1)), -1)


class Encoder(nn.Module):
    """A layer of a transformer, written out."""

    def __init__(self, act: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        self.before, self.after, self.act = nn.LayerNorm(16), nn.LayerNorm(16), act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (4, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        weights = F.softmax(q @ k.transpose(-1, -2) / 2, -1)
        x = self.before(x + self.out((weights @ v).transpose(1, 2).flatten(2)))
        return self.after(x + self.down(self.act(self.up(x))))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], set[str]]] = {
    "convolutions": (Net, (2, 3, 8, 8), {"FusedConv", "QuickGelu"}),
    "gelu": (lambda: Encoder(F.gelu), (2, 5, 16), {"FusedMatMul", "Gelu"}),
    "tanh": (lambda: Encoder(lambda x: F.gelu(x, approximate="tanh")), (2, 5, 16), {"FusedMatMul", "FastGelu"}),
    "silu": (lambda: Encoder(F.silu), (2, 5, 16), {"QuickGelu"}),
}


def optimized(source: str | bytes, folder: Path) -> tuple[onnx.ModelProto, set[str]]:
    """The graph that onnxruntime writes, and which of its own operators are in it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    model = onnx.load(folder / "optimized.onnx")
    return model, {node.op_type for node in model.graph.node if node.domain == "com.microsoft"}


def as_it_is(model: onnx.ModelProto, feeds: Any) -> list[Any]:
    """What onnxruntime computes from a file without changing it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def exported(make: Callable[[], nn.Module], shape: tuple[int, ...], opset: int) -> tuple[bytes, dict[str, Any]]:
    torch.manual_seed(0)
    x = torch.randn(*shape)
    proto = onward.export(make().eval(), x, opset_version=opset).proto()
    return proto.SerializeToString(), {proto.graph.input[0].name: x.numpy()}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("opset", (13, 17))
def test_float_models(name: str, opset: int, tmp_path: Path) -> None:
    make, shape, wanted = MODELS[name]
    source, feeds = exported(make, shape, opset)
    model, own = optimized(source, tmp_path)
    assert wanted <= own, "the optimizer wrote another graph than this test is for"
    (ours,), (theirs,) = prepare(model).run(feeds), as_it_is(model, feeds)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


class Examples(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, feeds: dict[str, Any]) -> None:
        self.rows = iter([feeds])

    def get_next(self) -> Any:
        return next(self.rows, None)


# From a QDQ model of int8 onnxruntime 1.31 leaves sums and pools in float32: no integers to compare.
@pytest.mark.parametrize(
    ("layout", "kind"),
    [
        (QuantFormat.QDQ, QuantType.QUInt8),
        (QuantFormat.QOperator, QuantType.QUInt8),
        (QuantFormat.QOperator, QuantType.QInt8),
    ],
)
@pytest.mark.parametrize("each", (False, True))
def test_quantised_models(layout: Any, kind: Any, each: bool, tmp_path: Path) -> None:
    """Every tensor between is the same to the bit, and so is the result."""
    source, feeds = exported(Net, (2, 3, 8, 8), 17)
    (tmp_path / "float.onnx").write_bytes(source)
    quant_pre_process(tmp_path / "float.onnx", tmp_path / "ready.onnx")
    quantize_static(
        tmp_path / "ready.onnx", tmp_path / "quantised.onnx", Examples(copy.copy(feeds)), quant_format=layout,
        activation_type=kind, weight_type=QuantType.QInt8, per_channel=each,
    )  # fmt: skip
    model, own = optimized(str(tmp_path / "quantised.onnx"), tmp_path)
    assert {"QLinearAdd", "QLinearConcat", "QLinearLeakyRelu", "QLinearSoftmax", "QGemm"} <= own
    wholes = [node.output[0] for node in model.graph.node if node.op_type.startswith(("QLinear", "QGemm", "Quantize"))]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wholes)
    model = onnx.shape_inference.infer_shapes(model)
    ours, theirs = prepare(model).run(feeds), as_it_is(model, feeds)
    np.testing.assert_array_equal(ours[0], theirs[0])
    for name, mine, other in zip(wholes, ours[1:], theirs[1:], strict=True):
        np.testing.assert_array_equal(mine, other, err_msg=name)
