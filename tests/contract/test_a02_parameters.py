"""A2: every parameter of every `torch.onnx.export` there was is accepted: it acts, or it warns once with the reason."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
import torch.onnx

import onward
from onward import given_parameters
from onward.parameters import PARAMETERS, WITHOUT_MEANING

CLASSIC = (
    "export_params", "verbose", "training", "input_names", "output_names", "aten", "export_raw_ir",
    "operator_export_type", "opset_version", "_retain_param_name", "do_constant_folding", "example_outputs",
    "strip_doc_string", "dynamic_axes", "keep_initializers_as_inputs", "custom_opsets", "enable_onnx_checker",
    "use_external_data_format",
)  # fmt: skip
OF_THE_CALL = {"model", "args", "f", "kwargs"}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.fc(x)).relu()


X = torch.randn(2, 4)


@pytest.fixture(autouse=True)
def warns_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_parameters, "_warned", set())


@pytest.mark.parametrize("name", CLASSIC)
def test_every_classic_parameter_is_known(name: str) -> None:
    assert name in PARAMETERS


@pytest.mark.parametrize("name", inspect.signature(torch.onnx.export).parameters)
def test_every_parameter_of_the_installed_pytorch_is_known(name: str) -> None:
    """A PyTorch with a new parameter fails here."""
    assert name in OF_THE_CALL or name in PARAMETERS
    assert name in inspect.signature(onward.export).parameters


def defaults() -> dict[str, Any]:
    """What PyTorch's parameters are when they are not given, apart from nothing."""
    parameters = inspect.signature(torch.onnx.export).parameters.values()
    return {each.name: each.default for each in parameters if each.default not in (None, each.empty)}


@pytest.mark.parametrize("name", sorted(set(defaults()) - OF_THE_CALL))
def test_pytorchs_own_default_is_accepted(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onward.export(Model(), (X,), **{name: defaults()[name]})


@pytest.mark.parametrize("name", WITHOUT_MEANING)
def test_what_has_no_meaning_warns_once_and_says_why(name: str) -> None:
    with pytest.warns(UserWarning) as caught:
        onward.export(Model(), (X,), **{name: True})
        onward.export(Model(), (X,), **{name: True})
    assert [str(each.message) for each in caught] == [f"{name} has no meaning in onward: {WITHOUT_MEANING[name]}"]
    assert caught[0].filename == __file__


@pytest.mark.parametrize("name", PARAMETERS)
def test_what_is_not_given_does_not_warn(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onward.export(Model(), (X,), **{name: None})


WRONG: list[tuple[str, Any, str]] = [
    *((flag, "yes", f"{flag} must be True or False, not 'yes'") for flag in (
        "verbose", "optimize", "report", "profile", "dump_exported_program", "enable_onnx_checker", "export_params",
        "keep_initializers_as_inputs", "do_constant_folding", "strip_doc_string", "aten", "export_raw_ir",
    )),
    ("training", "eval", "training must be a member of TrainingMode, not 'eval'\n"
     "  use onward.TrainingMode.EVAL, .TRAINING or .PRESERVE"),
    ("training", 1, "training must be a member of TrainingMode, not 1\n"
     "  use onward.TrainingMode.EVAL, .TRAINING or .PRESERVE"),
    ("operator_export_type", "ONNX", "operator_export_type must be a member of OperatorExportTypes, not 'ONNX'\n"
     "  use onward.OperatorExportTypes.ONNX, .ONNX_ATEN_FALLBACK, ..."),
    ("custom_opsets", ["my.domain"], 'custom_opsets must be a dict, not list\n'
     '  for example custom_opsets={"my.domain": 2}'),
    ("custom_opsets", {"my.domain": "2"},
     "custom_opsets has 'my.domain': '2', and it maps domains to versions from 1 on\n"
     '  for example custom_opsets={"my.domain": 2}'),
    ("custom_translation_table", [1], "custom_translation_table must be a dict, not list\n"
     "  for example custom_translation_table={torch.ops.mine.op.default: function}"),
    ("artifacts_dir", 5, "artifacts_dir must be a folder's path, not 5"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "text"), WRONG, ids=lambda value: str(value)[:20])
def test_a_wrong_value_is_refused_by_name(name: str, value: Any, text: str) -> None:
    with pytest.raises(onward.InputError) as caught:
        onward.export(Model(), (X,), **{name: value})
    assert str(caught.value) == text


def test_contradictions_are_refused() -> None:
    kind = onward.OperatorExportTypes.ONNX_ATEN_FALLBACK
    with pytest.raises(onward.InputError, match="contradict each other: ONNX_ATEN, ONNX_ATEN_FALLBACK"):
        onward.export(Model(), (X,), aten=True, operator_export_type=kind)
    with pytest.raises(onward.InputError, match="contradict each other"):
        onward.export(Model(), (X,), external_data=True, use_external_data_format=False)


def test_by_position_as_up_to_pytorch_2_4(tmp_path: Path) -> None:
    onward.export(Model(), X, tmp_path / "m.onnx", True, False, None, ["in"], ["out"])
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert (graph.input[0].name, graph.output[0].name) == ("in", "out")
    with pytest.raises(TypeError, match="export\\(\\) got multiple values for argument 'input_names'"):
        onward.export(Model(), X, None, True, False, None, ["in"], input_names=["x"])
    with pytest.raises(TypeError, match="got 2 more: their order differed between versions of PyTorch"):
        onward.export(Model(), X, None, True, False, None, ["in"], ["out"], False, False)


def test_optimize_false_leaves_the_passes_out() -> None:
    class Nested(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([torch.cat([x, x]), x])

    assert len(onward.export(Nested(), (X,)).model.graph) == 1
    assert len(onward.export(Nested(), (X,), optimize=False).model.graph) == 2


def test_profile_prints_the_stages(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    onward.export(Model(), (X,), tmp_path / "m.onnx", profile=True, verify=True)
    rows = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert rows == ["capture", "lower", "tidy", "write and verify", "together"]


def test_report_and_dump_go_into_artifacts_dir(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    onward.export(Model(), (X,), report=True, dump_exported_program=True, artifacts_dir=folder, verify=True)
    assert sorted(path.name for path in folder.iterdir()) == ["Model.captured.txt", "Model.html"]
    assert "onnxruntime against PyTorch" in (folder / "Model.html").read_text()
    dump = (folder / "Model.captured.txt").read_text()
    assert "aten.linear.default" in dump and "Model/Linear[fc]" in dump and Path(__file__).name in dump


def test_an_artifacts_dir_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(onward.WriteError, match="cannot hold the report and the captured program"):
        onward.export(Model(), (X,), report=True, artifacts_dir=tmp_path / "taken")


def test_the_checker_runs_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def refuse(model: onnx.ModelProto, full_check: bool = False) -> None:
        seen.append(full_check)
        raise onnx.checker.ValidationError("no good")

    monkeypatch.setattr(onnx.checker, "check_model", refuse)
    onward.export(Model(), (X,))
    assert seen == []
    with pytest.raises(onward.LoweringError, match=r"onnx\.checker refuses the model: no good"):
        onward.export(Model(), (X,), enable_onnx_checker=True)
    assert seen == [True]


def test_external_data_without_a_file_is_what_save_does(tmp_path: Path) -> None:
    program = onward.export(torch.nn.Linear(64, 64), (torch.randn(2, 64),), external_data=True)
    program.save(tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx.data").exists()
    program.save(tmp_path / "n.onnx", external_data=False)
    assert not (tmp_path / "n.onnx.data").exists()
