"""Mismatch hunting: planted faults are found by name, right models are not blamed, rounding is called rounding."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import onward
from onward.errors import InputError, VerifyError
from onward.hunt import search

from ._faults import FAULTS
from ._models import MODELS

PLANTED, FOUND = 50, 48


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    """Every model exported once."""
    torch.manual_seed(0)
    made = {}
    for name, build in MODELS.items():
        model, args = build()
        made[name] = onward.export(model.eval(), args)
    return made


def planted(path: Path, proto: onnx.ModelProto) -> Path:
    onnx.save(proto, path)
    return path


def hunted(program: Any, proto: onnx.ModelProto, path: Path) -> VerifyError:
    with pytest.raises(VerifyError) as caught:
        program.verify(planted(path, proto))
    return caught.value


@pytest.mark.parametrize("name", MODELS)
def test_a_right_model_names_none(programs: dict[str, Any], name: str) -> None:
    found = programs[name].verify(explain=True).explanation
    assert (found.verdict, found.culprits) == ("right", ())
    assert found.compared > 5
    alone = r"every operator of the file is right for PyTorch's inputs \(\d+ values were compared\)"
    assert re.fullmatch(f"{alone}, and so are the outputs", str(found))


def test_planted_faults_are_named(programs: dict[str, Any], tmp_path: Path) -> None:
    """At seeded places of every model, every kind in turn; a fault that changes no output is none, and not counted."""
    files = {name: program.proto() for name, program in programs.items()}
    names, missed, done, turn = list(files), [], 0, 0
    while done < PLANTED:
        name, fault = names[turn % len(names)], FAULTS[(turn // len(names) + turn) % len(FAULTS)]
        proto = onnx.ModelProto()
        proto.CopyFrom(files[name])
        node = fault(proto.graph, random.Random(turn))
        turn += 1
        if node is None:
            continue
        try:
            programs[name].verify(planted(tmp_path / "planted.onnx", proto))
        except VerifyError as error:
            done += 1
            culprit = error.explanation.culprit
            # A node that is gone can only be named as what a fresh export has.
            named = culprit is not None and (
                node in culprit.spot.nodes or any(f"node '{node}'" in each for each in culprit.differences)
            )
            if not named:
                missed.append(f"{name}: {fault.__name__} at {node}: {error}")
    assert turn < 2 * PLANTED, "most faults are to be seen"
    assert PLANTED - len(missed) >= FOUND, "\n".join(missed)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)) - x.mean())


def change_weight(proto: onnx.ModelProto, name: str, by: float) -> None:
    tensor = next(each for each in proto.graph.initializer if each.name == name)
    content = numpy_helper.to_array(tensor).copy()
    content.reshape(-1)[0] += by
    tensor.CopyFrom(numpy_helper.from_array(content.astype(content.dtype), name))


def test_the_text_names_node_operator_module_line_and_errors(tmp_path: Path) -> None:
    program = onward.export(Small().eval(), torch.randn(5, 4))
    proto = program.proto()
    change_weight(proto, "second.bias", 0.5)
    text = str(hunted(program, proto, tmp_path / "m.onnx"))
    line = Small.forward.__code__.co_firstlineno + 1
    assert re.search(
        r"the first value that is wrong is 'output', which Gemm node 'second.linear' computes "
        rf"from aten.linear.default at .*test_hunt.py:{line} in second\n",
        text,
    )
    assert re.search(
        r"in the whole model its error is 0.5 \(.* of its scale\), and the largest of its inputs is ", text
    )
    assert re.search(
        r"given PyTorch's inputs alone, its error is 0.5 \(.* of its scale\): the operator is wrong, not rounding", text
    )
    assert "unlike a fresh export: the weight 'second.bias' differs in 1 of 3 elements, by up to 0.5" in text
    assert text.endswith("the file is not what an export of the model writes: export it again")


def test_only_the_first_of_two_faults_is_told_in_full(tmp_path: Path) -> None:
    program = onward.export(Small().eval(), torch.randn(5, 4))
    proto = program.proto()
    change_weight(proto, "first.bias", 0.5)
    change_weight(proto, "second.bias", 0.5)
    error = hunted(program, proto, tmp_path / "m.onnx")
    assert [each.spot.node for each in error.explanation.culprits] == ["first.linear", "second.linear"]
    assert "wrong by themselves as well: 'second.linear' (Gemm)" in str(error)
    assert error.explanation.culprits[1].inputs[0].max_abs_error > 0.01, "the fault before it reaches it in a run"


def test_the_program_itself_is_hunted_in_too() -> None:
    program = onward.export(Small().eval(), torch.randn(5, 4))
    node = next(each for each in program.model.graph if each.op_type == "Tanh")
    node.op_type = "Sigmoid"
    with pytest.raises(VerifyError, match="which Sigmoid node 'tanh' computes from aten.tanh.default") as caught:
        program.verify()
    assert str(caught.value).endswith("this is a defect of the export, worth reporting")


def test_what_onnxruntime_refuses_is_named(tmp_path: Path) -> None:
    program = onward.export(Small().eval(), torch.randn(5, 4))
    proto = program.proto()
    change = next(each for each in proto.graph.node if each.name == "second.linear")
    change.input[1] = "first.weight"
    error = hunted(program, proto, tmp_path / "m.onnx")
    assert error.explanation.culprit.spot.node == "second.linear"
    assert "given PyTorch's inputs alone, onnxruntime does not load it: " in str(error)
    assert "the weight 'first.weight' is float32[8, 4], not float32[3, 8]" in str(error)


def test_without_explanation(tmp_path: Path) -> None:
    program = onward.export(Small().eval(), torch.randn(5, 4))
    proto = program.proto()
    change_weight(proto, "second.bias", 0.5)
    with pytest.raises(VerifyError) as caught:
        program.verify(planted(tmp_path / "m.onnx", proto), explain=False)
    assert caught.value.explanation is None
    assert "the first value that is wrong" not in str(caught.value)
    assert program.verify().explanation is None
    with pytest.raises(InputError, match="explain must be True, False or None, not 'no'"):
        program.verify(explain="no")


def test_little_memory_finds_the_same(programs: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    program = programs["unet"]
    proto = program.proto()
    change_weight(proto, "up.weight", 0.5)
    many = hunted(program, proto, tmp_path / "m.onnx").explanation
    monkeypatch.setattr(search, "_CHUNK_BYTES", 1)
    assert hunted(program, proto, tmp_path / "m.onnx").explanation == many


class Hiding(nn.Module):
    """A fault in the bias is far within the tolerance for the sums, and in full view once 100 is taken off."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        nn.init.constant_(self.first.bias, 100.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.first(x) - 100)


def test_a_fault_within_the_tolerance_that_grows_is_named(tmp_path: Path) -> None:
    torch.manual_seed(0)
    program = onward.export(Hiding(), torch.randn(5, 4))
    proto = program.proto()
    change_weight(proto, "first.bias", 0.002)
    found = hunted(program, proto, tmp_path / "m.onnx").explanation
    assert (found.verdict, found.culprit.spot.node, found.culprit.alone.ok) == ("wrong operator", "first.linear", True)
    assert program.verify(explain=True).explanation.verdict == "right"


class Cancelling(nn.Module):
    """Two sums of the same terms in another order: all that is left of their difference is rounding."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(999, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.weight - x.flip(1) @ self.weight.flip(0)) * 1e3


def test_rounding_that_grows_is_called_that() -> None:
    torch.manual_seed(0)
    program = onward.export(Cancelling(), torch.randn(7, 999))
    with pytest.raises(VerifyError) as caught:
        program.verify()
    found = caught.value.explanation
    assert (found.verdict, found.culprits) == ("rounding", ())
    text = str(caught.value)
    assert "values were compared): this is rounding that grows. The model is ill-conditioned" in text
    assert "the first value beyond the tolerance is 'sub', which Sub node 'sub' computes from aten.sub.Tensor" in text
    assert text.endswith("or export it in float64 (model.double())")


class Changing(nn.Module):
    factor = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * self.factor


def test_a_model_that_has_changed_since() -> None:
    model = Changing()
    program = onward.export(model, torch.randn(4, 3), dynamic_axes={"x": {0: "batch"}})
    model.factor = 3.0
    with pytest.raises(VerifyError, match="the captured program does not compute what the model does") as caught:
        program.verify()
    assert caught.value.explanation.verdict == "capture"
