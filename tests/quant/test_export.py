"""`onward.export` of a quantized model: what it refuses, and what verification allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn

import onward
from onward.errors import QuantizationError
from onward.quant import QuantConfig, QuantizationWarning, Rule, Weights

from .harness import quantized, through_onnxruntime

X = torch.randn(4, 12)


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3))


def test_in_training_mode() -> None:
    model = quantized(small(), lambda: X)
    with pytest.raises(QuantizationError, match="a quantized model is exported in evaluation mode"):
        onward.export(model, (X,), training=onward.TrainingMode.TRAINING)
    model.train()
    onward.export(model, (X,))
    assert model.training


def test_without_ranges(tmp_path: Path) -> None:
    with pytest.raises(QuantizationError, match=r"0 \(linear_0_input\) has no range yet"):
        onward.export(onward.init(small()), (X,), tmp_path / "m.onnx")
    onward.restore()
    assert list(tmp_path.iterdir()) == []


def test_integers_are_stored(tmp_path: Path) -> None:
    model = quantized(small(), lambda: X)
    onward.export(model, (X,), tmp_path / "m.onnx")
    held = {each.name: each.data_type for each in onnx.load(tmp_path / "m.onnx").graph.initializer}
    kinds = onnx.TensorProto
    matrices = [kind for name, kind in held.items() if "weight" in name and "scale" not in name]
    assert kinds.INT8 in matrices
    assert kinds.INT32 in held.values()


def test_a_module_that_is_left_in_float(tmp_path: Path) -> None:
    model = quantized(small(), lambda: X, onward.QuantConfig(rules=[Rule("2", off=True)]))
    program = onward.export(model, (X,), tmp_path / "m.onnx")
    kinds = [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node]
    assert kinds.count("Gemm") == 2
    assert kinds.count("QuantizeLinear") == 2
    assert program.verify().ok


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(12, 3), nn.Linear(12, 3)

    def forward(self, x: Tensor, other: bool = False) -> Tensor:
        result: Tensor = self.unused(x) if other else self.used(x)
        return result


def test_a_layer_that_calibration_never_reached() -> None:
    with pytest.warns(QuantizationWarning, match="calibration has not reached unused"):
        model = quantized(Branching(), lambda: X)
    onward.export(model, (X,))
    with pytest.raises(QuantizationError, match=r"unused \(linear_0_input\) has no range yet"):
        onward.export(model, (X, True))


class Softened(nn.Module):
    """A float operation between two grids: the last bit of a float decides where a value goes."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Linear(12, 64), nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.after(torch.log_softmax(self.before(x) * 3, -1).sin())
        return result


def test_a_float_operation_between_two_grids() -> None:
    model = quantized(Softened(), lambda: torch.randn(16, 12))
    assert onward.export(model, (torch.randn(256, 12),)).verify().ok


def test_one_call(tmp_path: Path) -> None:
    model = small()
    program = onward.quantize(model, [torch.randn(4, 12) for _ in range(4)], tmp_path / "m.onnx", opset_version=17)
    assert program.verify().ok
    assert (tmp_path / "m.onnx").exists()
    with torch.no_grad():
        assert torch.equal(program(X), model(X))


@pytest.mark.parametrize(
    ("batches", "text"),
    [
        (X, "batches is one Tensor"),
        (None, "batches is one NoneType"),
        ("x", "batches is one str"),
        ([], "batches has nothing in it\n.*a generator that was run through"),
        ([(X, 1)], "a batch of Tensor, int is no call of Sequential.forward: too many .*\n.*labels are left out"),
        ([{"y": X}], "a batch of y= is no call of Sequential.forward: missing a required argument: 'input'"),
    ],
)
def test_one_call_with_bad_batches(batches: object, text: str) -> None:
    with pytest.raises((onward.InputError, QuantizationError), match=text):
        onward.quantize(small(), batches)  # type: ignore[arg-type]


def test_one_call_again_after_an_error() -> None:
    model, config = small(), QuantConfig(weights=Weights(bits=4))
    with pytest.raises(onward.InputError, match="labels are left out"):
        onward.quantize(model, [(X, 1)], config=config)
    onward.quantize(model, [X], config=QuantConfig(weights=Weights(bits=4)))
    with pytest.raises(onward.InputError, match="already, with a configuration of its own"):
        onward.quantize(model, [X], config=QuantConfig())


def test_one_call_takes_what_init_takes(tmp_path: Path) -> None:
    onward.save_config(QuantConfig(weights=Weights(bits=4)), tmp_path / "quant.yaml")
    model, given = small(), {"config_file": tmp_path / "quant.yaml", "disable_submodel": "2"}
    for _ in range(2):  # the same again is meant
        onward.quantize(model, [X], **given)  # type: ignore[arg-type]
    onward.save_config(model, tmp_path / "again.yaml")
    assert onward.load_config(tmp_path / "again.yaml") == QuantConfig(
        weights=Weights(bits=4), rules=[Rule("2", off=True)]
    )
    with pytest.raises(onward.InputError, match="already, with a configuration of its own"):
        onward.quantize(model, [X], disable_submodel="0")
    with pytest.raises(onward.InputError, match="quantize is given both config and config_file"):
        onward.quantize(model, [X], config=QuantConfig(), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"f": "/nowhere/m.onnx"}, "the directory '/nowhere' does not exist"),
        ({"f": QuantConfig()}, r"f is a QuantConfig, where a file belongs\n  onward.quantize\(model, batches, config="),
        ({"opset": 17}, "unexpected keyword argument 'opset'; did you mean 'opset_version'"),
        ({"config_file": "nowhere.yaml"}, "cannot read the configuration 'nowhere.yaml'"),
        ({"config": {}}, "config must be a QuantConfig, not dict"),
    ],
)
def test_one_call_is_refused_before_its_batches_run(given: dict[str, Any], text: str) -> None:
    seen: list[int] = []
    model = small()
    with pytest.raises((onward.errors.ExportError, TypeError), match=text):
        onward.quantize(model, (seen.append(1) or X for _ in range(2)), **given)
    assert not seen and not onward.quant.is_initialised(model)


class Branches(nn.Module):
    """A sum that begins with 0, as code over a list of branches writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(3, 3, 1) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        out = 0
        for branch in self.branches:
            out += branch(x)
        out = out * 1  # type: ignore[assignment]
        out += 0
        return torch.relu(out)  # type: ignore[arg-type]


def test_numbers_that_change_nothing(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantized(Branches(), lambda: torch.randn(2, 3, 8, 8))
    outcome = through_onnxruntime(model, torch.randn(2, 3, 8, 8), tmp_path)
    assert outcome.equal == 1
    assert outcome.nodes["Add"] == 2 and outcome.nodes["QuantizeLinear"] == 1 + 3 + 2


class TwoGrids(nn.Module):
    """The same integers on two grids in a row."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(x) * 0.7 + 0.0
        return torch.cat([y, y.new_full(y.shape, 3.0)], 1)[:, :3].contiguous() + y


def test_a_change_of_grid_is_kept(tmp_path: Path) -> None:
    """onnxruntime would make one grid of two, a third one."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 3, 1), TwoGrids(), nn.Conv2d(3, 3, 1))
    outcome = through_onnxruntime(quantized(model, lambda: torch.randn(2, 3, 8, 8)), torch.randn(2, 3, 8, 8), tmp_path)
    assert outcome.equal == 1


@pytest.mark.parametrize("option", [{"export_params": False}, {"keep_initializers_as_inputs": True}])
def test_weights_as_inputs(option: dict[str, bool]) -> None:
    model = quantized(small(), lambda: X)
    with pytest.raises(onward.InputError, match="the weights of a quantized model are integers"):
        onward.export(model, (X,), **option)
    with pytest.raises(onward.InputError, match="the weights of a quantized model are integers"):
        onward.export(nn.Sequential(model), (X,), do_constant_folding=False)
    onward.export(small(), (X,), **option)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_another_dtype(dtype: torch.dtype) -> None:
    with pytest.raises(
        onward.InputError, match=rf"init: 0 has parameters of {dtype}, and what is quantized is float32"
    ):
        onward.init(small().to(dtype))
    model = onward.init(small())
    onward.restore()
    with pytest.raises(QuantizationError, match=rf"the parameters are of {dtype} by now"), onward.calibration(model):
        model.to(dtype)(X.to(dtype))


def test_another_dtype_where_nothing_is_quantized() -> None:
    model = nn.Sequential(nn.Linear(12, 12).double(), ToFloat(), *small())
    onward.init(model, disable_submodel="0")
    onward.restore()
    with onward.calibration(model):
        model(X.double())
    assert model.eval()(X.double()).shape == (4, 3)


class ToFloat(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.float()


class DividedBySize(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return y.sum(0) / y.shape[0]


def test_a_scale_that_would_depend_on_a_size() -> None:
    model = quantized(DividedBySize(), lambda: X)
    assert torch.equal(onward.export(model, (X,))(X), model(X))
    with pytest.raises(QuantizationError, match="divides what lies on a grid by a size that varies .*\n.*x.mean"):
        onward.export(model, (X,), input_names=["x"], dynamic_axes={"x": {0: "batch"}})
