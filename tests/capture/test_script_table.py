"""Every script of the table, exported and compared with itself on inputs that take another way."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ..contract.control import check
from .script_table import ROWS, Row

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def _as_tensors(value: Any) -> Any:
    """Numbers that a script returns come out of the file as tensors."""
    if isinstance(value, (bool, int, float)):
        return torch.tensor(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_as_tensors(each) for each in value)
    return {key: _as_tensors(each) for key, each in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("opset", (9, 13, 20))
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_script_is_exported_with_all_its_ways(row: Row, opset: int) -> None:
    model = row.model().eval() if isinstance(row.model, type) else row.model
    scripted = torch.jit.script(model)
    check(
        scripted,
        row.example,
        row.others,
        reference=lambda *inputs: _as_tensors(scripted(*inputs)),
        dynamic_axes=row.axes,
        opset_version=max(opset, row.first_opset),
    )
