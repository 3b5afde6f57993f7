"""The tables of contract section H themselves: a row cannot pass by luck."""

from __future__ import annotations

import inspect
import sys
from collections import Counter

import pytest
import torch

from .h_rows import Row, floats, judge
from .h_table import ROWS
from .h_ways import missing_ways

ALL = [pytest.param(row, id=f"{table}-{row.name}") for table, rows in ROWS.items() for row in rows]
FEWEST = 140
KEPT = 0.95


def test_the_tables_are_as_large_as_promised() -> None:
    rows = [row for table in ROWS.values() for row in table]
    assert len(rows) >= FEWEST
    assert sum(row.expects == "kept" for row in rows) >= KEPT * sum(row.file != "h05_not_kept.py" for row in rows)


def test_names_are_unique() -> None:
    counts = Counter(row.name for rows in ROWS.values() for row in rows)
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older Pythons do not say where a jump stands")
@pytest.mark.parametrize("row", ALL)
def test_inputs_take_every_way(row: Row) -> None:
    assert missing_ways(row) == []


@pytest.mark.parametrize("row", ALL)
def test_inputs_are_what_the_row_says(row: Row) -> None:
    """Every input fits the example but for the dynamic axes, and these vary: one turn at most, and many."""
    assert row.others
    assert row.expects == "kept" or row.reason
    names = list(inspect.signature(row.build().forward).parameters)
    seen: dict[str, set[int]] = {}
    for args in (row.args, *row.others, *row.raises):
        assert len(args) == len(row.args)
        sizes: dict[str, int] = {}
        for name, arg, example in zip(names, args, row.args, strict=True):
            assert (arg.dtype, arg.ndim) == (example.dtype, example.ndim)
            for axis, size in enumerate(arg.shape):
                label = row.axes.get(name, {}).get(axis)
                assert label or size == example.shape[axis], f"axis {axis} of {name} is not dynamic"
                if label:
                    assert sizes.setdefault(label, size) == size, f"{label} has two sizes in one input"
                    seen.setdefault(label, set()).add(size)
    for label, found in seen.items():
        assert min(found) <= 1, f"{label} is never 1"
        assert max(found) >= 5, f"{label} is never large"
        assert len(found) >= 3, label


@pytest.mark.parametrize("row", ALL)
def test_plain_pytorch_is_the_same_twice(row: Row) -> None:
    """No row depends on random numbers or on what the call before left behind."""
    for args in (row.args, *row.others):
        first, again = row.expected(args), row.expected(args)
        torch.testing.assert_close(first, again, rtol=0, atol=0, equal_nan=True)


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if float(x[0]) > 0 else x - 1


def test_the_runner_sees_what_is_wrong() -> None:
    """A file that has only the example's side is never called kept."""
    straight = Row("straight", torch.nn.ReLU, (floats(1, 2),), ((floats(-1, 2),),))
    assert judge(straight).kind == "kept"
    branch = Row("branch", Scaled, (floats(1, 2),), ((floats(-1, 2),),))
    outcome = judge(branch)
    assert outcome.kind == "kept" or not outcome.suits(branch)
