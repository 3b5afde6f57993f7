"""A model file is untrusted: what it may call, how large it may grow, which files it may read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from onnx import helper

import onward
import onward.backend
from onward.backend import BackendError, Limits, prepare

DOMAIN = "org.pytorch.aten"


def call(name: str, overload: str = "", *notes: str, inputs: tuple[str, ...] = (), **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(
        "ATen",
        inputs,
        ["y"],
        name="n",
        domain=DOMAIN,
        operator=name,
        overload_name=overload,
        arguments=notes,
        **attributes,
    )


def around(node: onnx.NodeProto) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", 1, None)], [onnx.ValueInfoProto(name="y")]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, 1)])


X = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (
            call("load_library::__call__", "__call__", "path=string", path="evil.so"),
            "this PyTorch has no operator load_library::__call__ with the overload '__call__'",
        ),
        (
            call("import_module::__globals__", "get", "a=string", a="sys"),
            "this PyTorch has no operator import_module::__globals__ with the overload 'get'",
        ),
        (
            call("aten::from_file", "", "filename=string", filename="/etc/hostname"),
            "a model may not call aten.from_file.default: it is not one that computes on dense tensors alone",
        ),
        (call("aten::_print", "", "s=string", s="hello"), "a model may not call aten._print.default"),
        (
            call("aten::_reshape_alias", "", "self=tensor", inputs=("x",)),
            "a model may not call aten._reshape_alias.default",
        ),
        (
            call("aten::add_", "Tensor", "self=tensor", "other=tensor", inputs=("x", "x")),
            "a model may not call aten.add_.Tensor: it changes its arguments",
        ),
        (
            call("aten::relu", "out", "self=tensor", "out=tensor", inputs=("x", "x")),
            "a model may not call aten.relu.out: it changes its arguments",
        ),
        (
            call("profiler::_record_function_enter", "", "args=string", args="x"),
            "a model may not call profiler._record_function_enter.default: 'profiler' is for PyTorch's own use",
        ),
        (
            call("quantized::linear", "", "X=tensor", inputs=("x",)),
            "a model may not call quantized.linear.default: 'quantized' is for PyTorch's own use",
        ),
        (
            call("aten::to", "dtype", "self=tensor", "dtype=dtype", inputs=("x",), dtype="load"),
            "the node 'n' has an argument dtype that is no dtype: 'load'",
        ),
        (
            call("aten::to", "dtype", "self=tensor", "dtype=pickle", inputs=("x",), dtype="float"),
            "the node 'n' has an argument dtype of an unknown kind: 'pickle'",
        ),
    ],
    ids=lambda value: value.attribute[0].s.decode() if isinstance(value, onnx.NodeProto) else "",
)
def test_what_a_model_may_not_call(node: onnx.NodeProto, text: str) -> None:
    with pytest.raises(BackendError) as caught:
        prepare(around(node))
    assert text in str(caught.value)
    assert "in node 'n' (org.pytorch.aten.ATen)" in str(caught.value)


def test_a_tensor_without_content_does_not_flow_on() -> None:
    node = call("aten::to", "device", "self=tensor", "device=device", "dtype=dtype", inputs=("x",), device="meta")
    node.attribute.append(helper.make_attribute("dtype", "float32"))
    with pytest.raises(BackendError, match="not dense, or has no content"):
        prepare(around(node)).run(X)


@pytest.fixture
def namespaces() -> Iterator[None]:
    """Two packages' operators: one that computes, one with the name of one that writes files."""
    libraries = [torch.library.Library(name, "DEF") for name in ("safety_ops", "torchcodec_ns")]
    for library in libraries:
        library.define("twice(Tensor x) -> Tensor")
        library.define("change(Tensor(a!) x) -> Tensor(a!)")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    yield
    for library in libraries:
        library._destroy()


@pytest.mark.parametrize(
    ("operator", "custom_ops", "refused"),
    [
        ("safety_ops::twice", None, None),
        ("safety_ops::twice", ["safety_ops"], None),
        ("safety_ops::twice", (), "custom_ops does not list 'safety_ops'"),
        ("safety_ops::change", None, "it changes its arguments"),
        ("torchcodec_ns::twice", None, "operators of 'torchcodec_ns' read or write files"),
        ("torchcodec_ns::twice", {"torchcodec_ns"}, None),
        ("nobodys::twice", None, "this PyTorch has no operator nobodys::twice"),
    ],
)
def test_custom_operators(namespaces: None, operator: str, custom_ops: Any, refused: str | None) -> None:
    model = around(call(operator, "", "x=tensor", inputs=("x",)))
    if refused is None:
        np.testing.assert_array_equal(prepare(model, custom_ops=custom_ops).run(X)[0], 2 * X)
    else:
        with pytest.raises(BackendError, match=refused):
            prepare(model, custom_ops=custom_ops)


def test_custom_ops_is_a_collection_of_names() -> None:
    with pytest.raises(onward.InputError, match="custom_ops is a collection of namespaces"):
        prepare(around(call("aten::relu", "", "self=tensor", inputs=("x",))), custom_ops="safety_ops")


LOOP = """<ir_version: 10, opset_import: ["" : 20]>
g (float[n] x, int64 count) => (float[n] y) {
  y = Loop (count, , x) <body = b (int64 i, bool c, float[n] s) => (bool k, float[n] t) {
    k = Identity (c) t = Neg (s) }>
}"""


def test_loops_without_an_end_are_refused() -> None:
    rep = prepare(onnx.parser.parse_model(LOOP), limits=Limits(max_loop_turns=50))
    np.testing.assert_array_equal(rep.run([X, np.array(49)])[0], -X)
    with pytest.raises(BackendError, match="the loops take more than 50 turns\n.*in node '' \\(ai.onnx.Loop\\)"):
        rep.run([X, np.array(2**62)])
    assert len(rep.run([X, np.array(60)], limits=Limits())) == 1


def test_a_run_that_takes_too_long_is_refused() -> None:
    rep = prepare(onnx.parser.parse_model(LOOP), limits=Limits(max_seconds=0.05))
    with pytest.raises(BackendError, match="the run takes more than 0.05 seconds"):
        rep.run([X, np.array(900_000)])


def test_a_loop_that_says_itself_how_long_it_takes_is_refused_before_its_first_turn() -> None:
    turns = []
    rep = prepare(onnx.parser.parse_model(LOOP))
    before = torch.neg
    torch.neg = lambda x: turns.append(x) or before(x)
    try:
        with pytest.raises(BackendError, match="the loops take more than 1000000 turns") as caught:
            rep.run([X, np.array(2**62)])
    finally:
        torch.neg = before
    assert caught.value.exceeds_limit and not turns


# Data files


def with_data(folder: Path, location: str, **entries: str) -> Path:
    """A model in the folder whose weight of 8 bytes lies in a file."""
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[2], data_location=1)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    node = helper.make_node("Identity", ["w"], ["y"])
    graph = helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")], [tensor])
    folder.mkdir(exist_ok=True)
    file = folder / "m.onnx"
    file.write_bytes(helper.make_model(graph).SerializeToString())
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for models, with data inside and outside, and ways from one to the other."""
    inside, outside = tmp_path / "models", tmp_path / "private"
    for each in (inside, outside, inside / "sub"):
        each.mkdir()
    for each in (inside / "w.bin", outside / "w.bin", inside / "sub" / "w.bin"):
        each.write_bytes(np.array([1, 2], np.float32).tobytes())
    (inside / "link").symlink_to(outside / "w.bin")
    (inside / "folder").symlink_to(outside)
    (inside / "near").symlink_to(inside / "w.bin")
    (inside / "nowhere").symlink_to(inside / "nothing")
    (inside / "circle").symlink_to(inside / "circle")
    os.mkfifo(inside / "fifo")
    (inside / "device").symlink_to("/dev/zero")
    return inside


OUTSIDE = "outside the model's folder"


@pytest.mark.parametrize(
    ("location", "entries", "text"),
    [
        ("../private/w.bin", {}, OUTSIDE),
        ("sub/../../private/w.bin", {}, OUTSIDE),
        ("/etc/hostname", {}, OUTSIDE),
        ("link", {}, OUTSIDE),
        ("folder/w.bin", {}, OUTSIDE),
        ("device", {}, OUTSIDE),
        ("", {}, OUTSIDE),
        ("..", {}, OUTSIDE),
        (".", {}, OUTSIDE),
        ("sub", {}, "there is no such file"),
        ("fifo", {}, "there is no such file"),
        ("nowhere", {}, "there is no such file"),
        ("circle", {}, "there is no such file"),
        ("none.bin", {}, "there is no such file"),
        ("w.bin\0", {}, "which is no name of a file"),
        ("w.bin", {"offset": "4"}, "should be bytes 4 to 12 of 'w.bin', which has 8"),
        ("w.bin", {"length": "1000000000000"}, "should be bytes 0 to 1000000000000"),
        ("w.bin", {"offset": "-4"}, "should be bytes -4 to 4"),
        ("w.bin", {"length": "-8"}, "length -8"),
        ("w.bin", {"length": "4"}, "length 4"),
        ("w.bin", {"offset": "zero"}, "has no readable place in 'w.bin'"),
        ("w.bin", {"offset": str(2**70)}, "should be bytes 1180591620717411303424"),
    ],
)
def test_data_that_is_not_the_models(folder: Path, location: str, entries: dict[str, str], text: str) -> None:
    with pytest.raises(onward.ExportError) as caught:
        prepare(with_data(folder, location, **entries)).run([])
    assert "the weight 'w'" in str(caught.value)
    assert text in str(caught.value)


@pytest.mark.parametrize("location", ["w.bin", "sub/w.bin", "near", "./sub/../w.bin"])
def test_data_that_is(folder: Path, location: str) -> None:
    assert prepare(with_data(folder, location, offset="0", length="8")).run([])[0].tolist() == [1, 2]


def test_data_of_a_model_without_a_folder(folder: Path) -> None:
    with pytest.raises(onward.InputError, match="it is not known where that lies"):
        prepare(with_data(folder, "w.bin").read_bytes())


def test_of_two_locations_the_checked_one_is_read(folder: Path) -> None:
    file = with_data(folder, "w.bin")
    model = onnx.ModelProto.FromString(file.read_bytes())
    model.graph.initializer[0].external_data.insert(0, onnx.StringStringEntryProto(key="location", value="link"))
    file.write_bytes(model.SerializeToString())
    with pytest.raises(onward.InputError, match="says twice"):
        prepare(file)


# Inputs

TYPED = """<ir_version: 10, opset_import: ["" : 20]>
g (float[n, 3] x, string[k] s, seq(float[2]) q, int64 i) => (float[n, 3] y) { y = Identity (x) }"""


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"x": np.ones((2, 3))}, "the input 'x' is torch.float32, given is torch.float64"),
        ({"x": np.ones(3, np.float32)}, "the input 'x' is of shape [n, 3], given is [3]"),
        ({"x": np.ones((2, 4), np.float32)}, "the input 'x' is of shape [n, 3], given is [2, 4]"),
        ({"x": [np.ones(3, np.float32)]}, "the input 'x' is a tensor of FLOAT, given is a list"),
        ({"x": np.array([["a", "b", "c"]])}, "the input 'x' is a tensor of FLOAT, given is strings"),
        ({"x": None}, "the input 'x' is a tensor of FLOAT, given is a NoneType"),
        ({"x": object()}, "the input 'x' is a tensor of FLOAT, given is strings"),
        ({"x": np.ones((2, 3), "M8[s]")}, "the input 'x' is no tensor"),
        ({"s": np.ones(3, np.float32)}, "the input 's' is a tensor of STRING, given is torch.float32"),
        ({"q": np.ones(2, np.float32)}, "the input 'q' is a sequence, given is a Tensor"),
        ({"i": 1.5}, "the input 'i' is torch.int64, given is torch.float64"),
    ],
)
def test_inputs_are_looked_at_before_anything_runs(change: dict[str, Any], text: str) -> None:
    rep = prepare(onnx.parser.parse_model(TYPED))
    good = {"x": np.ones((2, 3), np.float32), "s": np.array(["a"]), "q": [np.ones(2, np.float32)], "i": np.array(1)}
    assert rep.run(good)[0].shape == (2, 3)
    with pytest.raises(onward.InputError) as caught:
        rep.run({**good, **change})
    assert text in str(caught.value)


def test_what_a_kernel_says_is_kept() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[n] x, float[m] z) => (float[n] y) { [sum] y = Add (x, z) }"""
    with pytest.raises(BackendError, match=r"(?s)PyTorch refused.*in node 'sum' \(ai.onnx.Add\)") as caught:
        prepare(onnx.parser.parse_model(text)).run([np.zeros(2, np.float32), np.zeros(3, np.float32)])
    assert type(caught.value.__cause__) is RuntimeError


def test_a_result_is_the_callers_own() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] y, float[2] z, float[2] c) <float[2] w = {1, 2}> {
      y = Identity (x) z = Identity (w) c = Constant <value = float[2] {3, 4}> () }"""
    rep = prepare(onnx.parser.parse_model(text))
    x = np.array([5, 6], np.float32)
    for _ in range(2):
        y, z, c = rep.run(x)
        assert [y.tolist(), z.tolist(), c.tolist()] == [[5, 6], [1, 2], [3, 4]]
        y[:], z[:], c[:] = 0, 0, 0
    assert x.tolist() == [5, 6]


@pytest.mark.parametrize("name", ["required", "_plan", "kept", "training", "a..b", "__class__", ".".join("a" * 50)])
def test_weights_of_any_name(name: str) -> None:
    text = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer[0].name = model.graph.node[0].input[1] = name
    assert prepare(model).run(np.zeros(2, np.float32))[0].tolist() == [1, 2]


def test_a_nodes_inputs_by_name() -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"])
    with pytest.raises(onward.InputError, match="the node's inputs are a, b; given are a"):
        onward.backend.run_node(node, {"a": X})
    with pytest.raises(onward.InputError, match="inputs are an array, a sequence or a mapping"):
        onward.backend.run_node(node, 3)
    assert not onward.backend.supports_device("CUDA:first")
