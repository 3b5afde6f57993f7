"""Sparse initializers and attributes: read densely, and checked before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper

import onward
import onward.backend
from onward.backend import BackendError, prepare
from onward.files import load

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def sparse(values: list[Any], indices: Any, dims: list[int], kind: int = T.FLOAT) -> onnx.SparseTensorProto:
    places = np.asarray(indices, dtype=np.int64)
    return helper.make_sparse_tensor(
        helper.make_tensor("w", kind, [len(values)], values),
        helper.make_tensor("", T.INT64, places.shape, places.ravel()),
        dims,
    )


def model(tensor: onnx.SparseTensorProto, how: str = "initializer") -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info("y", T.FLOAT, None)]
    starts = [helper.make_tensor_value_info("x", T.FLOAT, [2, 3])]
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    initializers = [tensor]
    if how == "attribute":
        nodes.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=tensor))
        initializers = []
    elif how == "body":
        inner = helper.make_graph(nodes, "body", [], ends, sparse_initializer=initializers)
        condition = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("", T.BOOL, [], [True]))
        nodes = [condition, helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner)]
        ends, initializers = [helper.make_tensor_value_info("z", T.FLOAT, None)], []
    graph = helper.make_graph(nodes, "g", starts, ends, sparse_initializer=initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("how", ("initializer", "attribute", "body"))
@pytest.mark.parametrize("indices", ([1, 5], [[0, 1], [1, 2]]))
def test_they_are_read(how: str, indices: Any) -> None:
    made = model(sparse([10.0, 20.0], indices, [2, 3]), how)
    before = made.SerializeToString()
    (y,) = prepare(made).run(X)
    np.testing.assert_array_equal(y, X + np.array([[0, 10, 0], [0, 0, 20]], dtype=np.float32))
    assert made.SerializeToString() == before, "the caller's model is not changed"


def test_a_sparse_initializer_learns() -> None:
    module = prepare(model(sparse([10.0], [1], [2, 3]))).module
    assert {name: list(each.shape) for name, each in module.named_parameters()} == {"w": [2, 3]}


def test_values_in_a_data_file(tmp_path: Path) -> None:
    made = model(sparse([10.0, 20.0], [1, 5], [2, 3]))
    tensor = made.graph.sparse_initializer[0].values
    (tmp_path / "w.bin").write_bytes(np.array([10, 20], np.float32).tobytes())
    tensor.ClearField("float_data")
    tensor.data_location = T.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    onnx.save(made, tmp_path / "m.onnx")
    (y,) = prepare(tmp_path / "m.onnx").run(X)
    assert y[1, 2] == X[1, 2] + 20


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (sparse([1.0], [6], [2, 3]), "of shape [2, 3] has an index that is out of range"),
        (sparse([1.0], [-1], [2, 3]), "of shape [2, 3] has an index that is out of range"),
        (sparse([1.0], [[0, 3]], [2, 3]), "of shape [2, 3] has an index that is out of range"),
        (sparse([1.0, 2.0], [5, 1], [2, 3]), "has indices that are not in ascending order, or two that are the same"),
        (sparse([1.0, 2.0], [1, 1], [2, 3]), "has indices that are not in ascending order, or two that are the same"),
        (sparse([1.0, 2.0], [[1, 0], [0, 2]], [2, 3]), "has indices that are not in ascending order"),
        (sparse([1.0], [[0]], [2, 3]), "for n values of 2 axes they are [n], and [n] or [n, 2]"),
        (sparse([1.0], [0, 1], [2, 3]), "has values of shape [1] and indices of shape [2]"),
        (sparse([1.0], [1], [-2, 3]), "has a negative size: [-2, 3]"),
        (sparse([1.0], [1], [2**40, 2**40]), f"of shape [{2**40}, {2**40}] would have {2**80} elements"),
    ],
)
@pytest.mark.parametrize("how", ("initializer", "attribute"))
def test_wrong_ones_are_refused(tensor: onnx.SparseTensorProto, text: str, how: str) -> None:
    with pytest.raises(BackendError) as caught:
        prepare(model(tensor, how))
    assert text in str(caught.value)
    start = "the sparse initializer 'w'" if how == "initializer" else "the attribute sparse_value of node ''"
    assert str(caught.value).startswith(start)


def test_the_size_of_all_of_them_is_limited() -> None:
    with pytest.raises(BackendError, match="would have 6 elements, more than 5"):
        prepare(model(sparse([1.0], [1], [2, 3])), limits=onward.backend.Limits(max_elements=5))
    made = model(sparse([1.0], [1], [2**14, 2**13]))
    others = [sparse([1.0], [1], [2**14, 2**13]) for _ in range(3)]
    for place, each in enumerate(others):
        each.values.name = f"w{place}"
    made.graph.sparse_initializer.extend(others)
    with pytest.raises(BackendError, match="with the sparse initializer 'w1', the model's sparse tensors would have"):
        prepare(made)


def test_nobody_drops_them_without_a_word() -> None:
    with pytest.raises(onward.InputError, match="the ModelProto has sparse initializers, which cannot be kept"):
        load(model(sparse([1.0], [1], [2, 3])))
