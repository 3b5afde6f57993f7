"""onnxruntime sessions for measuring: one thread, otherwise as it comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import nn
from torch.utils import _pytree as pytree

from .models import BenchModel, Sizes


def open_session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def feeds(session: onnxruntime.InferenceSession, spec: BenchModel, args: tuple[Any, ...]) -> dict[str, np.ndarray]:
    """Inputs by name; an exporter may drop an input that the model does not use."""
    arrays = dict(zip(spec.input_names, (leaf.numpy() for leaf in pytree.tree_leaves(args)), strict=True))
    return {value.name: arrays[value.name] for value in session.get_inputs()}


def error_against_eager(
    session: onnxruntime.InferenceSession, spec: BenchModel, model: nn.Module, sizes: Sizes, seed: int
) -> dict[str, float]:
    """The largest difference over all outputs, absolute and as a fraction of that output's largest magnitude."""
    args = spec.args(sizes, seed)
    with torch.no_grad():
        expected = [leaf.numpy() for leaf in pytree.tree_leaves(model(*args))]
    actual = session.run(None, feeds(session, spec, args))
    if [array.shape for array in actual] != [array.shape for array in expected]:
        raise ValueError(f"output shapes {[a.shape for a in actual]}, eager {[e.shape for e in expected]}")
    differences = [(float(np.abs(a - e).max()), float(np.abs(e).max())) for a, e in zip(actual, expected, strict=True)]
    return {
        "absolute": max(difference for difference, _ in differences),
        "relative": max(difference / magnitude for difference, magnitude in differences),
    }
