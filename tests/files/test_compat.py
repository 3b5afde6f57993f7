"""`onward.compatibility`: what it says of a model, of whom, and what it leaves open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import onward
from onward.files.compat.target_tables import table_of

Row = tuple[str, str, str]


def model(body: str, inputs: str = "float[2, 3, 8, 8] x", opset: int = 20, more: str = "", ir_version: int = 8) -> Any:
    outputs = ", ".join(dict.fromkeys(line.split("=")[0].strip() for line in body.strip().splitlines() if "=" in line))
    text = f'<ir_version: {ir_version}, opset_import: ["": {opset}, "com.microsoft": 1, "my.ops": 1]>'
    return onnx.parser.parse_model(f"{text}\ng ({inputs}) => ({outputs}) {more} {{\n{body}\n}}")


def said(proto: Any, target: str) -> list[Row]:
    """Verdict, operator and text of everything that was found."""
    return [(each.verdict, each.operator, each.text) for each in onward.compatibility(proto, target).findings]


CUBIC = model('y = Resize<mode="cubic">(x, , s)', more="<float[4] s = {1,1,2,2}>")
SMOOTH = model('y = Resize<mode="linear", antialias=1>(x, , s)', more="<float[4] s = {1,1,2,2}>")
PLAIN = model('y = Resize<mode="linear", antialias=0>(x, , s)', more="<float[4] s = {1,1,2,2}>")
OLDER = "the list for ML Programs does not have it, the list for the older NeuralNetwork format does"
OTHER = "float32 and float16 are taken; whether other types are depends on the operator's builder, and no source says"
SLOWER = "inputs with dynamic sizes are taken unless the provider is told otherwise, and may be slower"
FLATTENS = "before opset 13 it works on everything from its axis on, after on that axis alone"
OLD_READERS = "the model has IR version 8; the releases of ONNX that ended with opset 7 read IR versions up to 3"
DEFAULT = "the attribute 'antialias' does not exist in opset 13 (it has its default value here)"
ACCEPTED = ", ".join(table_of("openvino")["types"]["accepted"])
CASES: list[tuple[str, Any, list[Row]]] = [
    ("tensorrt", model("y = Relu(x)"), []),
    ("tensorrt", model("y = Det(x)"), [("problem", "Det", "not supported")]),
    (
        "tensorrt",
        model("y = Swish(x)", opset=24),
        [("unknown", "Swish", "the source does not list it; a plugin may be there for it")],
    ),
    (
        "tensorrt",
        model("y = Relu(x)", opset=25),
        [("problem", "", "the model has opset 25, and TensorRT 10.15 reads 9 to 24")],
    ),
    (
        "tensorrt",
        model("y = Relu(x)", opset=8),
        [("problem", "", "the model has opset 8, and TensorRT 10.15 reads 9 to 24")],
    ),
    ("tensorrt", model("y = Cos(x)", "double[2] x"), [("condition", "Cos", "float64 is computed as float32")]),
    ("tensorrt", model("y = And(x, x)", "bool[2] x"), []),
    (
        "tensorrt",
        model("y = Add(x, x)", "int8[2] x"),
        [("problem", "Add", "not for int8, only for float32, float16, bfloat16, int32, int64")],
    ),
    ("tensorrt", model("y = Where(c, x, x)", "bool[2] c, float[2] x"), []),
    (
        "tensorrt",
        model("y = Cast<to=3>(x)"),
        [("problem", "Cast", "not for int8, only for float32, float16, bfloat16, int32, int64, bool, uint8")],
    ),
    (
        "tensorrt",
        model("y = MaxPool<kernel_shape=[2]>(x)", "float[1, 2, 9] x"),
        [("problem", "MaxPool", "two or three spatial dimensions only")],
    ),
    ("tensorrt", model("y = MaxPool<kernel_shape=[2,2], dilations=[1,1]>(x)"), []),
    (
        "tensorrt",
        model("y = MaxPool<kernel_shape=[2,2], dilations=[2,1]>(x)"),
        [("problem", "MaxPool", "dilations other than 1 are refused")],
    ),
    ("tensorrt", CUBIC, [("problem", "Resize", "only nearest and linear interpolation")]),
    ("tensorrt", SMOOTH, [("problem", "Resize", "no antialiasing")]),
    ("tensorrt", model("y = CumSum(x, a)", more="<int64 a = {1}>"), []),
    (
        "tensorrt",
        model("y = CumSum(x, a)", "float[2] x, int64 a"),
        [("problem", "CumSum", "`axis` has to be known when the engine is built")],
    ),
    ("tensorrt", model("y = DequantizeLinear(x, s, z)", "int8[2] x", more="<float s = {1}, int8 z = {0}>"), []),
    (
        "tensorrt",
        model("y = DequantizeLinear(x, s, z)", "int8[2] x", more="<float s = {1}, int8 z = {3}>"),
        [("problem", "DequantizeLinear", "the zero point has to be 0")],
    ),
    (
        "tensorrt",
        model("y = DequantizeLinear(x, s, z)", "int8[2] x, int8 z", more="<float s = {1}>"),
        [("condition", "DequantizeLinear", "the zero point has to be 0")],
    ),
    (
        "tensorrt",
        model("y = StringConcat(x, x)", "string[2] x"),
        [
            ("problem", "", "'x' has the type string, which TensorRT 10.15 does not take"),
            ("problem", "", "'y' has the type string, which TensorRT 10.15 does not take"),
            ("problem", "StringConcat", "not supported"),
        ],
    ),
    ("tensorrt", model("y = LSTM<hidden_size=1>(x, w, w)", "float[2, 1, 1] x, float[1, 4, 1] w"), []),
    (
        "tensorrt",
        model('y = RNN<hidden_size=1, activations=["Relu"]>(x, w, w)', "float[2, 1, 1] x, float[1, 1, 1] w"),
        [("condition", "RNN", "both directions of a bidirectional layer need the same activation functions")],
    ),
    ("openvino", model("y = Conv(x, w)", "float[2, 3, 8, 8] x, float[4, 3, 3, 3] w", opset=22), []),
    ("openvino", model("y = Det(x)"), [("problem", "Det", "not supported")]),
    ("openvino", model("y = com.microsoft.QuickGelu(x)"), []),
    ("openvino", model("y = com.microsoft.CDist(x, x)"), [("problem", "com.microsoft.CDist", "not supported")]),
    (
        "openvino",
        model("y = my.ops.Foo(x)"),
        [("unknown", "my.ops.Foo", "the source does not list it; an extension may be there for it")],
    ),
    (
        "openvino",
        model("y = Shape(x)", "float8e4m3fnuz[2] x", ir_version=9),
        [
            ("problem", "", "'x' has the type float8e4m3fnuz, which OpenVINO ONNX frontend does not take"),
            ("problem", "Shape", f"not for float8e4m3fnuz, only for {ACCEPTED}"),
        ],
    ),
    (
        "openvino",
        model("y = Cast<to=1>(x)", opset=24),
        [("unknown", "Cast", "the source knows it up to version 21, and here it is version 24")],
    ),
    ("openvino", model("s = SequenceEmpty()", ""), [("condition", "SequenceEmpty", "taken in certain patterns only")]),
    ("coreml", model("y = Relu(x)"), []),
    ("coreml", model("y = Det(x)"), [("problem", "Det", "the provider registers nothing for it")]),
    ("coreml", model("y = Constant<value_float=1.0>()", ""), []),
    ("coreml", model("y = Flatten(x)"), [("unknown", "Flatten", OLDER)]),
    (
        "coreml",
        model("y = Gemm(x, x)", "float[2, 2] x"),
        [("problem", "Gemm", "the second input has to be a constant")],
    ),
    ("coreml", model("y = Pow(x, x)", "float16[2, 2] x"), [("problem", "Pow", "both inputs have to be float32")]),
    ("coreml", model("y = Add(x, x)", "int64[2] x"), [("unknown", "Add", f"{OTHER} (here int64)")]),
    ("coreml", model("y = Relu(x)", "float[n] x"), [("condition", "", f"dynamic sizes ('x'): {SLOWER}")]),
    ("opset-13", model("y = Relu(x)"), []),
    (
        "opset-13",
        model("y = GridSample(x, g)", "float[1,1,2,2] x, float[1,2,2,2] g"),
        [("problem", "GridSample", "exists from opset 16 on")],
    ),
    (
        "opset-13",
        model("y = Gelu(x)"),
        [("problem", "Gelu", "exists from opset 20 on; ONNX defines it by other operators, which may do in opset 13")],
    ),
    ("opset-13", PLAIN, [("problem", "Resize", DEFAULT)]),
    (
        "opset-13",
        model("y = ReduceMean(x, a)", more="<int64[1] a = {1}>"),
        [("problem", "ReduceMean", "has 2 inputs, and takes at most 1 in opset 13")],
    ),
    (
        "opset-18",
        model("y = ReduceMean<axes=[1]>(x)", opset=13),
        [("problem", "ReduceMean", "the attribute 'axes' does not exist in opset 18")],
    ),
    (
        "opset-9",
        model("y = Slice(x, a, b)", more="<int64[1] a = {0}, int64[1] b = {1}>"),
        [
            ("problem", "Slice", "has 3 inputs, and takes at most 1 in opset 9"),
            ("problem", "Slice", "the attribute 'ends' is needed in opset 9"),
            ("problem", "Slice", "the attribute 'starts' is needed in opset 9"),
        ],
    ),
    (
        "opset-12",
        model("y = Abs(x)", "bfloat16[2] x", opset=13),
        [
            ("problem", "Abs", "tensor(bfloat16) is not a type of 'X' in opset 12"),
            ("problem", "Abs", "tensor(bfloat16) is not a type of 'Y' in opset 12"),
        ],
    ),
    ("opset-12", model("y = Softmax<axis=-1>(x)"), []),
    ("opset-12", model("y = Softmax<axis=3>(x)"), []),
    ("opset-12", model("y = Softmax<axis=1>(x)"), [("problem", "Softmax", FLATTENS)]),
    ("opset-12", model("y = Softmax(x)"), [("problem", "Softmax", "without 'axis' it is -1 now, and 1 in opset 12")]),
    (
        "opset-10",
        model("y = Concat<axis=-1>(x, x)"),
        [("problem", "Concat", "'axis' is negative, which has no meaning in opset 10")],
    ),
    ("opset-13", model("y = my.ops.Foo(x)"), []),
    (
        "opset-11",
        model("y = Upsample(x, s)", opset=9, more="<float[4] s = {1,1,2,2}>"),
        [("problem", "Upsample", "deprecated from opset 10 on")],
    ),
    ("opset-20", model("y = Nonsense(x)"), [("problem", "Nonsense", "ONNX has no operator of this name")]),
    ("opset-7", model("y = Relu(x)"), [("condition", "", OLD_READERS)]),
]


@pytest.mark.parametrize(("target", "proto", "rows"), CASES)
def test_what_is_said(target: str, proto: Any, rows: list[Row]) -> None:
    found = said(proto, target)
    if target.startswith("opset") and not any(verdict == "condition" for verdict, _, _ in rows):
        found = [row for row in found if "IR version" not in row[2]]
    assert found == rows
    answer = onward.compatibility(proto, target)
    assert answer.ok is all(verdict != "problem" for verdict, _, _ in rows)
    assert {each.source for each in answer.findings} <= set(answer.sources)


NESTED = """
<ir_version: 8, opset_import: ["": 18, "local": 1]>
g (float[2] x, bool c) => (y) {
    y = If (c) <
        then_branch = t () => (a) { a = local.twice (x) },
        else_branch = e () => (b) { n = Cast <to = 6> (x)
            f = BitwiseNot (n)
            b = Cast <to = 1> (f) }
    >
}
<domain: "local", opset_import: ["": 18]>
twice (v) => (w) { m = Mish (v)
    w = Add (m, v) }
"""


def test_bodies_and_functions_are_walked_and_calls_are_no_operators() -> None:
    proto = onnx.parser.parse_model(NESTED)
    assert {(operator, text) for verdict, operator, text in said(proto, "opset-17") if verdict == "problem"} == {
        ("BitwiseNot", "exists from opset 18 on"),
        ("Mish", "exists from opset 18 on; ONNX defines it by other operators, which may do in opset 17"),
    }
    rows = said(proto, "tensorrt")
    assert ("problem", "BitwiseNot", "not supported") in rows and not any("local" in row[1] for row in rows)
    assert not any(verdict == "unknown" for verdict, _, _ in rows)  # types go into the functions
    assert onward.compatibility(proto, "onnxruntime").ok
    proto.functions[0].opset_import[0].version = 19
    rows = said(proto, "tensorrt")
    assert ("unknown", "Mish", "what it takes depends on a type that is not known (of 'v')") in rows


def test_functions_that_call_themselves() -> None:
    proto = onnx.parser.parse_model(NESTED.replace("Mish (v)", "local.twice (v)"))
    proto.functions[0].opset_import.append(onnx.helper.make_opsetid("local", 1))
    with pytest.raises(onward.InputError, match="call each other in a circle"):
        onward.compatibility(proto, "tensorrt")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.det(self.layer(x) + torch.eye(4)) + torch.nn.functional.gelu(x).sum()


def test_an_export_is_told_where_to_look() -> None:
    program = onward.export(Net(), (torch.rand(4, 4),), opset_version=20)
    answer = onward.compatibility(program, "tensorrt")
    (problem,) = answer.problems
    (place,) = problem.places
    assert problem.operator == place.operator == "Det"
    assert place.source.startswith("test_compat.py:") and place.node and place.source in str(answer)
    assert onward.compatibility(program, "onnxruntime").remarks == (
        f"onnxruntime {onnxruntime.__version__} loads the model",
    )
    for opset in (13, 17):
        again = onward.export(Net(), (torch.rand(4, 4),), opset_version=opset)
        assert onward.compatibility(again, f"opset-{opset}").findings == ()


def test_the_same_sentence_of_many_nodes_is_said_once() -> None:
    body = "\n".join(f"y{i} = Gelu(x)" for i in range(5))
    (found,) = onward.compatibility(model(body), "opset-19").problems
    assert [place.output for place in found.places] == [f"y{i}" for i in range(5)]
    assert "and 2 more" in str(onward.compatibility(model(body), "opset-19"))


# onnxruntime


@pytest.mark.parametrize(
    "proto",
    [
        model("y = Conv(x, w)", "float16[2, 3, 8, 8] x, float16[4, 3, 3, 3] w"),  # computed in float32
        model("y = Mish(x)"),  # a function
        model("y = Constant<value_float=1.0>()", ""),  # becomes an initializer
        model("y = com.microsoft.QuickGelu(x)"),
    ],
)
def test_onnxruntime_is_asked_itself(proto: Any) -> None:
    answer = onward.compatibility(proto, "onnxruntime")
    assert answer.findings == () and answer.remarks == (f"onnxruntime {onnxruntime.__version__} loads the model",)


def test_constants_have_no_kernel_and_need_none() -> None:
    assert "Constant" not in table_of("onnxruntime")["operators"][""]


def test_onnxruntime_blames_one_node_and_the_table_all() -> None:
    body = 'a = BitShift<direction="LEFT">(x, x)\nb = Relu(h)\nc = Mean(d, d)\ne = Col2Im(d, x, x)'
    rows = said(model(body, "int64[2] x, float16[2] h, double[1, 4, 4] d", opset=22), "onnxruntime")
    assert rows[0][:2] == ("problem", "") and rows[0][2].startswith("it does not load the model: ")
    assert rows[1:] == [
        ("problem", "BitShift", "no kernel for tensor(int64)"),
        ("problem", "Mean", "no kernel for tensor(double)"),
        ("problem", "Col2Im", "no kernel for tensor(double)"),
    ]


def test_operators_of_a_library_are_not_known() -> None:
    rows = said(model("y = my.ops.Foo(x)"), "onnxruntime")
    assert rows[0][2].startswith("it does not load the model: ") and "my.ops:Foo" in rows[0][2]
    assert rows[1] == (
        "unknown",
        "my.ops.Foo",
        "it has no kernel of its own; a library of operators may be registered for it",
    )


def test_versions_that_onnxruntime_does_not_read() -> None:
    table = table_of("onnxruntime")
    newest, version = table["ir"]["last"], table["version"]
    texts = [text for _, _, text in said(model("y = Relu(x)", ir_version=newest + 1), "onnxruntime")]
    assert f"the model has IR version {newest + 1}, and onnxruntime {version} reads them up to {newest}" in texts


# Files and mistakes


def test_files_with_weights_beside_them(tmp_path: Path) -> None:
    proto = model("y = MatMul(x, w)", "float[2, 64] x")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    assert onward.compatibility(tmp_path / "m.onnx", "onnxruntime").ok
    (condition,) = onward.compatibility(str(tmp_path / "m.onnx"), "coreml").conditions
    assert condition.text.startswith("weights in a data file are refused")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("tensor", "no target is called 'tensor'"),
        ("", "no target is called ''"),
        ("opset", "no target is called 'opset'"),
        ("opset-0", "there is no opset 0: the installed onnx"),
        ("opset-99", "there is no opset 99: the installed onnx"),
        (13, "no target is called 13"),
    ],
)
def test_targets_that_are_none(target: Any, message: str) -> None:
    with pytest.raises(onward.InputError, match=message) as caught:
        onward.compatibility(model("y = Relu(x)"), target)
    assert "choose one of" in str(caught.value) and "opset-1 to opset-" in str(caught.value)
