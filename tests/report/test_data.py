"""The data of the page: scopes, sources, shapes, texts, bodies and functions, and that nothing unknown is a number."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from torch import nn

import onward
from onward.report.contents import contents
from onward.report.data import report_data
from onward.report.short_texts import tensor_text
from onward.report.template import page


def of_text(text: str, sizes: dict[str, tuple[int, ...]] | None = None) -> dict[str, Any]:
    """The data of a model that is written down."""
    model = ir.from_proto(onnx.parser.parse_model(text))
    return contents(model, sizes or {}).data


def node(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in data["nodes"] if name in (each["name"], each["op"]))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x).flatten(1).sum(1)


@pytest.fixture(scope="module")
def net() -> onward.Program:
    batch = torch.export.Dim("batch", min=1, max=64)
    return onward.export(Net().eval(), (torch.rand(2, 3, 8, 8),), dynamic_shapes={"x": {0: batch}})


def test_an_export(net: onward.Program) -> None:
    verification = net.verify()
    data = report_data(net, verification, [("More", "<p>of it</p>")]).data
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    conv = node(data, "Conv")
    assert conv["scope"] == [["body", "Sequential"], ["0", "Conv2d"]]
    assert conv["source"].startswith("test_data.py:") and conv["code"] == "return self.body(x).flatten(1).sum(1)"
    assert conv["parameters"] == 3 * 4 * 9 + 4 and data["totals"]["parameters"] == conv["parameters"]
    assert ["kernel_shape", "[3, 3]"] in conv["attributes"]
    x, weight, _ = (data["values"][place] for place in conv["in"])
    assert x == {"name": "x", "type": "float32", "shape": ["batch", 3, 8, 8], "kind": "input", "bytes": 2 * 3 * 64 * 4,
                 "preview": None}  # fmt: skip
    assert weight["kind"] == "weight" and weight["bytes"] == 3 * 4 * 9 * 4
    assert data["values"][conv["out"][0]]["bytes"] == 2 * 4 * 36 * 4
    assert [data["values"][place]["kind"] for place in data["outputs"]] == ["output"]
    assert data["axes"][0]["where"] == "x axis 0" and data["axes"][0]["bounds"] == "1..64"
    traced, checked = data["axes"][0]["proven"]
    assert traced.startswith("traced at 2, ") and checked.startswith("checked at 1, ")
    assert {each["verdict"] for each in data["verification"]} == {"ok"}
    assert data["verification"][0]["sizes"] == "example" and data["verification"][0]["error"] < 1e-5
    assert data["totals"]["counted_at"] == "x 2×3×8×8" and data["totals"]["flops_unknown"] == []
    assert data["sections"] == [{"title": "More", "html": "<p>of it</p>"}]


def test_an_axis_that_is_given_up_is_frozen_and_not_a_warning() -> None:
    class Frozen(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.arange(int(x.shape[0]))[:, None]

    program = onward.export(Frozen(), (torch.rand(3, 2),), dynamic_axes={"x": {0: "n", 1: "m"}}, allow_static_axes=True)
    data = report_data(program).data
    assert [each["name"] for each in data["axes"]] == (["n", "m"] if not data["frozen"] else ["m"])
    assert data["warnings"] == [text for text in program.warnings if not text.startswith("written as fixed")]


FUNCTIONS = """
<ir_version: 9, opset_import: ["" : 20, "own" : 1]>
g (float[n, 4] x) => (float[n, 3] y)
<float[4, 3] w> {
   y = own.Layer <slope = 0.5> (x, w)
}
<domain: "own", opset_import: ["" : 20]>
Layer <slope> (a, b) => (c) {
   m = MatMul (a, b)
   c = LeakyRelu <alpha: float = @slope> (m)
}
"""


def test_a_function_is_opened_at_every_call() -> None:
    data = of_text(
        FUNCTIONS.replace("<float[4, 3] w>", "<float[4, 3] w = {" + ", ".join(["1.0"] * 12) + "}>"), {"x": (5, 4)}
    )
    (call,) = data["nodes"]
    (body,) = call["graphs"]
    assert body["name"] == "Layer" and [each["op"] for each in body["nodes"]] == ["MatMul", "LeakyRelu"]
    assert body["nodes"][1]["attributes"] == [["alpha", "0.5"]]
    assert [data["values"][place]["shape"] for place in body["outputs"]] == [["n", 3]]
    assert call["flops"] == 2 * 5 * 3 * 4 + 2 * 5 * 3 and data["totals"]["flops"] == call["flops"]
    assert data["files"]["nodes"] == 3


BRANCHES = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[4] x, bool c) => (float[4] y) {
   y = If (c) <
     then_branch = then () => (float[4] a) { a = Neg (x) },
     else_branch = other () => (float[4] b) { t = Exp (x)  b = EXTRA (t) }
   >
}
"""


@pytest.mark.parametrize(("extra", "flops"), [("Identity", 4), ("Sqrt", None)])
def test_branches_have_a_number_if_they_cost_the_same(extra: str, flops: int | None) -> None:
    data = of_text(BRANCHES.replace("EXTRA", extra), {"x": (4,), "c": ()})
    (choice,) = data["nodes"]
    assert [graph["name"] for graph in choice["graphs"]] == ["then_branch", "else_branch"]
    assert choice["flops"] == flops and choice["attributes"] == []
    outside = {value["name"]: place for place, value in enumerate(data["values"])}
    assert choice["graphs"][0]["nodes"][0]["in"] == [outside["x"]]
    assert data["totals"]["flops_unknown"] == ([] if flops else ["If"])


LOOP = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[4] x) => (float[4] y) <int64 turns = {3}, bool yes = {1}> {
   y = Loop (turns, yes, x) <
     body = b (int64 i, bool go, float[4] h) => (bool keep, float[4] z) { keep = TOLD (go)  z = Mul (h, h) }
   >
}
"""


@pytest.mark.parametrize(("told", "flops"), [("Identity", 12), ("Not", None)])
def test_a_loop_counts_its_turns_only_if_nothing_else_ends_it(told: str, flops: int | None) -> None:
    data = of_text(LOOP.replace("TOLD", told), {"x": (4,)})
    assert data["nodes"][0]["flops"] == flops


FOREIGN = """
<ir_version: 9, opset_import: ["" : 20, "strange" : 1]>
g (float[2, 4] x) => (float[2, 4] y) {
   h = Relu (x)
   u = strange.What (h)
   y = Add (u, h)
}
"""


def foreign(text: str = FOREIGN) -> ir.Model:
    model = ir.from_proto(onnx.parser.parse_model(text))
    for node, name in zip(model.graph, ("/features/features.0/Relu", "/features/1/What", "/head/Add"), strict=True):
        node.name = name
    return model


def test_other_exporters() -> None:
    data = contents(foreign(), {"x": (2, 4)}).data
    assert [each["scope"] for each in data["nodes"]] == [
        [["features", ""], ["0", ""]], [["features", ""], ["1", ""]], [["head", ""]]
    ]  # fmt: skip
    strange = data["nodes"][1]
    assert strange["flops"] is None and strange["memory"] is None and strange["source"] is None
    assert data["values"][strange["out"][0]] == {"name": "u", "type": "?", "shape": None, "kind": "inner",
                                                 "bytes": None, "preview": None}  # fmt: skip
    assert data["totals"]["flops"] == 16 and data["totals"]["flops_unknown"] == ["What"]
    assert data["totals"]["peak_memory"] is None
    model = foreign()
    first, second, third = model.graph
    first.metadata_props.update({
        "pkg.torch.onnx.name_scopes": "['', 'features', 'features.0', 'relu']",
        "pkg.torch.onnx.class_hierarchy": "['net.Net', 'torch.Sequential', 'torch.ReLU', 'aten.relu.default']",
        "pkg.torch.onnx.stack_trace": 'File "/home/somebody/net.py", line 12, in forward\n    return self.f(x)\n'
        '  File "/lib/torch/nn/modules/activation.py", line 103, in forward\n    return F.relu(input)\n',
    })  # fmt: skip
    second.metadata_props["namespace"] = ": net.Net/features: torch.Sequential/features.1: net.What/what: aten.what"
    third.metadata_props["pkg.torch.onnx.name_scopes"] = "__import__('os')"
    found = contents(model, {"x": (2, 4)}).data["nodes"]
    assert found[0]["scope"] == [["features", "Sequential"], ["0", "ReLU"]]
    assert (found[0]["source"], found[0]["code"]) == ("net.py:12", "return self.f(x)")
    assert found[1]["scope"] == [["features", "Sequential"], ["1", "What"]] and found[2]["scope"] == [["head", ""]]


def test_a_file_of_a_stranger_reads_no_files_but_python(tmp_path: Any) -> None:
    model = foreign()
    (tmp_path / "secret.txt").write_text("password\n")
    (tmp_path / "net.py").write_text("x = 1\n")
    first, second, _ = model.graph
    first.doc_string, second.doc_string = f"{tmp_path / 'secret.txt'}:1", f"{tmp_path / 'net.py'}:1 in forward"
    data = contents(model, {}).data
    assert "password" not in json.dumps(data)
    assert (data["nodes"][1]["source"], data["nodes"][1]["code"]) == ("net.py:1", "x = 1")


def test_a_large_constant_stays_out_of_the_page() -> None:
    tensor = ir.tensor(np.arange(100_000, dtype=np.int64))
    assert tensor_text(tensor) == "int64[100000] = {0, 1, 2, 3, 4, 5, 6, 7, ...}"
    assert tensor_text(ir.tensor(np.array(0.5, dtype=np.float32))) == "float32[] = {0.5}"
    constant = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor), ir.AttrString("doc", "x" * 10_000)])
    graph = ir.Graph([], [constant.outputs[0]], nodes=[constant], opset_imports={"": 20}, name="g")
    data = contents(ir.Model(graph, ir_version=9), {}).data
    assert len(json.dumps(data)) < 2_000


PEAK = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[10] x) => (float[5] y) <int64[1] s = {-1}, int64[1] zero = {0}, int64[1] five = {5}> {
   a = Neg (x)
   b = Reshape (a, s)
   c = Exp (b)
   d = Slice (c, zero, five)
   y = Abs (d)
}
"""


def test_the_peak_is_what_lives_at_once() -> None:
    """x (40 bytes) goes after the first node; b is a in another shape; a and c are 80 bytes, the most with x and a."""
    data = of_text(PEAK, {"x": (10,)})
    assert data["totals"]["peak_memory"] == 80
    assert [each["memory"] for each in data["nodes"]] == [80, 0, 80, 40 + 8 + 8, 40]


def test_a_model_that_inference_refuses_has_a_page_too() -> None:
    data = of_text(FOREIGN.replace('"strange" : 1', '"other" : 1'), {"x": (2, 4)})
    assert len(data["nodes"]) == 3
    (note,) = data["notes"]
    assert note.startswith("shapes are not known: the model contradicts itself: ") and "strange" in note


def test_what_is_computed_of_weights_alone_is_no_activation() -> None:
    text = """<ir_version: 9, opset_import: ["" : 20]>
        g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> { a = Exp (w)  b = Neg (a)  y = Mul (x, b) }"""
    assert of_text(text, {"x": (2,)})["totals"]["peak_memory"] == 16


def test_random_values_that_cannot_be_compared_are_nothing_wrong() -> None:
    program = onward.export(lambda x: (x + torch.rand_like(x), x * 2), (torch.ones(2, 3),))
    verification = program.verify()
    data = report_data(program, verification).data
    assert verification.ok and all(row["ok"] for row in data["verification"])
    assert any("values random" in row["verdict"] for row in data["verification"])
    assert f"verified: {len(data['verification'])} of" in page(data).split("<main>")[0]
