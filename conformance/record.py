"""The whole sweep, column after column, into the file that `onward ops` and docs/operators.md are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from onward.cli.operator_record import ABSENT, FAILS, PASSES, Column, Recorded

from .report import kinds, passes

OPSETS = (9, 11, 13, 15, 17, 18, 20, 21, 23, 26)
DEFAULT = 20
DTYPES = ("int64", "int32", "bool", "float64", "float16", "bfloat16")
MADE_COMPLEX = "float32 made complex"  # what the sweep over float32 finds beside: rfft, complex, polar
COLUMNS = (
    *(Column("onward", "float32", opset) for opset in OPSETS),
    Column("onward", "float32", DEFAULT, dynamic=True),
    *(Column("onward", dtype, DEFAULT) for dtype in DTYPES),
    Column("onward", "complex64", DEFAULT),
    Column("onward", MADE_COMPLEX, DEFAULT),
    Column("dynamo", "float32", None),
    Column("legacy", "float32", None),
)
_MOST = 160  # characters of a reason


def by_column(column: Column, units: Iterable[dict[str, Any]]) -> dict[Column, dict[str, dict[str, Any]]]:
    """A sweep's verdicts by column and operator: samples with complex numbers are counted apart from real ones."""
    apart = replace(column, dtype=f"{column.dtype} made complex")
    found: dict[Column, dict[str, dict[str, Any]]] = {column: {}}
    for unit in units:
        for kind, some in kinds(unit):
            place = column if kind == column.dtype else apart
            if place in COLUMNS:
                found.setdefault(place, {})[unit["op"]] = {**unit, "samples": some}
    return found


def recorded(units: Mapping[Column, Mapping[str, dict[str, Any]]], samples: int) -> Recorded:
    """The file's contents; `units` are the sweeps' verdicts by column and operator."""
    columns = tuple(column for column in COLUMNS if column in units)
    names = sorted({name for column in columns for name in units[column]})
    marks = {name: "".join(_mark(units[column].get(name)) for column in columns) for name in names}
    reasons = {name: found for name in names if (found := dict(_reasons(name, columns, units)))}
    about = {name: version(name) for name in ("torch", "onnx", "onnxruntime")}
    return Recorded(about={**about, "samples": samples}, columns=columns, marks=marks, reasons=reasons)


def merged(old: Recorded, new: Recorded) -> Recorded:
    """The new columns, and of the old ones those that were not swept again."""
    sources = {**dict.fromkeys(old.columns, old), **dict.fromkeys(new.columns, new)}
    columns = tuple(column for column in COLUMNS if column in sources)
    names = sorted({*old.marks, *new.marks})
    marks = {name: "".join(_marked(sources[column], name, column) for column in columns) for name in names}
    reasons: dict[str, dict[int, str]] = {}
    for name in names:
        for place, column in enumerate(columns):
            source = sources[column]
            reason = source.reasons.get(name, {}).get(source.columns.index(column))
            if reason is not None:
                reasons.setdefault(name, {})[place] = reason
    return Recorded(about=new.about, columns=columns, marks=marks, reasons=reasons)


def _marked(source: Recorded, name: str, column: Column) -> str:
    marks = source.marks.get(name)
    return ABSENT if marks is None else marks[source.columns.index(column)]


def _mark(unit: dict[str, Any] | None) -> str:
    if unit is None or not unit["samples"]:
        return ABSENT
    return PASSES if passes(unit) else FAILS


def _reasons(
    name: str, columns: tuple[Column, ...], units: Mapping[Column, Mapping[str, dict[str, Any]]]
) -> Iterator[tuple[int, str]]:
    """Why the first sample that fails does; of the peers only that one does."""
    for place, column in enumerate(columns):
        unit = units[column].get(name)
        if _mark(unit) == FAILS and unit is not None:
            first = next(sample for sample in unit["samples"] if sample["status"] != "pass")
            yield place, _in_short(first) if column.exporter == "onward" else first["status"]


def _in_short(sample: Mapping[str, str]) -> str:
    """The error without its class, its place and the advice that follows."""
    reason = sample["reason"].split(": ", 1)[-1] if sample["status"] == "export" else sample["reason"]
    for end in (" at ", " register one", " Status Message"):
        if end in reason and reason.index(end) > 20:
            reason = reason[: reason.index(end)]
    return f"{sample['status']}: {reason}"[:_MOST]
