"""The interface, the module, what is refused and how, and PyTorch's operators as nodes."""

from __future__ import annotations

import gc
import importlib
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.base
import onnx.parser
import pytest
import torch
from onnx import helper, numpy_helper
from torch import nn

import onward
import onward.backend
from onward.backend import BackendError, implements, prepare, run_model, run_node
from onward.backend.registry import load_families
from onward.errors import InputError

LINEAR = """<ir_version: 10, opset_import: ["" : 20]>
g (float[n, 3] x) => (float[n, 2] y) <float[2, 3] layer__weight = {1, 2, 3, 4, 5, 6}, float[2] layer__bias = {1, -1}>
{ y = Gemm <transB = 1> (x, layer__weight, layer__bias) }"""


def model(text: str) -> onnx.ModelProto:
    """ONNX text has no dots in names: they are two underscores."""
    proto = onnx.parser.parse_model(text)
    for tensor in proto.graph.initializer:
        tensor.name = tensor.name.replace("__", ".")
    for node in proto.graph.node:
        node.input[:] = [name.replace("__", ".") for name in node.input]
    return proto


X = np.array([[1, 0, 1], [0, 1, 0]], dtype=np.float32)
Y = np.array([[5, 9], [3, 4]], dtype=np.float32)


@pytest.mark.parametrize("give", [lambda x: x, lambda x: (x,), lambda x: [x], lambda x: {"x": x}])
def test_every_form_of_inputs(give: Any) -> None:
    rep = prepare(model(LINEAR))
    (y,) = rep.run(give(X))
    assert isinstance(y, np.ndarray)
    np.testing.assert_array_equal(y, Y)
    (y,) = rep.run(give(torch.from_numpy(X)))
    assert isinstance(y, torch.Tensor)
    np.testing.assert_array_equal(y.numpy(), Y)


def test_every_form_of_a_model(tmp_path: Path) -> None:
    proto = model(LINEAR)
    file = tmp_path / "m.onnx"
    onnx.save(proto, file)
    for each in (proto, proto.SerializeToString(), file, str(file)):
        np.testing.assert_array_equal(run_model(each, X)[0], Y)


def test_it_is_onnxs_interface() -> None:
    backend = onward.backend.Backend
    assert issubclass(backend, onnx.backend.base.Backend)
    assert backend.supports_device("CPU")
    assert not backend.supports_device("TPU")
    assert backend.is_compatible(model(LINEAR))
    node = helper.make_node("Add", ["a", "b"], ["c"])
    np.testing.assert_array_equal(backend.run_node(node, [X, X])[0], 2 * X)
    np.testing.assert_array_equal(run_node(node, {"b": X, "a": X}, opset_version=7)[0], 2 * X)


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ([], "the model has 1 inputs (x), 0 are given"),
        ({"z": X}, "the model's inputs are x; given are z"),
        (X.astype(np.float64), "the input 'x' is torch.float32, given is torch.float64"),
        (7, "inputs are an array, a sequence or a mapping of them, not int"),
    ],
)
def test_wrong_inputs(inputs: Any, text: str) -> None:
    with pytest.raises(onward.InputError) as caught:
        prepare(model(LINEAR)).run(inputs)
    assert str(caught.value) == text


def test_the_module_has_the_files_names_and_learns() -> None:
    module = prepare(model(LINEAR)).module
    assert list(module.state_dict()) == ["layer.weight", "layer.bias"]
    module(torch.from_numpy(X)).sum().backward()
    gradients = {name: each.grad for name, each in module.named_parameters()}
    torch.testing.assert_close(gradients["layer.bias"], torch.tensor([2.0, 2.0]))
    torch.testing.assert_close(gradients["layer.weight"], torch.tensor([[1.0, 1, 1], [1, 1, 1]]))


def test_names_that_modules_do_not_allow() -> None:
    rep = prepare(model(LINEAR.replace("layer__weight", "forward").replace("layer__bias", "a____b")))
    assert set(rep.module.state_dict()) == {"forward_", "a__b"}
    np.testing.assert_array_equal(rep.run(X)[0], Y)


def test_whole_numbers_are_buffers() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[n] x) => (float[m, k] y) <int64[2] shape = {2, -1}> { y = Reshape (x, shape) }"""
    module = prepare(model(text)).module
    assert [name for name, _ in module.named_buffers()] == ["shape"]
    assert list(module.parameters()) == []


def test_values_go_when_nobody_needs_them() -> None:
    alive: list[int] = []
    made: list[Any] = []

    @implements("Watched", domain="tests")
    def watched(x: torch.Tensor) -> torch.Tensor:
        gc.collect()
        alive.append(sum(each() is not None for each in made))
        result = x + 1
        made.append(weakref.ref(result))
        return result

    text = """<ir_version: 10, opset_import: ["" : 20, "tests" : 1]>
    g (float[n] x) => (float[n] y) { a = tests.Watched (x) b = tests.Watched (a) c = tests.Watched (b)
    y = tests.Watched (c) }"""
    (y,) = run_model(model(text), torch.zeros(2))
    assert y.tolist() == [4, 4]
    assert alive == [0, 1, 1, 1]


FUNCTIONS = """<ir_version: 10, opset_import: ["" : 20, "my" : 1]>
g (float[n] x) => (float[n] y) { a = my.twice <by = 3.0> (x) y = my.twice <by = 0.5> (a) }
<domain: "my", opset_import: ["" : 20]>
twice <by> (x) => (y) { f = Constant <value_float: float = @by> () y = Mul (x, f) }"""


def test_functions_of_the_model_take_attributes() -> None:
    (y,) = run_model(model(FUNCTIONS), np.array([2.0], dtype=np.float32))
    assert y.tolist() == [3.0]


def test_a_function_that_calls_itself_is_refused() -> None:
    text = FUNCTIONS.replace("y = Mul (x, f)", "y = my.twice (x)").replace(
        'opset_import: ["" : 20]>', 'opset_import: ["" : 20, "my" : 1]>'
    )
    with pytest.raises(InputError, match="its functions call each other in a circle"):
        prepare(model(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{ y = Foo (x) }", "the operator ai.onnx.Foo is not implemented for opset 20\n  in node '' (ai.onnx.Foo)"),
        ("{ y = Relu (z) }", "Relu reads 'z', which nothing computes"),
        ("{ z = Relu (y) y = Relu (z) }", "the node 'z' (Relu) needs its own result, in a circle"),
        ("{ z = Relu (x) }", "nothing computes the output 'y'"),
        ("{ y = Relu <alpha = 2.0> (x) }", "the attribute alpha=2.0 is not supported"),
    ],
)
def test_what_is_refused_before_anything_runs(text: str, message: str) -> None:
    with pytest.raises((BackendError, InputError)) as caught:
        prepare(model(f'<ir_version: 10, opset_import: ["" : 20]> g (float[n] x) => (float[n] y) {text}'))
    assert message in str(caught.value)


def test_an_error_while_running_names_the_node() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[n] x, float[m] z) => (float[n] y) { [sum] y = Add (x, z) }"""
    with pytest.raises(BackendError, match=r"(?s)PyTorch refused.*in node 'sum' \(ai.onnx.Add\)"):
        run_model(model(text), [np.zeros(2, np.float32), np.zeros(3, np.float32)])


def test_a_loop_reads_and_keeps_values_from_outside() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x, int64 n) => (float[2] y, float[m, 2] all) {
      go = Constant <value = bool {1}> ()
      y, all = Loop (n, go, x) <body = b (int64 i, bool c, float[2] s) => (bool k, float[2] t, float[2] u) {
        k = Identity (c) t = Add (s, x) u = Identity (t) }>
    }"""
    y, every = run_model(model(text), [np.array([1, 2], np.float32), np.array(3)])
    assert y.tolist() == [4, 8]
    assert every.tolist() == [[2, 4], [3, 6], [4, 8]]


@pytest.mark.parametrize("place", ["../secret", "/etc/hostname", "link"])
def test_data_outside_the_models_folder_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "secret").write_bytes(b"\0" * 8)
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    proto = model(LINEAR)
    tensor = proto.graph.initializer[1]
    tensor.ClearField("float_data")
    tensor.raw_data = b"\0" * 8
    onnx.external_data_helper.set_external_data(tensor, place, 0, 8)
    tensor.ClearField("raw_data")
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(onward.ExportError, match="layer.bias"):
        prepare(folder / "m.onnx")


def test_data_inside_it_is_read(tmp_path: Path) -> None:
    proto = model(LINEAR)
    for tensor in proto.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    assert (tmp_path / "w.bin").stat().st_size >= 32
    np.testing.assert_array_equal(run_model(tmp_path / "m.onnx", X)[0], Y)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_in_many_sizes(layer: Any, bias: bool) -> None:
    """Weights in ONNX's order of gates, by PyTorch's kernels."""
    torch.manual_seed(0)
    for size, hidden, both in ((1, 1, False), (2, 3, True), (3, 7, False), (5, 8, True)):
        module = layer(size, hidden, 2, bias=bias, bidirectional=both).eval()
        x = torch.randn(4, 2, size)
        module_again = prepare(onward.export(module, x)).module
        sequence, states = module(x)
        for got, want in zip(module_again(x), (sequence, *(states if layer is nn.LSTM else (states,))), strict=True):
            torch.testing.assert_close(got, want)


def test_weights_of_wrong_sizes_are_refused() -> None:
    arrays = [np.zeros(shape, np.float32) for shape in ((2, 1, 3), (1, 16, 3), (1, 16, 5))]
    with pytest.raises(BackendError, match="of size \\[1, 16, 3\\] .* should be \\[1, 20, 3\\]"):
        run_node(helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4), arrays)


def test_states_of_wrong_sizes_are_refused() -> None:
    arrays = [np.zeros(shape, np.float32) for shape in ((1, 3, 2), (1, 28, 2), (1, 28, 7), (3, 1, 7))]
    with pytest.raises(BackendError, match="of size \\[3, 1, 7\\] .* should be \\[1, 3, 7\\]"):
        run_node(helper.make_node("LSTM", ["x", "w", "r", "", "", "h"], ["y"], hidden_size=7), arrays)


def test_every_family_of_operators_is_loaded() -> None:
    folder = Path(onward.backend.__file__).parent / "ops"
    families = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert {name for name in families if hasattr(importlib.import_module("onward.backend.ops"), name)} == families


def test_narrow_types_come_out_as_themselves() -> None:
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.INT4)],
            "g",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3])],
            [helper.make_tensor_value_info("y", onnx.TensorProto.INT4, [3])],
        )
    )
    (y,) = run_model(proto, np.array([-3, 2, 7], np.float32))
    assert (y.dtype.name, y.astype(int).tolist()) == ("int4", [-3, 2, 7])


def test_bfloat16_weights() -> None:
    proto = model(LINEAR.replace("float", "bfloat16").split(" <bfloat16[2, 3]")[0] + "{ y = Identity (x) }")
    x = numpy_helper.to_array(helper.make_tensor("x", onnx.TensorProto.BFLOAT16, [1, 3], [1.0, 2.0, 3.0]))
    (y,) = run_model(proto, x)
    assert (y.dtype, y.astype(np.float32).tolist()) == (x.dtype, [[1, 2, 3]])


def test_two_implementations_since_one_version_are_refused() -> None:
    load_families()
    with pytest.raises(
        ValueError, match=r"Relu has two implementations since 1: .*elementwise.py.* and .*test_backend"
    ):
        implements("Relu")(lambda x: x)
