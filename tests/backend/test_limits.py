"""What a model may take: a small file that asks for terabytes or for a loop without an end is refused, at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import onward
from onward.backend import BackendError, Limits, prepare, run_node

HUGE = 2**40
FLOAT = np.ones((), np.float32)
IMAGE = np.ones((1, 1, 4, 4), np.float32)


def i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


# One node each: operator, inputs, attributes, opset
NODES: list[tuple[str, list[Any], dict[str, Any], int]] = [
    ("ConstantOfShape", [i64(HUGE)], {}, 20),
    ("ConstantOfShape", [i64(2**20, 2**20)], {"value": numpy_helper.from_array(np.array([1], np.int8))}, 20),
    ("ConstantOfShape", [i64(HUGE)], {"value": helper.make_tensor("", TensorProto.STRING, [1], [b"a"])}, 20),
    ("Expand", [FLOAT, i64(2**20, 2**20)], {}, 20),
    ("Tile", [np.ones((2, 2), np.float32), i64(2**20, 2**20)], {}, 20),
    ("Range", [i64(0)[0], i64(2**62)[0], i64(1)[0]], {}, 20),
    ("Range", [np.float32(0), np.float32(1), np.float32(1e-30)], {}, 20),
    ("Pad", [np.ones(3, np.float32), i64(HUGE, 0)], {}, 20),
    ("Pad", [np.ones(3, np.float32), i64(0, HUGE)], {"mode": "edge"}, 20),
    ("Pad", [np.ones(3, np.float32)], {"pads": [0, HUGE]}, 10),
    ("Resize", [IMAGE, None, np.array([1, 1, 2**20, 2**20], np.float32)], {}, 20),
    ("Resize", [IMAGE, None, None, i64(1, 1, 4, HUGE)], {"mode": "linear"}, 20),
    ("Upsample", [IMAGE], {"scales": [1.0, 1.0, 1e6, 1e6]}, 7),
    ("Upsample", [IMAGE, np.array([1, 1, 1e6, 1e6], np.float32)], {}, 9),
    ("OneHot", [i64(1, 2), i64(HUGE), np.array([0, 1], np.float32)], {}, 20),
    ("RandomNormal", [], {"shape": [2**20, 2**20]}, 20),
    ("RandomUniform", [], {"shape": [HUGE]}, 20),
    ("Multinomial", [np.ones((1, 3), np.float32)], {"sample_size": HUGE}, 20),
    ("HannWindow", [i64(HUGE)[0]], {}, 20),
    ("MelWeightMatrix", [i64(2**34)[0], i64(8)[0], i64(8)[0], np.float32(0), np.float32(4)], {}, 20),
    ("DFT", [np.ones((1, 4, 1), np.float32), i64(HUGE)[0]], {}, 20),
    ("Conv", [IMAGE, np.ones((1, 1, 1, 1), np.float32)], {"pads": [0, HUGE, 0, 0]}, 20),
    ("Conv", [IMAGE, np.ones((1, 1, 1, 1), np.float32)], {"pads": [2**20] * 4}, 20),
    (
        "ConvTranspose",
        [IMAGE, np.ones((1, 1, 1, 1), np.float32)],
        {"strides": [2**20, 2**20]},
        20,
    ),
    ("MaxPool", [np.ones((1, 1, 4), np.float32)], {"kernel_shape": [HUGE], "pads": [HUGE, HUGE]}, 20),
    ("AveragePool", [np.ones((1, 1, 4), np.float32)], {"kernel_shape": [HUGE], "pads": [HUGE, HUGE]}, 20),
    ("MaxUnpool", [np.ones((1, 1, 4), np.float32), i64(0, 1, 2, 3).reshape(1, 1, 4)], {"kernel_shape": [HUGE]}, 20),
    ("Col2Im", [np.ones((1, 1, 4), np.float32), i64(2**20, 2**20), i64(1, 1)], {}, 20),
    ("AffineGrid", [np.ones((1, 2, 3), np.float32), i64(1, 1, 2**20, 2**20)], {}, 20),
    ("CenterCropPad", [np.ones(3, np.float32), i64(HUGE)], {}, 20),
    ("RoiAlign", [IMAGE, np.ones((1, 4), np.float32), i64(0)], {"output_height": HUGE}, 20),
    ("RoiAlign", [IMAGE, np.ones((1, 4), np.float32), i64(0)], {"sampling_ratio": HUGE}, 20),
    ("MaxRoiPool", [IMAGE, np.zeros((1, 5), np.float32)], {"pooled_shape": [HUGE, 1]}, 20),
    ("Add", [np.ones((2**20, 1), np.float32), np.ones((1, 2**20), np.float32)], {}, 20),
    ("MatMul", [np.ones((2**20, 1), np.float32), np.ones((1, 2**20), np.float32)], {}, 20),
    ("Einsum", [np.ones(2**20, np.float32), np.ones(2**20, np.float32)], {"equation": "i,j->ij"}, 20),
    ("Split", [np.ones(4, np.float32)], {"num_outputs": 2**62}, 20),
    ("Split", [np.ones(4, np.float32)], {"num_outputs": 2**33}, 20),
    ("SplitToSequence", [np.ones((HUGE, 0), np.float32)], {}, 20),
    ("StringConcat", [np.array([["a"]] * 2**17, object), np.array([["a"] * 2**17], object)], {}, 20),
    ("TfIdfVectorizer", [i64(1, 2)], {
        "max_gram_length": 2**62, "min_gram_length": 1, "max_skip_count": 2**62, "mode": "TF",
        "ngram_counts": [0], "ngram_indexes": [2**40], "pool_int64s": [1],
    }, 20),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "opset"), NODES, ids=[f"{n}-{r[0]}" for n, r in enumerate(NODES)]
)
def test_absurd_sizes_are_refused(op: str, inputs: list[Any], attributes: dict[str, Any], opset: int) -> None:
    names = [f"i{place}" if value is not None else "" for place, value in enumerate(inputs)]
    node = helper.make_node(op, names, ["y"], **attributes)
    given = [value for value in inputs if value is not None]
    with pytest.raises(BackendError) as caught:
        run_node(node, given, opset_version=opset)
    text = str(caught.value)
    assert f"in node '' (ai.onnx.{op})" in text
    assert "allocate" not in text, "the machine refused, not the limit"


def graph(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20, "my" : 1]> {text}')


def body(nodes: str) -> str:
    return f"body = b (int64 i, bool c, float[n] s) => (bool k, float[n] t) {{ k = Identity (c) {nodes} }}"


NESTED = body("t = Identity (s)")
for _ in range(3):
    NESTED = body(f"t = Loop (count, , s) <{NESTED}>")
ONE, TWO = np.ones(1, np.float32), np.array([[1, 2]], np.float32)
DOUBLING = " ".join(f"x{n + 1} = Concat <axis = 0> (x{n}, x{n})" for n in range(45))
SCAN = """Scan <num_scan_inputs = 1, body = b (float[k] s) => (float[k] t) { t = Identity (s) }> (x)"""


STACK = """g (float[n] x, int64 n, bool c, int64[1] s) => (float[m] y) {
  y = Loop (n, c) <body = b (int64 i, bool d) => (bool k, float[m] t) { k = Identity (d) t = Expand (x, s) }>
}"""


@pytest.mark.parametrize(
    ("text", "inputs", "message"),
    [
        (
            f"g (float[n] x, int64 count) => (float[n] y) {{ y = Loop (count, , x) <{NESTED}> }}",
            [ONE, i64(20)[0]],
            "the loops take more than 5000 turns",
        ),
        (
            f"g (float[n] x, bool c) => (float[n] y) {{ y = Loop (, c, x) <{body('t = Neg (s)')}> }}",
            [ONE, np.array(True)],
            "the loops take more than 5000 turns",
        ),
        (
            f"g (float[n, k] x) => (float[n, k] y) {{ y = {SCAN} }}",
            [np.ones((HUGE, 0), np.float32)],
            "the loops take more than 5000 turns",
        ),
        (
            f"g (float[n] x0) => (float[m] x45) {{ {DOUBLING} }}",
            [np.ones(2**10, np.float32)],
            "a tensor of 33554432 elements, more than the 16777216 that are allowed",
        ),
        (
            STACK,
            [ONE, i64(1000)[0], np.array(True), i64(2**20)],
            "a tensor of 1048576000 elements, more than the 16777216 that are allowed",
        ),
    ],
    ids=["nested", "endless", "scan", "doubling", "stacked"],
)
def test_graphs_that_grow(text: str, inputs: list[Any], message: str) -> None:
    with pytest.raises(BackendError) as caught:
        prepare(graph(text), limits=Limits(max_loop_turns=5000, max_elements=2**24)).run(inputs)
    assert message in str(caught.value)
    assert "in node ''" in str(caught.value)


def test_strings_that_grow() -> None:
    text = " ".join(f"x{n + 1} = StringConcat (x{n}, x{n})" for n in range(60))
    rep = prepare(graph(f"g (string[n] x0) => (string[n] x60) {{ {text} }}"), limits=Limits(max_elements=2**24))
    with pytest.raises(BackendError, match="elements, more than the 16777216 that are allowed"):
        rep.run(np.array(["a" * 2**12], object))


@pytest.mark.parametrize(
    "count, kind, message",
    [
        (14, BackendError, "the model unfolds into more than 10000 nodes"),
        (40, onward.InputError, "written out, have 3,298,534,883,327 nodes, which nothing can run"),
    ],
)
def test_functions_that_unfold(count, kind, message) -> None:
    head = '<domain: "my", opset_import: ["" : 20, "my" : 1]>'
    levels = "".join(f"{head} f{n} (x) => (y) {{ a = my.f{n + 1} (x) y = my.f{n + 1} (a) }}" for n in range(count))
    last = f"{head} f{count} (x) => (y) {{ y = Identity (x) }}"
    model = graph(f"g (float[n] x) => (float[n] y) {{ y = my.f0 (x) }} {levels} {last}")
    with pytest.raises(kind, match=message):
        prepare(model, limits=Limits(max_nodes=10_000))


def test_graphs_within_graphs() -> None:
    """protobuf stops at a hundred messages within messages; what it reads is not deep for Python."""
    depths = {25: False, 200: True, 10_000: True}
    for depth, refused in depths.items():
        branch = b""
        for _ in range(depth):
            for field in (6, 5, 1):  # a graph in an attribute in a node of a graph
                branch = bytes([field << 3 | 2]) + length(len(branch)) + branch
        content = b"\x08\x0a" + bytes([7 << 3 | 2]) + length(len(branch)) + branch
        with pytest.raises(onward.InputError if refused else onward.ExportError):
            prepare(content)


def length(count: int) -> bytes:
    found = b""
    while count > 127:
        found, count = found + bytes([count & 127 | 128]), count >> 7
    return found + bytes([count])


@pytest.mark.parametrize(
    ("dims", "data_type", "raw"),
    [
        ([2**40], TensorProto.FLOAT, b""),
        ([2**40], TensorProto.FLOAT, b"1234"),
        ([2**20, 2**20], TensorProto.INT4, b"1"),
        ([2**62, 4], TensorProto.FLOAT, b""),
        ([2**40], TensorProto.STRING, b""),
        ([-1], TensorProto.FLOAT, b"1234"),
        ([-1, -4], TensorProto.FLOAT, b"1234" * 4),
        ([3], TensorProto.FLOAT, b"1234"),
        ([1], 99, b"1234"),
        ([1], 0, b"1234"),
    ],
)
@pytest.mark.parametrize("place", ["initializer", "constant", "attribute"])
def test_weights_that_are_not_there(dims: list[int], data_type: int, raw: bytes, place: str) -> None:
    tensor = TensorProto(name="w", data_type=data_type, dims=dims, raw_data=raw)
    if place == "constant":
        nodes = [helper.make_node("Constant", [], ["w"], value=tensor), helper.make_node("Identity", ["w"], ["y"])]
    elif place == "attribute":
        nodes = [helper.make_node("ConstantOfShape", ["s"], ["y"], value=tensor)]
    else:
        nodes = [helper.make_node("Identity", ["w"], ["y"])]
    weights = [tensor] if place == "initializer" else [numpy_helper.from_array(i64(1), "s")]
    model = helper.make_model(helper.make_graph(nodes, "g", [], [onnx.ValueInfoProto(name="y")], weights))
    with pytest.raises(onward.ExportError) as caught:
        prepare(model).run([])
    assert "allocate" not in str(caught.value)


def test_an_honest_model_is_watched_once() -> None:
    """A product of two matrices of a million elements may be large, so it is looked at; then it is known."""
    rep = prepare(graph("g (float[n, k] x, float[k, m] w) => (float[n, m] y) { y = MatMul (x, w) }"))
    inputs = [torch.randn(1000, 1000), torch.randn(1000, 1000)]
    for _ in range(2):
        torch.testing.assert_close(rep.run(inputs)[0], inputs[0] @ inputs[1])
        assert len(rep._watched) == 1
    rep.run([torch.randn(2, 3), torch.randn(3, 4)])
    assert len(rep._watched) == 1, "small inputs need no watch"


def test_memory_is_counted() -> None:
    text = "g (float[n] x, int64[1] s) => (float[m] y) { a = Expand (x, s) y = Neg (a) }"
    rep = prepare(graph(text), limits=Limits(max_bytes=2**28))
    assert rep.run([ONE, i64(2**20)])[0].shape == (2**20,)
    with pytest.raises(BackendError, match="the run takes .* bytes, more than the 268435456 that are allowed"):
        rep.run([ONE, i64(2**27)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_elements": 0}, "max_elements is a positive number, not 0"),
        ({"max_loop_turns": None}, "max_loop_turns is a positive number, not None"),
        ({"max_bytes": "1G"}, "max_bytes is a positive number, not '1G'"),
        ({"max_seconds": True}, "max_seconds is a positive number, not True"),
    ],
)
def test_limits_that_are_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises(onward.InputError, match=message):
        Limits(**options)
