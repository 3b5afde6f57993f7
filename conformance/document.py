"""docs/operators.md, made of what the sweep has recorded."""

from __future__ import annotations

from collections.abc import Iterator

from onward.cli.commands.ops import in_words
from onward.cli.operator_record import ABSENT, FAILS, PASSES, Column, Recorded

_HEAD = """# Operators

Made by `make conformance` from a sweep over PyTorch's own operator database: every operator in scope with up to
{samples} of its samples, exported, run in onnxruntime, and compared with PyTorch on the sample's values and on others
of the same sizes. An operator passes with all its samples. `onward ops` prints the same table in a terminal, and
`onward ops --failing` the reasons for any dtype and opset.

Recorded with torch {torch}, onnx {onnx} and onnxruntime {onnxruntime}.
"""


def document(recorded: Recorded) -> str:
    """The whole page."""
    about = {name: str(value) for name, value in recorded.about.items()}
    return "\n".join([_HEAD.format(**about), *_summary(recorded), *_remaining(recorded), *_table(recorded)]) + "\n"


def _title(column: Column) -> str:
    if column.exporter != "onward":
        return f"`torch.onnx`, {column.exporter}"
    return "every axis dynamic, at other sizes too" if column.dynamic else f"opset {column.opset}"


def _summary(recorded: Recorded) -> Iterator[str]:
    yield "## How many\n"
    yield "| dtype | | operators that pass | |"
    yield "|---|---|---|---|"
    for place, column in enumerate(recorded.columns):
        good, judged = recorded.counts(place)
        yield f"| {column.dtype} | {_title(column)} | {good} of {judged} | {100 * good / max(1, judged):.1f}% |"
    yield ""


def _remaining(recorded: Recorded) -> Iterator[str]:
    """Every operator that fails somewhere, with where and why; the peers' failures are theirs."""
    where: dict[tuple[str, str], list[str]] = {}
    for place, column in enumerate(recorded.columns):
        if column.exporter == "onward":
            for name, reason in recorded.failing(place).items():
                where.setdefault((name, reason), []).append(_label(column))
    yield f"## What does not pass ({len({name for name, _ in where})})\n"
    yield "Every operator that fails in one of the columns above, with where and why.\n"
    for (name, reason), labels in sorted(where.items()):
        yield f"- `{name}` ({', '.join(labels)}): {_escaped(reason)}"
    yield ""


def _label(column: Column) -> str:
    if column.dynamic:
        return "every axis dynamic"
    return f"opset {column.opset}" if column.dtype == "float32" else column.dtype


def _table(recorded: Recorded) -> Iterator[str]:
    ours = [(place, column) for place, column in enumerate(recorded.columns) if column.exporter == "onward"]
    opsets = [(place, column.opset or 0) for place, column in ours if column.dtype == "float32" and not column.dynamic]
    dynamic = next((place for place, column in ours if column.dynamic), None)
    others = [(place, column.dtype) for place, column in ours if column.dtype != "float32"]
    yield "## Every operator\n"
    yield "Opsets are those at which float32 passes. A dtype in brackets fails; PyTorch does not have the others.\n"
    yield "| operator | opsets | dynamic axes | other dtypes |"
    yield "|---|---|---|---|"
    words = {PASSES: "yes", FAILS: "no", ABSENT: "-"}
    for name, marks in recorded.marks.items():
        passed = [opset for place, opset in opsets if marks[place] == PASSES]
        judged = [opset for place, opset in opsets if marks[place] != ABSENT]
        if not judged and all(marks[place] == ABSENT for place, _ in others):
            continue
        rest = [dtype if marks[place] == PASSES else f"({dtype})" for place, dtype in others if marks[place] != ABSENT]
        varies = words[marks[dynamic]] if dynamic is not None else "-"
        yield f"| `{name}` | {in_words(passed, judged)} | {varies} | {' '.join(rest)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("_", "\\_").replace("*", "\\*")
