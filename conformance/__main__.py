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

from .judge import Settings, exporter, judge
from .operators import chosen, takes
from .pool import Task, sweep
from .report import failures, summary
from .samples import samples

_EXAMPLES = """examples:
  python -m conformance --ops add,nn.functional.conv2d --failures
  python -m conformance --exporter legacy --jobs 2
  python -m conformance --dtypes int64,bool,float16 --opset 13
  python -m conformance --dynamic                 every axis of every input, checked at other sizes
  python -m conformance --ops einsum --jobs 0     in this process, with tracebacks
"""


def main() -> None:
    options = _options()
    dtypes = options.dtypes.split(",")
    settings = Settings(options.exporter, options.opset, options.dynamic)
    infos = chosen(options.ops.split(",") if options.ops else None)
    tasks: list[Task] = [(key, dtype) for dtype in dtypes for key, info in infos.items() if takes(info, _dtype(dtype))]
    if options.jobs == 0:
        _in_this_process(tasks, settings, options.samples)
        return
    exporter(settings)  # refuses settings that do not go together before any process starts
    units = _resumed(options, settings)
    waiting = [task for task in tasks if _key(task) not in units["results"]]
    for number, unit in enumerate(
        sweep(waiting, settings, count=options.samples, jobs=options.jobs, seconds=options.seconds), 1
    ):
        units["results"][_key((unit["op"], unit["dtype"]))] = unit
        _save(options.json, units)
        _progress(number, len(waiting), unit["op"])
    results = [units["results"][_key(task)] for task in tasks]
    if options.failures:
        print(failures(results))
    print(summary(results))
    print(f"written to {options.json}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m conformance", description=__doc__, epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--exporter", default="onward", help="onward, dynamo or legacy")
    parser.add_argument("--ops", help="only these, by name (with all variants) or name:variant, comma-separated")
    parser.add_argument("--dtypes", default="float32", help="comma-separated, float32 by default")
    parser.add_argument("--opset", type=int, help="the exporter's own default without it")
    parser.add_argument("--dynamic", action="store_true", help="every axis that can vary does; verified at other sizes")
    parser.add_argument("--samples", type=int, default=4, help="samples per operator and dtype")
    parser.add_argument("--seconds", type=float, default=60, help="time for one operator in one dtype")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; 0 stays in this one")
    parser.add_argument(
        "--json", type=Path, default=Path("out/conformance.json"), help="results; an earlier run goes on"
    )
    parser.add_argument("--again", action="store_true", help="forget an earlier run's results")
    parser.add_argument("--failures", action="store_true", help="list every sample that did not pass")
    return parser.parse_args()


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise SystemExit(f"PyTorch has no dtype {name!r}")
    return dtype


def _key(task: Task) -> str:
    return "/".join(task)


def _resumed(options: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    """Earlier results with the same settings and versions, to go on from."""
    about = {**asdict(settings), "samples": options.samples}
    about |= {name: version(name) for name in ("torch", "onnx", "onnxruntime")}
    if options.json.exists() and not options.again:
        earlier = json.loads(options.json.read_text(encoding="utf-8"))
        if earlier["settings"] == about:
            return earlier
        raise SystemExit(f"{options.json} holds a run with other settings: choose another file, or give --again")
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
