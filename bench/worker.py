"""One measurement in a process of its own; `python -m bench` starts these and reads the JSON they leave.

A process per measurement is what makes the figures mean something: each exporter meets a fresh interpreter, caches
that nobody warmed, and a memory high-water mark that is its own.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import re
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .exporters import EXPORTERS
from .files import describe
from .memory import PeakMeter
from .models import MODELS, BenchModel

CHEAP_SECONDS = 15.0  # a second export is measured only below this
EXAMPLE_SEED, FRESH_SEED = 0, 1


def timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def first_line(error: BaseException) -> str:
    """The first line of an error, and of the one it came from: a wrapper often says only that something failed."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    shown = f"{type(error).__name__}: {lines[0] if lines else '(no message)'}"[:240]
    return shown if error.__cause__ is None else f"{shown} <- {first_line(error.__cause__)}"


def weights(model: nn.Module) -> list[torch.Tensor]:
    """Parameters and buffers, tied ones once."""
    tensors = [*model.parameters(), *model.buffers()]
    return list({tensor.data_ptr(): tensor.detach() for tensor in tensors if tensor.numel()}.values())


def weights_bytes(model: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in weights(model))


def measure_floor(spec: BenchModel, directory: Path) -> dict[str, Any]:
    """What no exporter that runs the model and writes its weights can go below."""
    with contextlib.suppress(ImportError):
        importlib.import_module("onward")  # the same imports as the process it is compared with
    model, args = spec.build(), spec.args(spec.sizes, EXAMPLE_SEED)
    _ready_disk(weights_bytes(model), directory)
    meter = PeakMeter()
    meter.start()
    with torch.no_grad():
        forward = timed(lambda: model(*args))
    peak = meter.stop()
    write = timed(lambda: _write_raw(weights(model), directory / "weights.bin"))
    return {
        "forward_seconds": forward,
        "write_seconds": write,
        "seconds": forward + write,
        "forward_peak_bytes": peak,
        "weights_bytes": weights_bytes(model),
    }


def _ready_disk(size: int, directory: Path) -> None:
    """Write and remove as many bytes as are about to come. On a virtual machine the first file of a size may wait a
    second for the host's memory, and whoever happens to come first would pay for it."""
    path, block = directory / "ready.bin", bytes(16 << 20)
    with path.open("wb", buffering=0) as file:
        for _ in range(size // len(block) + 2):
            file.write(block)
    path.unlink()


def _write_raw(tensors: list[torch.Tensor], path: Path) -> None:
    with path.open("wb") as file:
        for tensor in tensors:
            file.write(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)


def measure_export(spec: BenchModel, exporter: str, opset: int | None, directory: Path) -> dict[str, Any]:
    """The first export in this process, its memory, and what the file turned out to be."""
    export = EXPORTERS[exporter](spec, opset)
    model, args = spec.build(), spec.args(spec.sizes, EXAMPLE_SEED)
    path = directory / "model.onnx"
    result: dict[str, Any] = {"weights_bytes": weights_bytes(model)}
    _ready_disk(weights_bytes(model), directory)
    meter = PeakMeter()
    meter.start()
    try:
        result["export_seconds"] = timed(lambda: export(model, args, path))
    except Exception as error:
        return result | {"status": "failed", "error": first_line(error)}
    result |= {"status": "ok", "peak_bytes": meter.stop(), "file": str(path), **describe(path)}
    result["checks"] = _check(spec, model, path)
    if result["export_seconds"] < CHEAP_SECONDS:
        result |= _export_again(lambda path: export(model, args, path), directory / "again")
    return result


def _export_again(export: Callable[[Path], None], directory: Path) -> dict[str, Any]:
    directory.mkdir()
    try:
        return {"warm_seconds": timed(lambda: export(directory / "model.onnx"))}
    except Exception as error:
        return {"warm_error": first_line(error)}
    finally:
        shutil.rmtree(directory)


def _check(spec: BenchModel, model: nn.Module, path: Path) -> dict[str, Any]:
    """Error against eager on inputs the exporter never saw, at the example's sizes and at others."""
    from .runtime import error_against_eager, open_session

    checks: dict[str, Any] = {}
    for where, sizes in (("example_sizes", spec.sizes), ("other_sizes", spec.other_sizes)):
        try:
            checks[where] = error_against_eager(open_session(path), spec, model, sizes, FRESH_SEED)
        except Exception as error:
            checks[where] = {"failure": first_line(error)}
    return checks


def measure_latency(spec: BenchModel, files: dict[str, Path], seconds: float) -> dict[str, Any]:
    """Median run time of each file, all loaded at once and run in turn so that noise falls on all alike."""
    from .runtime import feeds, open_session

    args = spec.args(spec.latency_sizes, FRESH_SEED)
    runs: dict[str, Callable[[], Any]] = {}
    results: dict[str, Any] = {}
    for name, path in files.items():
        try:
            session = open_session(path)
            inputs = feeds(session, spec, args)
            for _ in range(2):
                session.run(None, inputs)
        except Exception as error:
            results[name] = {"failure": first_line(error)}
            continue
        runs[name] = lambda session=session, inputs=inputs: session.run(None, inputs)  # type: ignore[misc]
    times = interleave(runs, seconds)
    return results | {name: summary(values) for name, values in times.items()}


def interleave(runs: dict[str, Callable[[], Any]], seconds: float) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    order = list(runs)
    while order and any(len(values) < 10 or sum(values) < seconds for values in times.values()):
        for name in order:
            times[name].append(timed(runs[name]))
        order = order[1:] + order[:1]  # nobody always runs after the same neighbour
    return times


def summary(values: list[float]) -> dict[str, Any]:
    """`seconds` is the best of five consecutive blocks' medians: one busy moment of the machine does not count."""
    blocks = [values[index * len(values) // 5 : (index + 1) * len(values) // 5] for index in range(5)]
    return {
        "seconds": min(statistics.median(block) for block in blocks),
        "median_seconds": statistics.median(values),
        "runs": len(values),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.worker", description=__doc__)
    parser.add_argument("task", choices=("floor", "export", "latency"))
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("result", type=Path, help="the JSON file to write")
    parser.add_argument("--directory", type=Path, help="where exported files go")
    parser.add_argument("--exporter", choices=EXPORTERS)
    parser.add_argument("--opset", type=int)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--file", action="append", default=[], metavar="EXPORTER=PATH")
    options = parser.parse_args()
    spec = MODELS[options.model]
    if options.task == "floor":
        result = measure_floor(spec, options.directory)
    elif options.task == "export":
        result = measure_export(spec, options.exporter, options.opset, options.directory)
    else:
        files = {name: Path(path) for name, path in (item.split("=", 1) for item in options.file)}
        result = measure_latency(spec, files, options.seconds)
    options.result.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
