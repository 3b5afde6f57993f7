"""Contract row H2: a `while` on data is a Loop in the file."""

from __future__ import annotations

import pytest

from .h_rows import Row, check
from .h_table import ROWS


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS["h02"]])
def test_while(row: Row) -> None:
    check(row)
