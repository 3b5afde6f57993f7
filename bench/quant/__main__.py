"""The command line: `python -m bench.quant`."""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import onnx
import torch
from rich.console import Console
from torch import nn

from .measure import accuracy, agreement, eagerly, graph, has_free_batch, interleaved, run, session, step_of
from .methods import Method, ours, reason
from .networks import NETWORKS, measure_network
from .peers import FIXED, peers
from .report import figures, show
from .speed import STACKS, measure_stack, measure_step
from .tasks import TASKS, Task

FORMAT = "onward bench.quant 1"
COPIES = 4  # sessions of every file at a batch of one
PACKAGES = ("torch", "onnx", "onnxruntime", "scikit-learn", "brevitas", "torchao")


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m bench.quant", description="Quantised models beside float ones.")
    add = result.add_argument
    add("--tasks", nargs="*", choices=tuple(TASKS), default=tuple(TASKS), help="all by default; none: speed alone")
    add("--rows", metavar="TEXT", default="", help="only rows with this in their name, and fp32")
    add("--seconds", type=float, default=1.0, help="of timing for each file (1)")
    add("--json", type=Path, default=Path("out/bench_quant.json"), help="where the results go (out/bench_quant.json)")
    add("--networks", nargs="*", choices=NETWORKS, default=NETWORKS, help="all by default; of torchvision, timed alone")
    add("--no-speed", action="store_true", help="leave out the convolution stacks and the steps of training")
    return result


def main() -> None:
    options = parser().parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # of the peers, by the hundred
    logging.disable(logging.WARNING)
    console = Console()
    if not console.is_terminal:
        console = Console(width=190)
    results: dict[str, Any] = {
        "format": FORMAT,
        "versions": {name: _version(name) for name in PACKAGES},
        "load_average_at_start": os.getloadavg()[0],
        "tasks": {},
        "networks": [],
        "stacks": [],
        "steps": [],
    }
    with tempfile.TemporaryDirectory() as place, console.status("starting") as status:
        folder = Path(place)

        def say(text: str) -> None:
            status.update(text)
            if not console.is_terminal:
                console.print(text, markup=False)

        for name in options.tasks:
            results["tasks"][name] = measure_task(TASKS[name], folder, options.rows, options.seconds, say)
        for name in options.networks:
            say(name)
            results["networks"].append(measure_network(name, folder, options.seconds))
        if not options.no_speed:
            say("convolution stacks")
            results["stacks"] = [measure_stack(channels, folder, options.seconds) for channels in STACKS]
            for name in options.tasks or TASKS:
                say(f"{name}: a step of training")
                results["steps"].append(measure_step(name, options.seconds))
    results["figures"] = [figure.as_json() for figure in figures(results)]
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(results, indent=1) + "\n")
    show(results, console)
    console.print(f"written to {options.json}", markup=False)


def measure_task(task: Task, folder: Path, rows: str, seconds: float, say: Callable[[str], None]) -> dict[str, Any]:
    """Train the float model once, then make and measure every row from it."""
    say(f"{task.name}: training the float model")
    model = task.trained()
    methods = [each for each in (*ours(), *peers()) if each.name.startswith("fp32") or rows in each.name]
    found, timed = [], {}
    for number, method in enumerate(methods):
        say(f"{task.name}: {method.name}")
        path = folder / f"{task.name}{number}.onnx"
        row = {"name": method.name, "ours": method.ours, "bits": method.bits, "trained": method.trained}
        try:
            row |= measure_row(method, model, task, path)
        except Exception as error:  # a tool that fails is a result, told in the table
            row["error"] = reason(error)
        else:
            timed[path] = row
        found.append(row)
    say(f"{task.name}: timing")
    times = interleaved(list(timed), task.data().test[0][:FIXED], seconds)
    for row, taken in zip(timed.values(), times, strict=True):
        row["ms"] = taken
    free = [path for path in timed if has_free_batch(path)]
    for path, taken in zip(free, interleaved(free, task.data().test[0][:1], seconds / 2, COPIES), strict=True):
        timed[path]["ms_of_one"] = taken
    about = {"name": task.name, "title": task.title, "exact": task.exact, "batch": FIXED}
    return {**about, "test": len(task.data().test[0]), "rows": found}


def measure_row(method: Method, model: nn.Module, task: Task, path: Path) -> dict[str, Any]:
    inputs, labels = task.data().test
    start = time.perf_counter()
    made = method.make(model, task, path)
    seconds = time.perf_counter() - start
    onnx.checker.check_model(str(path), full_check=True)
    if made.batch is not None:  # whole batches only
        inputs, labels = (each[: len(inputs) // made.batch * made.batch] for each in (inputs, labels))
    outputs = run(session(path), inputs)
    row = {
        "accuracy": accuracy(outputs, labels),
        "seconds": seconds,
        "bytes": path.stat().st_size,
        "left_in_float": graph(path).left_in_float,
        "on_grid": step_of(outputs) != 1.0,
    }
    if made.eager is not None:
        wanted = eagerly(made.eager, inputs, made.batch)
        row |= {"accuracy_eager": accuracy(wanted, labels), **asdict(agreement(outputs, wanted))}
    return row


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
