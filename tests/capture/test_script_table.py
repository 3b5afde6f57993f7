"""Every script of the table, exported and compared with itself on inputs that take another way."""

from __future__ import annotations

import warnings
from typing import Any

import onnx
import pytest
import torch

import onward
from onward.capture.frontends.script.enumerations import number_of
from tests.opsets import NEWEST

from ..contract.control import check
from . import script_flow_rows, script_module_rows, script_structure_rows, script_value_rows  # noqa: F401  (they fill the table)
from .script_list_rows import LIST_ROWS
from .script_table import ROWS, Row

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize("opset", (9, 13, 20))
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_script_is_exported_with_all_its_ways(row: Row, opset: int) -> None:
    model = row.model().eval() if isinstance(row.model, type) else row.model
    scripted = torch.jit.script(model)
    check(
        scripted,
        row.example,
        row.others,
        dynamic_axes=row.axes,
        opset_version=max(opset, row.first_opset),
        allow_constant_outputs=True,
    )


@pytest.mark.parametrize("opset", (9, 11, 13, 17, NEWEST))
@pytest.mark.parametrize("row", LIST_ROWS, ids=lambda row: row.name)
def test_a_script_with_lists_is_exported_from_its_first_opset_on(row: Row, opset: int) -> None:
    scripted = torch.jit.script(row.model().eval() if isinstance(row.model, type) else row.model)
    if opset < row.first_opset:
        with pytest.raises(onward.LoweringError, match=rf"no form in opset {opset} \(exists from {row.first_opset}\)"):
            onward.export(scripted, row.example, dynamic_axes=row.axes, opset_version=opset)
        return
    program = onward.export(scripted, row.example, dynamic_axes=row.axes, opset_version=opset)
    onnx.checker.check_model(program.proto(), full_check=True)
    if opset in (max(row.first_opset, 9), NEWEST):
        program.verify()
    for inputs in row.others:
        _same(program(*inputs), scripted(*inputs))


def _same(actual: Any, expected: Any) -> None:
    """A list of numbers whose length depends on data comes out of the file as one tensor."""
    if isinstance(actual, (torch.Tensor, bool, int, float)):
        actual = torch.as_tensor(actual)
        torch.testing.assert_close(actual, torch.as_tensor(expected, dtype=actual.dtype), rtol=1e-4, atol=1e-5)
        return
    assert type(actual) is type(expected)
    assert len(actual) == len(expected)
    for key in actual if isinstance(actual, dict) else range(len(actual)):
        _same(actual[key], expected[key])


def test_a_text_of_a_size_cannot_be_compared() -> None:
    def compared(x: torch.Tensor) -> torch.Tensor:
        if f"{x.size(0)}" == "2":
            return x * 2
        return x

    with pytest.raises(onward.CaptureError, match="a text that depends on data or on a size") as caught:
        onward.export(torch.jit.script(compared), (torch.ones(2),), dynamic_axes={"x": {0: "n"}})
    assert caught.value.op == "aten::eq"


def test_numbers_of_dtypes_and_layouts_are_torchscripts() -> None:
    unit = torch.jit.CompilationUnit("def both(x: Tensor):\n    return x.dtype, x.layout\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in {each for each in vars(torch).values() if isinstance(each, torch.dtype)}:
            assert unit.both(torch.empty(0, dtype=dtype)) == (number_of(dtype), number_of(torch.strided))
        assert unit.both(torch.eye(2).to_sparse())[1] == number_of(torch.sparse_coo)
        assert unit.both(torch.eye(2).to_sparse_csr())[1] == number_of(torch.sparse_csr)


def test_a_script_that_raises_says_whether_it_does_so_without_the_export() -> None:
    def refusing(x: torch.Tensor) -> torch.Tensor:
        if x.dim() == 1:
            raise ValueError("one axis is too few")
        return x

    with pytest.raises(onward.CaptureError) as caught:
        onward.export(torch.jit.script(refusing), (torch.ones(2),))
    assert str(caught.value) == (
        f"the script raises an error for the example: one axis is too few\n"
        f"  at {__file__}:{refusing.__code__.co_firstlineno + 2}\n"
        "  call the model with the same arguments to see the error without the export"
    )
