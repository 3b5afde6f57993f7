"""onnx's own suite on three runtimes: `python -m tests.backend.compare` prints the share of cases that each passes.

The cases, their inputs and the comparison are those of `test_onnx_suite.py`. Every runtime works in a process of its
own; a case that crashes it or takes more than a minute has failed, and the process is started again behind it.
`--failures` lists what did not pass. No case is left out: what `exclusions.py` names counts as failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx.reference import ReferenceEvaluator

import onward.backend

from .test_onnx_suite import KINDS, cases, compared, data_sets

PATIENCE, START = 60.0, 300.0  # seconds for a case, and more until the first one
Model = onnx.ModelProto | Path


def by_onward(model: Model, inputs: Sequence[Any]) -> Sequence[Any]:
    torch.manual_seed(0)
    return onward.backend.prepare(model).run(inputs)


def by_reference(model: Model, inputs: Sequence[Any]) -> Sequence[Any]:
    evaluator = ReferenceEvaluator(str(model) if isinstance(model, Path) else model)
    return evaluator.run(None, dict(zip(_names(model), inputs, strict=True)))


def by_onnxruntime(model: Model, inputs: Sequence[Any]) -> Sequence[Any]:
    content = str(model) if isinstance(model, Path) else model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    given = [np.asarray(value) if isinstance(value, np.generic) else value for value in inputs]
    feeds = dict(zip(_names(model), given, strict=True))
    if all(not isinstance(value, np.ndarray) or value.dtype.isbuiltin == 1 for value in given):
        return session.run(None, feeds)
    # Types that numpy has not by itself (bfloat16, float8, int4) need a value that says what it is.
    values = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy(value)
        if value.dtype.isbuiltin == 1
        else onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
            value.view(f"u{value.dtype.itemsize}"), onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        )
        for name, value in feeds.items()
    }
    return [value.numpy() for value in session.run_with_ort_values(None, values)]


def _names(model: Model) -> list[str]:
    graph = (onnx.load(model) if isinstance(model, Path) else model).graph
    given = {tensor.name for tensor in graph.initializer}
    return [value.name for value in graph.input if value.name not in given]


RUNTIMES: dict[str, tuple[str, Callable[[Model, Sequence[Any]], Sequence[Any]]]] = {
    "onward": ("onward.backend", by_onward),
    "reference": (f"onnx {onnx.__version__} reference evaluator", by_reference),
    "onnxruntime": (f"onnxruntime {onnxruntime.__version__}", by_onnxruntime),
}


def work(runtime: str, first: int) -> None:
    """In the child: the outcome of each case from a place on, a line each."""
    warnings.simplefilter("ignore")
    run = RUNTIMES[runtime][1]
    for place, name in list(enumerate(cases()))[first:]:
        print(f"\ncase {place} {name}", flush=True)
        try:
            for model, inputs, outputs in data_sets(cases()[name]):
                compared(cases()[name], run(model, inputs), outputs)
            print("\npassed", flush=True)
        except Exception as error:
            print(f"\nfailed {type(error).__name__}: {' '.join(str(error).split())[:150]}", flush=True)
    print("\nend", flush=True)


def outcomes(runtime: str) -> Iterator[tuple[str, str]]:
    """Every case and what happened."""
    first: int | None = 0
    while first is not None:
        command = [sys.executable, "-m", "tests.backend.compare", "--child", runtime, str(first)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        heard = [time.monotonic() + START]
        threading.Thread(target=_watch, args=(process, heard), daemon=True).start()
        current: tuple[int, str] | None = None
        before, first = first, None
        ended = False
        for line in process.stdout or ():
            heard[0] = time.monotonic()
            word, _, rest = line.strip().partition(" ")
            if word == "case":
                place, name = rest.split()
                current = int(place), name
            elif word in ("passed", "failed") and current:
                yield current[1], line.strip()
                current = None
            ended = ended or word == "end"
        process.wait()
        if current:
            yield current[1], f"failed: the process ended with {process.returncode}"
            first = current[0] + 1
        elif not ended:
            raise RuntimeError(f"{runtime} did not start at case {before}: {process.returncode}")


def _watch(process: subprocess.Popen[str], heard: list[float]) -> None:
    while process.poll() is None:
        if time.monotonic() - heard[0] > PATIENCE:
            process.kill()
        time.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runtimes", nargs="*", choices=[*RUNTIMES, []], help="all of them if none is named")
    parser.add_argument("--failures", action="store_true", help="list what did not pass")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return work(options.child[0], int(options.child[1]))
    print(f"onnx {onnx.__version__}: {', '.join(KINDS)}")
    for runtime in options.runtimes or RUNTIMES:
        found = dict(outcomes(runtime))
        passed = sum(each == "passed" for each in found.values())
        print(f"{RUNTIMES[runtime][0]:34} {passed:5} of {len(found)}  {passed / len(found):.2%}", flush=True)
        if options.failures:
            for name, outcome in found.items():
                if outcome != "passed":
                    print(f"    {name}: {outcome}")


if __name__ == "__main__":
    main()
