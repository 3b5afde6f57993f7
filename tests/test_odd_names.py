"""Names and files that other programs would choke on: lone surrogates, YAML that is nested without measure."""

from __future__ import annotations

import pytest
import torch

import onward
from onward.quant.config.files import load_config

HALF = "\ud800"  # half of a pair: what Python makes of a byte that is no UTF-8
X = torch.ones(2, 3)


class Net(torch.nn.Module):
    def forward(self, x):
        return {HALF: x * 2}


@pytest.mark.parametrize("option", ["input_names", "output_names"])
def test_half_a_character_in_a_name_is_refused(option) -> None:
    with pytest.raises(onward.InputError, match=f"{option} has .*which has no form in UTF-8"):
        onward.export(torch.nn.Linear(3, 3), (X,), **{option: [HALF]})


def test_half_a_character_in_the_name_of_an_axis_is_refused(tmp_path) -> None:
    with pytest.raises(onward.InputError, match="has no form in UTF-8"):
        onward.export(
            torch.nn.Linear(3, 3), (X,), tmp_path / "m.onnx", input_names=["x"], dynamic_axes={"x": {0: HALF}}
        )
    assert not list(tmp_path.iterdir())


def test_half_a_character_in_a_key_of_a_result_is_spelled_out(tmp_path) -> None:
    program = onward.export(Net(), (X,), tmp_path / "m.onnx", report=True, artifacts_dir=tmp_path)
    assert [value.name for value in program.model.graph.outputs] == ["\\ud800"]
    torch.testing.assert_close(program(X)[HALF], X * 2)


def test_yaml_that_is_nested_without_measure_is_refused(tmp_path) -> None:
    path = tmp_path / "deep.yaml"
    path.write_text("a: " + "[" * 5000 + "]" * 5000, encoding="utf-8")
    with pytest.raises(onward.InputError, match="nested too deeply"):
        load_config(path)
