"""What is recorded of the sweeps: a file, a page, and operators that still do what is written of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from conformance.document import document
from conformance.judge import Settings, exporter, judge
from conformance.operators import chosen
from conformance.record import COLUMNS, MADE_COMPLEX, merged, recorded
from conformance.samples import samples
from onward.cli.operator_record import ABSENT, PASSES, Column, load, save

ROOT = Path(__file__).resolve().parents[2]
RECORDED = load()
SLICE = 12  # every so manieth operator is tried here; `make conformance` tries all


def test_the_page_is_made_of_the_record() -> None:
    assert (ROOT / "docs" / "operators.md").read_text(encoding="utf-8") == document(RECORDED)


def test_every_column_is_recorded() -> None:
    """The peers' are recorded when they are measured anew: that takes an hour."""
    assert {each for each in RECORDED.columns if each.exporter == "onward"} == {
        each for each in COLUMNS if each.exporter == "onward"
    }


def _slice(place: int, step: int) -> list[tuple[Column, str, str]]:
    judged = [(name, marks[place]) for name, marks in RECORDED.marks.items() if marks[place] != ABSENT]
    return [(RECORDED.columns[place], name, mark) for name, mark in judged[place % step :: step]]


CASES = [
    case
    for place, column in enumerate(RECORDED.columns)
    if column.exporter == "onward" and column.dtype != MADE_COMPLEX
    for case in _slice(place, SLICE if column == Column("onward", "float32", 20) else 7 * SLICE)
]


@pytest.mark.parametrize(
    ("column", "name", "mark"), CASES, ids=[f"{c.dtype}-{c.opset}-{c.dynamic}-{n}" for c, n, _ in CASES]
)
def test_operators_do_what_is_recorded(column: Column, name: str, mark: str) -> None:
    drawn, _ = samples(chosen([name])[name], getattr(torch, column.dtype), int(RECORDED.about["samples"]))
    drawn = [each for each in drawn if each.complex == column.dtype.startswith("complex")]
    verdicts = [judge(each, exporter(Settings("onward", column.opset, column.dynamic))) for each in drawn]
    assert all(each.status == "pass" for each in verdicts) is (mark == PASSES), verdicts


def unit(op: str, *statuses: str) -> dict[str, Any]:
    return {
        "op": op,
        "dtype": "float32",
        "samples": [{"status": each, "complex": False, "reason": f"Error: {op} at x"} for each in statuses],
    }


def test_columns_are_recorded_saved_and_merged(tmp_path: Path) -> None:
    first, second, peer = COLUMNS[0], COLUMNS[1], COLUMNS[-1]
    old = recorded(
        {first: {"add": unit("add", "pass"), "sub": unit("sub", "pass", "export")}, peer: {"add": unit("add", "run")}},
        4,
    )
    assert old.marks == {"add": "+!", "sub": "!-"}
    assert old.reasons == {"add": {1: "run"}, "sub": {0: "export: sub at x"}}
    assert old.counts(0) == (1, 2) and old.failing(0) == {"sub": "export: sub at x"}
    path = tmp_path / "operators.json"
    save(old, path)
    assert load(path) == old
    new = recorded({second: {"mul": unit("mul", "pass")}, first: {"sub": unit("sub", "pass")}}, 4)
    both = merged(old, new)
    assert both.columns == (first, second, peer)
    assert both.marks == {"add": "--!", "mul": "-+-", "sub": "+--"}
    assert both.reasons == {"add": {2: "run"}}
