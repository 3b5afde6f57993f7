"""Contract row H1: both sides of an `if` on tensors are in the file."""

from __future__ import annotations

import pytest

from .h_rows import Row, check
from .h_table import ROWS


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS["h01"]])
def test_branches(row: Row) -> None:
    check(row)
