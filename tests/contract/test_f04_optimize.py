"""F4: `onward.optimize(model)` and `onward.infer_shapes(model)` on any ONNX file."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import nn

import onward
from tests.opsets import NEWEST

from .running import load, open_session, run, shapes

HEAD = '<ir_version: 8, opset_import: ["" : 17]> '


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Hardswish(), nn.Dropout(0.5))
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1), nn.Sigmoid())
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return self.head((y * self.squeeze(y)).flatten(2).mean(-1))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.weight = nn.Parameter(torch.rand(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, d = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b, s, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-1, -2) / 8**0.5 + torch.arange(s).float()).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(b, s, d))
        return nn.functional.gelu(self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(6, 8, 2, bidirectional=True, batch_first=True), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, (h, _) = self.rnn(x)
        return self.head(y), h


EXAMPLES = {
    Convolutions: (torch.randn(2, 3, 8, 8), {0: "batch"}),
    Attention: (torch.randn(2, 5, 16), {0: "batch", 1: "seq"}),
    Recurrent: (torch.randn(2, 5, 6), {0: "batch"}),
}


def by_torch(kind: type[nn.Module], path: Path, *, dynamo: bool, opset: int) -> Path:
    """A file that PyTorch's own exporters write; theirs to warn and print as they like."""
    torch.manual_seed(4)
    x, axes = EXAMPLES[kind]
    how: dict[str, Any] = dict(input_names=["x"], opset_version=opset, dynamo=dynamo)
    if dynamo:
        dynamic = dict.fromkeys(axes, torch.export.Dim.DYNAMIC)
        how |= dict(dynamic_shapes=(dynamic,), external_data=False, optimize=False)
    else:
        how |= dict(dynamic_axes={"x": axes})
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        torch.onnx.export(kind().eval(), (x,), str(path), **how)
    return path


def assert_equal_answers(before: Any, after: Any, feeds: dict[str, torch.Tensor]) -> None:
    first, second = open_session(before), open_session(after)
    for one, other in ((first.get_inputs(), second.get_inputs()), (first.get_outputs(), second.get_outputs())):
        assert [value.name for value in one] == [value.name for value in other]
    arrays = {name: tensor.numpy() for name, tensor in feeds.items()}
    for wanted, got in zip(first.run(None, arrays), second.run(None, arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


LEGACY = [(kind, opset) for kind in (Convolutions, Recurrent) for opset in (9, 13, 17)] + [
    (Attention, 14),
    (Attention, 17),
]


@pytest.mark.parametrize(("kind", "opset"), LEGACY, ids=lambda value: getattr(value, "__name__", value))
def test_files_of_the_legacy_exporter(kind: type[nn.Module], opset: int, tmp_path: Path) -> None:
    source = by_torch(kind, tmp_path / "legacy.onnx", dynamo=False, opset=opset)
    check_optimized(kind, source, tmp_path / "less.onnx")


@pytest.mark.parametrize("kind", [Convolutions, Attention])
def test_files_of_the_dynamo_exporter(kind: type[nn.Module], tmp_path: Path) -> None:
    source = by_torch(kind, tmp_path / "dynamo.onnx", dynamo=True, opset=18)
    check_optimized(kind, source, tmp_path / "less.onnx")


def check_optimized(kind: type[nn.Module], source: Path, target: Path) -> None:
    before = source.read_bytes()
    onward.optimize(source, target, verify=True)
    assert source.read_bytes() == before
    old, new = onnx.load(source), load(target)
    assert len(new.graph.node) < len(old.graph.node)
    assert shapes(new.graph.input) == shapes(old.graph.input) and shapes(new.graph.output) == shapes(old.graph.output)
    x, axes = EXAMPLES[kind]
    other = torch.randn([size + 1 if axis in axes else size for axis, size in enumerate(x.shape)])
    for inputs in (x, other):
        assert_equal_answers(source, target, {"x": inputs})
    again = onward.optimize(target)
    assert len(list(again.graph)) == len(new.graph.node)


@pytest.mark.parametrize("opset", [9, 13, 17, 20, NEWEST])
@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_our_own_exports_have_nothing_left_to_drop(kind: type[nn.Module], opset: int) -> None:
    x, axes = EXAMPLES[kind]
    program = onward.export(kind().eval(), x, dynamic_axes={"x": axes}, opset_version=opset)
    before = [node.name for node in program.model.graph]
    optimized = onward.optimize(program, verify=True)
    assert [node.name for node in optimized.graph] == before == [node.name for node in program.model.graph]


HAND_MADE = {
    "a loop": """<ir_version: 8, opset_import: ["" : 17]>
    g (int64 n, float[k] x) => (float[k] y, float[m, k] all) <bool go = {1}, float zero = {0}> {
      two = Constant<value_float = 2.0>()
      y, all = Loop(n, go, x) <body = b (int64 i, bool c, float[k] a) => (bool more, float[k] r, float[k] each) {
        more = Identity(c)
        half = Div(zero, two)
        t = Mul(a, two)
        u = Mul(a, two)
        v = Add(t, half)
        w = Add(v, u)
        r = Cast<to = 1>(w)
        each = Neg(t)
      }>
    }""",
    "a branch": """<ir_version: 8, opset_import: ["" : 13]>
    g (bool c, float[n, 4] x) => (float[n, 4] y) <float[4] w = {1, 2, 3, 4}> {
      e = Exp(x)
      s = Identity(w)
      y = If(c) <then_branch = a () => (float[n, 4] r) { e2 = Exp(x)
        r = Add(e2, s) }, else_branch = b () => (float[n, 4] q) { k = Neg(w)
        q = Mul(e, k) }>
    }""",
    "functions": """<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>
    g (float[n, 4] x) => (float[n, 4] y) { a = mine.Scaled<by = 2.0>(x)
      b = Identity(a)
      y = mine.Scaled<by = 3.0>(b) }
    <domain: "mine", opset_import: ["" : 17]>
    Scaled<by>(x) => (y) { s = Constant<value_float : float = @by>()
      dead = Exp(x)
      y = Mul(x, s) }""",
    "sequences": """<ir_version: 8, opset_import: ["" : 17]>
    g (float[4, 2] x) => (float[2, 2] y) <int64 at = {1}, int64[2] parts = {2, 2}> {
      s = SplitToSequence<axis = 0>(x, parts)
      t = Identity(s)
      z = SequenceAt(t, at)
      y = Identity(z) }""",
    "sizes": """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n, 3, 4] x) => (float[n, 12] y) <int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}> {
      s = Shape(x)
      b = Gather(s, zero)
      t = Shape(x)
      c = Gather(t, one)
      minus = Constant<value_ints = [-1]>()
      b1 = Unsqueeze(b, axis)
      p = Concat<axis = 0>(b1, minus)
      y = Reshape(x, p)
      unused = Unsqueeze(c, axis) }""",
    "half precision": """<ir_version: 8, opset_import: ["" : 17]>
    g (float16[n, 2] x) => (float16[n, 2] y) <float16[2] w = {1, 2}, float16 one = {1}> {
      v = Add(w, w)
      a = Mul(x, v)
      b = Mul(a, one)
      y = Cast<to = 10>(b) }""",
}  # fmt: skip


@pytest.mark.parametrize("name", HAND_MADE)
def test_files_written_by_hand(name: str) -> None:
    model = onnx.parser.parse_model(HAND_MADE[name])
    onnx.checker.check_model(model, full_check=True)
    text = model.SerializeToString()
    optimized = onward.optimize(model, verify=True)
    assert model.SerializeToString() == text
    onnx.checker.check_model(optimized, full_check=True)
    assert count(optimized.graph) < count(model.graph)
    assert [value.name for value in optimized.graph.output] == [value.name for value in model.graph.output]


def count(graph: onnx.GraphProto) -> int:
    return sum(1 + sum(count(each.g) for each in node.attribute if each.HasField("g")) for node in graph.node)


def test_a_size_that_only_the_example_had_is_not_believed() -> None:
    """Legacy exports say so of outputs whose dynamic axes nobody named; onnxruntime forgives it."""
    model = onnx.parser.parse_model(
        HEAD + "g (float[n, 4] x) => (float[2, 4] y, float[2] z) <int64[1] i = {0}, float[1] one = {1}> "
        "{ y = Relu(x)\n s = Shape(y)\n t = Gather(s, i)\n z = Expand(one, t) }"
    )
    optimized = onward.optimize(model)
    assert "Shape" in [node.op_type for node in optimized.graph.node]
    assert_equal_answers(model.SerializeToString(), optimized.SerializeToString(), {"x": torch.randn(5, 4)})


def test_a_file_that_a_runtime_lets_pass_only_for_want_of_shapes_still_passes() -> None:
    """Range takes numbers. onnxruntime minds a list of one only if it knows the shape before it runs."""
    model = onnx.parser.parse_model(
        HEAD + "g (int64[4] x, bool c) => (int64[m] y) <int64 zero = {0}, int64 one = {1}, int64[2] parts = {1, 3}> {\n"
        "s = If(c) <then_branch = a () => (int64 r) { r, u = Split(x, parts) }, "
        "else_branch = b () => (int64 q) { v, w = Split(x, parts)\n q = Identity(v) }>\n y = Range(zero, s, one) }"
    )
    for branch in model.graph.node[0].attribute:
        branch.g.output[0].type.tensor_type.ClearField("shape")
    feeds = {"x": torch.tensor([3, 1, 1, 1]), "c": torch.tensor(True)}
    run(model.SerializeToString(), feeds)
    optimized = onward.optimize(model)
    assert_equal_answers(model.SerializeToString(), optimized.SerializeToString(), feeds)


# Data files -----------------------------------------------------------------------------------------------------------


def with_data_file(path: Path, rows: int = 400) -> onnx.ModelProto:
    table = onnx.numpy_helper.from_array(np.random.default_rng(0).random((rows, 8), np.float32), "table")
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT64, ["n"])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 8])
    nodes = [
        onnx.helper.make_node("Identity", ["table"], ["same"]),
        onnx.helper.make_node("Gather", ["same", "x"], ["rows"]),
        onnx.helper.make_node("Identity", ["rows"], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], [table])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return model


@pytest.mark.parametrize("target", ["other.onnx", "model.onnx"])
def test_a_data_file_stays_a_data_file(target: str, tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    with_data_file(source)
    x = torch.tensor([3, 0, 399])
    wanted = run(source, [x])
    onward.optimize(source, tmp_path / target, verify=True)
    proto = onnx.load(tmp_path / target, load_external_data=False)
    assert [node.op_type for node in proto.graph.node] == ["Gather"]
    assert proto.graph.initializer[0].data_location == onnx.TensorProto.EXTERNAL
    assert os.path.getsize(tmp_path / f"{target}.data") == 400 * 8 * 4
    assert torch.equal(run(tmp_path / target, [x])[0], wanted[0])


def test_a_model_over_2_gib_is_no_obstacle_and_its_weights_are_not_read(tmp_path: Path) -> None:
    """The data file is a hole: to read it would take minutes, to copy it more memory than there is."""
    source = tmp_path / "model.onnx"
    with_data_file(source)
    rows = (40 << 30) // 32
    model = onnx.load(source, load_external_data=False)
    model.graph.initializer[0].dims[0] = rows
    for entry in model.graph.initializer[0].external_data:
        entry.value = str(rows * 32) if entry.key == "length" else entry.value
    source.write_bytes(model.SerializeToString())
    with open(tmp_path / "weights.bin", "r+b") as data:
        data.truncate(rows * 32)
    for made in (onward.optimize(source), onward.infer_shapes(source)):
        (weight,) = made.graph.initializers.values()
        assert isinstance(weight.const_value, ir.ExternalTensor) and weight.const_value.raw is None
        assert tuple(weight.const_value.shape) == (rows, 8)
    assert [node.op_type for node in onward.optimize(source).graph] == ["Gather"]
    assert "%rows : Float(n, 8)" in onward.printable(onward.infer_shapes(source))


# Verification ---------------------------------------------------------------------------------------------------------


def test_a_pass_that_breaks_the_model_is_caught_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(model: ir.Model) -> bool:
        model.graph[0].op_type = "Neg"
        return False

    monkeypatch.setattr(importlib.import_module("onward.files.optimize"), "tidy_file", spoil)
    model = onnx.parser.parse_model(HEAD + "g (float[n] x) => (float[n] y) { y = Relu(x) }")
    with pytest.raises(onward.VerifyError, match="the optimised model answers otherwise: .*y"):
        onward.optimize(model, tmp_path / "less.onnx", verify=True)
    assert list(tmp_path.iterdir()) == []


def test_random_numbers_cannot_be_compared() -> None:
    model = onnx.parser.parse_model(
        HEAD + "g (float[n] x) => (float[n] y) "
        "{ a = Exp(x)\n b = Exp(x)\n c = Add(a, b)\n d = RandomNormalLike(c)\n y = Add(d, c) }"
    )
    with pytest.raises(onward.VerifyError, match="the model gives another 'y' each time it runs"):
        onward.optimize(model, verify=True)


def test_inputs_can_be_given() -> None:
    text = HEAD + "g (float[n, k] x, float[m, 3] w) => (float[n, 3] y) { a = Identity(w)\n y = MatMul(x, a) }"
    model = onnx.parser.parse_model(text.replace("float[m, 3]", "float[5, 3]"))
    onward.optimize(model, verify=True)  # found by trying sizes
    model = onnx.parser.parse_model(text.replace("float[m, 3]", "float[257, 3]"))
    with pytest.raises(onward.VerifyError, match=r"(?s)runs on none of the inputs.*give them: inputs="):
        onward.optimize(model, verify=True)
    inputs = {"x": torch.randn(2, 257), "w": torch.randn(257, 3)}
    assert len(onward.optimize(model, verify=True, inputs=inputs).graph.node) == 1
    with pytest.raises(onward.InputError, match="inputs are given, and verify=True is not"):
        onward.optimize(model, inputs=inputs)
    with pytest.raises(onward.InputError, match="missing input: 'w'"):
        onward.optimize(model, verify=True, inputs={"x": torch.randn(2, 257)})


def test_inputs_that_are_no_tensors_cannot_be_made_up() -> None:
    model = onnx.parser.parse_model(
        HEAD + "g (seq(float[2]) s) => (int64 n) { t = Identity(s)\n n = SequenceLength(t) }"
    )
    with pytest.raises(onward.InputError, match="no input can be made up for 's', which is no tensor of numbers"):
        onward.optimize(model, verify=True)
    assert len(onward.optimize(model).graph.node) == 1


def test_an_old_file_whose_weights_are_all_inputs() -> None:
    x, y, w = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "xyw")
    nodes = [
        onnx.helper.make_node("Constant", [], ["k"], value=onnx.numpy_helper.from_array(np.float32([2, 3]))),
        onnx.helper.make_node("Mul", ["x", "k"], ["a"]),
        onnx.helper.make_node("Add", ["a", "w"], ["y"]),
    ]
    weights = [onnx.numpy_helper.from_array(np.float32([1, 1]), "w")]
    graph = onnx.helper.make_graph(nodes, "g", [x, w], [y], weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 8)], ir_version=3)
    optimized = onward.optimize(model, verify=True)
    onnx.checker.check_model(optimized, full_check=True)
    assert [node.op_type for node in optimized.graph.node] == ["Mul", "Add"]
    assert [value.name for value in optimized.graph.input] == ["x", "w"]


@pytest.mark.parametrize(("option", "value"), [("verify", "yes"), ("verify", None)])
def test_flags_are_flags(option: str, value: Any) -> None:
    with pytest.raises(onward.InputError, match=f"{option} must be True or False"):
        onward.optimize(onnx.parser.parse_model(HAND_MADE["sizes"]), **{option: value})


# Shapes ---------------------------------------------------------------------------------------------------------------


def assert_shapes_hold(model: onnx.ModelProto, feeds: dict[str, torch.Tensor], sizes: dict[str, int]) -> None:
    """Run the model with every value that has a shape as an output, and hold what comes out against the shapes."""
    infos = {info.name: info for info in (*model.graph.value_info, *model.graph.output)}
    opened = onnx.ModelProto.FromString(model.SerializeToString())
    del opened.graph.output[:]
    for info in infos.values():
        opened.graph.output.add(name=info.name).type.CopyFrom(info.type)
        opened.graph.output[-1].type.tensor_type.ClearField("shape")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(opened.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = session.run(None, {name: tensor.numpy() for name, tensor in feeds.items()})
    known = dict(sizes)
    for output, array in zip(session.get_outputs(), results, strict=True):
        tensor_type = infos[output.name].type.tensor_type
        if not tensor_type.HasField("shape"):
            continue
        assert len(tensor_type.shape.dim) == array.ndim, output.name
        for dim, size in zip(tensor_type.shape.dim, array.shape, strict=True):
            if dim.HasField("dim_value"):
                assert dim.dim_value == size, (output.name, array.shape)
            elif dim.dim_param:
                assert known.setdefault(dim.dim_param, size) == size, (output.name, dim.dim_param, array.shape)


def known_share(model: onnx.ModelProto) -> float:
    """How many of the axes of values have a size or a name."""
    infos = {info.name: info for info in (*model.graph.value_info, *model.graph.output)}
    made = [name for node in model.graph.node for name in node.output if name]
    dims = [dim for name in made if name in infos for dim in infos[name].type.tensor_type.shape.dim]
    assert all(name in infos for name in made)
    made_up = "unk__"  # names that onnx's own inference invents
    named = [dim.HasField("dim_value") or dim.dim_param[:5] not in ("", made_up) for dim in dims]
    return sum(named) / len(named)


@pytest.fixture(params=[(Convolutions, 13), (Attention, 17), (Recurrent, 13)], ids=lambda pair: pair[0].__name__)
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[type[nn.Module], onnx.ModelProto]]:
    """A file of the legacy exporter, without any shape but those of its inputs."""
    kind, opset = request.param
    model = onnx.load(by_torch(kind, tmp_path / "bare.onnx", dynamo=False, opset=opset))
    del model.graph.value_info[:]
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    yield kind, model


def test_inferred_shapes_hold_at_every_size(bare: tuple[type[nn.Module], onnx.ModelProto]) -> None:
    kind, model = bare
    inferred = onward.infer_shapes(onward.optimize(model))
    onnx.checker.check_model(inferred, full_check=True)
    x, axes = EXAMPLES[kind]
    for grown in (0, 1, 4):
        inputs = torch.randn([size + grown if axis in axes else size for axis, size in enumerate(x.shape)])
        assert_shapes_hold(inferred, {"x": inputs}, {name: inputs.shape[axis] for axis, name in axes.items()})
        assert_shapes_hold(onward.infer_shapes(model), {"x": inputs}, {})
    floor = known_share(onnx.shape_inference.infer_shapes(onward.optimize(model), data_prop=True))
    assert known_share(inferred) >= max(floor, 0.9)


def infer(text: str) -> dict[str, tuple[int | str, ...]]:
    model = onnx.parser.parse_model(HEAD + text)
    inferred = onward.infer_shapes(model)
    made = {name for node in inferred.graph.node for name in node.output}
    found = shapes([*inferred.graph.value_info, *inferred.graph.output])
    return {name: shape for name, shape in found.items() if name in made}


def test_names_survive_what_onnx_alone_loses() -> None:
    text = (
        "g (float[n, 6] x) => (float[p, q] y) <int64[3] s = {-1, 2, 3}, int64[2] t = {0, -1}> "
        "{ a = Reshape(x, s)\n b = Relu(a)\n c = Transpose<perm = [1, 0, 2]>(b)\n d = Reshape(b, t)\n y = Add(d, x) }"
    )
    assert infer(text) == {"a": ("n", 2, 3), "b": ("n", 2, 3), "c": (2, "n", 3), "d": ("n", 6), "y": ("p", 6)}


@pytest.mark.parametrize(
    "text",
    [
        "g (float[n] x, float[m] z) => (float[k] y) { a = Add(x, z)\n y = Relu(a) }",  # either may be 1
        "g (float[n] x) => (float[k] y) <int64[1] i = {0}, int64[1] e = {5}> { a = Slice(x, i, e)\n y = Relu(a) }",
    ],
)
def test_what_could_be_wrong_at_some_size_is_not_claimed(text: str) -> None:
    assert infer(text)["a"] == (0,)  # neither a size nor a name


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ("float[rows, 4]", ("rows", 4)),  # a name of the file's own stays
        ("float[2, 4]", ("n", 4)),  # a size that only the example had
        ("float[n, columns]", ("n", 4)),
        ("float[7]", ("n", 4)),
        ("float[3, 5]", ("n", 4)),
    ],
)
def test_what_the_file_declares_is_corrected(declared: str, found: tuple[int | str, ...]) -> None:
    assert infer(f"g (float[n, 4] x) => ({declared} y) {{ a = Relu(x)\n y = Neg(a) }}") == {"a": ("n", 4), "y": found}


def test_what_only_the_file_can_know_is_believed() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "mine" : 1]> g (float[n] x) => (float[n, 3] y) '
        "<float[n, 3] a> { a = mine.Odd(x)\n b = Relu(a)\n y = Neg(b) }"
    )
    assert shapes(onward.infer_shapes(model).graph.value_info)["b"] == ("n", 3)


def test_what_onnx_is_known_to_infer_wrongly_is_left_open() -> None:
    """A one-sided spectrum of 16 has 9 entries; onnx 1.23 says 16."""
    model = onnx.parser.parse_model(
        HEAD + "g (float[1, 128, 1] x) => (float[a, b, c, d] y) <int64 step = {8}, int64 length = {16}> "
        "{ s = STFT(x, step, , length)\n t = Neg(s)\n y = Relu(t) }"
    )
    inferred = onward.infer_shapes(model)
    (result,) = run(inferred.SerializeToString(), [torch.randn(1, 128, 1)])
    declared = shapes(inferred.graph.output)["y"]
    assert result.shape[2] == 9 and declared[2] in ("c", 9)
    assert {info.name: info.type.tensor_type.elem_type for info in inferred.graph.value_info}["t"] == 1


def test_shapes_inside_bodies_are_inferred_too() -> None:
    model = onnx.parser.parse_model(HAND_MADE["a branch"])
    inferred = onward.infer_shapes(model)
    (branch,) = (each.g for each in inferred.graph.node[-1].attribute if each.name == "then_branch")
    assert shapes(branch.value_info) == {"e2": ("n", 4)}


@pytest.mark.parametrize("kind", ["path", "bytes", "proto", "ir"])
def test_the_result_has_the_form_of_what_was_given(kind: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(HAND_MADE["sizes"])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    given = {
        "path": tmp_path / "m.onnx",
        "bytes": model.SerializeToString(),
        "proto": model,
        "ir": ir.from_proto(model),
    }[kind]
    for function in (onward.optimize, onward.infer_shapes):
        result = function(given, tmp_path / "out.onnx")
        assert isinstance(result, {"bytes": bytes, "proto": onnx.ModelProto}.get(kind, ir.Model))
        load(tmp_path / "out.onnx")
