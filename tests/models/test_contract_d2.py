"""Contract row D2: every model of the documents, with its natural dynamic axes, at old and new opsets.

Each case is checked by `onnx.checker` and compared with eager here, at sizes the export never saw. The oldest and the
newest opset are exported with verification on, and what `verify=True` claims is not taken on trust.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import onward
from onward.verify.runtime import supported_opset

from .zoo import ZOO, Entry, Sizes

OPSETS = ("9", "11", "13", "17", "newest")

# Largest difference allowed, as a fraction of the output's largest magnitude: about 800 units in the last place of
# float32, which fifty layers summed in another order stay well below.
TOLERANCE = 1e-4


@functools.lru_cache(maxsize=1)
def built(name: str) -> nn.Module:
    """The model is the same at every opset; the cases are ordered so that one at a time is enough."""
    return ZOO[name].build()


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("name", "opset"),
    [pytest.param(name, opset, id=f"{name}-opset_{opset}") for name in ZOO for opset in OPSETS],
)
def test_model_exports_and_agrees_with_eager(name: str, opset: str, tmp_path: Path) -> None:
    entry, model = ZOO[name], built(name)
    version = supported_opset() if opset == "newest" else int(opset)
    path = tmp_path / "model.onnx"

    onward.export(
        model,
        entry.args(),
        path,
        input_names=list(entry.input_names),
        dynamic_axes={name: dict(axes) for name, axes in entry.dynamic_axes.items()},
        opset_version=version,
        verify=opset in (OPSETS[0], OPSETS[-1]),
    )

    onnx.checker.check_model(str(path), full_check=True)
    proto = onnx.load(str(path))
    assert {item.domain: item.version for item in proto.opset_import}[""] == version
    assert_declared_axes(proto, entry)
    session = open_session(path)
    for sizes in ({}, *entry.other_sizes, entry.minimum):
        assert_agrees(session, model, entry, sizes)


def open_session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def assert_declared_axes(proto: onnx.ModelProto, entry: Entry) -> None:
    """Exactly the axes that were asked for are symbolic, under the names that were asked for."""
    assert tuple(value.name for value in proto.graph.input) == entry.input_names
    for value, example in zip(proto.graph.input, pytree.tree_leaves(entry.args()), strict=True):
        expected = list(example.shape)
        for axis, axis_name in entry.dynamic_axes.get(value.name, {}).items():
            expected[axis] = axis_name
        declared = [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        assert declared == expected, f"input {value.name} of {entry.name}"


def assert_agrees(session: onnxruntime.InferenceSession, model: nn.Module, entry: Entry, sizes: Sizes) -> None:
    args = entry.args(seed=1, **sizes)
    with torch.no_grad():
        expected = [tensor.numpy() for tensor in pytree.tree_leaves(model(*args))]
    feeds = {name: tensor.numpy() for name, tensor in zip(entry.input_names, pytree.tree_leaves(args), strict=True)}
    actual = session.run(None, feeds)
    assert len(actual) == len(expected)
    for index, (got, want) in enumerate(zip(actual, expected, strict=True)):
        where = f"output {index} of {entry.name} at {dict(sizes) or 'the example size'}"
        assert (got.shape, got.dtype) == (want.shape, want.dtype), where
        assert np.isfinite(got).all(), where
        assert np.abs(got - want).max() <= TOLERANCE * np.abs(want).max(), where
