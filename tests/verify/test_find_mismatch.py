"""`onward.find_mismatch`, and hunts where values are not plain: loops, functions, quantised and half-precision models,
data files, sizes other than the example's, files of others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import helper, numpy_helper
from torch import nn

import onward
from onward.errors import InputError, VerifyError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.conv(x)))
        return torch.softmax(self.head(y.mean((2, 3))), -1)


def model_and_input() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return Net().eval(), torch.randn(2, 3, 8, 8)


def add_to_weight(proto: onnx.ModelProto, name: str, by: float = 0.5) -> None:
    tensor = next(each for each in proto.graph.initializer if each.name == name)
    content = numpy_helper.to_array(tensor).copy()
    content.reshape(-1)[:2] += np.asarray(by, content.dtype)
    tensor.CopyFrom(numpy_helper.from_array(content, name))


@pytest.mark.parametrize("external", [False, True], ids=["one file", "with a data file"])
def test_a_file_that_was_changed(tmp_path: Path, external: bool) -> None:
    model, x = model_and_input()
    path = tmp_path / "m.onnx"
    names: Any = {"input_names": ["image"], "output_names": ["scores"], "dynamic_axes": {"image": {0: "batch"}}}
    onward.export(model, x, path, **names, external_data=external)
    assert onward.find_mismatch(path, model, x).verdict == "right"
    proto = onnx.load(path)
    add_to_weight(proto, "conv.bias")
    onnx.save(proto, path, save_as_external_data=external, location="other.data", size_threshold=0)
    found = onward.find_mismatch(path, model, x)
    assert found.culprit is not None
    assert (found.verdict, found.culprit.spot.node, found.culprit.spot.module) == (
        "wrong operator",
        "conv.conv2d",
        "conv",
    )
    assert found.culprit.differences == ("the weight 'conv.bias' differs in 2 of 8 elements, by up to 0.5",)


def test_another_model_than_the_files() -> None:
    model, x = model_and_input()
    proto = onward.export(model, x).proto()
    other = Net().eval()
    other.load_state_dict({**model.state_dict(), "head.bias": torch.ones(5) * torch.arange(5)})
    found = onward.find_mismatch(proto, other, x)
    assert found.culprit is not None and found.culprit.spot.node == "head.linear"


def test_files_that_do_not_fit() -> None:
    model, x = model_and_input()
    proto = onward.export(model, x, input_names=["a"]).proto()
    with pytest.raises(InputError, match="the inputs of the file are a, and those of the model b"):
        onward.find_mismatch(proto, model, x, input_names=["b"])
    with pytest.raises(InputError, match="find_mismatch writes nothing and takes no verify"):
        onward.find_mismatch(proto, model, x, verify=True)


def test_a_fault_at_other_sizes_only() -> None:
    program = onward.export(
        lambda x: torch.relu(x.flatten(1)).reshape(-1, 6) + 1, torch.randn(4, 2, 6), dynamic_axes={"x": {0: "batch"}}
    )
    shape = next(node for node in program.model.graph if node.op_type == "Reshape" and "reshape" in str(node.name))
    frozen = numpy_helper.from_array(np.array([8, 6]), "frozen")
    value = onnx_value(program.model, frozen)
    shape.replace_input_with(1, value)
    with pytest.raises(VerifyError) as caught:
        program.verify()
    assert caught.value.explanation.culprit.spot.node == shape.name
    assert "run: batch=" in str(caught.value)


def onnx_value(model: Any, tensor: onnx.TensorProto) -> Any:
    made = ir.from_proto(tensor)
    value = ir.Value(name=tensor.name, shape=made.shape, type=ir.TensorType(made.dtype), const_value=made)
    model.graph.register_initializer(value)
    return value


def test_a_loop_is_named_as_a_whole(tmp_path: Path) -> None:
    @torch.jit.script
    def turns(x: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            x = torch.tanh(x) + 0.5
        return x

    class Loops(nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            return turns(x * 2, int(n)) - 1

    program = onward.export(Loops(), (torch.randn(3, 4), torch.tensor(5)))
    assert program.verify(explain=True).explanation.verdict == "right"
    proto = program.proto()
    loop = next(node for node in proto.graph.node if node.op_type == "Loop")
    inner = next(node for node in loop.attribute[0].g.node if node.op_type == "Tanh")
    inner.op_type = "Sigmoid"
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(VerifyError, match=f"which Loop node '{re.escape(loop.name)}' computes"):
        program.verify(tmp_path / "m.onnx")


def test_a_function_is_named_by_its_call(tmp_path: Path) -> None:
    model, x = model_and_input()
    program = onward.export(model, x, export_modules_as_functions={nn.GroupNorm}, opset_version=17)
    assert program.verify(explain=True).explanation.verdict == "right"
    proto = program.proto()
    inner = next(node for node in proto.functions[0].node if node.op_type == "Mul")
    inner.op_type = "Add"
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(VerifyError) as caught:
        program.verify(tmp_path / "m.onnx")
    assert caught.value.explanation.culprit.spot.op_type == "GroupNorm"


def test_half_precision(tmp_path: Path) -> None:
    model, x = model_and_input()
    program = onward.export(model.half(), x.half())
    assert program.verify(explain=True).explanation.verdict == "right"
    proto = program.proto()
    add_to_weight(proto, "head.bias", 2.0)
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(VerifyError) as caught:
        program.verify(tmp_path / "m.onnx")
    assert caught.value.explanation.culprit.spot.module == "head"


def test_a_quantised_model(tmp_path: Path) -> None:
    model, x = model_and_input()
    onward.init(model)
    with onward.calibration(model):
        model(x)
    program = onward.export(model.eval(), x)
    assert program.verify(explain=True).explanation.culprits == ()
    proto = program.proto()
    changed = next(node for node in proto.graph.node if node.op_type == "Softmax")
    changed.op_type = "LogSoftmax"
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(VerifyError) as caught:
        program.verify(tmp_path / "m.onnx")
    assert changed.name in caught.value.explanation.culprit.spot.nodes


def foreign(model: Net, factor: float) -> onnx.ModelProto:
    """The same network as another tool would write it."""
    weights = {name.replace(".", "_"): tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    nodes = [
        helper.make_node("Conv", ["x", "conv_weight", "conv_bias"], ["v1"], "n1"),
        helper.make_node("Reshape", ["v1", "groups"], ["v2"], "n2"),
        helper.make_node("InstanceNormalization", ["v2", "ones", "zeros"], ["v3"], "n3", epsilon=1e-5),
        helper.make_node("Reshape", ["v3", "full"], ["v4"], "n4"),
        helper.make_node("Relu", ["v4"], ["v5"], "n5"),
        helper.make_node("GlobalAveragePool", ["v5"], ["v6"], "n6"),
        helper.make_node("Flatten", ["v6"], ["v7"], "n7"),
        helper.make_node("Gemm", ["v7", "head_weight", "head_bias"], ["v8"], "n8", transB=1, alpha=factor),
        helper.make_node("Softmax", ["v8"], ["output"], "n9", axis=-1),
    ]
    extra = {"groups": np.array([2, 2, -1]), "full": np.array([2, 8, 6, 6])}
    extra |= {"ones": np.ones(2, np.float32), "zeros": np.zeros(2, np.float32)}
    graph = helper.make_graph(
        nodes,
        "another",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3, 8, 8])],
        [helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, [2, 5])],
        [numpy_helper.from_array(each, name) for name, each in {**weights, **extra}.items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="elsewhere"
    )


def test_a_file_of_another_exporter() -> None:
    model, x = model_and_input()
    assert isinstance(model, Net)
    assert onward.find_mismatch(foreign(model, 1.0), model, x).verdict == "right"
    found = onward.find_mismatch(foreign(model, 3.0), model, x)
    assert found.culprit is not None
    assert (found.culprit.spot.node, found.culprit.spot.aten, found.culprit.spot.module) == (
        "n8", "aten.linear.default", "head",
    )  # fmt: skip
    assert re.search(
        r"the file is of elsewhere: \d of its values were found among PyTorch's by what they hold, so the fault "
        r"lies at this node or shortly after it",
        str(found),
    )


def test_a_file_of_another_exporter_with_other_weights() -> None:
    model, x = model_and_input()
    torch.manual_seed(7)
    proto = foreign(Net().eval(), 1.0)
    proto.graph.node.insert(0, helper.make_node("Identity", ["conv_bias"], ["shared"], "n0"))  # PyTorch's writes these
    proto.graph.node[1].input[2] = "shared"
    found = onward.find_mismatch(proto, model, x)
    assert found.culprit is not None and found.culprit.spot.node == "n1"
    assert "none of its values was found among PyTorch's: it has other weights, or is wrong from here on" in str(found)
