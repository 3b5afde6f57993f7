"""What is measured of a file: accuracy, agreement with evaluation in PyTorch, time, size, what is left in float."""

from __future__ import annotations

import functools
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from torch import Tensor

PRODUCTS = (
    *("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU", "RNN"),
    *("FusedConv", "FusedGemm", "FusedMatMul", "Attention", "MultiHeadAttention"),
)


def session(path: Path, optimised: Path | None = None) -> onnxruntime.InferenceSession:
    """One thread, otherwise as it comes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if optimised is not None:
        options.optimized_model_filepath = str(optimised)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(opened: onnxruntime.InferenceSession, inputs: Tensor) -> np.ndarray:
    """The model's only output. A file whose batch is fixed gets that many rows at a time."""
    given = opened.get_inputs()[0]
    array = inputs.numpy()
    size = given.shape[0] if given.shape and isinstance(given.shape[0], int) else len(array)
    parts = [opened.run(None, {given.name: part})[0] for part in np.split(array, range(size, len(array), size))]
    result: np.ndarray = np.concatenate(parts)
    return result


@dataclass(frozen=True)
class Agreement:
    """equal     share of the output elements that are the same in onnxruntime and in PyTorch
    near      share of those that are at most a step of the output's grid apart
    worst     the largest difference, in steps (as it is, where the output lies on no grid)
    """

    equal: float
    near: float
    worst: float


def agreement(ours: np.ndarray, theirs: np.ndarray) -> Agreement:
    """The step is the smallest difference between two values of the output, so that no tool has to tell its own."""
    difference = np.abs(ours.astype(np.float64) - theirs)
    steps = difference / step_of(ours)
    return Agreement(float(np.mean(ours == theirs)), float(np.mean(steps <= 1.01)), float(steps.max()))


def step_of(values: np.ndarray) -> float:
    """The width of the grid, or 1 where there are too many values for 8 bits."""
    unique = np.unique(values)
    return float(np.diff(unique).min()) if 1 < len(unique) <= 256 else 1.0


def accuracy(outputs: np.ndarray, labels: Tensor) -> float:
    """In percent."""
    return 100 * float(np.mean(outputs.argmax(-1) == labels.numpy()))


@dataclass(frozen=True)
class Graph:
    """What onnxruntime makes of a file."""

    left_in_float: dict[str, int]
    nodes: int

    @property
    def products(self) -> int:
        return sum(self.left_in_float.values())


def graph(path: Path) -> Graph:
    optimised = path.with_suffix(".optimised.onnx")
    session(path, optimised)
    found = Counter(node.op_type for node in onnx.load(optimised).graph.node)
    optimised.unlink()
    return Graph({name: found[name] for name in PRODUCTS if found[name]}, sum(found.values()))


def has_free_batch(path: Path) -> bool:
    """Whether a file takes batches of any size."""
    size = session(path).get_inputs()[0].shape[0]
    return not isinstance(size, int)


def interleaved(paths: Sequence[Path], inputs: Tensor, seconds: float = 1.0, copies: int = 1) -> list[float]:
    """Milliseconds per run of every file, taken in turn. Of several `copies` the fastest counts: where its weights come
    to lie in memory makes a session of some microseconds a tenth slower or faster."""
    runs = []
    for each in [session(path) for path in paths for _ in range(copies)]:
        given = each.get_inputs()[0]
        size = given.shape[0] if isinstance(given.shape[0], int) else len(inputs)
        runs.append(functools.partial(each.run, None, {given.name: inputs[:size].numpy()}))
    taken = in_turn(runs, seconds)
    return [min(taken[first : first + copies]) for first in range(0, len(taken), copies)]


def in_turn(runs: Sequence[Callable[[], Any]], seconds: float) -> list[float]:
    """Milliseconds of processor time that each takes, the best median among five stretches: everything here has one
    thread, and on a machine that others use too the clock on the wall measures them. What is very short is run several
    times between two looks at the clock."""
    medians: list[list[float]] = [[] for _ in runs]
    times_over = [_times_over(each) for each in runs]
    order = random.Random(0)
    for _ in range(5):
        times: list[list[float]] = [[] for _ in runs]
        end = time.perf_counter() + seconds * len(runs) / 5
        while time.perf_counter() < end or len(times[-1]) < 5:
            for place in order.sample(range(len(runs)), len(runs)):  # nobody is always behind the same other
                each, count = runs[place], times_over[place]
                if count > 1:
                    each()  # finds its data in the caches, as in a program that runs nothing else
                start = time.process_time()
                for _ in range(count):
                    each()
                times[place].append(1000 * (time.process_time() - start) / count)
        for kept, taken in zip(medians, times, strict=True):
            kept.append(statistics.median(taken))
    return [min(each) for each in medians]


def _times_over(run: Callable[[], Any], least: float = 2e-4) -> int:
    """How often something has to run to take so many seconds."""
    run()  # what is done once is not counted
    start = time.process_time()
    run()
    return max(1, min(100, int(least / max(time.process_time() - start, 1e-6))))


@torch.no_grad()
def eagerly(model: Any, inputs: Tensor, size: int | None = None) -> np.ndarray:
    """Evaluation in PyTorch, in parts where the model has a fixed batch."""
    parts = inputs.split(size or len(inputs))
    result: np.ndarray = torch.cat([model(part) for part in parts]).detach().numpy()
    return result
