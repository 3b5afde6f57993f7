"""What the last whole sweep over PyTorch's operators found; `make conformance` writes it beside this file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).with_name("operators.json")
PASSES, FAILS, ABSENT = "+", "!", "-"  # absent: PyTorch has no such dtype there, or no sample can be judged


@dataclass(frozen=True)
class Column:
    """One sweep: of onward or of a peer, in one dtype, at one opset, or with every axis dynamic."""

    exporter: str
    dtype: str
    opset: int | None  # None for the exporter's own default
    dynamic: bool = False


@dataclass(frozen=True)
class Recorded:
    """Marks by operator, one character per column, and why what fails fails."""

    about: Mapping[str, str | int]
    columns: tuple[Column, ...]
    marks: Mapping[str, str]
    reasons: Mapping[str, Mapping[int, str]]  # by operator and column

    def counts(self, column: int) -> tuple[int, int]:
        """How many operators pass, of how many that were judged."""
        marks = [each[column] for each in self.marks.values()]
        return marks.count(PASSES), len(marks) - marks.count(ABSENT)

    def failing(self, column: int) -> dict[str, str]:
        return {op: self.reasons[op][column] for op, marks in self.marks.items() if marks[column] == FAILS}


def load(path: Path = PATH) -> Recorded:
    raw = json.loads(path.read_text(encoding="utf-8"))
    return Recorded(
        about=raw["about"],
        columns=tuple(Column(**each) for each in raw["columns"]),
        marks=raw["marks"],
        reasons={op: {int(column): text for column, text in each.items()} for op, each in raw["reasons"].items()},
    )


def save(recorded: Recorded, path: Path = PATH) -> None:
    """One line per operator, so that a change can be read as a change."""

    def lines(entries: Mapping[str, object]) -> str:
        return "{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in entries.items()) + "\n }"

    columns = ",\n".join(
        f"  {json.dumps({'exporter': c.exporter, 'dtype': c.dtype, 'opset': c.opset, 'dynamic': c.dynamic})}"
        for c in recorded.columns
    )
    text = (
        f'{{\n "about": {json.dumps(dict(recorded.about))},\n "columns": [\n{columns}\n ],\n'
        f' "marks": {lines(recorded.marks)},\n "reasons": {lines(recorded.reasons)}\n}}\n'
    )
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
