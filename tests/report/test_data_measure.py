"""Times and errors on the page: fused nodes are told, nothing is made up, and what cannot be had is a note."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch
from torch import nn

import onward
from onward.report import Measuring, measured_data, measuring_of, write_page
from onward.report.common_cuts import Step, cut
from onward.report.inline import inlined
from onward.report.numerical_errors import _portions
from onward.report.profile import Profile
from onward.verify import Session


def data_of(page: Path) -> dict[str, Any]:
    """What a written page holds."""
    found = re.search(r'id="model">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


class View:
    def __init__(self, text: str) -> None:
        self.model = ir.from_proto(onnx.parser.parse_model(text))
        self.warnings = ()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.conv(x)))
        return torch.tanh(self.head(y.mean((2, 3))))


@pytest.fixture(scope="module")
def program() -> onward.Program:
    torch.manual_seed(0)
    return onward.export(Net().eval(), (torch.rand(2, 3, 8, 8),), dynamic_axes={"x": {0: "batch"}})


def test_a_program_is_timed_and_compared(program: onward.Program, tmp_path: Path) -> None:
    program.report(tmp_path / "page.html", program.verify())
    data = data_of(tmp_path / "page.html")
    assert data["notes"] == [] and data["totals"]["microseconds"] > 0
    assert "x 2×3×8×8; medians of " in data["totals"]["profiled_at"]
    nodes = {node["op"]: node for node in data["nodes"]}
    fused = [nodes["Gemm"], nodes["Tanh"]]
    assert nodes["Gemm"]["microseconds"] > 0 and nodes["Tanh"]["microseconds"] is None
    assert all(node["fused_into"].startswith("FusedGemm '") for node in fused)
    assert nodes["Tanh"]["runtime_note"] == f"part of the time of '{nodes['Gemm']['name']}'"
    assert nodes["ReduceMean" if "ReduceMean" in nodes else "GlobalAveragePool"]["microseconds"] > 0
    assert all(node["error"]["ok"] and node["error"]["scaled"] < 1e-5 for node in data["nodes"] if node["error"])
    assert sum(node["error"] is not None for node in data["nodes"]) >= 4
    assert "values were compared with PyTorch's" in data["error_note"]


def test_a_wrong_node_shows(program: onward.Program) -> None:
    class Wrong:
        model = program.model.clone()
        warnings = ()

    relu = next(node for node in Wrong.model.graph if node.op_type == "Relu")
    relu.op_type = "Abs"
    data = measured_data(Wrong(), measuring_of(program, profile=False))
    wrong = [node["op"] for node in data["nodes"] if node["error"] and not node["error"]["ok"]]
    assert wrong[0] == "Abs" and "Conv" not in wrong and data["nodes"][-1]["op"] in wrong


UNLOADABLE = """
<ir_version: 9, opset_import: ["" : 20, "nobody" : 1]>
g (float[2] x) => (float[2] y) { y = nobody.Knows (x) }
"""


def test_what_onnxruntime_does_not_load_is_said() -> None:
    data = measured_data(View(UNLOADABLE), Measuring({"x": torch.rand(2)}))
    (note,) = data["notes"]
    assert note.startswith("no times: onnxruntime does not load the model: ") and "Knows" in note
    assert data["nodes"][0]["microseconds"] is None and data["totals"]["microseconds"] is None


DATA_DEPENDENT = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n] x) => (float[m, 1] y) <float[1, 4] w = {1.0, 2.0, 3.0, 4.0}> {
   where_ = NonZero (x)
   t = Transpose <perm = [1, 0]> (where_)
   f = Cast <to = 1> (t)
   p = MatMul (f, w)
   one = Constant <value_ints = [1]> ()
   y = ReduceSum <keepdims = 1> (p, one)
}
"""


def test_shapes_that_data_decides_over_are_seen_in_a_run() -> None:
    x = torch.tensor([0.0, 1.0, 2.0, 0.0, 3.0])
    without = measured_data(View(DATA_DEPENDENT), Measuring())
    assert "MatMul" in without["totals"]["flops_unknown"] and without["totals"]["peak_memory"] is None
    data = measured_data(View(DATA_DEPENDENT), Measuring({"x": x}))
    product = next(node for node in data["nodes"] if node["op"] == "MatMul")
    assert product["flops"] == 2 * 3 * 4 and data["totals"]["flops_unknown"] == []
    assert data["totals"]["peak_memory"] is not None


FOLDED = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[2, 3] x) => (float[2, 3] y) <float[3] w = {1.0, 2.0, 3.0}> {
   s = Exp (w)
   t = Neg (s)
   y = Add (x, t)
}
"""


def test_what_is_computed_at_loading_takes_no_time() -> None:
    data = measured_data(View(FOLDED), Measuring({"x": torch.rand(2, 3)}))
    exp, neg, add = data["nodes"]
    assert exp["runtime_note"] == neg["runtime_note"] == "computed once, when onnxruntime loads the model"
    assert exp["microseconds"] is None and add["microseconds"] > 0 and add["fused_into"] is None


def test_nodes_of_a_body_are_timed() -> None:
    text = """<ir_version: 9, opset_import: ["" : 20]>
        g (float[4] x, bool c) => (float[4] y) { y = If (c) <
          then_branch = then () => (float[4] a) { a = Neg (x) }, else_branch = other () => (float[4] b) { b = Exp (x) }
        > }"""
    data = measured_data(View(text), Measuring({"x": torch.rand(4), "c": torch.tensor(True)}))
    (choice,) = data["nodes"]
    taken, other = (graph["nodes"][0] for graph in choice["graphs"])
    assert choice["microseconds"] >= taken["microseconds"] > 0 and other["microseconds"] is None
    assert data["totals"]["microseconds"] == choice["microseconds"]


def test_nodes_of_functions_are_timed() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), nn.Sequential(nn.Conv2d(8, 8, 3), nn.Tanh()))
    program = onward.export(model.eval(), (torch.rand(1, 3, 9, 9),), export_modules_as_functions=True)
    data = measured_data(program, measuring_of(program))
    first, second = data["nodes"]
    for call, activation in ((first, "Relu"), (second, "Tanh")):
        inner = {node["op"]: node for each in call["graphs"][0]["nodes"] for node in each["graphs"][0]["nodes"]}
        assert {"Conv", activation} == set(inner)
        assert inner["Conv"]["microseconds"] > 0 and inner[activation]["microseconds"] is None
        assert inner[activation]["fused_into"] == inner["Conv"]["fused_into"]
        assert call["microseconds"] == inner["Conv"]["microseconds"]
        assert call["error"]["ok"]


def test_functions_are_written_out_as_they_are_called() -> None:
    """Attributes of the call, inputs that are left out, a body in a function, a function in a function."""
    text = """<ir_version: 9, opset_import: ["" : 20, "own" : 1]>
        g (float[3] x, bool c) => (float[3] y, float[3] z) {
          y = own.Twice <by = 2.0> (x, c)
          z = own.Scaled <by = 3.0> (y)
        }
        <domain: "own", opset_import: ["" : 20, "own" : 1]>
        Twice <by> (a, c) => (r) {
          h = own.Scaled <by: float = @by> (a)
          r = If (c) <then_branch = t () => (p) { p = Neg (h) }, else_branch = e () => (q) { q = Exp (h) }>
        }
        <domain: "own", opset_import: ["" : 20]>
        Scaled <by> (a, low) => (s) {
          k = Constant <value_float: float = @by> ()
          m = Mul (a, k)
          s = Clip (m, low)
        }"""
    model = View(text).model
    written_out, paths = inlined(model)
    assert {node.op_type for node in written_out.graph} == {"Constant", "Mul", "Clip", "If"}
    assert sorted(paths.values()) == [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1), (1, 0), (1, 1), (1, 2)]
    feeds = {"x": torch.tensor([1.0, -2.0, 3.0]), "c": torch.tensor(True)}
    for given, wanted in zip(Session(model).run(feeds), Session(written_out).run(feeds), strict=True):
        assert isinstance(given, torch.Tensor) and isinstance(wanted, torch.Tensor) and torch.equal(given, wanted)
    data = measured_data(View(text), Measuring(feeds))
    assert data["notes"] == [] and all(node["microseconds"] > 0 for node in data["nodes"])


def _step(place: int, name: str, op: str, reads: str, gives: str, domain: str = "") -> Step:
    return Step(place, name, op, domain, tuple(reads.split()), tuple(gives.split()))


def test_blocked_convolutions_are_found_by_their_names() -> None:
    """As onnxruntime writes them: the second has taken in the sum and the activation after it got its name."""
    file = [
        _step(0, "a", "Conv", "x w", "a"),
        _step(1, "b", "Conv", "a w", "b"),
        _step(2, "c", "Add", "b a", "c"),
        _step(3, "d", "Relu", "c", "d"),
        _step(4, "e", "Concat", "d a", "e"),
        _step(5, "f", "Conv", "e w", "f"),
        _step(6, "g", "Neg", "f", "g"),
    ]
    blocked = "com.microsoft.nchwc"
    runtime = [
        _step(0, "a_nchwc", "Conv", "x w", "r0", blocked),
        _step(1, "b_nchwc", "Conv", "r0 w r0", "r1", blocked),
        _step(2, "e", "Concat", "r1 r0", "r2"),
        _step(3, "f_nchwc_token_7", "Conv", "r2 w", "r3", blocked),
        _step(4, "ReorderOutput", "ReorderOutput", "r3", "f", blocked),
        _step(5, "g", "Neg", "f", "g"),
    ]
    found = cut(file, runtime, [])
    assert [(part.file, [step.name for step in part.runtime]) for part in found.stretches] == [
        ([0], ["a_nchwc"]),
        ([1, 2, 3], ["b_nchwc"]),
        ([4], ["e"]),
        ([5], ["f_nchwc_token_7"]),
        ([6], ["g"]),
    ]
    assert [step.name for step in found.inserted] == ["ReorderOutput"]


def test_operators_on_integers_are_found_by_their_names() -> None:
    file = [
        _step(0, "dq", "DequantizeLinear", "x", "dq"),
        _step(1, "conv", "Conv", "dq w", "conv"),
        _step(2, "relu", "Relu", "conv", "relu"),
        _step(3, "q", "QuantizeLinear", "relu", "q"),
        _step(4, "dq2", "DequantizeLinear", "q", "dq2"),
        _step(5, "pool", "GlobalAveragePool", "dq2", "pool"),
        _step(6, "q2", "QuantizeLinear", "pool", "q2"),
    ]
    runtime = [
        _step(0, "Transpose", "Transpose", "x", "t"),
        _step(1, "conv_token_1", "QLinearConv", "t w", "conv_token_0", "com.microsoft"),
        _step(2, "pool", "QLinearGlobalAveragePool", "conv_token_0", "pool_token_3", "com.microsoft"),
        _step(3, "Transpose_token_4", "Transpose", "pool_token_3", "q2"),
    ]
    found = cut(file, runtime, [])
    assert [(part.file, [step.name for step in part.runtime]) for part in found.stretches] == [
        ([0, 1, 2, 3], ["Transpose", "conv_token_1"]),
        ([4, 5, 6], ["pool"]),
    ]
    assert [step.name for step in found.inserted] == ["Transpose_token_4"]


def test_a_median_is_taken_node_by_node() -> None:
    runs = [{"a": 1.0, "b": 50.0}, {"a": 90.0, "b": 2.0}, {"a": 1.5, "b": 2.5}]
    profiled = Profile(runs, [100.0] * 3, None, ir.Graph([], [], nodes=[]))
    assert profiled.median(["a", "b"]) == 4.0 and profiled.median(["c"]) is None


def test_values_are_taken_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.report.numerical_errors._PORTION", 10)
    assert list(_portions(list("abcd"), {"a": 6, "b": 6, "c": None, "d": 40})) == [["a"], ["b", "c"], ["d"]]


def test_values_in_portions_are_the_same(program: onward.Program, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = measured_data(program, measuring_of(program, profile=False))
    monkeypatch.setattr("onward.report.numerical_errors._PORTION", 4096)
    parts = measured_data(program, measuring_of(program, profile=False))
    assert [node["error"] for node in parts["nodes"]] == [node["error"] for node in whole["nodes"]]
    monkeypatch.setattr("onward.report.numerical_errors._MOST_PORTIONS", 1)
    first = measured_data(program, measuring_of(program, profile=False))
    assert "more would have taken too much memory" in first["error_note"]
    assert sum(node["error"] is not None for node in first["nodes"]) < len(whole["nodes"])


def test_a_model_that_is_too_large_says_so(program: onward.Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.report.numerical_errors._MOST_WEIGHTS", 100)
    monkeypatch.setattr("onward.report.profile._MOST_WEIGHTS", 100)
    data = measured_data(program, measuring_of(program))
    assert data["error_note"].startswith("values were not compared with PyTorch's: the model has ")
    assert all(node["error"] is None and node["fused_into"] is None for node in data["nodes"])
    (note,) = data["notes"]
    assert note.startswith("times are of nodes that onnxruntime kept")


def test_random_values_are_not_compared() -> None:
    class Noise(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x) + torch.rand_like(x)

    program = onward.export(Noise(), (torch.randn(8),))
    data = measured_data(program, measuring_of(program, profile=False))
    assert {node["op"]: node["error"] is None for node in data["nodes"]}["Relu"] is False
    assert data["nodes"][-1]["error"] is None


def test_a_page_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    write_page(tmp_path / "p.html", "one")
    (tmp_path / "p.html").chmod(0o640)
    write_page(tmp_path / "p.html", "two")
    assert (tmp_path / "p.html").read_text() == "two" and (tmp_path / "p.html").stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["p.html"]
    with pytest.raises(onward.WriteError, match=r"the directory '.*nowhere' does not exist"):
        write_page(tmp_path / "nowhere" / "p.html", "three")


def test_report_true_writes_it(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    onward.export(
        model, (torch.rand(1, 3),), tmp_path / "m.onnx", verify=True, report=True, artifacts_dir=tmp_path / "a"
    )
    (page,) = (tmp_path / "a").glob("*.html")
    data = data_of(page)
    assert data["verification"][0]["verdict"] == "ok" and data["nodes"][0]["microseconds"] is not None


def test_other_runtimes_are_told_with_their_sources() -> None:
    text = """<ir_version: 9, opset_import: ["" : 20]> g (float[4] x) => (float[4] y, int64[k] u)
        { y = Relu (x)  u, v, w, c = Unique (x) d, e, f, h = Unique (y) }""".replace("int64[k] u", "float[k] u")
    data = measured_data(View(text), Measuring({"x": torch.rand(4)}))
    titles = [each["target"].split()[0] for each in data["compatibility"]]
    assert titles[0] == "onnxruntime" and {"TensorRT", "OpenVINO"} <= set(titles)
    assert all(each["source"] for each in data["compatibility"])
    first, *others = data["compatibility"]
    assert first["problems"] == [] and first["source"] == "it has run the model for this page"
    tensorrt = next(each for each in others if each["target"].startswith("TensorRT"))
    (unique,) = [each for each in tensorrt["problems"] if "Unique" in each["text"]]  # one sentence about two nodes
    assert unique["count"] == 2 and unique["nodes"] == [1, 2]
    assert all(0 not in each["nodes"] for each in tensorrt["problems"])
    marked = [text for text in data["nodes"][1]["problems"] if text.startswith("TensorRT")]
    assert marked and "Unique" in marked[0]


def test_what_is_not_known_and_what_has_a_condition_is_no_problem() -> None:
    text = """<ir_version: 9, opset_import: ["" : 20, "my" : 1]> g (float[1, 1, 4, 4] x) => (float[1, 1, 8, 8] y)
        <float[4] s = {1., 1., 2., 2.}> { t = my.Op (x)  y = Resize <mode = "linear"> (x, , s) }"""
    data = measured_data(View(text), Measuring())
    told = {each["target"].split()[0].lower(): each for each in data["compatibility"]}
    assert told["tensorrt"]["problems"] == [] and [each["nodes"] for each in told["tensorrt"]["unknown"]] == [[0]]
    coreml = next(each for name, each in told.items() if name.startswith("core"))
    assert [(each["count"], each["nodes"]) for each in coreml["conditions"]] == [(1, [1])]
    assert [each["nodes"] for each in coreml["problems"]] == [[0]] and data["nodes"][1]["problems"] == []


def test_a_refusal_of_onnxruntimes_is_a_problem() -> None:
    data = measured_data(View(UNLOADABLE), Measuring({"x": torch.rand(2)}))
    problems = next(each["problems"] for each in data["compatibility"] if each["target"].startswith("onnxruntime"))
    assert any("it does not load the model" in problem["text"] for problem in problems)
