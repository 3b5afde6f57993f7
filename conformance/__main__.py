"""`python -m conformance`: sweep over PyTorch's operator database."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from onward.cli.operator_record import PATH, Column, load, save

from .document import document
from .judge import Settings, exporter, judge
from .operators import chosen, takes
from .pool import Task, sweep
from .record import COLUMNS, MADE_COMPLEX, by_column, merged, recorded
from .report import failures, summary
from .samples import samples

_EXAMPLES = """examples:
  python -m conformance --ops add,nn.functional.conv2d --failures
  python -m conformance --exporter legacy --jobs 2
  python -m conformance --dtypes int64,bool,float16 --opset 13
  python -m conformance --dynamic                 every axis of every input, checked at other sizes
  python -m conformance --ops einsum --jobs 0     in this process, with tracebacks
  python -m conformance --record                  all of onward's, into what `onward ops` and docs/operators.md show
  python -m conformance --record --exporter dynamo    the same of a peer, beside it
  python -m conformance --record --dtypes bool    of that only the columns for a dtype
"""
_DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "operators.md"


def main() -> None:
    options = _options()
    if options.record:
        _record(options)
        return
    settings = Settings(options.exporter or "onward", options.opset, options.dynamic)
    tasks = _tasks(options.ops, (options.dtypes or "float32").split(","))
    if options.jobs == 0:
        _in_this_process(tasks, settings, options.samples)
        return
    results = _swept(tasks, settings, options, options.json)
    if options.failures:
        print(failures(results))
    print(summary(results))
    print(f"written to {options.json}")


def _tasks(ops: str | None, dtypes: list[str]) -> list[Task]:
    infos = chosen(ops.split(",") if ops else None)
    return [(key, dtype) for dtype in dtypes for key, info in infos.items() if takes(info, _dtype(dtype))]


def _swept(tasks: list[Task], settings: Settings, options: argparse.Namespace, path: Path) -> list[dict[str, Any]]:
    """The verdicts of all tasks, those of an earlier run among them."""
    exporter(settings)  # refuses settings that do not go together before any process starts
    units = _resumed(path, options, settings)
    waiting = [task for task in tasks if _key(task) not in units["results"]]
    for number, unit in enumerate(
        sweep(waiting, settings, count=options.samples, jobs=options.jobs, seconds=options.seconds), 1
    ):
        units["results"][_key((unit["op"], unit["dtype"]))] = unit
        if number % 20 == 0 or number == len(waiting):
            _save(path, units)
        _progress(number, len(waiting), unit["op"])
    return [units["results"][_key(task)] for task in tasks]


def _record(options: argparse.Namespace) -> None:
    """Sweep onward's columns that the options leave, or a peer's, and write what `onward ops` and the page are made of.

    What is not swept now stays as it was recorded.
    """
    if options.ops:
        raise SystemExit("--record is for whole columns: leave --ops out")
    columns = [column for column in COLUMNS if _is_asked(column, options) and column.dtype != MADE_COMPLEX]
    if not columns:
        raise SystemExit("no column of the record fits these options: conformance/record.py names them")
    found: dict[Column, dict[str, dict[str, Any]]] = {}
    for column in columns:
        name = f"{column.exporter}-{column.dtype}-{'dynamic' if column.dynamic else column.opset or 'default'}"
        settings = Settings(column.exporter, column.opset, column.dynamic)
        results = _swept(
            _tasks(None, [column.dtype]), settings, options, options.json.parent / "columns" / f"{name}.json"
        )
        found |= by_column(column, results)
        print(f"{name}\n{summary(results)}", flush=True)
    new = recorded(found, options.samples)
    everything = merged(load(), new) if PATH.exists() and len(found) < len(COLUMNS) else new
    save(everything)
    _DOCUMENT.write_text(document(everything), encoding="utf-8")
    print(f"written to {_DOCUMENT.name} and {PATH.name}")


def _is_asked(column: Column, options: argparse.Namespace) -> bool:
    return (
        column.exporter == (options.exporter or "onward")
        and (options.dtypes is None or column.dtype in options.dtypes.split(","))
        and options.opset in (None, column.opset)
        and (column.dynamic or not options.dynamic)
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m conformance", description=__doc__, epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--exporter", help="onward (by default), dynamo or legacy")
    parser.add_argument("--ops", help="only these, by name (with all variants) or name:variant, comma-separated")
    parser.add_argument("--dtypes", help="comma-separated, float32 by default")
    parser.add_argument("--opset", type=int, help="the exporter's own default without it")
    parser.add_argument("--dynamic", action="store_true", help="every axis that can vary does; verified at other sizes")
    parser.add_argument("--samples", type=int, default=4, help="samples per operator and dtype")
    parser.add_argument("--seconds", type=float, default=60, help="time for one operator in one dtype")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; 0 stays in this one")
    parser.add_argument(
        "--json", type=Path, default=Path("out/conformance.json"), help="results; an earlier run goes on"
    )
    parser.add_argument("--again", action="store_true", help="forget an earlier run's results")
    parser.add_argument("--record", action="store_true", help="sweep all that is recorded, and write it down")
    parser.add_argument("--failures", action="store_true", help="list every sample that did not pass")
    return parser.parse_args()


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise SystemExit(f"PyTorch has no dtype {name!r}")
    return dtype


def _key(task: Task) -> str:
    return "/".join(task)


def _resumed(path: Path, options: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    """Earlier results with the same settings and versions, to go on from."""
    about = {**asdict(settings), "samples": options.samples}
    about |= {name: version(name) for name in ("torch", "onnx", "onnxruntime")}
    if path.exists() and not options.again:
        earlier = json.loads(path.read_text(encoding="utf-8"))
        if earlier["settings"] == about:
            return earlier
        raise SystemExit(f"{path} holds a run with other settings: choose another file, or give --again")
    return {"settings": about, "results": {}}


def _save(path: Path, units: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(units, indent=1), encoding="utf-8")
    part.replace(path)


def _progress(number: int, total: int, name: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{number}/{total} {name:60.60}", end="" if number < total else "\n", file=sys.stderr)


def _in_this_process(tasks: list[Task], settings: Settings, count: int) -> None:
    """For looking at one operator: errors are not caught."""
    export, infos = exporter(settings), chosen(None)
    for key, dtype in tasks:
        drawn, passed_over = samples(infos[key], _dtype(dtype), count)
        print(key, dtype, dict(passed_over) or "")
        for sample in drawn:
            print(" ", judge(sample, export), sample.text)


if __name__ == "__main__":
    main()
