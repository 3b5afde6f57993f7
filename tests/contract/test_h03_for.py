"""Contract row H3: a `for` over a dynamic axis is a Loop in the file."""

from __future__ import annotations

import pytest

from .h_rows import Row, check
from .h_table import ROWS


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS["h03"]])
def test_for(row: Row) -> None:
    check(row)
