"""A file refuses the sizes at which it would be wrong, and says where in the model's code they are told apart."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

import onward
from onward.capture.program.facts import CHECKED
from onward.errors import VerifyError
from onward.lower.size_values import size_functions
from onward.verify import Session

OPSETS = (9, 11, 13, 15, 18, 21, 23)


class At37(torch.nn.Module):
    """The far size of 37 is found by solving for it, and cannot be explored from the example."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 37:
            return x.sum(1)
        return x * 2


class At37Columns(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(0) if x.shape[1] == 74 else x * 2


class Several(torch.nn.Module):
    """Results of several kinds, and a condition of two axes."""

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        if x.shape[0] * x.shape[1] > 900:
            return {"mask": x > 0, "rows": x, "number": x.sum()}
        return {"number": x.sum(), "mask": x > 1, "rows": x + 1}


class Plain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) if x.shape[0] > 0 else x


class Table(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * {3: 2, 7: 5}.get(x.shape[0], 1)


def _exported(model: torch.nn.Module, x: torch.Tensor, **options: Any) -> tuple[onward.Program, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = onward.export(model, (x,), dynamic_axes={"x": {0: "n", 1: "m"}}, verify=True, **options)
    return program, [str(each.message) for each in caught if issubclass(each.category, onward.CaptureWarning)]


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_a_size_with_another_answer_is_refused(opset: int, dtype: torch.dtype) -> None:
    x = torch.arange(15).reshape(5, 3).to(dtype)
    program, warned = _exported(At37(), x, opset_version=opset)
    assert len(warned) == 1
    assert "`n == 37` is False, and n = 37 would take the other branch. The file refuses such inputs." in warned[0]
    for n in (1, 36, 38, 100):
        given = torch.ones(n, 3, dtype=dtype)
        assert torch.equal(program(given), given * 2)
    with pytest.raises(VerifyError, match=r"only for sizes where `n == 37` is False \(test_refused_sizes.py:\d+\)"):
        program(torch.ones(37, 3, dtype=dtype))


def test_the_file_says_what_it_is_for_and_verification_shows_it(tmp_path: Path) -> None:
    program, _ = _exported(At37(), torch.rand(5, 3))
    program.save(tmp_path / "model.onnx")
    metadata = {each.key: each.value for each in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert metadata["onward.limit.1"].startswith("`n == 37` is False (test_refused_sizes.py:")
    assert program.verification is not None
    skipped = [each.skipped for each in program.verification.checks if each.label == "n=37"]
    assert len(skipped) == 1
    assert "the file refuses it: it is only for sizes where `n == 37` is False" in str(skipped[0])
    with pytest.raises(VerifyError, match="only for sizes where"):
        Session(tmp_path / "model.onnx").run([torch.rand(37, 3)])


def test_a_condition_of_several_axes_and_results_of_several_kinds() -> None:
    program, warned = _exported(Several(), torch.rand(5, 3))
    assert warned
    assert set(program(torch.rand(30, 30))) == {"number", "mask", "rows"}
    with pytest.raises(VerifyError, match="only for sizes where"):
        program(torch.rand(31, 30))


def test_every_limit_is_held() -> None:
    program, warned = _exported(Table(), torch.rand(5, 3))
    assert len(warned) == 2
    for n in (3, 7):
        with pytest.raises(VerifyError, match=f"`n == {n}` is False"):
            program(torch.rand(n, 3))
    assert program(torch.rand(4, 3)).shape == (4, 3)


def test_a_file_without_a_limit_has_no_guard() -> None:
    program, warned = _exported(Plain(), torch.rand(5, 3))
    assert warned == []
    assert [node.op_type for node in program.model.graph] == ["Relu"]


def test_an_axis_that_follows_another_one_is_told_and_does_no_harm() -> None:
    """The size of which it is a multiple may be on no axis of an input: then the file has nothing to check."""
    two = 2 * torch.export.Dim("half")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = onward.export(At37Columns(), (torch.rand(3, 4),), dynamic_shapes={"x": {1: two}})
    assert any(issubclass(each.category, onward.CaptureWarning) for each in caught)
    assert torch.equal(program(torch.ones(3, 8)), torch.ones(3, 8) * 2)


def test_what_limits_are_made_of_has_a_form_in_files() -> None:
    assert set(size_functions()) >= CHECKED
