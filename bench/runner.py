"""Start the measuring processes one after another, survive whatever they do, and gather their results."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from .exporters import PEERS
from .figures import exported, judge
from .models import MODELS

ROOT = Path(__file__).resolve().parent.parent
FORMAT = 1
SLOW_SECONDS = 8.0  # an export that takes longer is measured once: noise is small beside it
PACKAGES = ("onward", "torch", "onnx", "onnx-ir", "onnxruntime", "onnxscript", "torchvision", "transformers", "numpy")
LIBRARIES = ("torch", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "numpy", "onward")


@dataclass(frozen=True)
class Plan:
    """What to measure and how long to take over it."""

    models: tuple[str, ...]
    exporters: tuple[str, ...]
    repeat: int
    opset: int | None
    latency_seconds: float
    timeout: float
    threads: int | None  # of PyTorch while exporting; its own choice if None
    files: Path  # where exported files go while they are needed
    keep_files: bool
    earlier: dict[str, Any] | None = None  # results of another run, whose peers are reused


Say = Callable[[str], None]


def run(plan: Plan, say: Say, save: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Measure everything; `save` gets the results after each model, so an interrupted run keeps what it has."""
    results: dict[str, Any] = {
        "format": FORMAT,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "opset": plan.opset,
        "repeat": plan.repeat,
        "threads": plan.threads,
        "versions": versions(),
        "machine": machine(),
        "models": {},
    }
    say("reading the libraries into the disk cache")
    warm_disk_cache()
    for name in plan.models:
        results["models"][name] = measure_model(name, plan, say)
        save(results)
    if plan.files.is_dir() and not any(plan.files.iterdir()):
        plan.files.rmdir()
    return results


def warm_disk_cache() -> None:
    """Read what the measured processes will load, so that the first of them does not pay for a cold disk."""
    for package in LIBRARIES:
        spec = importlib.util.find_spec(package)
        for location in (spec.submodule_search_locations or ()) if spec else ():
            for pattern in ("*.so*", "*.pyc"):
                for file in Path(location).rglob(pattern):
                    if file.is_file():
                        file.read_bytes()


def measure_model(name: str, plan: Plan, say: Say) -> dict[str, Any]:
    spec = MODELS[name]
    entry: dict[str, Any] = {
        "title": spec.title,
        "dynamic_axes": {input_: list(axes.values()) for input_, axes in spec.dynamic_axes.items()},
        "sizes": dict(spec.sizes),
        "other_sizes": dict(spec.other_sizes),
        "latency_sizes": dict(spec.latency_sizes),
        "exporters": {exporter: record for exporter in plan.exporters if (record := _reuse(name, exporter, plan))},
    }
    fresh = [exporter for exporter in plan.exporters if exporter not in entry["exporters"]]
    attempts: dict[str, list[dict[str, Any]]] = {task: [] for task in ("floor", *fresh)}
    for round_ in range(plan.repeat):
        for task, earlier in attempts.items():
            if any(run.get("export_seconds", 0) > SLOW_SECONDS or run.get("status") == "failed" for run in earlier):
                continue
            say(f"{spec.title}: {task}" + (f", run {round_ + 1} of {plan.repeat}" if plan.repeat > 1 else ""))
            earlier.append(_attempt(name, task, plan))
    entry["floor"] = _middle(attempts.pop("floor"), "seconds")
    for exporter, runs in attempts.items():
        entry["exporters"][exporter] = _middle(runs, "export_seconds")
    entry["exporters"] = {exporter: entry["exporters"][exporter] for exporter in plan.exporters}
    say(f"{spec.title}: onnxruntime latency")
    _measure_latency(name, entry, plan)
    entry["figures"] = [figure.as_json() for figure in judge(entry)]
    if not plan.keep_files:
        for record in entry["exporters"].values():
            if exported(record) and not record.get("reused"):
                record["file"] = None
        shutil.rmtree(plan.files / name, ignore_errors=True)
    return entry


def _attempt(name: str, task: str, plan: Plan) -> dict[str, Any]:
    """One floor or export measurement; a process that dies or hangs is a failed result like any other."""
    directory = plan.files / name / task
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    options = ["--directory", str(directory)]
    if task != "floor":
        options += ["--exporter", task]
        if plan.opset is not None:
            options += ["--opset", str(plan.opset)]
    result = _worker("floor" if task == "floor" else "export", name, options, plan)
    if task == "floor" or result.get("status") != "ok":
        shutil.rmtree(directory, ignore_errors=True)
    return result


def _measure_latency(name: str, entry: dict[str, Any], plan: Plan) -> None:
    files = {exporter: record["file"] for exporter, record in entry["exporters"].items() if record.get("file")}
    if not files:
        return
    options = [f"--seconds={plan.latency_seconds}"]
    options += [f"--file={exporter}={path}" for exporter, path in files.items()]
    timings = _worker("latency", name, options, plan)
    for exporter in files:
        entry["exporters"][exporter]["latency"] = timings.get(exporter, {"failure": timings.get("error", "no result")})


def _worker(task: str, model: str, options: list[str], plan: Plan) -> dict[str, Any]:
    os.sync()  # what an earlier process left to be written must not slow this one down
    with tempfile.TemporaryDirectory() as scratch:
        result, log = Path(scratch, "result.json"), Path(scratch, "log.txt")
        command = [sys.executable, "-m", "bench.worker", task, model, str(result), *options]
        with log.open("wb") as stream:
            try:
                code = subprocess.run(
                    command,
                    cwd=ROOT,
                    env=os.environ | ({} if plan.threads is None else {"OMP_NUM_THREADS": str(plan.threads)}),
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    timeout=plan.timeout,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                return {"status": "failed", "error": f"no result after {plan.timeout:g} s"}
        if code == 0 and result.exists():
            return json.loads(result.read_text())
        lines = log.read_text(errors="replace").strip().splitlines() or ["no output"]
        return {"status": "failed", "error": f"process ended with code {code}: {lines[-1][:300]}"}


def _middle(runs: list[dict[str, Any]], key: str) -> dict[str, Any]:
    """The run with the median time (the lower of the middle two), with all times beside it; or the failure."""
    failed = [run for run in runs if key not in run]
    if failed:
        return failed[0]
    ordered = sorted(runs, key=lambda run: run[key])
    middle = dict(ordered[(len(ordered) - 1) // 2])
    middle[f"{key}_all"] = [run[key] for run in runs]
    for extra in ("warm_seconds", "forward_seconds", "write_seconds"):
        values = [run[extra] for run in runs if run.get(extra) is not None]
        if values:
            middle[extra] = statistics.median_low(values)
    return middle


def _reuse(model: str, exporter: str, plan: Plan) -> dict[str, Any] | None:
    """A peer's result from an earlier run, marked as such; its file too if it is still there."""
    if plan.earlier is None or exporter not in PEERS:
        return None
    record = plan.earlier["models"].get(model, {}).get("exporters", {}).get(exporter)
    if record is None:
        return None
    record = {**record, "reused": True}
    if record.get("file") and not Path(record["file"]).is_file():
        record["file"] = None
    return record


def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    found["commit"] = commit.stdout.strip() or None
    return found


def machine() -> dict[str, Any]:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "system": platform.platform(),
        "processor": names[0].split(":", 1)[1].strip() if names else platform.processor(),
        "cores": os.cpu_count(),
        "load_average_at_start": os.getloadavg()[0],
    }
