"""The results as tables for a person, with what was reached and what was missed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from .figures import MEGABYTE, Figure, better_peer, correct, exported, latency, ratio

MISSING = "-"


def show(results: dict[str, Any], console: Console) -> None:
    entries = results["models"]
    exporters = list(dict.fromkeys(name for entry in entries.values() for name in entry["exporters"]))
    for table in (
        _time_table(entries, exporters),
        _memory_table(entries, exporters),
        _graph_table(entries, exporters),
        _latency_table(entries, exporters),
        _error_table(entries, exporters),
    ):
        console.print(table)
    if any(record.get("reused") for entry in entries.values() for record in entry["exporters"].values()):
        console.print("* reused from an earlier run, not measured in this one")
    _show_failures(entries, console)
    _show_figures(entries, console)


def _table(title: str, columns: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("model")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _cell(record: dict[str, Any] | None, text: str) -> str:
    """One exporter's value, or why there is none."""
    if record is None:
        return MISSING
    star = "*" if record.get("reused") else ""
    return f"{text}{star}" if exported(record) else f"[red]fails[/]{star}"


def _number(value: float | None, pattern: str) -> str:
    return MISSING if value is None else format(value, pattern)


def _figure(entry: dict[str, Any], name: str, text: str | None = None) -> str:
    """A judged value, with yes or no beside it."""
    for record in entry["figures"]:
        if record["name"] == name:
            figure = Figure(**record)
            shown = text if text is not None else _number(figure.value, ".2f") + figure.unit
            if figure.reached is None:
                return MISSING
            return f"{shown} [green]yes[/]" if figure.reached else f"{shown} [bold red]no[/]"
    return MISSING


def _time_table(entries: dict[str, Any], exporters: list[str]) -> Table:
    columns = [*exporters, "floor", "dynamo / onward", "legacy / onward", "at most 2x floor + 0.5 s", "onward, warm"]
    table = _table("Export time, s (first export in the process; verification off)", columns)
    for entry in entries.values():
        records = entry["exporters"]
        warm = (records.get("onward") or {}).get("warm_seconds")
        table.add_row(
            entry["title"],
            *(
                _cell(records.get(name), _number((records.get(name) or {}).get("export_seconds"), ".2f"))
                for name in exporters
            ),
            _number(entry["floor"].get("seconds"), ".2f"),
            _figure(entry, "times faster than dynamo"),
            _figure(entry, "times faster than legacy"),
            _figure(entry, "export time, 2x floor + 0.5 s", _budget(entry, "export time, 2x floor + 0.5 s", ".2f")),
            _number(warm, ".2f"),
        )
    return table


def _budget(entry: dict[str, Any], name: str, pattern: str) -> str:
    limits = [record["limit"] for record in entry["figures"] if record["name"] == name]
    return _number(limits[0], pattern) if limits else MISSING


def _memory_table(entries: dict[str, Any], exporters: list[str]) -> Table:
    name = "peak memory, weights / 4 + 150 MB"
    table = _table("Peak memory above the loaded model, MB", [*exporters, "weights", "at most weights / 4 + 150"])
    for entry in entries.values():
        records = entry["exporters"]
        table.add_row(
            entry["title"],
            *(_cell(records.get(e), _megabytes((records.get(e) or {}).get("peak_bytes"))) for e in exporters),
            _megabytes(entry["floor"].get("weights_bytes")),
            _figure(entry, name, _budget(entry, name, ".0f")),
        )
    return table


def _megabytes(value: float | None) -> str:
    return MISSING if value is None else f"{value / MEGABYTE:.0f}"


def _graph_table(entries: dict[str, Any], exporters: list[str]) -> Table:
    columns = [*(f"{name}: nodes + Constant" for name in exporters), "at most the better peer"]
    table = _table("Nodes (subgraphs included, Constant counted apart) and file size", columns)
    for name in exporters:
        table.add_column(f"{name}: MB", justify="right")
    for entry in entries.values():
        records = entry["exporters"]
        best = better_peer(entry, "nodes")
        table.add_row(
            entry["title"],
            *(_cell(records.get(e), _nodes(records.get(e))) for e in exporters),
            _figure(entry, "nodes, better peer", _number(best, ".0f")),
            *(_cell(records.get(e), _megabytes((records.get(e) or {}).get("file_bytes"))) for e in exporters),
        )
    return table


def _nodes(record: dict[str, Any] | None) -> str:
    return f"{record['nodes']} + {record['constant_nodes']}" if record is not None and exported(record) else ""


def _latency_table(entries: dict[str, Any], exporters: list[str]) -> Table:
    columns = ["at", *exporters, "onward / better peer, at most 1.05"]
    table = _table("onnxruntime latency, ms (one thread, interleaved, best of five medians)", columns)
    for entry in entries.values():
        records = entry["exporters"]
        table.add_row(
            entry["title"],
            ", ".join(f"{axis} {size}" for axis, size in entry["latency_sizes"].items()),
            *(_cell(records.get(e), _number(_milliseconds(records.get(e)), ".2f")) for e in exporters),
            _figure(entry, "latency over better peer"),
        )
    return table


def _milliseconds(record: dict[str, Any] | None) -> float | None:
    seconds = latency(record)
    return None if seconds is None else seconds * 1000


def _error_table(entries: dict[str, Any], exporters: list[str]) -> Table:
    title = "Largest error against eager on fresh inputs, absolute (relative to the output's largest magnitude)"
    table = _table(title, [f"{name}, {where}" for name in exporters for where in ("example sizes", "other sizes")])
    for entry in entries.values():
        cells = []
        for name in exporters:
            record = entry["exporters"].get(name)
            checks = (record or {}).get("checks", {})
            cells += [_cell(record, _error(checks.get(where, {}))) for where in ("example_sizes", "other_sizes")]
        table.add_row(entry["title"], *cells)
    return table


def _error(check: dict[str, Any]) -> str:
    if "absolute" not in check:
        return "[red]fails[/]"
    return f"{check['absolute']:.1e} ({check['relative']:.0e})"


def _show_failures(entries: dict[str, Any], console: Console) -> None:
    for entry in entries.values():
        if "error" in entry["floor"]:
            console.print(f"{entry['title']}, floor: {entry['floor']['error']}", style="red", markup=False)
        for exporter, record in entry["exporters"].items():
            for what, message in _messages(record):
                console.print(f"{entry['title']}, {exporter}, {what}: {message}", style="red", markup=False)


def _messages(record: dict[str, Any]) -> Iterable[tuple[str, str]]:
    if not exported(record):
        yield "export", record.get("error", "no result")
        return
    for where, check in record["checks"].items():
        if "failure" in check:
            yield f"run at {where.replace('_', ' ')}", check["failure"]
    if "failure" in (record.get("latency") or {}):
        yield "latency", record["latency"]["failure"]
    if not correct(record) and all("failure" not in check for check in record["checks"].values()):
        yield "result", "differs from eager; not counted as a peer"


def _show_figures(entries: dict[str, Any], console: Console) -> None:
    """For each figure, on how many models it was reached, and where it was missed by how much."""
    judged: dict[str, list[tuple[str, Figure]]] = {}
    for entry in entries.values():
        for record in entry["figures"]:
            judged.setdefault(record["name"], []).append((entry["title"], Figure(**record)))
    if not judged:
        console.print("Figures: onward was not measured.")
        return
    console.print("Figures to reach", style="bold")
    for name, rows in judged.items():
        known = [(title, figure) for title, figure in rows if figure.reached is not None]
        missed = [(title, figure) for title, figure in known if not figure.reached]
        console.print(f"  {name}: {len(known) - len(missed)} of {len(known)}", style="red" if missed else "green")
        for title, figure in missed:
            console.print(f"    {title}: {_missed(figure)}", markup=False)
        unknown = [title for title, figure in rows if figure.reached is None]
        if unknown:
            console.print(f"    nothing to compare with: {', '.join(unknown)}", markup=False)


def _missed(figure: Figure) -> str:
    if figure.value is None or figure.limit is None:
        return "failed"
    pattern = ".3g" if figure.unit == "" else ".2f"
    value, limit = (format(number, pattern) + figure.unit for number in (figure.value, figure.limit))
    return f"{value} against {limit} ({_number(ratio(figure.value, figure.limit), '.2f')} of it)"
