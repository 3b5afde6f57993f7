"""What `init` and `load_config` are given by mistake, and what an export says that nobody asked for."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import onward
from onward.quant import Activations, QuantConfig, Weights, initialise

from .harness import quantized

ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "a number of classes": ({"disable_module": 3}, "disable_module must be one or several classes of modules"),
    "a number of paths": ({"disable_submodel": 3}, "disable_submodel must be one or several paths of submodules"),
    "nothing at all": ({"disable_submodel": ""}, "or patterns, not ''\n  .*disable_submodel=\"head\""),
    "a module": ({"disable_submodel": [nn.Linear(2, 3)]}, r"or patterns, not Linear\(in_features=2"),
    "no class among several": ({"disable_module": [nn.ReLU, None]}, "classes of modules, or their names, not None"),
    "a class that is not there": ({"disable_module": nn.LSTM}, "speaks of no module of Sequential"),
    "an empty dict for a configuration": ({"config": {}}, "config must be a QuantConfig, not dict"),
    "a dict for a configuration": ({"config": {"bits": 4}}, r"not dict\n  for example QuantConfig\(weights="),
    "a file for a configuration": ({"config": "quant.yaml"}, "not str\n  a file is given as config_file="),
    "a path that is not there": ({"disable_submodel": ["1", "2"]}, r"Rule\('2'\) speaks of no module"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments_of_init(case: str) -> None:
    given, said = ARGUMENTS[case]
    with pytest.raises(onward.InputError, match=said):
        onward.init(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), **given)


def test_a_configuration_is_read_from_a_path() -> None:
    with pytest.raises(onward.InputError, match="read from the path of a file, not from 3"):
        onward.load_config(3)  # type: ignore[arg-type]


def test_the_backend_is_there_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the documentation calls it, where nobody has imported it yet."""
    monkeypatch.delattr(onward, "backend", raising=False)
    assert onward.backend.prepare is importlib.import_module("onward.backend").prepare


def test_an_export_at_the_newest_opsets_is_quiet(caplog: pytest.LogCaptureFixture, tmp_path: Any) -> None:
    """Weights that get channels of zeros have a type in the file."""
    torch.manual_seed(0)
    model = quantized(
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3)), lambda: torch.randn(1, 3, 9, 9)
    )
    onward.export(model, (torch.randn(1, 3, 9, 9),), tmp_path / "m.onnx", opset_version=23)
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize(
    ("opset", "config", "said"),
    [
        (12, None, r"^a scale for each channel, as Weights\(per_channel=True\) has it, has no lowering for opset 12"),
        (17, QuantConfig(activations=Activations(bits=16)), "^an activation of 16 bits has no lowering for opset 17"),
        (9, QuantConfig(weights=Weights(per_channel=False)), "^a quantized model has no lowering for opset 9"),
    ],
)
def test_an_opset_that_is_too_old_says_what_for(opset: int, config: QuantConfig | None, said: str) -> None:
    x = torch.randn(3, 2)
    model = quantized(nn.Sequential(nn.Linear(2, 2)), lambda: x, config)
    with pytest.raises(onward.LoweringError, match=said):
        onward.export(model, (x,), opset_version=opset)


def test_looking_into_a_model_without_ranges(tmp_path: Path) -> None:
    model, x = initialise(nn.Sequential(nn.Linear(2, 2))), torch.randn(3, 2)
    for look in (lambda: onward.analyse(model, [x]), lambda: onward.dump_layers(model, x, tmp_path / "layers")):
        with pytest.raises(onward.QuantizationError, match=r"0 \(linear_0_input\) has no range yet"):
            look()
    assert list(tmp_path.iterdir()) == []


def test_a_scripted_part_is_named() -> None:
    model = nn.Sequential(nn.Linear(2, 2), torch.jit.trace(nn.Linear(2, 2), torch.zeros(1, 2)))
    with pytest.raises(onward.InputError, match="^init: 1 is made by torch.jit"):
        initialise(model)
    assert not model[0]._forward_hooks
