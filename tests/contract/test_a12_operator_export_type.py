"""A12: `operator_export_type`: ONNX, every operator an ATen node, only what has no lowering, or the captured graph.

onnxruntime does not know such nodes. `tests/aten_interpreter.py` runs them on PyTorch from the file alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
import torch.onnx
from torch import nn

import onward
from onward import OperatorExportTypes as Types
from tests.opsets import DEFAULT, NEWEST

from ..aten_interpreter import execute
from ..models._torchvision import torchvision_models
from .nets import Recurrent
from .running import load, run, tensors_in

WRITTEN_DOWN = (Types.ONNX_ATEN, Types.RAW)
WITH_FALLBACK = (Types.ONNX_ATEN_FALLBACK, Types.ONNX_FALLTHROUGH)


@pytest.fixture
def custom() -> Iterator[Any]:
    """An operator that onward has no lowering for, with arguments of several kinds."""
    library = torch.library.Library("a12_ops", "DEF")
    library.define(
        "mix(Tensor x, Tensor[] others, Tensor? scale=None, *, float alpha=1.0, int[] order=[0], str mode='add', "
        "bool twice=False, ScalarType? dtype=None) -> (Tensor, Tensor)"
    )
    library.define("parts(Tensor x, int[] sizes) -> Tensor[]")
    library.define("both(Tensor x) -> (Tensor, Tensor[])")

    def mix(x, others, scale=None, *, alpha=1.0, order=(0,), mode="add", twice=False, dtype=None):  # type: ignore[no-untyped-def]
        total = x.to(dtype or x.dtype)
        for place in order:
            total = total + alpha * others[place] if mode == "add" else total - alpha * others[place]
        total = total * (scale if scale is not None else 1) * (2 if twice else 1)
        return total, others[-1].clone()

    library.impl("mix", mix, "CompositeExplicitAutograd")
    library.impl("parts", lambda x, sizes: [x[:size].clone() for size in sizes], "CompositeExplicitAutograd")
    library.impl("both", lambda x: (x + 1, [x.clone()]), "CompositeExplicitAutograd")
    yield torch.ops.a12_ops
    library._destroy()


def alexnet() -> Any:
    return (
        torchvision_models().AlexNet(num_classes=10),
        [torch.randn(n, 3, 64, 64) for n in (1, 3)],
        {"x": {0: "batch"}},
    )


def lstm() -> Any:
    return Recurrent(), [torch.randn(*sizes, 4) for sizes in ((2, 3), (1, 1), (5, 8))], {"x": {0: "batch", 1: "length"}}


def bert() -> Any:
    torchvision_models()  # transformers imports it
    import transformers

    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=99
    )
    inputs = [(torch.randint(0, 99, size), torch.ones(size, dtype=torch.int64)) for size in ((2, 7), (1, 3), (3, 11))]
    axes = {0: "batch", 1: "length"}
    return transformers.BertModel(config), inputs, {"input_ids": axes, "attention_mask": axes}


def export(model: Any, args: Any, file: Path, kind: Any, **options: Any) -> onnx.ModelProto:
    """Exported, checked, and with every value's type and shape in the file."""
    onward.export(model, args, file, operator_export_type=kind, **options)
    proto = load(file)
    described = {value.name: value.type.tensor_type for value in (*proto.graph.value_info, *proto.graph.output)}
    for node in proto.graph.node:
        for name in node.output:
            assert described[name].elem_type, name
            assert described[name].HasField("shape"), name
    return proto


def domains(proto: onnx.ModelProto) -> set[str]:
    return {node.domain for node in proto.graph.node}


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def operators(proto: onnx.ModelProto) -> list[str]:
    return [attributes(node)["operator"].decode() for node in proto.graph.node if node.op_type == "ATen"]


@pytest.mark.parametrize("kind", WRITTEN_DOWN, ids=lambda kind: kind.name)
@pytest.mark.parametrize("model", [alexnet, lstm, bert])
def test_models_as_pytorchs_operators_at_every_size(tmp_path: Path, model: Any, kind: Types) -> None:
    module, inputs, axes = model()
    file = tmp_path / "m.onnx"
    proto = export(module.eval(), inputs[0], file, kind, dynamic_axes=axes)
    assert domains(proto) <= ({"", "org.pytorch.aten"} if kind is Types.ONNX_ATEN else {"aten", "operator"})
    for args in inputs:
        expected = list(tensors_in(module(*args) if isinstance(args, tuple) else module(args)))
        for got, want in zip(execute(file, list(tensors_in(args))), expected, strict=True):
            torch.testing.assert_close(got, want)


def test_every_operator_is_an_aten_node_and_none_is_decomposed(tmp_path: Path) -> None:
    model, inputs, axes = alexnet()
    proto = export(model, inputs[0], tmp_path / "m.onnx", Types.ONNX_ATEN, dynamic_axes=axes)
    assert domains(proto) == {"org.pytorch.aten"}
    assert len(proto.graph.node) == len(operators(proto)) == 20
    assert operators(proto)[:3] == ["aten::conv2d", "aten::relu", "aten::max_pool2d"]
    first = proto.graph.node[0]
    assert attributes(first)["stride"] == [4, 4]
    assert list(first.input) == ["x", "features.0.weight", "features.0.bias"]
    assert {opset.domain: opset.version for opset in proto.opset_import} == {"": DEFAULT, "org.pytorch.aten": 1}


@pytest.mark.parametrize("opset", [9, 13, 17, 20, NEWEST])
def test_at_every_opset(tmp_path: Path, opset: int) -> None:
    model, inputs, axes = lstm()
    file = tmp_path / "m.onnx"
    export(model, inputs[0], file, Types.ONNX_ATEN, dynamic_axes=axes, opset_version=opset)
    for got, want in zip(execute(file, [inputs[2]]), model(inputs[2]), strict=True):
        torch.testing.assert_close(got, want)


def test_raw_is_the_captured_graph_with_its_sizes(tmp_path: Path) -> None:
    model, inputs, axes = lstm()
    proto = export(model, inputs[0], tmp_path / "m.onnx", Types.RAW, dynamic_axes=axes)
    names = [f"{node.domain}.{node.op_type}" for node in proto.graph.node]
    assert {"aten.lstm", "aten.sym_size", "operator.mul", "operator.floordiv", "aten.unbind"} <= set(names)
    program = onward.export(model, inputs[0], operator_export_type=Types.RAW, dynamic_axes=axes)
    captured = [node for node in program.captured.graph.nodes if node.op == "call_function"]
    assert len(names) == sum(node.target.__name__ != "getitem" for node in captured)


@pytest.mark.parametrize("kind", WITH_FALLBACK, ids=lambda kind: kind.name)
def test_what_has_no_lowering_is_written_down(tmp_path: Path, custom: Any, kind: Types) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        total, copy = custom.mix(x * 2, [y, x], None, alpha=0.1, order=[1, 0], mode="sub", dtype=torch.float64)
        return total.relu(), copy + 1

    file = tmp_path / "m.onnx"
    axes = {"x": {0: "n"}, "y": {0: "n"}}
    proto = export(model, (torch.randn(2, 3), torch.randn(2, 3)), file, kind, dynamic_axes=axes)
    (node,) = [node for node in proto.graph.node if node.domain]
    assert {node.op_type for node in proto.graph.node if not node.domain} == {"Mul", "Relu", "Add"}
    own = kind is Types.ONNX_FALLTHROUGH
    assert (node.domain, node.op_type) == (("a12_ops", "mix") if own else ("org.pytorch.aten", "ATen"))
    assert len(node.output) == 2
    x, y = torch.randn(5, 3), torch.randn(5, 3)
    for got, want in zip(execute(file, [x, y]), model(x, y), strict=True):
        torch.testing.assert_close(got, want)


def test_the_attributes_of_a_custom_operator(tmp_path: Path, custom: Any) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return custom.mix(x, [x], alpha=0.1, order=[0, 0], mode="sub", twice=True, dtype=torch.float64)[0]

    proto = export(model, torch.randn(2), tmp_path / "m.onnx", Types.ONNX_FALLTHROUGH, custom_opsets={"a12_ops": 3})
    found = attributes(proto.graph.node[0])
    assert found == {
        "overload_name": b"",
        "arguments": [
            b"x=tensor", b"others=[tensor]", b"alpha=float 0.1", b"order=ints", b"mode=string", b"twice=bool",
            b"dtype=dtype",
        ],
        "alpha": pytest.approx(0.1),
        "order": [0, 0],
        "mode": b"sub",
        "twice": 1,
        "dtype": b"float64",
    }  # fmt: skip
    assert {opset.domain: opset.version for opset in proto.opset_import}["a12_ops"] == 3


def test_a_list_of_tensors_as_result_and_sizes_in_a_list(tmp_path: Path, custom: Any) -> None:
    def model(x: torch.Tensor) -> list[torch.Tensor]:
        return custom.parts(x, [1, x.shape[0] // 2, x.shape[0]])

    file = tmp_path / "m.onnx"
    proto = export(model, torch.randn(4, 3), file, Types.ONNX_ATEN_FALLBACK, dynamic_axes={"x": {0: "n"}})
    (node,) = [node for node in proto.graph.node if node.domain]
    assert attributes(node)["arguments"] == [b"x=tensor", b"sizes=[1, size, size]"]
    assert len(node.output) == 3
    x = torch.randn(10, 3)
    for got, want in zip(execute(file, [x]), model(x), strict=True):
        torch.testing.assert_close(got, want)


def test_a_list_among_other_results_is_refused_by_name(custom: Any) -> None:
    with pytest.raises(onward.CaptureError, match=r"a12_ops\.both.* returns a list among other results"):
        onward.export(lambda x: custom.both(x)[0], torch.randn(2), operator_export_type=Types.ONNX_ATEN)


def test_complex_numbers_fall_back_as_a_whole(tmp_path: Path) -> None:
    class Spectrum(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (torch.fft.rfft(x) * 2).abs() + 1

    file = tmp_path / "m.onnx"
    axes = {"x": {0: "n"}}
    proto = export(Spectrum(), torch.randn(2, 8), file, Types.ONNX_ATEN_FALLBACK, dynamic_axes=axes)
    assert [node.op_type for node in proto.graph.node] == ["ATen", "ATen", "ATen", "Add"]
    x = torch.randn(3, 8)
    torch.testing.assert_close(execute(file, [x])[0], Spectrum()(x))


def test_a_lowering_that_refuses_this_use_falls_back(tmp_path: Path) -> None:
    """bfloat16 does not exist in ONNX's Cast before opset 13."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.bfloat16)

    with pytest.raises(onward.LoweringError):
        onward.export(model, torch.randn(2), opset_version=11)
    kind = Types.ONNX_ATEN_FALLBACK
    proto = export(model, torch.randn(2), tmp_path / "m.onnx", kind, opset_version=11)
    assert operators(proto) == ["aten::to"]


@pytest.mark.parametrize("kind", WITH_FALLBACK, ids=lambda kind: kind.name)
def test_nothing_falls_back_that_has_a_lowering(tmp_path: Path, kind: Types) -> None:
    file = tmp_path / "m.onnx"
    x = torch.randn(2, 4)
    model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(-1)).eval()
    proto = export(model, x, file, kind, verify=True)
    assert domains(proto) == {""}
    torch.testing.assert_close(run(file, [x])[0], model(x), rtol=1e-5, atol=1e-5)


def test_two_calls_of_a_random_operator_stay_two(tmp_path: Path) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.rand_like(x), torch.rand_like(x)

    proto = export(model, torch.randn(3), tmp_path / "m.onnx", Types.ONNX_ATEN)
    assert operators(proto) == ["aten::rand_like", "aten::rand_like"]


def test_module_functions_of_aten_nodes(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    file = tmp_path / "m.onnx"
    onward.export(
        model, torch.randn(2, 4), file, operator_export_type=Types.ONNX_ATEN, export_modules_as_functions=True
    )
    proto = load(file)
    (function,) = proto.functions
    assert [node.op_type for node in proto.graph.node] == ["Linear", "Linear"]
    assert [node.op_type for node in function.node] == ["ATen"]


@pytest.mark.parametrize(
    "options",
    [
        {"aten": True},
        {"operator_export_type": Types.ONNX_ATEN},
        {"operator_export_type": torch.onnx.OperatorExportTypes.ONNX_ATEN},
    ],
    ids=str,
)
def test_every_way_to_ask_for_aten(options: dict[str, Any]) -> None:
    program = onward.export(nn.ReLU(), torch.randn(2), **options)
    assert [node.op_type for node in program.model.graph] == ["ATen"]


def test_the_old_way_to_ask_for_raw() -> None:
    program = onward.export(nn.ReLU(), torch.randn(2), export_raw_ir=True)
    assert [(node.domain, node.op_type) for node in program.model.graph] == [("aten", "relu")]


@pytest.mark.parametrize("kind", WRITTEN_DOWN, ids=lambda kind: kind.name)
def test_verify_is_refused_at_once(tmp_path: Path, kind: Types) -> None:
    with pytest.raises(onward.InputError) as caught:
        onward.export(nn.ReLU(), torch.randn(2), tmp_path / "m.onnx", operator_export_type=kind, verify=True)
    assert str(caught.value) == (
        "verify=True runs the model in onnxruntime, which does not know the nodes that "
        f"operator_export_type={kind.name} writes\n  leave verify out"
    )


def test_verify_says_what_onnxruntime_cannot_run(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    text = (
        "onnxruntime does not run this model: it holds operators of PyTorch's own (aten::fft_rfft, aten::abs)\n"
        "  leave verify out, or export with operator_export_type=ONNX and add lowerings for them"
    )

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(x).abs()

    x, kind = torch.randn(2, 8), Types.ONNX_ATEN_FALLBACK
    with pytest.raises(onward.VerifyError) as caught:
        onward.export(model, x, file, operator_export_type=kind, verify=True)
    assert str(caught.value) == text
    assert not file.exists()
    with pytest.raises(onward.VerifyError) as caught:
        onward.export(model, x, operator_export_type=kind)(x)
    assert str(caught.value) == text


def test_an_operator_without_lowering_is_still_an_error_in_plain_onnx(custom: Any) -> None:
    with pytest.raises(onward.UnsupportedOpError, match="a12_ops.mix"):
        onward.export(lambda x: custom.mix(x, [x])[0], torch.randn(2))
