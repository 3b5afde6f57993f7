"""F3: input names are readable back; any intermediate value can be made an output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import nn

import onward

from .running import assert_same, load, run, shapes


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)

    def forward(self, image: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.norm(self.conv(image)))
        return self.head(features.mean((2, 3)) * scale)

    def features(self, image: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(image)))


ARGS = (torch.randn(2, 3, 6, 6), torch.rand(4))
OTHER = (torch.randn(5, 3, 6, 6), torch.rand(4))
AXES = {"image": {0: "batch"}}


@pytest.fixture
def net() -> Net:
    torch.manual_seed(1)
    return Net().eval()


@pytest.fixture
def path(net: Net, tmp_path: Path) -> Path:
    onward.export(net, ARGS, tmp_path / "net.onnx", dynamic_axes=AXES, output_names=["scores"])
    return tmp_path / "net.onnx"


def as_given(kind: str, path: Path) -> Any:
    return {
        "path": path, "text": str(path), "bytes": path.read_bytes(), "proto": onnx.load(path), "ir": ir.load(path),
    }[kind]  # fmt: skip


def as_bytes(model: Any) -> bytes:
    if isinstance(model, bytes):
        return model
    return (model if isinstance(model, onnx.ModelProto) else ir.to_proto(model)).SerializeToString()


def test_names_are_readable_back(path: Path, net: Net) -> None:
    assert [value.name for value in onnx.load(path).graph.input] == ["image", "scale"]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_inputs()] == ["image", "scale"]
    for model in (path, path.read_bytes(), onnx.load(path), ir.load(path), onward.export(net, ARGS)):
        assert onward.input_names(model) == ["image", "scale"]
    assert onward.output_names(path) == ["scores"]


def test_weights_that_may_be_fed_are_not_inputs_that_have_to_be() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"
    )
    assert onward.input_names(model) == ["x"]


@pytest.mark.parametrize("kind", ["path", "text", "bytes", "proto", "ir"])
def test_intermediate_values_follow_the_outputs(kind: str, path: Path, net: Net) -> None:
    before = path.read_bytes()
    opened = onward.with_outputs(as_given(kind, path), ["relu"])
    expected_type = {"bytes": bytes, "proto": onnx.ModelProto}.get(kind, ir.Model)
    assert isinstance(opened, expected_type)
    onnx.checker.check_model(onnx.load_from_string(as_bytes(opened)), full_check=True)
    assert_same(run(as_bytes(opened), OTHER), [net(*OTHER), net.features(OTHER[0])])
    assert path.read_bytes() == before


def test_without_the_old_outputs_the_rest_of_the_graph_goes(path: Path, net: Net, tmp_path: Path) -> None:
    onward.with_outputs(path, ["relu"], tmp_path / "front.onnx", keep=False)
    proto = load(tmp_path / "front.onnx")
    assert [node.op_type for node in proto.graph.node] == ["Conv", "Relu"]
    assert not any("head" in initializer.name for initializer in proto.graph.initializer)
    assert [value.name for value in proto.graph.input] == ["image", "scale"]
    assert shapes(proto.graph.output) == {"relu": ("batch", 4, 6, 6)}
    assert_same(run(tmp_path / "front.onnx", OTHER), [net.features(OTHER[0])])


def test_types_and_shapes_are_inferred_where_the_file_has_none(path: Path, net: Net) -> None:
    proto = onnx.load(path)
    del proto.graph.value_info[:]
    opened = onward.with_outputs(proto, ["relu"])
    assert shapes(opened.graph.output) == {"scores": ("batch", 5), "relu": ("batch", 4, 6, 6)}
    assert [value.name for value in proto.graph.output] == ["scores"]


def test_outputs_come_in_the_order_asked_for_and_none_twice(path: Path) -> None:
    opened = onward.with_outputs(path, ["scores", "relu"], keep=False)
    assert onward.output_names(opened) == ["scores", "relu"]
    assert onward.output_names(onward.with_outputs(path, ["scores", "relu"])) == ["scores", "relu"]


def test_a_program_gives_a_program_that_runs(net: Net, tmp_path: Path) -> None:
    program = onward.export(net, ARGS, dynamic_axes=AXES, output_names=["scores"])
    for opened in (program.with_outputs(["relu"]), onward.with_outputs(program, ["relu"], tmp_path / "opened.onnx")):
        assert [(port.name, port.shape) for port in opened.outputs] == [
            ("scores", ("batch", 5)),
            ("relu", ("batch", 4, 6, 6)),
        ]
        result = opened(*OTHER)
        assert list(result) == ["scores", "relu"]
        assert_same(list(result.values()), [net(*OTHER), net.features(OTHER[0])])
        assert repr(opened) == "OpenedProgram(Net, outputs scores, relu)"
        with pytest.raises(onward.InputError, match="PyTorch has nothing to compare them with"):
            opened.verify()
    assert_same(run(tmp_path / "opened.onnx", OTHER), list(result.values()))
    assert_same([program(*OTHER)], [net(*OTHER)])
    assert program.verify().ok and [port.name for port in program.outputs] == ["scores"]


LOOP = """<ir_version: 8, opset_import: ["" : 17]>
g (int64 n, bool c, float[2] x) => (float[2] y) {
  first = Exp(x)
  y = Loop(n, c, first) <body = b (int64 i, bool go, float[2] a) => (bool more, float[2] r) {
    more = Identity(go)
    inner = Abs(a)
    r = Neg(inner)
  }>
}"""


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["frist"], r"the model computes no value 'frist'\n  did you mean 'first'\?"),
        (["nothing like it"], "the model computes no value 'nothing like it'\n  onward.printable"),
        (["inner"], "the value 'inner' is inside the body of the Loop 'y', which may run never or many times"),
        (["x"], "'x' is an input of the model, and only values that it computes can be outputs"),
        (["first", "first"], "the value 'first' is named twice"),
        ("first", r"the names of values are expected as a list, not 'first'\n  for example"),
        ([], "no names are given, and a model needs an output"),
        ([1], "the name of a value is expected, not 1"),
        (None, "the names of values are expected as a list, not None"),
    ],
)
def test_names_that_cannot_be_outputs_are_told(names: Any, message: str) -> None:
    with pytest.raises(onward.InputError, match=message):
        onward.with_outputs(onnx.parser.parse_model(LOOP), names)


def test_the_name_of_a_node_is_told_apart_from_that_of_a_value(path: Path) -> None:
    with pytest.raises(
        onward.InputError, match="'conv.conv2d' is a node, not a value\n  it computes 'norm.batch_norm'"
    ):
        onward.with_outputs(path, ["conv.conv2d"])
    with pytest.raises(onward.InputError, match="'head.weight' is a weight of the model"):
        onward.with_outputs(path, ["head.weight"])


def test_values_before_a_loop_can_be_outputs() -> None:
    opened = onward.with_outputs(onnx.parser.parse_model(LOOP), ["first"])
    x = torch.tensor([0.0, 1.0])
    got = run(opened.SerializeToString(), {"n": torch.tensor(2), "c": torch.tensor(True), "x": x})
    assert_same(got, [-x.exp(), x.exp()])


def test_a_value_of_an_unknown_operator_has_no_type_to_declare() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>\n'
        "g (float[2] x) => (float[2] z) { y = mine.Odd(x)\n z = mine.Even(y) }"
    )
    with pytest.raises(onward.InputError, match="the type of 'y' is not known"):
        onward.with_outputs(model, ["y"])


@pytest.mark.parametrize(
    ("output", "message"), [("", "is not the name of a file"), (3, "output must be a path, not int")]
)
def test_an_output_that_cannot_be_written_is_refused_first(output: Any, message: str, path: Path) -> None:
    with pytest.raises(onward.InputError, match=message):
        onward.with_outputs(path, ["relu"], output)


def test_a_value_inside_a_function_is_told() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>\n'
        "g (float[2] x) => (float[2] y) { y = mine.F(x) }\n"
        '<domain: "mine", opset_import: ["" : 17]> F(x) => (y) { inner = Exp(x)\n y = Neg(inner) }'
    )
    with pytest.raises(onward.InputError, match="the value 'inner' is inside the function mine::F\n  choose an output"):
        onward.with_outputs(model, ["inner"])


def test_the_path_of_a_module_leads_to_its_last_value(net: Net) -> None:
    program = onward.export(
        nn.Sequential(net.conv, nn.ReLU(), nn.Sequential(nn.Tanh(), nn.Sigmoid()), nn.ReLU()), ARGS[:1]
    )
    with pytest.raises(onward.InputError, match=r"computes no value '2'\n  did you mean '2.1.sigmoid'"):
        program.with_outputs(["2"])
