"""One node on onward.backend and on onnxruntime, which is the judge."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from onward.backend import prepare

Feeds = dict[str, Any]


def info(name: str, value: Any) -> onnx.ValueInfoProto:
    """The declaration of a value: of an array, of a map, or of an element type alone."""
    if isinstance(value, onnx.TypeProto):
        return onnx.ValueInfoProto(name=name, type=value)
    if isinstance(value, int):
        return helper.make_tensor_value_info(name, value, None)
    number = onnx.TensorProto.STRING if value.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, number, value.shape)


def map_type(key: int, value: int) -> onnx.TypeProto:
    inner = onnx.TypeProto.Map(key_type=key, value_type=helper.make_tensor_type_proto(value, []))
    return onnx.TypeProto(map_type=inner)


def one_node(
    node: onnx.NodeProto,
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    versions: dict[str, int],
    ir_version: int = 10,
) -> onnx.ModelProto:
    """A model of one node; `inputs` are arrays or types, `outputs` element types or types."""
    graph = helper.make_graph(
        [node], "g", [info(*each) for each in inputs.items()], [info(*e) for e in outputs.items()]
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)


def judged(model: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1  # with more, DynamicQuantizeLSTM quantises the rows of each thread apart
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def assert_same(model: onnx.ModelProto, feeds: Feeds, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Both give the same: whole numbers and strings exactly, others within the tolerance."""
    got, wanted = prepare(model).run(feeds), judged(model, feeds)
    assert len(got) == len(wanted)
    for ours, theirs in zip(got, wanted, strict=True):
        compare(ours, theirs, rtol, atol)


def compare(ours: Any, theirs: Any, rtol: float, atol: float) -> None:
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            compare(mine, other, rtol, atol)
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()  # onnxruntime sorts them
        np.testing.assert_allclose(list(ours.values()), [theirs[key] for key in ours], rtol, atol)
    elif theirs.dtype.kind == "f":
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(ours, theirs, rtol, atol)
    else:
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype or theirs.dtype.kind in "OU"
        np.testing.assert_array_equal(ours, theirs)
