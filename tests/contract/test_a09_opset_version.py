"""A9: opset 9 up to the newest that onnxruntime loads, each operator as that opset itself writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F

import onward
from onward.options import newest_opset
from onward.parameters import DEFAULT_OPSET, OLDEST_OPSET

from .running import assert_same, load, open_session, run

OPSETS = range(OLDEST_OPSET, newest_opset() + 1)


class Model(torch.nn.Module):
    """Operators whose ONNX form has changed over the opsets: attributes became inputs, new operators came."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv1d(3, 4, 3, padding=1)
        self.norm = torch.nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = F.hardtanh(self.convolution(x), -0.5, 0.7)
        z = F.gelu(self.norm(y.transpose(1, 2)))
        padded = F.pad(z, (1, 2))[:, 1:, ::2]
        return padded.softmax(1), z.sum(-1, keepdim=True).squeeze(-1), z.amax(1), z.unsqueeze(0) - z.mean(0)


@pytest.mark.parametrize("opset", OPSETS)
def test_every_opset_exports_and_agrees(opset: int, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = Model().eval()
    program = onward.export(
        model, torch.randn(2, 3, 6), path, opset_version=opset, dynamic_axes={"x": {0: "n", 2: "s"}}, verify=True
    )
    proto = load(path)
    assert {each.domain: each.version for each in proto.opset_import} == {"": opset}
    assert program.opset_version == opset
    for size in ((2, 3, 6), (1, 3, 9)):
        x = torch.randn(size)
        assert_same(run(path, [x]), list(model(x)))


def test_the_newest_is_what_onnxruntime_loads() -> None:
    """One more than the newest is refused by onnxruntime, or is not known to the onnx package."""

    def smallest(opset: int) -> bytes:
        x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
        graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
        return model.SerializeToString()

    open_session(smallest(newest_opset()))
    if newest_opset() < onnx.defs.onnx_opset_version():
        with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail):
            open_session(smallest(newest_opset() + 1))


def test_the_default_is_between(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for given in ({}, {"opset_version": None}):
        onward.export(lambda x: x + 1, torch.randn(2), path, **given)
        assert load(path).opset_import[0].version == DEFAULT_OPSET
    assert DEFAULT_OPSET in OPSETS


# Native --------------------------------------------------------------------------------------------------------------


def nodes(opset: int, model: Any, *shape: int) -> list[onnx.NodeProto]:
    program = onward.export(model, torch.randn(shape), opset_version=opset)
    return list(program.proto().graph.node)


@pytest.mark.parametrize(
    ("model", "shape", "op", "since"),
    [
        (torch.nn.LayerNorm(4), (2, 4), "LayerNormalization", 17),
        (torch.nn.GELU(), (2, 4), "Gelu", 20),
        (torch.nn.Mish(), (2, 4), "Mish", 18),
        (torch.nn.Hardswish(), (2, 4), "HardSwish", 14),
        (torch.nn.RMSNorm(4), (2, 4), "RMSNormalization", 23),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_operator_of_a_newer_opset_is_used_from_there_on(model: Any, shape: tuple, op: str, since: int) -> None:
    older, newer = (nodes(opset, model, *shape) for opset in (since - 1, since))
    assert op not in [node.op_type for node in older]
    assert [node.op_type for node in newer] == [op]


@pytest.mark.parametrize(
    ("model", "op", "attribute", "became_an_input"),
    [
        (lambda x: x.clamp(-1, 1), "Clip", "min", 11),
        (lambda x: F.pad(x, (1, 1)), "Pad", "pads", 11),
        (lambda x: x[:, 1:], "Slice", "starts", 10),
        (lambda x: x.unsqueeze(0) * 2, "Unsqueeze", "axes", 13),
        (lambda x: x.sum(1), "ReduceSum", "axes", 13),
        (lambda x: x.amax(1), "ReduceMax", "axes", 18),
        (lambda x: x.mean(1), "ReduceMean", "axes", 18),
        (lambda x: torch.topk(x, 2).values, "TopK", "k", 10),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_attribute_becomes_an_input_where_the_opset_says_so(
    model: Any, op: str, attribute: str, became_an_input: int
) -> None:
    def attributes(opset: int) -> list[str]:
        (node,) = [node for node in nodes(opset, model, 2, 3) if node.op_type == op]
        return [each.name for each in node.attribute]

    assert attribute in attributes(became_an_input - 1)
    assert attribute not in attributes(became_an_input)


def test_the_file_format_is_old_enough_for_the_runtimes_of_its_opset() -> None:
    """A runtime that knows opset 9 and nothing later reads no newer file format than that opset's."""
    table = {opset: version for (_, version, opset, *_) in reversed(onnx.helper.VERSION_TABLE)}
    for opset in (9, 13, 18, 20):
        program = onward.export(lambda x: x + 1, torch.randn(2), opset_version=opset)
        assert program.proto().ir_version <= table[opset], f"opset {opset}"
