"""`onward ops`: which of PyTorch's operators export, in which dtypes and at which opsets."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from typing import Any

import typer

from ..console.command import EXIT_CODES, Answer
from ..operator_record import ABSENT, PASSES, Recorded, load

EPILOG = f"""Examples:
  onward ops "linalg.*"          what is known of a family
  onward ops --failing           what does not export, and why
  onward ops conv --opset 11     at one opset
  onward ops --aten softmax      the operators of PyTorch's core with a lowering of their own

{EXIT_CODES}
"""


def ops(
    pattern: str = typer.Argument("*", metavar="PATTERN", help="A name, a part of a name, or a pattern with *."),
    dtype: str = typer.Option("float32", metavar="DTYPE", help="The dtype for which opsets and reasons are shown."),
    opset: int | None = typer.Option(None, metavar="N", help="Show this opset only."),
    failing: bool = typer.Option(False, "--failing", help="Show only operators that fail, with the reason."),
    aten: bool = typer.Option(False, "--aten", help="Show the registry of lowerings instead of recorded results."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object on stdout."),
) -> Answer:
    """Which of PyTorch's operators export: dtypes, opsets, dynamic axes, as recorded by the sweep over its database."""
    rows = _lowerings(pattern) if aten else _recorded(load(), pattern, dtype, opset, failing)
    if not rows and not failing:
        raise _mistake(f"no operator is called like {pattern!r}")

    def show() -> None:
        if not rows:
            print(f"of the operators like {pattern!r}, none is recorded as failing in {dtype}")
            return
        _show(rows)
        if not aten:
            about = load().about
            print(f"\n{len(rows)} operators, recorded with torch {about['torch']}, onnxruntime {about['onnxruntime']}")

    return Answer({"ok": True, "operators": rows}, show)


def _mistake(what: str) -> Exception:
    from ..console.usage_errors import (
        UsageMistake,  # only now: it imports PyTorch, which a list of operators can do without
    )

    return UsageMistake(what)


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatch(name, pattern) or ("*" not in pattern and pattern in name)


def _recorded(recorded: Recorded, pattern: str, dtype: str, opset: int | None, failing: bool) -> list[dict[str, Any]]:
    ours = {place: each for place, each in enumerate(recorded.columns) if each.exporter == "onward"}
    own = {place: each for place, each in ours.items() if each.dtype == dtype and not each.dynamic}
    if not own:
        known = sorted({each.dtype for each in ours.values()})
        raise _mistake(f"--dtype: nothing is recorded for {dtype!r}, only for {', '.join(known)}")
    if opset is not None:
        own = {place: each for place, each in own.items() if each.opset == opset}
        if not own:
            opsets = sorted({each.opset or 0 for each in ours.values() if each.dtype == dtype})
            raise _mistake(
                f"--opset: nothing is recorded for {dtype} at opset {opset}, only at {', '.join(map(str, opsets))}"
            )
    rows = []
    for name, marks in recorded.marks.items():
        fails = {str(each.opset): recorded.reasons[name][place] for place, each in own.items() if marks[place] == "!"}
        if not _matches(name, pattern) or (failing and not fails):
            continue
        row: dict[str, Any] = {"operator": name}
        if failing:
            row["reasons"] = fails
        else:
            row["dtypes"] = list(
                dict.fromkeys(each.dtype for place, each in ours.items() if marks[place] == PASSES and not each.dynamic)
            )
            row["opsets"] = [each.opset for place, each in own.items() if marks[place] == PASSES]
            row["of"] = [each.opset for place, each in own.items() if marks[place] != ABSENT]
            row["dynamic"] = [marks[place] == PASSES for place, each in ours.items()
                              if each.dynamic and marks[place] != ABSENT]  # fmt: skip
        rows.append(row)
    return rows


def _lowerings(pattern: str) -> list[dict[str, Any]]:
    from onward.lower.registry import registry

    return [
        {"operator": name, "since": registry.available_since(name.replace(".", "::", 1))}
        for name in registry.operators()
        if _matches(name, pattern) and name.startswith(("aten.", "prims."))
    ]


def in_words(passed: Sequence[int], judged: Sequence[int]) -> str:
    """`9+` if it works from opset 9 on, `all but 15`, or the opsets themselves."""
    if not judged:
        return "-"
    if not passed:
        return "none"
    if list(passed) == list(judged[-len(passed) :]):
        return f"{passed[0]}+"
    return ", ".join(map(str, passed))


def _show(rows: Iterable[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    shown: list[list[str]] = []
    for row in rows:
        if "since" in row:
            titles = ["operator", "lowerings since opset"]
            shown.append([row["operator"], ", ".join(map(str, row["since"]))])
        elif "reasons" in row:
            titles = ["operator", "opsets", "reason"]
            for reason in dict.fromkeys(row["reasons"].values()):
                opsets = [opset for opset, each in row["reasons"].items() if each == reason]
                shown.append([row["operator"], ", ".join(opsets), reason])
        else:
            titles = ["operator", "dtypes", "opsets", "dynamic axes"]
            dynamic = "-" if not row["dynamic"] else "yes" if all(row["dynamic"]) else "no"
            shown.append([row["operator"], " ".join(row["dtypes"]), in_words(row["opsets"], row["of"]), dynamic])
    for title in titles:
        table.add_column(title, overflow="fold")
    for cells in shown:
        table.add_row(*cells)
    Console(markup=False, highlight=False, soft_wrap=False).print(table)
