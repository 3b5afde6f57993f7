"""`quant_format="linger"`: the operators and attributes of its domain, and the same integers on `onward.backend`."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx import helper
from torch import Tensor, nn

import onward
import onward.backend
from onward.errors import InputError, LoweringError
from onward.quant import Activations, QuantConfig, Weights

from .harness import quantised
from .test_exact import Residual, with_statistics

CHIP = QuantConfig(
    weights=Weights(per_channel=False, power_of_two=True),
    activations=Activations(symmetric=True, power_of_two=True),
    rounding="half_up",
    platform="venus",
)


class Mixed(nn.Module):
    """Branches that are joined, multiplied and pooled, functions of one value, and a product of activations."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv1d(4, 6, 3, padding=1), nn.Conv1d(4, 6, 3, padding=1, groups=2)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        one, two = torch.sigmoid(self.one(x)), torch.tanh(self.two(x))
        both = torch.cat([one * two, F.relu(one + two)], 1)
        both = F.max_pool1d(both, 2)
        scores = torch.matmul(both.transpose(1, 2), both)
        result: Tensor = self.head(torch.softmax(scores, -1))
        return result


MODELS = {
    "residual": (lambda: with_statistics(Residual()), (2, 3, 16, 16)),
    "mixed": (Mixed, (2, 4, 16)),
}


def exported(model: nn.Module, x: Tensor, path: Path, opset: int = 13) -> onnx.ModelProto:
    onward.export(model, (x,), path, quant_format="linger", input_names=["x"], opset_version=opset)
    return onnx.load(path)


def attributes(node: onnx.NodeProto) -> dict[str, object]:
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


@pytest.mark.parametrize("opset", [11, 12, 13, 21])  # linger's own are 11 and 12
@pytest.mark.parametrize("name", MODELS)
def test_the_backend_computes_what_evaluation_does(name: str, opset: int, tmp_path: Path) -> None:
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = quantised(make(), lambda: torch.randn(shape), CHIP)
    exported(model, torch.randn(shape), tmp_path / "m.onnx", opset)
    run = onward.backend.prepare(tmp_path / "m.onnx")
    for _ in range(5):
        x = torch.randn(shape)
        with torch.no_grad():
            wanted = model(x)
        (found,) = run.run(x)
        assert torch.equal(found, wanted)


def test_the_operators_of_a_residual_network(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantised(with_statistics(Residual()), lambda: torch.randn(2, 3, 16, 16), CHIP)
    nodes = exported(model, torch.randn(2, 3, 16, 16), tmp_path / "m.onnx").graph.node
    ours = [node.op_type for node in nodes if node.domain == "linger"]
    assert ours == [
        "Quant", "QConv2d", "QConv2d", "QConv2d", "QAdd", "QConv2d", "QConv2d", "QAdd", "QLinear", "Dequant",
    ]  # fmt: skip
    assert {node.op_type for node in nodes if not node.domain} == {"Relu", "Reshape", "Transpose"}
    first = attributes(nodes[1])
    assert list(first) == sorted(first)
    assert set(first) == {
        "dilations", "group", "kernel_shape", "o_bits", "pads", "platform", "quant_mode", "scale_o", "scale_w",
        "scale_x", "strides", "w_bits", "x_bits",
    }  # fmt: skip
    assert (first["platform"], first["quant_mode"], first["pads"]) == (b"venus", b"floor_add", [1, 1, 1, 1])
    quant = attributes(nodes[0])
    assert set(quant) == {"data_bits", "platform", "scale_x", "zero_point"}
    assert quant["scale_x"] == first["scale_x"]


def test_integers_are_signed_and_have_no_zero_point(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantised(with_statistics(Residual()), lambda: torch.randn(2, 3, 16, 16), CHIP)
    graph = exported(model, torch.randn(2, 3, 16, 16), tmp_path / "m.onnx").graph
    kinds = {each.data_type for each in graph.initializer} | {
        each.type.tensor_type.elem_type for each in graph.value_info
    }
    assert onnx.TensorProto.UINT8 not in kinds
    assert {onnx.TensorProto.INT8, onnx.TensorProto.INT32} <= kinds


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (QuantConfig(rounding="half_up"), "linger's are powers of two, one for a tensor"),
        (
            QuantConfig(
                weights=Weights(per_channel=False, power_of_two=True),
                activations=Activations(power_of_two=True),
                rounding="half_up",
            ),
            "has the zero point",
        ),
        (
            QuantConfig(
                weights=Weights(per_channel=False, power_of_two=True),
                activations=Activations(power_of_two=True, symmetric=True),
            ),
            "linger's chips round halves up",
        ),
    ],
)
def test_what_linger_cannot_say(config: QuantConfig, text: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantised(nn.Sequential(nn.Linear(8, 8)), lambda: torch.randn(4, 8), config)
    with pytest.raises(LoweringError, match=text) as raised:
        exported(model, torch.randn(4, 8), tmp_path / "m.onnx")
    assert "QuantConfig(weights=Weights(per_channel=False, power_of_two=True)" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_verification_needs_onnxruntime() -> None:
    with pytest.raises(InputError, match="onnxruntime, which does not know linger's operators"):
        onward.export(nn.Linear(2, 2), (torch.randn(1, 2),), quant_format="linger", verify=True)


def test_another_format() -> None:
    with pytest.raises(InputError, match="quant_format must be one of 'qdq', 'linger', not 'qlinear'"):
        onward.export(nn.Linear(2, 2), (torch.randn(1, 2),), quant_format="qlinear")


def test_the_same_model_in_standard_onnx() -> None:
    """Halves up have no operator in ONNX: arithmetic says it, and onnxruntime agrees."""
    torch.manual_seed(0)
    model = quantised(with_statistics(Residual()), lambda: torch.randn(2, 3, 16, 16), CHIP)
    x = torch.randn(2, 3, 16, 16)
    program = onward.export(model, (x,), verify=True)
    with torch.no_grad():
        assert torch.equal(program(x), model(x))
