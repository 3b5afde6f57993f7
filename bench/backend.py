"""`python -m bench.backend`: a model run by `onward.backend` beside the PyTorch module that it was exported from.

Both are in one process and take turns, so that noise falls on both alike; what counts is their ratio.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.utils import _pytree as pytree

import onward
import onward.backend

from .figures import CORRECT, Figure, at_most
from .models import MODELS, BenchModel
from .runner import FORMAT, machine, versions
from .worker import EXAMPLE_SEED, FRESH_SEED, interleave, summary

DEFAULT = ("resnet50", "bert_base", "bilstm")
MOST_TIMES_EAGER = 1.3


def measure(spec: BenchModel, seconds: float) -> dict[str, Any]:
    """Eager, the backend's module, and `rep.run`, which also checks sizes and memory; without gradients."""
    model = spec.build()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.onnx")
        axes = {name: dict(each) for name, each in spec.dynamic_axes.items()}
        example = spec.args(spec.sizes, EXAMPLE_SEED)
        onward.export(model, example, file, input_names=list(spec.input_names), dynamic_axes=axes, verify=False)
        rep = onward.backend.prepare(file)
    args = spec.args(spec.latency_sizes, FRESH_SEED)
    leaves = pytree.tree_leaves(args)
    runs: dict[str, Callable[[], Any]] = {
        "eager": lambda: model(*args),
        "module": lambda: rep.module(*leaves),
        "run": lambda: rep.run(leaves),
    }
    with torch.no_grad():
        error = _relative_error(runs["module"](), runs["eager"]())
        for call in runs.values():
            call()
        times = {name: summary(values) for name, values in interleave(runs, seconds).items()}
    figures = judge({name: each["seconds"] for name, each in times.items()}, error)
    return {"title": spec.title, "sizes": dict(spec.latency_sizes), "times": times} | {
        "figures": [figure.as_json() for figure in figures]
    }


def judge(seconds: Mapping[str, float], error: float) -> list[Figure]:
    return [
        at_most("module over eager", seconds["module"] / seconds["eager"], MOST_TIMES_EAGER),
        at_most("run over eager", seconds["run"] / seconds["eager"], MOST_TIMES_EAGER),
        at_most("relative error", error, CORRECT, ""),
    ]


def _relative_error(got: Any, want: Any) -> float:
    """The largest difference over all outputs, as a fraction of that output's largest magnitude."""
    pairs = zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True)
    return max(_difference(a, b) for a, b in pairs)


def _difference(got: Tensor, want: Tensor) -> float:
    if got.shape != want.shape:
        raise ValueError(f"the backend gives {list(got.shape)}, eager {list(want.shape)}")
    return float((got - want).abs().max() / want.abs().max())


def table(models: Mapping[str, dict[str, Any]]) -> Table:
    result = Table(title="onward.backend beside eager", title_justify="left", title_style="bold")
    for column in ("model", "eager, ms", "module, ms", "run, ms", "module", "run", "relative error"):
        result.add_column(column, justify="left" if column == "model" else "right")
    for entry in models.values():
        times = [f"{each['seconds'] * 1000:.1f}" for each in entry["times"].values()]
        cells = []
        for record in entry["figures"]:
            figure = Figure(**record)
            text = f"{figure.value:.2f}{figure.unit}" if figure.unit else f"{figure.value:.0e}"
            cells.append(f"[{'green' if figure.reached else 'red'}]{text}[/]")
        result.add_row(entry["title"], *times, *cells)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.backend", description=__doc__)
    parser.add_argument("models", nargs="*", default=DEFAULT, help=f"{', '.join(DEFAULT)} by default")
    parser.add_argument("--json", type=Path, default=Path("out/backend.json"), help="where the results go")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each at least (5)")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch (1)")
    options = parser.parse_args()
    unknown = [name for name in options.models if name not in MODELS]
    if unknown:
        parser.error(f"unknown model {', '.join(unknown)}; known: {', '.join(MODELS)}")
    torch.set_num_threads(options.threads)
    results: dict[str, Any] = {
        "format": FORMAT,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "threads": options.threads,
        "versions": versions(),
        "machine": machine(),
        "models": {},
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    for name in options.models:
        results["models"][name] = measure(MODELS[name], options.seconds)
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    console = Console()
    console = console if console.is_terminal else Console(width=120)
    console.print(table(results["models"]))
    console.print(f"written to {options.json}", markup=False)


if __name__ == "__main__":
    main()
