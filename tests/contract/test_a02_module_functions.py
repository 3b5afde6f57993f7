"""A2, `export_modules_as_functions`: chosen modules stay together as ONNX functions, and the model still verifies."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import nn

import onward
from tests.opsets import NEWEST

from ..models._torchvision import torchvision_models
from .running import assert_same, load, run, tensors_in

HERE = __name__


class Block(nn.Module):
    def __init__(self, size: int = 4, dropout: float = 0.1) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.dropout(self.linear(x)).relu() * mask.unsqueeze(-1) + 0.5, x.sum(-1)


class Stack(nn.Module):
    """Two blocks, one of them called twice; a mask that all read; results in a nested structure."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.rnn = nn.LSTM(4, 4, batch_first=True)
        self.idle = nn.Identity()

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        mask = (x[..., 0] > 0).to(x.dtype)
        first, total = self.blocks[0](x, mask)
        second, again = self.blocks[0](first, mask)
        third, last = self.blocks[1](second, mask)
        out, (h, _) = self.rnn(third)
        return {"out": self.idle(out), "sums": (total + again, last), "h": h, "x": self.idle(x)}


DYNAMIC = {"x": {0: "batch", 1: "length"}}
X = torch.randn(2, 3, 4)


def export(model: nn.Module, args: Any, file: Path, functions: Any, **options: Any) -> onnx.ModelProto:
    onward.export(model, args, file, export_modules_as_functions=functions, verify=True, **options)
    return load(file)


def calls(nodes: Any) -> dict[str, int]:
    return dict(Counter(f"{node.domain}.{node.op_type}" for node in nodes if node.domain))


def metadata(node: onnx.NodeProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}


@pytest.mark.parametrize("opset", [15, 17, 20, 23, NEWEST])
@pytest.mark.parametrize("functions", [{Block}, [Block, nn.LSTM], (nn.Linear,), True])
def test_chosen_modules_become_functions_at_every_size(tmp_path: Path, functions: Any, opset: int) -> None:
    model, file = Stack().eval(), tmp_path / "m.onnx"
    proto = export(model, X, file, functions, dynamic_axes=DYNAMIC, opset_version=opset)
    for sizes in ((2, 3), (1, 1), (5, 7)):
        x = torch.randn(*sizes, 4)
        assert_same(run(file, [x]), list(tensors_in(model(x))))
    asked = [Block, nn.LSTM, nn.Linear] if functions is True else functions
    assert {function.name.split("_")[0] for function in proto.functions} == {kind.__name__ for kind in asked}


def test_one_function_for_all_calls_with_the_same_body(tmp_path: Path) -> None:
    proto = export(Stack(), X, tmp_path / "m.onnx", {Block}, dynamic_axes=DYNAMIC)
    assert [(function.domain, function.name) for function in proto.functions] == [(HERE, "Block")]
    assert calls(proto.graph.node) == {f"{HERE}.Block": 3}
    called = [node for node in proto.graph.node if node.domain]
    assert [node.name for node in called] == ["blocks.0", "blocks.0_1", "blocks.1"]
    assert [metadata(node)["onward.scope"] for node in called] == ["blocks.0", "blocks.0", "blocks.1"]


def test_weights_are_inputs_and_small_constants_live_inside(tmp_path: Path) -> None:
    proto = export(Stack(), X, tmp_path / "m.onnx", {Block}, dynamic_axes=DYNAMIC)
    (function,) = proto.functions
    assert list(function.input) == ["input", "input_1", "linear.weight.transpose", "linear.bias"]
    assert len(function.output) == 2
    inside = [node for node in function.node if node.op_type == "Constant"]
    assert any(list(onnx.numpy_helper.to_array(node.attribute[0].t).reshape(-1)) == [0.5] for node in inside)
    weights = {initializer.name for initializer in proto.graph.initializer}
    assert {"blocks.0.linear.bias", "blocks.1.linear.bias"} <= weights


def test_names_and_metadata_inside_are_relative_to_the_module(tmp_path: Path) -> None:
    proto = export(Stack(), X, tmp_path / "m.onnx", {Block}, dynamic_axes=DYNAMIC)
    (function,) = proto.functions
    named = {node.name: metadata(node) for node in function.node}
    assert named["linear.linear"]["onward.scope"] == "linear"
    assert named["linear.linear"]["onward.aten"] == "aten.linear.default"
    every = [metadata(node) for nodes in (proto.graph.node, function.node) for node in nodes]
    assert not any(key in entry for entry in every for key in ("onward.region", "onward.fence"))


def test_other_attributes_and_constants_are_other_functions(tmp_path: Path) -> None:
    class Scale(nn.Module):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.factor = factor

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.factor

    model = nn.Sequential(nn.Conv1d(4, 4, 1), nn.Conv1d(4, 4, 3), Scale(2.0), Scale(3.0), Scale(2.0))
    proto = export(model, torch.randn(1, 4, 9), tmp_path / "m.onnx", {nn.Conv1d, Scale})
    convolutions = [f"{nn.Conv1d.__module__}.Conv1d", f"{nn.Conv1d.__module__}.Conv1d_1"]
    scales = [f"{HERE}.Scale", f"{HERE}.Scale_1", f"{HERE}.Scale"]
    assert [f"{node.domain}.{node.op_type}" for node in proto.graph.node] == [*convolutions, *scales]


def test_classes_of_one_name_are_told_apart_by_their_python_module(tmp_path: Path) -> None:
    other = type("Block", (Block,), {"__module__": "some.where", "forward": lambda self, x, mask: (x + mask, x)})
    model = Stack()
    model.blocks[1] = other()
    model.blocks[1].forward = lambda x, mask: (x + mask.unsqueeze(-1), x.sum(-1))
    proto = export(model, X, tmp_path / "m.onnx", {Block, other}, dynamic_axes=DYNAMIC)
    assert calls(proto.graph.node) == {f"{HERE}.Block": 2, "some.where.Block": 1}
    assert {opset.domain for opset in proto.opset_import} == {"", HERE, "some.where"}


def bert() -> tuple[nn.Module, Any, dict[str, Any]]:
    torchvision_models()  # transformers imports it
    import transformers

    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=12, num_attention_heads=4, intermediate_size=64, vocab_size=99
    )
    mask = torch.ones(2, 7, dtype=torch.int64)
    mask[0, 5:] = 0
    names = {"input_ids": {0: "batch", 1: "length"}, "attention_mask": {0: "batch", 1: "length"}}
    return transformers.BertModel(config), (torch.randint(0, 99, (2, 7)), mask), names


def test_the_layers_of_bert_are_one_function_that_calls_another(tmp_path: Path) -> None:
    from_bert = "transformers.models.bert.modeling_bert"
    model, args, dynamic = bert()
    layer = type(model.encoder.layer[0])
    attention = type(model.encoder.layer[0].attention.self)
    proto = export(model, args, tmp_path / "m.onnx", {layer, attention}, dynamic_axes=dynamic)
    assert calls(proto.graph.node) == {f"{from_bert}.BertLayer": 12}
    functions = {function.name: function for function in proto.functions}
    assert functions.keys() == {"BertLayer", "BertSelfAttention"}
    assert calls(functions["BertLayer"].node) == {f"{from_bert}.BertSelfAttention": 1}
    assert {opset.domain for opset in functions["BertLayer"].opset_import} == {"", from_bert}


def test_every_module_of_bert(tmp_path: Path) -> None:
    model, args, dynamic = bert()
    proto = export(model, args, tmp_path / "m.onnx", True, dynamic_axes=dynamic)
    functions = {function.name: function for function in proto.functions}
    assert sum(calls(functions["BertEncoder"].node).values()) == 12
    assert "Dropout" not in functions  # nothing in it
    assert len(functions) == len(proto.functions) < 20


def test_the_blocks_of_a_resnet(tmp_path: Path) -> None:
    model = torchvision_models().resnet18()
    block = type(model.layer1[0])
    axes = {"x": {0: "batch"}}
    proto = export(model, torch.randn(1, 3, 64, 64), tmp_path / "m.onnx", {block}, dynamic_axes=axes)
    domain = block.__module__
    assert calls(proto.graph.node) == {f"{domain}.BasicBlock": 5, f"{domain}.BasicBlock_1": 3}
    inside = {node.op_type for function in proto.functions for node in function.node}
    assert inside == {"Conv", "Relu", "Add"}  # passes work inside modules: the norms went into the convolutions


def test_passes_do_not_cross_the_border_of_a_module(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    proto = export(model, torch.randn(1, 3, 8, 8), tmp_path / "m.onnx", {nn.BatchNorm2d})
    assert [node.op_type for node in proto.graph.node] == ["Conv", "BatchNorm2d", "Relu"]


def test_a_vision_transformer(tmp_path: Path) -> None:
    torchvision_models()  # timm imports it
    import timm

    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=3)
    axes = {"x": {0: "batch"}}
    proto = export(model, torch.randn(2, 3, 32, 32), tmp_path / "m.onnx", {type(model.blocks[0])}, dynamic_axes=axes)
    assert list(calls(proto.graph.node).values()) == [3]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32])
def test_other_types(tmp_path: Path, dtype: torch.dtype) -> None:
    class Steps(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x.reshape(-1, x.shape[0] * 2), x.cumsum(0), torch.nonzero(x), torch.zeros_like(x)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps = Steps()

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            a, b, c, d = self.steps(x)
            return a + 1, b, c, d

    x = torch.arange(12).reshape(2, 6).to(dtype)
    proto = export(Model(), x, tmp_path / "m.onnx", True, dynamic_axes={"x": {0: "n"}})
    (function,) = proto.functions
    assert len(function.input) == 1
    assert len(function.output) == 4


@pytest.mark.parametrize("opset", [15, 20])
def test_subgraphs_inside_a_function(tmp_path: Path, opset: int) -> None:
    class Best(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.cummax(1).values + x

    model = nn.Sequential(Best(), nn.ReLU(), Best())
    axes = {"input": {0: "n", 1: "m"}}
    proto = export(model, torch.randn(3, 4), tmp_path / "m.onnx", {Best}, dynamic_axes=axes, opset_version=opset)
    (function,) = proto.functions
    assert calls(proto.graph.node) == {f"{HERE}.Best": 2}
    assert any(attribute.HasField("g") for node in function.node for attribute in node.attribute)


def test_an_output_that_a_function_makes_keeps_its_name(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    proto = export(model, torch.randn(2, 4), tmp_path / "m.onnx", True, output_names=["scores"])
    assert [value.name for value in proto.graph.output] == ["scores"]
    assert list(proto.graph.node[-1].output) == ["scores"]


def test_modules_inside_a_function_that_is_exported(tmp_path: Path) -> None:
    block = nn.Linear(4, 4)
    file = tmp_path / "m.onnx"
    onward.export(lambda x: block(block(x)), torch.randn(2, 4), file, export_modules_as_functions=True, verify=True)
    assert calls(load(file).graph.node) == {"torch.nn.modules.linear.Linear": 2}


@pytest.mark.parametrize(
    "options",
    [{"export_params": False}, {"keep_initializers_as_inputs": True}, {"do_constant_folding": False}],
    ids=str,
)
def test_weights_as_inputs_of_the_model(tmp_path: Path, options: dict[str, bool]) -> None:
    proto = export(Stack(), X, tmp_path / "m.onnx", {Block}, dynamic_axes=DYNAMIC, **options)
    assert calls(proto.graph.node) == {f"{HERE}.Block": 3}
    assert list(proto.functions[0].input) == ["input", "input_1", "linear.weight", "linear.bias"]


def test_weights_in_a_data_file(tmp_path: Path) -> None:
    proto = export(Stack(), X, tmp_path / "m.onnx", True, dynamic_axes=DYNAMIC, external_data=True)
    assert proto.functions


@pytest.mark.parametrize("nothing", [False, set(), []])
def test_nothing_chosen_is_no_function(tmp_path: Path, nothing: Any) -> None:
    proto = export(Stack(), X, tmp_path / "m.onnx", nothing)
    assert not proto.functions
    assert not calls(proto.graph.node)
    assert "Identity" not in [node.op_type for node in proto.graph.node if "blocks" in node.name]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (nn.GRU, "export_modules_as_functions: GRU does not occur in the model"),
        (Stack, "export_modules_as_functions: Stack is the model itself, which is the graph"),
        (nn.RNNBase, "export_modules_as_functions: RNNBase does not occur in the model (but LSTM does)"),
    ],
)
def test_a_class_that_does_not_occur_is_a_warning(kind: type, text: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        onward.export(Stack(), X, export_modules_as_functions={kind})
    assert [str(each.message) for each in caught] == [text]
    assert caught[0].filename == __file__


def test_old_opsets_have_no_functions() -> None:
    with pytest.raises(onward.InputError) as caught:
        onward.export(Stack(), X, export_modules_as_functions=True, opset_version=13)
    assert str(caught.value) == (
        "export_modules_as_functions needs opset 15, and opset_version is 13: older files have no functions\n"
        "  try opset_version=15, or leave export_modules_as_functions out"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Block", "export_modules_as_functions must be True, False or a set of module classes, not 'Block'"),
        (1, "export_modules_as_functions must be True, False or a set of module classes, not 1"),
        (["Block"], "export_modules_as_functions has 'Block', which is not a class"),
        (Block, "export_modules_as_functions must be True, False or a set of module classes, not <class"),
    ],
)
def test_a_bad_value_is_refused(value: Any, text: str) -> None:
    with pytest.raises(onward.InputError) as caught:
        onward.export(Stack(), X, export_modules_as_functions=value)
    assert str(caught.value).startswith(text)
    assert "for example export_modules_as_functions={torch.nn.LayerNorm}" in str(caught.value)


class Chooses(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.layer(x), lambda x: x * 2, (x,))


def test_a_module_with_a_branch_whose_sides_call_modules() -> None:
    model = torch.nn.Sequential(Chooses(), Chooses()).eval()
    program = onward.export(
        model,
        (torch.ones(2, 4),),
        dynamic_axes={"input": {0: "batch"}},
        export_modules_as_functions={Chooses},
        verify=True,
    )
    assert [node.op_type for node in program.model.graph] == ["Chooses", "Chooses"]
    for x in (torch.ones(3, 4), -torch.ones(1, 4)):
        torch.testing.assert_close(program(x), model(x).detach())
