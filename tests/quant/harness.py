"""A quantized model through everything: calibration, evaluation, export, the checker, and onnxruntime's integers.

What is compared are integers: the outputs lie on grids, and a difference is counted in steps of these.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import onward
from onward.quant import QuantConfig, calibration, initialise, native
from onward.quant.run.session import QuantSession


@dataclass(frozen=True)
class Outcome:
    """equal: the share of output elements that are the same; worst: the largest difference in float
    close: the share of those within one step of the output's grid; steps: the largest difference in steps"""

    equal: float
    worst: float
    close: float
    steps: float
    nodes: Counter[str]  # as exported
    fused: Counter[str]  # as onnxruntime runs it
    path: Path


def quantized(model: nn.Module, example: Callable[[], Any], config: QuantConfig | None = None, batches: int = 3) -> Any:
    """The model with ranges from a few batches."""
    initialise(model, config)
    with calibration(model):
        for _ in range(batches):
            model(*as_args(example()))
    return model.eval()


def as_args(example: Any) -> tuple[Any, ...]:
    return example if isinstance(example, tuple) else (example,)


def through_onnxruntime(
    model: nn.Module, args: Any, folder: Path, *, fresh: Any = None, opset: int = 21, **options: Any
) -> Outcome:
    """Export an initialised model, and compare onnxruntime with its evaluation on fresh arguments."""
    path = folder / "model.onnx"
    args = as_args(args)
    onward.export(model, args, path, opset_version=opset, **options)
    onnx.checker.check_model(str(path), full_check=True)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 3
    settings.optimized_model_filepath = str(folder / "optimised.onnx")
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    given = args if fresh is None else as_args(fresh)
    names = [each.name for each in session.get_inputs()]
    results = session.run(None, {name: each.numpy() for name, each in zip(names, given, strict=True)})
    with torch.no_grad(), mock.patch.object(QuantSession, "forget"):  # so that outputs know their grids still
        wanted = model(*given)
    wanted = [wanted] if isinstance(wanted, torch.Tensor) else list(wanted)
    pairs = [(one, other.numpy()) for one, other in zip(results, wanted, strict=True)]
    total = sum(one.size for one, _ in pairs)
    equal = sum(int(numpy.sum(one == other)) for one, other in pairs) / total
    apart = numpy.concatenate(
        [numpy.abs(one - other).ravel() / _step(each) for (one, other), each in zip(pairs, wanted, strict=True)]
    )
    worst = max(float(numpy.max(numpy.abs(one - other))) for one, other in pairs)
    ops = [Counter(each.op_type for each in onnx.load(file).graph.node) for file in (path, folder / "optimised.onnx")]
    return Outcome(equal, worst, float(numpy.mean(apart < 1.01)), float(apart.max()), ops[0], ops[1], path)


def _step(x: torch.Tensor) -> float:
    """The step of the grid that an output lies on. One that lies on none has to be equal up to float32's rounding."""
    tag = getattr(x, "_onward_tag", None)
    grid = getattr(getattr(tag, "state", None), "grid", None)
    return 1e-6 * float(x.abs().max()) if grid is None else float(grid.scale)


IN_FLOAT = ("Conv", "ConvTranspose", "Gemm", "MatMul", "FusedConv", "FusedGemm", "FusedMatMul")


def left_in_float(outcome: Outcome) -> dict[str, int]:
    """The products that onnxruntime would compute in float."""
    return {op: outcome.fused[op] for op in IN_FLOAT if outcome.fused[op]}


def products_of_activations(outcome: Outcome) -> int:
    """Those that run in integers, to integers or, before a softmax, to floats."""
    return outcome.fused["QLinearMatMul"] + outcome.fused["MatMulIntegerToFloat"]


def check_compiled() -> None:
    """For tests of the loops of _native.c, which an installation compiles if it can."""
    if native.is_compiled():
        return
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler here: the loops of _native.c were not compiled")
    pytest.fail("the loops of _native.c were not compiled, or from an older source: `pip install -e . -v` says why")
