"""What other tools make of the same trained model: 8 bits after training, ten batches, their own defaults otherwise."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from .measure import session
from .methods import Made, Method, exported
from .tasks import Task

FIXED = 32  # the batch of a file whose batch cannot be dynamic


def by_onnxruntime(model: nn.Module, task: Task, path: Path) -> Made:
    """quantize_static on our float file: there is nothing that evaluates the result in PyTorch."""
    plain = path.with_suffix(".float.onnx")
    exported(model, task.data(), plain)
    quantise_statically(plain, path, task.data().calibration())
    plain.unlink()
    return Made(path, None)


def quantise_statically(plain: Path, path: Path, batches: list[Tensor]) -> None:
    """One file into another, as onnxruntime's documentation says: prepared first, and per channel."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self, name: str, batches: list[Tensor]) -> None:
            self.rows: Iterator[dict[str, np.ndarray]] = iter([{name: batch.numpy()} for batch in batches])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.rows, None)

    prepared = path.with_suffix(".prepared.onnx")
    quant_pre_process(str(plain), str(prepared))
    quantize_static(
        str(prepared),
        str(path),
        Reader(session(plain).get_inputs()[0].name, batches),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    prepared.unlink()


def by_torchao(model: nn.Module, task: Task, path: Path) -> Made:
    """PT2E with the quantizer for x86, through torch.onnx.export(dynamo=True)."""
    from torchao.quantization.pt2e import quantize_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    example = task.data().train[0][:FIXED]
    program = torch.export.export(copy.deepcopy(model), (example,)).module()
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    prepared = quantize_pt2e.prepare_pt2e(program, quantizer)
    for batch in task.data().calibration():
        prepared(batch[:FIXED])
    converted = quantize_pt2e.convert_pt2e(prepared)
    torch.onnx.export(converted, (example,), str(path), dynamo=True, verbose=False, external_data=False)
    return Made(path, converted, FIXED)


def by_brevitas(model: nn.Module, task: Task, path: Path) -> Made:
    """Its quantiser of whole graphs, exported as QDQ through torch.onnx.export(dynamo=False): with dynamo=True it
    refuses quantised biases (0.13)."""
    from brevitas.export import export_onnx_qcdq
    from brevitas.graph.calibrate import calibration_mode
    from brevitas.graph.quantize import preprocess_for_quantize, quantize

    ready = quantize(preprocess_for_quantize(copy.deepcopy(model)))
    with torch.no_grad(), calibration_mode(ready):
        for batch in task.data().calibration():
            ready(batch)
    ready.eval()
    example = task.data().train[0][:FIXED]
    export_onnx_qcdq(ready, args=example, export_path=str(path), opset_version=17, dynamo=False)
    return Made(path, ready, FIXED)


def peers() -> list[Method]:
    """Those that are installed."""
    found = [Method("onnxruntime quantize_static", by_onnxruntime)]
    if importlib.util.find_spec("brevitas"):
        found.append(Method("brevitas PTQ", by_brevitas))
    if importlib.util.find_spec("torchao"):
        found.append(Method("torchao PT2E", by_torchao))
    return found
