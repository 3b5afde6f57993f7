"""Files judged from outside: `onnx.checker` and onnxruntime itself, without any of the code under test."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch


def open_session(file: Path | bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    source = file if isinstance(file, bytes) else os.fspath(file)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def load(file: Path) -> onnx.ModelProto:
    """The file as protobuf, after the checker has seen it."""
    onnx.checker.check_model(os.fspath(file), full_check=True)
    return onnx.load(file)


def run(file: Path | bytes, inputs: Sequence[torch.Tensor] | Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The outputs for these inputs, given by position or by name."""
    session = open_session(file)
    names = [node.name for node in session.get_inputs()]
    if not isinstance(inputs, Mapping):
        assert len(names) == len(inputs), f"the file has the inputs {names}, and {len(inputs)} tensors are given"
        inputs = dict(zip(names, inputs, strict=True))
    outputs = session.run(None, {name: tensor.detach().numpy() for name, tensor in inputs.items()})
    return [torch.from_numpy(output) for output in outputs]


def shapes(values: Any) -> dict[str, tuple[int | str, ...]]:
    """Declared inputs or outputs: {"x": ("batch", 3)}."""
    return {
        value.name: tuple(dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in values
    }


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of a nested value in order, written apart from the code under test."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for child in value.values():
            yield from tensors_in(child)
    elif isinstance(value, (tuple, list)):
        for child in value:
            yield from tensors_in(child)
    elif hasattr(value, "__dict__"):
        yield from tensors_in(vars(value))


def assert_same(actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
    assert len(actual) == len(expected)
    for got, wanted in zip(actual, expected, strict=True):
        torch.testing.assert_close(got, wanted.detach(), rtol=1e-5, atol=1e-5)
