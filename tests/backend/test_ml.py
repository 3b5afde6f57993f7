"""ai.onnx.ml: onnxruntime is the judge."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper

from onward.backend import BackendError, prepare

from .judge import assert_same, map_type, one_node

F, I64, S = T.FLOAT, T.INT64, T.STRING
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")


def numbers(*shape: int, seed: int = 0, size: float = 1.0) -> list[float]:
    return [float(v) for v in (size * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32).ravel()]


X = np.array(numbers(7, 4), dtype=np.float32).reshape(7, 4)
WHOLE = np.array([[1, 2, 3, 1], [4, 0, -1, 2]], dtype=np.int64)
WORDS = np.array([["a", "bee"], ["c", ""]], dtype=object)
SCORES = {"y": I64, "z": F}


def model(op_type: str, inputs: dict[str, Any], outputs: dict[str, Any], version: int, **attributes: Any) -> Any:
    node = helper.make_node(op_type, list(inputs), list(outputs), domain="ai.onnx.ml", **attributes)
    return one_node(node, inputs, outputs, {"": 20, "ai.onnx.ml": version}, ir_version=9)


# operator, input, element types of the outputs, attributes
FEATURES: list[tuple[str, Any, dict[str, Any], dict[str, Any]]] = [
    ("Binarizer", X, {"y": F}, {"threshold": 0.3}),
    ("Normalizer", X, {"y": F}, {"norm": "MAX"}),
    ("Normalizer", X, {"y": F}, {"norm": "L1"}),
    ("Normalizer", X, {"y": F}, {"norm": "L2"}),
    ("Normalizer", -np.abs(X), {"y": F}, {"norm": "MAX"}),
    ("Normalizer", WHOLE, {"y": F}, {"norm": "L2"}),
    ("Scaler", X, {"y": F}, {"offset": numbers(4), "scale": numbers(4, seed=1)}),
    ("Scaler", WHOLE, {"y": F}, {"offset": [0.5], "scale": [2.0]}),
    ("Imputer", X, {"y": F}, {"imputed_value_floats": [9.0], "replaced_value_float": float(X[0, 0])}),
    ("Imputer", np.where(X > 1, np.nan, X), {"y": F},
     {"imputed_value_floats": numbers(4), "replaced_value_float": float("nan")}),
    ("Imputer", WHOLE, {"y": I64}, {"imputed_value_int64s": [7, 8, 9, 10], "replaced_value_int64": 1}),
    ("OneHotEncoder", WHOLE, {"y": F}, {"cats_int64s": [1, 2, 3]}),
    ("OneHotEncoder", WORDS, {"y": F}, {"cats_strings": ["c", "a", "bee", ""], "zeros": 0}),
    ("LabelEncoder", WORDS, {"y": I64}, {"keys_strings": ["a", "c"], "values_int64s": [5, 6], "default_int64": 9}),
    ("LabelEncoder", WHOLE, {"y": S}, {"keys_int64s": [1, 2], "values_strings": ["one", "two"], "default_string": "?"}),
    ("LabelEncoder", np.array([1.5, np.nan, 2], np.float32), {"y": F},
     {"keys_floats": [1.5, float("nan")], "values_floats": [3.0, 4.0], "default_float": -1.0}),
    ("CategoryMapper", WORDS, {"y": I64}, {"cats_strings": ["a", "c"], "cats_int64s": [1, 2], "default_int64": -3}),
    ("CategoryMapper", WHOLE, {"y": S}, {"cats_strings": ["a", "c"], "cats_int64s": [1, 2], "default_string": "?"}),
    ("ZipMap", X, {"y": helper.make_sequence_type_proto(map_type(I64, F))}, {"classlabels_int64s": [3, 1, 2, 9]}),
    ("ZipMap", X, {"y": helper.make_sequence_type_proto(map_type(S, F))}, {"classlabels_strings": list("abcd")}),
    ("LinearRegressor", X, {"y": F}, {"coefficients": numbers(3, 4), "intercepts": numbers(3), "targets": 3}),
    ("LinearRegressor", X, {"y": F}, {"coefficients": numbers(4), "post_transform": "LOGISTIC"}),
    ("SVMRegressor", X, {"y": F}, {"coefficients": numbers(4), "rho": [0.5], "kernel_params": [0.0, 0.0, 0.0]}),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "x", "outputs", "attributes"), FEATURES, ids=[row[0] for row in FEATURES])
def test_features(op_type: str, x: Any, outputs: dict[str, Any], attributes: dict[str, Any]) -> None:
    assert_same(model(op_type, {"x": x}, outputs, 4 if op_type == "LabelEncoder" else 1, **attributes), {"x": x})


@pytest.mark.parametrize(
    ("op_type", "kind", "value", "output", "attributes"),
    [
        ("DictVectorizer", (S, F), {"a": 1.5, "z": 2.0}, F, {"string_vocabulary": ["z", "q", "a"]}),
        ("DictVectorizer", (I64, F), {3: 1.5, 1: 2.0}, F, {"int64_vocabulary": [1, 2, 3]}),
        ("CastMap", (I64, F), {3: 1.5, 1: 2.0}, F, {"cast_to": "TO_FLOAT"}),
        ("CastMap", (I64, F), {3: 1.5, 1: 2.0}, I64, {"cast_to": "TO_INT64", "map_form": "SPARSE", "max_map": 5}),
        ("CastMap", (I64, F), {3: 1.5, 1: 2.0}, S, {"cast_to": "TO_STRING"}),
    ],
)
def test_maps(op_type: str, kind: Any, value: Any, output: int, attributes: dict[str, Any]) -> None:
    assert_same(model(op_type, {"x": map_type(*kind)}, {"y": output}, 1, **attributes), {"x": value})


@pytest.mark.parametrize(
    ("op_type", "kind", "value", "attributes", "wanted"),
    [
        ("DictVectorizer", (S, I64), {"a": 1, "z": 2}, {"string_vocabulary": ["z", "q", "a"]}, [[2, 0, 1]]),
        ("DictVectorizer", (I64, S), {3: "x", 1: "y"}, {"int64_vocabulary": [1, 2, 3]}, [["y", "", "x"]]),
        ("CastMap", (I64, S), {3: "1.5", 1: "2"}, {"cast_to": "TO_FLOAT"}, [[2.0, 1.5]]),
        ("CastMap", (I64, S), {2: "1.5", 1: "2"}, {"map_form": "SPARSE", "max_map": 4}, [[0, 2.0, 1.5, 0]]),
        ("CastMap", (I64, S), {3: "1.5", 1: "2"}, {"cast_to": "TO_STRING"}, [["2", "1.5"]]),
    ],
)
def test_maps_that_onnxruntime_takes_no_dict_for(
    op_type: str, kind: Any, value: Any, attributes: dict[str, Any], wanted: Any
) -> None:
    output = S if isinstance(wanted[0][0], str) else I64 if kind[1] == I64 else F
    (y,) = prepare(model(op_type, {"x": map_type(*kind)}, {"y": output}, 1, **attributes)).run({"x": value})
    assert y.tolist() == wanted


@pytest.mark.parametrize("transform", (*TRANSFORMS, "PROBIT"))
@pytest.mark.parametrize("labels", [[5, 7], [4, 5, 6]])
def test_linear_classifier(transform: str, labels: list[int]) -> None:
    rows = 1 if len(labels) == 2 and transform != "PROBIT" else len(labels)
    attributes = {"coefficients": numbers(rows, 4, size=0.1), "intercepts": [0.5] * rows, "classlabels_ints": labels}
    assert_same(model("LinearClassifier", {"x": X}, SCORES, 1, post_transform=transform, **attributes), {"x": X})


def test_labels_may_be_strings() -> None:
    attributes = {"coefficients": numbers(4), "intercepts": [0.1], "classlabels_strings": ["no", "yes"]}
    made = model("LinearClassifier", {"x": WHOLE}, {"y": S, "z": F}, 1, post_transform="LOGISTIC", **attributes)
    assert_same(made, {"x": WHOLE})


@pytest.mark.parametrize("kernel", ("LINEAR", "POLY", "RBF", "SIGMOID"))
@pytest.mark.parametrize("one_class", (0, 1))
def test_svm_regressor(kernel: str, one_class: int) -> None:
    made = model(
        "SVMRegressor", {"x": X}, {"y": F}, 1, coefficients=numbers(5), rho=[0.1],
        support_vectors=numbers(5, 4, seed=2), n_supports=5, kernel_type=kernel, kernel_params=[0.3, 0.2, 2.0],
        one_class=one_class,
    )  # fmt: skip
    assert_same(made, {"x": X})


@pytest.mark.parametrize("kernel", ("LINEAR", "RBF"))
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("counts", [[2, 3], [2, 3, 1]])
@pytest.mark.parametrize("probabilities", (False, True))
def test_svm_classifier(kernel: str, transform: str, counts: list[int], probabilities: bool) -> None:
    pairs = len(counts) * (len(counts) - 1) // 2
    more = {"prob_a": numbers(pairs, seed=3), "prob_b": numbers(pairs, seed=4)} if probabilities else {}
    made = model(
        "SVMClassifier", {"x": X}, SCORES, 1, coefficients=numbers(len(counts) - 1, sum(counts)),
        rho=numbers(pairs, seed=1), support_vectors=numbers(sum(counts), 4, seed=2), vectors_per_class=counts,
        kernel_type=kernel, kernel_params=[0.3, 0.2, 2.0], classlabels_ints=[7, 8, 9][: len(counts)],
        post_transform=transform, **more,
    )  # fmt: skip
    assert_same(made, {"x": X})


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("positive", (False, True))
@pytest.mark.parametrize("classes", (2, 3))
def test_linear_svm_classifier(transform: str, positive: bool, classes: int) -> None:
    factors = numbers(classes, 4)
    made = model(
        "SVMClassifier", {"x": X}, SCORES, 1, coefficients=list(map(abs, factors)) if positive else factors, rho=[0.1],
        kernel_params=[0.0, 0.0, 0.0], classlabels_ints=[7, 8, 9][:classes], post_transform=transform,
    )  # fmt: skip
    assert_same(made, {"x": X})


# Trees

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
HOLES = X.copy()
HOLES[1, 2] = HOLES[4, 0] = np.nan


def grown(kind: str, ids: list[int], modes: tuple[str, ...] = MODES, positive: bool = False) -> dict[str, Any]:
    """Five random trees, three deep; every leaf has a weight for each of the ids."""
    chance = random.Random(len(ids) + len(modes))
    nodes: list[tuple[Any, ...]] = []
    weights: list[tuple[Any, ...]] = []

    def node(tree: int, depth: int, count: list[int]) -> int:
        number, place = count[0], len(nodes)
        count[0] += 1
        nodes.append(())
        if depth == 0 or chance.random() < 0.2:
            nodes[place] = (tree, number, 0, 0.0, "LEAF", 0, 0, 0)
            for target in ids:
                weight = float(np.float32(chance.gauss(0, 0.5)))
                weights.append((tree, number, target, abs(weight) if positive else weight))
        else:
            split, feature = float(np.float32(chance.gauss(0, 0.7))), chance.randrange(4)
            mode, missing = chance.choice(modes), chance.randrange(2)
            nodes[place] = (
                tree, number, feature, split, mode, node(tree, depth - 1, count), node(tree, depth - 1, count), missing,
            )  # fmt: skip
        return number

    for tree in range(5):
        node(tree, 3, [0])
    names = (
        "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
        "missing_value_tracks_true",
    )  # fmt: skip
    columns = zip(names, zip(*nodes, strict=True), strict=True)
    of_leaves = zip(("treeids", "nodeids", "ids", "weights"), zip(*weights, strict=True), strict=True)
    return {f"nodes_{name}": list(each) for name, each in columns} | {
        f"{kind}_{name}": list(each) for name, each in of_leaves
    }


@pytest.mark.parametrize("aggregate", ("SUM", "AVERAGE", "MIN", "MAX"))
@pytest.mark.parametrize("targets", (1, 3))
@pytest.mark.parametrize("transform", ("NONE", "SOFTMAX"))
@pytest.mark.parametrize("version", (1, 3))
def test_tree_regressor(aggregate: str, targets: int, transform: str, version: int) -> None:
    made = model(
        "TreeEnsembleRegressor", {"x": HOLES}, {"y": F}, version, n_targets=targets, aggregate_function=aggregate,
        post_transform=transform, base_values=numbers(targets), **grown("target", list(range(targets))),
    )  # fmt: skip
    assert_same(made, {"x": HOLES})


def test_trees_in_double_precision() -> None:
    attributes = grown("target", [0])
    for name in ("nodes_values", "target_weights"):
        values = np.array(attributes.pop(name)) / 3
        attributes[f"{name}_as_tensor"] = helper.make_tensor(name, T.DOUBLE, values.shape, values)
    x = HOLES.astype(np.float64) / 3
    assert_same(model("TreeEnsembleRegressor", {"x": x}, {"y": F}, 3, n_targets=1, **attributes), {"x": x})


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("positive", (False, True))
@pytest.mark.parametrize(
    ("labels", "ids", "base"),
    [
        ([10, 20], [0], []),
        ([10, 20], [0], [0.3]),
        ([10, 20], [1], []),
        ([10, 20, 30], [0, 1, 2], []),
        ([10, 20, 30], [0, 1, 2], [0.1, 0.3, -0.2]),
        ([10, 20, 30], [1], []),
    ],
)
def test_tree_classifier(transform: str, positive: bool, labels: list[int], ids: list[int], base: list[float]) -> None:
    attributes = grown("class", ids, positive=positive) | ({"base_values": base} if base else {})
    made = model(
        "TreeEnsembleClassifier", {"x": HOLES}, SCORES, 3, classlabels_int64s=labels, post_transform=transform,
        **attributes,
    )  # fmt: skip
    assert_same(made, {"x": HOLES})


def test_two_classes_with_scores_of_their_own_are_labelled_by_the_greater() -> None:
    made = model(
        "TreeEnsembleClassifier", {"x": X}, SCORES, 3, classlabels_int64s=[10, 20], **grown("class", [0, 1])
    )  # fmt: skip
    label, scores = prepare(made).run(X)
    np.testing.assert_array_equal(label, np.array([10, 20])[scores.argmax(1)])
    assert len(set(label.tolist())) == 2


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"nodes_truenodeids": [1, 0, 0]}, "a tree of the ensemble has no root, or several: it goes in circles"),
        ({"nodes_falsenodeids": [9, 0, 0]}, "a tree names the node (0, 9), which is not there"),
        ({"nodes_featureids": [4, 0, 0]}, "a tree asks for a feature that rows of 4 do not have"),
        ({"nodes_values": [0.0]}, "the lists of a tree ensemble differ in length: "),
        ({"nodes_modes": ["BRANCH_X", "LEAF", "LEAF"]}, "a node of a tree has the mode 'BRANCH_X'"),
        ({"target_ids": [0, 3]}, "a leaf has a weight for a target that is not one of the 1"),
    ],
)
def test_malformed_trees(change: dict[str, Any], text: str) -> None:
    attributes: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.0, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0],
        "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0],
    }  # fmt: skip
    if "nodes_truenodeids" in change:  # the second node asks too, and sends its rows back
        change = {"nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"], **change}
    made = model("TreeEnsembleRegressor", {"x": X}, {"y": F}, 3, n_targets=1, **(attributes | change))
    with pytest.raises(BackendError) as caught:
        prepare(made).run(X)
    assert text in str(caught.value)
