"""The results as tables, and which figures were reached."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from ..figures import Figure, at_least, at_most
from .methods import LONGER
from .speed import STACKS

POINTS = {8: 0.4, 4: 0.7}  # how far below float an accuracy may be
STEP = 1.5  # a quantised step of training against a float one
NEVER_SLOWER = 0.95  # a clock on a busy machine is not better than that


def figures(results: dict[str, Any]) -> list[Figure]:
    """Every figure that a run can be judged by."""
    found = []
    for task in results["tasks"].values():
        found += _of_task(task)
    for each in results["networks"]:
        found += _of_network(each)
    for each in results["stacks"]:
        limit = STACKS[each["channels"]]
        found.append(at_least(f"{each['channels']} channels: times faster than fp32", each["faster"], limit))
    for each in results["steps"]:
        for bits, value in each["ratio"].items():
            found.append(at_most(f"{each['task']}: QAT step {bits} against the float step", value, STEP))
    return found


def _of_task(task: dict[str, Any]) -> list[Figure]:
    rows = {row["name"]: row for row in task["rows"]}
    plain, found = rows.get("fp32", {}), []
    for name, row in rows.items():
        if not row["ours"]:
            continue
        what = f"{task['name']}, {name}"
        if "error" in row:
            found.append(Figure(f"{what}: works", None, None, False, ""))
            continue
        found.append(_agreement(what, row, task["exact"]))
        rivals = (plain, rows.get(LONGER, {})) if row["trained"] else (plain,)
        best = max((rival["accuracy"] for rival in rivals if "accuracy" in rival), default=None)
        if best is not None and (row["trained"] or row["bits"] == 8):
            lost = round(best - row["accuracy"], 6)
            found.append(at_most(f"{what}: accuracy lost", lost, POINTS[row["bits"]], " points"))
        if row["bits"] == 8 and "ms" in row and "ms" in plain:
            found.append(at_least(f"{what}: times faster than fp32", plain["ms"] / row["ms"], NEVER_SLOWER))
        if row["bits"] == 8 and "ms_of_one" in row and "ms_of_one" in plain:
            faster = plain["ms_of_one"] / row["ms_of_one"]
            found.append(at_least(f"{what}: times faster than fp32 at a batch of one", faster, NEVER_SLOWER))
    return found


def _of_network(row: dict[str, Any]) -> list[Figure]:
    faster = at_least(f"{row['name']}: times faster than fp32 at a batch of one", row["faster"], NEVER_SLOWER)
    return [_agreement(row["name"], row, row["exact"]), faster]


def _agreement(what: str, row: dict[str, Any], exact: bool) -> Figure:
    """Of what a file computes with what was evaluated."""
    if exact:
        return at_least(f"{what}: equal elements", 100 * row["equal"], 100, "%")
    return at_least(f"{what}: elements within a step", 100 * row["near"], 99.9, "%")


def show(results: dict[str, Any], console: Console) -> None:
    for task in results["tasks"].values():
        console.print(_task_table(task))
        for row in task["rows"]:
            if "error" in row:
                console.print(f"  {row['name']}: {row['error']}", style="red", markup=False)
    if results["networks"]:
        console.print(_network_table(results["networks"]))
    if results["stacks"]:
        console.print(_stack_table(results["stacks"]))
    if results["steps"]:
        console.print(_step_table(results["steps"]))
    judged = figures(results)
    missed = [each for each in judged if each.reached is False]
    console.print(f"Figures reached: {len(judged) - len(missed)} of {len(judged)}", style="bold")
    for each in missed:
        value, limit = (
            f"{number:.2f}{each.unit}" if number is not None else "-" for number in (each.value, each.limit)
        )
        console.print(f"  {each.name}: {value} against {limit}", style="red", markup=False)


COLUMNS = (
    "accuracy, onnxruntime",
    "accuracy, PyTorch",
    "equal elements",
    "within a step",
    "worst, steps",
    "ms",
    "times faster",
    "at batch 1",
    "kB",
    "s to make",
    "products left in float",
)


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, justify="left" if column in ("", "task") else "right")
    return table


def _task_table(task: dict[str, Any]) -> Table:
    table = _table(f"{task['title']} ({task['test']} to judge, batches of {task['batch']} timed)", ("", *COLUMNS))
    plain = next((row for row in task["rows"] if row["name"] == "fp32" and "error" not in row), {})
    for row in task["rows"]:
        table.add_row(row["name"], *(["fails"] if "error" in row else _cells(row, plain)))
    return table


def _cells(row: dict[str, Any], plain: dict[str, Any]) -> list[str]:
    return [
        f"{row['accuracy']:.2f}",
        _number(row.get("accuracy_eager"), ".2f"),
        _number(row.get("equal"), ".3%"),
        _number(row.get("near"), ".3%") if row.get("on_grid") else "-",
        _number(row.get("worst"), ".3g") if row.get("on_grid") else "-",
        _number(row.get("ms"), ".3f"),
        *(f"{plain[key] / row[key]:.2f}" if key in plain and key in row else "-" for key in ("ms", "ms_of_one")),
        f"{row['bytes'] / 1000:.0f}",
        f"{row['seconds']:.1f}",
        _left(row),
    ]


def _number(value: float | None, pattern: str) -> str:
    return "-" if value is None else format(value, pattern)


def _network_table(networks: list[dict[str, Any]]) -> Table:
    columns = (
        "",
        "fp32 ms",
        "int8 ms",
        "times faster",
        "onnxruntime quantize_static",
        "equal elements",
        "left in float",
    )
    table = _table("Networks of torchvision on a picture of 224x224", columns)
    for each in networks:
        static = "fails" if each["static_error"] else f"{each['float_ms'] / each['static_ms']:.2f}"
        times = f"{each['float_ms']:.2f}", f"{each['int8_ms']:.2f}", f"{each['faster']:.2f}"
        table.add_row(each["name"], *times, static, f"{each['equal']:.3%}", _left(each))
    return table


def _left(row: dict[str, Any]) -> str:
    return ", ".join(f"{count} {name}" for name, count in row["left_in_float"].items()) or "none"


def _stack_table(stacks: list[dict[str, Any]]) -> Table:
    table = _table("Six convolutions of 3x3 on 32x32, batch 1", ("channels", "fp32 ms", "int8 ms", "times faster"))
    for each in stacks:
        table.add_row(
            str(each["channels"]), f"{each['float_ms']:.2f}", f"{each['int8_ms']:.2f}", f"{each['faster']:.2f}"
        )
    return table


def _step_table(steps: list[dict[str, Any]]) -> Table:
    names = tuple(steps[0]["ratio"])
    table = _table("A step of training", ("task", "float ms", *(f"{name} / float" for name in names)))
    for each in steps:
        table.add_row(each["task"], f"{each['float_ms']:.2f}", *(f"{each['ratio'][name]:.2f}" for name in names))
    return table
