"""Contract row H5: what cannot be kept is named by line, in an error or a warning."""

from __future__ import annotations

import pytest

from .h_rows import Row, check
from .h_table import ROWS


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS["h05"]])
def test_not_kept(row: Row) -> None:
    check(row)
