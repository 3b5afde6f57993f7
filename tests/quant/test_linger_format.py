"""`quant_format="linger"`: the operators and attributes of its domain, and the same integers on `onward.backend`."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onward
import onward.backend
from onward.errors import InputError, LoweringError, VerifyError
from onward.quant import Activations, QuantConfig, Rule, Weights
from tests.cli.running import invoke

from .harness import quantized
from .linger_rules import attributes_of, complaints
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


class Others(nn.Module):
    """Averages, transposed convolutions, integers that are joined on one grid, and what linger has no operator for."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.up = nn.Conv2d(3, 4, 3, padding=1), nn.ConvTranspose2d(4, 4, 4, stride=2, padding=1)
        self.norm, self.head = nn.LayerNorm(4), nn.Linear(4, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu6(self.one(x))
        y = F.glu(torch.cat([y, y.flip(1)], 1), 1)
        y = F.avg_pool2d(F.interpolate(y, scale_factor=2), 3, 2, padding=1)
        y = F.interpolate(self.up(y), scale_factor=2, mode="bilinear")
        y = F.gelu(F.adaptive_avg_pool2d(y, 4)) + y.amax((2, 3), keepdim=True).clamp(-0.1, 0.1)
        y = F.adaptive_avg_pool2d(y, 1).flatten(1)
        result: Tensor = self.head(self.norm(torch.where(y > 0, y, y * 0.5)))
        return result


MODELS = {
    "residual": (lambda: with_statistics(Residual()), (2, 3, 16, 16)),
    "mixed": (Mixed, (2, 4, 16)),
    "others": (Others, (2, 3, 8, 8)),
}


def exported(model: nn.Module, x: Tensor, path: Path, opset: int = 13) -> onnx.ModelProto:
    onward.export(model, (x,), path, quant_format="linger", input_names=["x"], opset_version=opset)
    return onnx.load(path)


@pytest.mark.parametrize("opset", [11, 12, 13, 21])  # linger's own are 11 and 12
@pytest.mark.parametrize("name", MODELS)
def test_the_backend_computes_what_evaluation_does(name: str, opset: int, tmp_path: Path) -> None:
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = quantized(make(), lambda: torch.randn(shape), CHIP)
    assert complaints(exported(model, torch.randn(shape), tmp_path / "m.onnx", opset)) == []
    run = onward.backend.prepare(tmp_path / "m.onnx")
    for _ in range(5):
        x = torch.randn(shape)
        with torch.no_grad():
            wanted = model(x)
        (found,) = run.run(x)
        assert torch.equal(found, wanted)


def test_the_operators_of_a_residual_network(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(with_statistics(Residual()), lambda: torch.randn(2, 3, 16, 16), CHIP)
    nodes = exported(model, torch.randn(2, 3, 16, 16), tmp_path / "m.onnx").graph.node
    ours = [node.op_type for node in nodes if node.domain == "linger"]
    assert ours == [
        "Quant", "QConv2d", "QConv2d", "QConv2d", "QAdd", "QConv2d", "QConv2d", "QAdd", "QLinear", "Dequant",
    ]  # fmt: skip
    assert {node.op_type for node in nodes if not node.domain} == {"Relu", "Reshape", "Transpose"}
    first = attributes_of(nodes[1])
    assert list(first) == sorted(first)
    assert set(first) == {
        "dilations", "group", "kernel_shape", "o_bits", "pads", "platform", "quant_mode", "scale_o", "scale_w",
        "scale_x", "strides", "w_bits", "x_bits",
    }  # fmt: skip
    assert (first["platform"], first["quant_mode"], first["pads"]) == (b"venus", b"floor_add", [1, 1, 1, 1])
    quant = attributes_of(nodes[0])
    assert set(quant) == {"data_bits", "platform", "scale_x", "zero_point"}
    assert quant["scale_x"] == first["scale_x"]


def test_averages_and_what_has_no_operator(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Others(), lambda: torch.randn(2, 3, 8, 8), CHIP)
    nodes = exported(model, torch.randn(2, 3, 8, 8), tmp_path / "m.onnx", 21).graph.node
    ours = Counter(node.op_type for node in nodes if node.domain == "linger")
    assert {"QConv2d", "QConvTranspose2d", "QCat", "QAvgPool2d", "QGlobalAveragePool2d", "QAdd", "QLinear"} <= set(ours)
    assert "QGelu" not in ours  # of venusA alone
    pool = next(attributes_of(node) for node in nodes if node.op_type == "QAvgPool2d")
    assert (pool["count_include_pad"], pool["divisor_override"], pool["pads"]) == (1, -1, [1, 1, 1, 1])


class GELUActivation(nn.Module):
    """As transformers have one: a module that is one function."""

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x)


@pytest.mark.parametrize("opset", [11, 21])
def test_a_table_and_functions_of_one_chip(opset: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 8), GELUActivation(), nn.Linear(8, 2), nn.SiLU())
    model = quantized(layers, lambda: torch.randint(0, 20, (2, 5)), replace(CHIP, platform="venusA"))
    x = torch.randint(0, 20, (2, 5))
    file = exported(model, x, tmp_path / "m.onnx", opset)
    assert complaints(file) == []
    assert [node.op_type for node in file.graph.node if node.domain] == [
        "Gather", "QLinear", "QGelu", "QLinear", "QSwish", "Dequant",
    ]  # fmt: skip
    assert {node.op_type for node in file.graph.node if not node.domain} == {"Reshape"}
    assert {each.name for each in file.graph.initializer} >= {"0.weight", "1.weight", "1.bias", "3.weight", "3.bias"}
    (found,) = onward.backend.prepare(tmp_path / "m.onnx").run(x)
    assert torch.equal(found, model(x).detach())


class Halved(nn.Module):
    """Integers that stand for another number from one place on, alone and joined with those that always did."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.first(x))
        result: Tensor = self.last(torch.cat([(y + y) * 0.5, y], -1)) * 0.25
        return result


def test_integers_are_multiplied_where_their_scale_changes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Halved(), lambda: torch.randn(4, 8), CHIP)
    file = exported(model, torch.randn(4, 8), tmp_path / "m.onnx")
    assert complaints(file) == []
    ours = [node.op_type for node in file.graph.node if node.domain == "linger"]
    assert ours == ["Quant", "QLinear", "QAdd", "QMul", "QCat", "QLinear", "QMul", "Dequant"]
    x = torch.randn(4, 8)
    (found,) = onward.backend.prepare(tmp_path / "m.onnx").run(x)
    assert torch.equal(found, model(x).detach())


class Volume(nn.Module):
    """A convolution that linger does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.volume, self.head = nn.Conv3d(2, 4, 3, padding=1), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(F.relu(self.volume(x)).mean((2, 3, 4)))
        return result


class Sums(nn.Module):
    """Sums of results with 8 and with 16 bits, bounds, and a product of activations."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.last = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        both = self.two(x) + self.one(x)
        result: Tensor = self.last(both.clamp(-0.4, 0.6) + x) @ self.two(both)
        return result


def with_bits(bits: int, **fields: Any) -> QuantConfig:
    return replace(CHIP, activations=replace(CHIP.activations, bits=bits), **fields)


SHORT = {
    "results of 4 bits": (with_bits(4), Sums, lambda: 0.3 * torch.randn(2, 24, 24)),
    "tables of 4 bits": (
        replace(CHIP, weights=replace(CHIP.weights, bits=4)),
        lambda: nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 8), nn.Tanh()),
        lambda: torch.randint(0, 20, (3, 5)),
    ),
    "8 and 16 bits": (
        replace(CHIP, rules=(Rule("two", activations={"bits": 16}),)),
        Sums,
        lambda: torch.randn(8, 24, 24),
    ),
    "16 bits": (with_bits(16), Sums, lambda: torch.randn(32, 24, 24)),
    "a last layer in float": (replace(CHIP, outputs=False), Mixed, lambda: torch.randn(2, 4, 16)),
    "no operator": (CHIP, Volume, lambda: torch.randn(2, 2, 4, 5, 6)),
}


@pytest.mark.parametrize("name", SHORT)
def test_other_bits_and_what_stays_in_float(name: str, tmp_path: Path) -> None:
    config, make, example = SHORT[name]
    torch.manual_seed(0)
    model = quantized(make(), example, config)
    x = example()
    assert complaints(exported(model, x, tmp_path / "m.onnx", 21)) == []
    (found,) = onward.backend.prepare(tmp_path / "m.onnx").run(x)
    assert torch.equal(found, model(x).detach())
    assert torch.equal(onward.export(model, (x,), opset_version=21)(x), found)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (QuantConfig(weight_only=True), "compute in integers, and weight_only=True leaves activations in float"),
        (replace(CHIP, lstm="dynamic"), "DynamicQuantizeLSTM runs in onnxruntime alone"),
    ],
)
def test_what_is_for_onnxruntime_alone(config: QuantConfig, text: str, tmp_path: Path) -> None:
    model = quantized(nn.LSTM(4, 4), lambda: torch.randn(3, 2, 4), config)
    with pytest.raises(LoweringError, match=text):
        exported(model, torch.randn(3, 2, 4), tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bits", [4, 8])
def test_the_bits_of_weights(bits: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = replace(CHIP, weights=replace(CHIP.weights, bits=bits))
    model = quantized(nn.Linear(8, 8), lambda: torch.randn(4, 8), config)
    file = exported(model, torch.randn(4, 8), tmp_path / "m.onnx")
    assert complaints(file) == []
    assert [attributes_of(node)["w_bits"] for node in file.graph.node if node.op_type == "QLinear"] == [bits]


def test_scales_beyond_lingers_are_named(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(nn.Linear(8, 8), lambda: 300 * torch.randn(4, 8), CHIP)
    with pytest.warns(onward.QuantizationWarning, match=r"linger keeps its scales between 1 and 2\*\*23.*: .* 0\.125"):
        exported(model, torch.randn(4, 8), tmp_path / "m.onnx")


def test_integers_are_signed_and_have_no_zero_point(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(with_statistics(Residual()), lambda: torch.randn(2, 3, 16, 16), CHIP)
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
    model = quantized(nn.Sequential(nn.Linear(8, 8)), lambda: torch.randn(4, 8), config)
    with pytest.raises(LoweringError, match=text) as raised:
        exported(model, torch.randn(4, 8), tmp_path / "m.onnx")
    assert "QuantConfig(weights=Weights(per_channel=False, power_of_two=True)" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_verification_needs_onnxruntime() -> None:
    with pytest.raises(InputError, match="onnxruntime, which does not know linger's operators"):
        onward.export(nn.Linear(2, 2), (torch.randn(1, 2),), quant_format="linger", verify=True)


def test_a_program_says_who_runs_it() -> None:
    torch.manual_seed(0)
    model = quantized(nn.Linear(8, 8), lambda: torch.randn(4, 8), CHIP)
    x = torch.randn(4, 8)
    program = onward.export(model, (x,), quant_format="linger")
    for run in (program.verify, lambda: program(x)):
        with pytest.raises(VerifyError) as raised:
            run()
        assert str(raised.value).splitlines() == [
            "onnxruntime does not run this model: it does not know linger's operators",
            "  onward.backend.prepare(program).run(...) does",
        ]
    assert torch.equal(onward.backend.prepare(program).run(x)[0], model(x).detach())


def test_the_command_runs_it(tmp_path: Path) -> None:
    """Without inputs: they are made up for the backend, too."""
    torch.manual_seed(0)
    model = quantized(nn.Linear(8, 8), lambda: torch.randn(4, 8), CHIP)
    onward.export(model, (torch.randn(4, 8),), tmp_path / "m.onnx", quant_format="linger")
    outcome = invoke("run", tmp_path / "m.onnx", "--backend", "onward")
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert "float32  4x8" in outcome.stdout


def test_another_format() -> None:
    with pytest.raises(InputError, match="quant_format must be one of 'qdq', 'linger', not 'qlinear'"):
        onward.export(nn.Linear(2, 2), (torch.randn(1, 2),), quant_format="qlinear")


def test_the_same_model_in_standard_onnx() -> None:
    """Halves up have no operator in ONNX: arithmetic says it, and onnxruntime agrees."""
    torch.manual_seed(0)
    model = quantized(with_statistics(Residual()), lambda: torch.randn(2, 3, 16, 16), CHIP)
    x = torch.randn(2, 3, 16, 16)
    program = onward.export(model, (x,), verify=True)
    with torch.no_grad():
        assert torch.equal(program(x), model(x))


def test_a_float_export_stays_out_of_quant_and_the_form_is_found_all_the_same() -> None:
    """In a process of its own, in which nobody has imported `onward.quant`."""
    code = """
import sys, torch
from onward.api import export
model, x = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()), torch.randn(2, 3)
export(model, x)
print([name for name in sys.modules if name.startswith("onward.quant")])
print([node.op_type for node in export(model, x, quant_format="linger").model.graph])
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["[]", "['Gemm', 'Relu']"], done.stderr
