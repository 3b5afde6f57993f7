"""Element types that few runtimes have: through Cast, QuantizeLinear and Constant, with onnxruntime as the judge."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper
from onnx.reference import ReferenceEvaluator

from onward.backend import BackendError, prepare

FLOATS = (
    "FLOAT",
    "FLOAT16",
    "BFLOAT16",
    "FLOAT8E4M3FN",
    "FLOAT8E4M3FNUZ",
    "FLOAT8E5M2",
    "FLOAT8E5M2FNUZ",
    "FLOAT4E2M1",
)
WHOLE = ("INT4", "UINT4", "INT2", "UINT2", "INT8", "UINT8", "UINT16", "UINT32", "UINT64", "BOOL")
EDGES = np.array(
    [0.1, 3.14159, 100.7, -77.3, 1e-3, 448, 449, 464, 465, 500, 57344, 60000, -61440, 61441, 1e9, -1e9, np.inf, -np.inf,
     np.nan, 1e-10, 240, 241, 248, 2**-9, 2**-10, 3e-8, -0.0, 1, -1, 2, 0.5, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6, 7],
    dtype=np.float32,
)  # fmt: skip


def number(name: str) -> int:
    if not hasattr(T, name):
        pytest.skip(f"onnx {onnx.__version__} has no {name}")
    return int(getattr(T, name))


def model(nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto] | None = None) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, T.FLOAT, None) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], weights or [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)


def wanted(made: onnx.ModelProto, x: Any) -> Any:
    """What onnxruntime computes; where it has no kernel for a type, onnx's reference."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:  # several types of its own, which say that there is no kernel
        with np.errstate(all="ignore"):
            return ReferenceEvaluator(made).run(None, {"x": x})[0]
    return session.run(None, {"x": x})[0]


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize(("first", "second"), [*itertools.product(FLOATS, FLOATS), *itertools.product(WHOLE, WHOLE)])
def test_casts(first: str, second: str) -> None:
    steps = [("x", "u", number(first)), ("u", "v", number(second)), ("v", "y", T.FLOAT)]
    made = model([helper.make_node("Cast", [source], [target], to=to) for source, target, to in steps])
    x = EDGES
    if first in WHOLE:  # what both types have: everything else is undefined
        high = 1 if {first, second} & {"INT2", "UINT2", "BOOL"} else 7
        low = 0 if {first[0], second[0]} & {"U", "B"} else -1
        x = np.arange(low, high + 1, dtype=np.float32)
    np.testing.assert_array_equal(prepare(made).run(x)[0], wanted(made, x))


@pytest.mark.parametrize("kind", (*FLOATS[3:], "INT4", "UINT4", "INT2", "UINT2", "INT16", "UINT16"))
@pytest.mark.parametrize("scales", ("FLOAT", "FLOAT16", "BFLOAT16"))
@pytest.mark.parametrize(
    ("shape", "attributes"), [((), {}), ((4,), {"axis": 0}), ((4, 4), {"axis": 1, "block_size": 8})]
)
def test_quantise(kind: str, scales: str, shape: tuple[int, ...], attributes: dict[str, int]) -> None:
    random = np.random.default_rng(0)
    x = (random.standard_normal((4, 32)) * 4).astype(np.float32)
    weights = [
        constant("s", number(scales), random.choice([0.1, 0.05, 0.5, 0.02], shape)),
        constant("z", number(kind), random.integers(0, 2, shape) if "INT" in kind else np.zeros(shape)),
    ]
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=number(scales)),
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"], **attributes),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], **attributes),
        helper.make_node("Cast", ["d"], ["y"], to=T.FLOAT),
    ]
    made = model(nodes, weights)
    np.testing.assert_array_equal(prepare(made).run(x)[0], wanted(made, x))


def constant(name: str, kind: int, values: Any) -> onnx.TensorProto:
    array = np.asarray(values).astype(helper.tensor_dtype_to_np_dtype(kind))
    return helper.make_tensor(name, kind, array.shape, array.ravel())


@pytest.mark.parametrize("kind", (*FLOATS, *WHOLE[:4]))
def test_constants(kind: str) -> None:
    value = constant("", number(kind), [0, 1, 1, 0])
    nodes = [
        helper.make_node("Constant", [], ["c"], value=value),
        helper.make_node("Cast", ["c"], ["d"], to=T.FLOAT),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(prepare(model(nodes)).run(x)[0], x + [0, 1, 1, 0])


@pytest.mark.parametrize(
    ("texts", "to", "values"),
    [
        (["1", "0"], T.BOOL, [True, False]),
        (["1.5", "0.0"], T.BOOL, [True, False]),
        (["1e3", "nan", "INF", "-inf", " 2"], T.FLOAT, [1000, np.nan, np.inf, -np.inf, 2]),
        (["-7", " 3"], T.INT64, [-7, 3]),
        ([str(2**63 + 5)], T.UINT64, [2**63 + 5]),
    ],
)
def test_texts_of_numbers(texts: list[str], to: int, values: list[Any]) -> None:
    x, y = helper.make_tensor_value_info("x", T.STRING, None), helper.make_tensor_value_info("y", to, None)
    graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=to)], "g", [x], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    array = np.array(texts, dtype=object)
    np.testing.assert_array_equal(prepare(made).run(array)[0], values)
    np.testing.assert_array_equal(wanted(made, array), values)
    with pytest.raises(BackendError):
        prepare(made).run(np.array(["abc"], dtype=object))
