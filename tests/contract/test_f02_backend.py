"""F2: `onward.backend.prepare(model, device="CPU").run(inputs)` runs a model on PyTorch, ATen nodes included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.base
import pytest
import torch
from torch import nn

import onward
import onward.backend

from ..models._torchvision import torchvision_models

KINDS = ("ONNX", "ONNX_ATEN_FALLBACK", "ONNX_ATEN", "RAW")


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, batch_first=True)
        self.conv = nn.Conv1d(5, 3, 3, padding=1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z, (h, _) = self.lstm(x + y)
        return torch.softmax(self.conv(z.transpose(1, 2)).reshape(x.shape[0], -1), -1), h


@pytest.fixture(scope="module")
def module() -> nn.Module:
    torch.manual_seed(0)
    return TwoInputs().eval()


def exported(module: nn.Module, file: Path, kind: str) -> Path:
    example = (torch.randn(2, 6, 4), torch.randn(2, 6, 4))
    axes = {"x": {0: "n", 1: "t"}, "y": {0: "n", 1: "t"}}
    types = onward.OperatorExportTypes[kind]
    onward.export(module, example, file, operator_export_type=types, input_names=["x", "y"], dynamic_axes=axes)
    return file


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_in_and_out_at_another_size(tmp_path: Path, module: nn.Module, kind: str) -> None:
    """As the documents run a file: arrays in a tuple, arrays out, in the graph's order."""
    file = exported(module, tmp_path / "m.onnx", kind)
    x, y = torch.randn(3, 5, 4), torch.randn(3, 5, 4)
    rep = onward.backend.prepare(onnx.load(file), device="CPU")
    assert isinstance(rep, onnx.backend.base.BackendRep)
    expected = module(x, y)
    forms: list[Any] = [(x.numpy(), y.numpy()), [x.numpy(), y.numpy()], {"y": y.numpy(), "x": x.numpy()}]
    for inputs in forms:
        outputs = rep.run(inputs)
        assert len(outputs) == 2
        for got, want in zip(outputs, expected, strict=True):
            assert isinstance(got, np.ndarray)
            np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-5, atol=1e-6)
    for got, want in zip(rep.run((x, y)), expected, strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("kind", KINDS)
def test_one_array_is_one_input(tmp_path: Path, kind: str) -> None:
    """AlexNet, the model of the documents, at another batch than the example's."""
    torch.manual_seed(0)
    model = torchvision_models().AlexNet(num_classes=10).eval()
    file = tmp_path / "alexnet.onnx"
    onward.export(
        model,
        torch.randn(1, 3, 64, 64),
        file,
        operator_export_type=onward.OperatorExportTypes[kind],
        input_names=["actual_input_1"],
        output_names=["output1"],
        dynamic_axes={"actual_input_1": {0: "batch"}},
    )
    x = torch.randn(3, 3, 64, 64)
    (got,) = onward.backend.prepare(file, device="CPU").run(x.numpy())
    np.testing.assert_allclose(got, model(x).detach().numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(onward.backend.run_model(file, x.numpy(), device="CPU")[0], got)


@pytest.mark.parametrize(
    "give", [Path, str, lambda file: file.read_bytes(), onnx.load], ids=["path", "str", "bytes", "proto"]
)
def test_every_form_of_a_model(tmp_path: Path, module: nn.Module, give: Any) -> None:
    file = exported(module, tmp_path / "m.onnx", "ONNX_ATEN")
    x, y = torch.randn(1, 2, 4), torch.randn(1, 2, 4)
    torch.testing.assert_close(onward.backend.run_model(give(file), (x, y))[0], module(x, y)[0])


def test_what_export_returned_runs_too(module: nn.Module) -> None:
    x, y = torch.randn(2, 6, 4), torch.randn(2, 6, 4)
    program = onward.export(module, (x, y))
    torch.testing.assert_close(onward.backend.prepare(program).run((x, y))[1], module(x, y)[1])


def test_devices() -> None:
    assert onward.backend.supports_device("CPU")
    assert onward.backend.supports_device("CUDA") == torch.cuda.is_available()
    with pytest.raises(onward.InputError, match="there is no device 'TPU' here"):
        onward.backend.prepare(onward.export(nn.ReLU(), torch.randn(2)), device="TPU")
