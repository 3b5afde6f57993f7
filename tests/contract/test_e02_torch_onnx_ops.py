"""E2: what `torch.onnx.ops` offers to models of today: any operator of ONNX as a call."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch

import onward
from tests.opsets import DEFAULT

ops = pytest.importorskip("torch.onnx.ops")


def test_any_operator_by_name() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        y = ops.symbolic(
            "custom_domain::Foo", (x + 1, None, x), {"a": 1, "b": 0.5, "c": "d", "e": [1, 2], "f": [0.5], "g": ["h"]},
            dtype=torch.float16, shape=(x.shape[0], 5), version=3, metadata_props={"note": "mine"},
        )  # fmt: skip
        return y.relu()

    program = onward.export(call, torch.randn(2, 3), dynamic_axes={"x": {0: "n"}})
    proto = program.proto()
    onnx.checker.check_model(proto, full_check=True)
    add, foo, relu = proto.graph.node
    assert (foo.domain, foo.op_type, list(foo.input)) == ("custom_domain", "Foo", [add.output[0], "", "x"])
    assert {a.name: onnx.helper.get_attribute_value(a) for a in foo.attribute} == {
        "a": 1, "b": 0.5, "c": b"d", "e": [1, 2], "f": [0.5], "g": [b"h"],
    }  # fmt: skip
    assert {each.domain: each.version for each in proto.opset_import} == {"": DEFAULT, "custom_domain": 3}
    assert ("note", "mine") in [(each.key, each.value) for each in foo.metadata_props]
    assert (str(program.outputs[0]), relu.op_type) == ("float16[n, 5]", "Relu")


def test_several_results_and_an_operator_of_onnx() -> None:
    def call(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(
            ops.symbolic_multi_out(
                "TopK", (x, torch.tensor([2])), {"axis": 1},
                dtypes=(torch.float32, torch.int64), shapes=([x.shape[0], 2], [x.shape[0], 2]),
            )
        )  # fmt: skip

    program = onward.export(call, torch.randn(3, 5), dynamic_axes={"x": {0: "n"}})
    assert [node.op_type for node in program.model.graph] == ["TopK"]
    x = torch.randn(4, 5)
    for got, wanted in zip(program(x), x.topk(2), strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("opset", [13, 20, 23])
def test_rotary_embedding(opset: int) -> None:
    def call(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor) -> Any:
        return ops.rotary_embedding(x, cos, sin, positions)

    example = (torch.randn(2, 3, 4, 8), torch.randn(10, 4), torch.randn(10, 4), torch.arange(4).repeat(2, 1))
    program = onward.export(call, example, opset_version=opset, verify=True)
    assert ("RotaryEmbedding" in [node.op_type for node in program.model.graph]) is (opset >= 23)


@pytest.mark.parametrize("opset", [13, 20, 23])
def test_attention(opset: int) -> None:
    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return ops.attention(q, k, v, is_causal=True)[0]

    example = tuple(torch.randn(2, 4, 5, 8) for _ in range(3))
    onward.export(call, example, opset_version=opset, verify=True)
