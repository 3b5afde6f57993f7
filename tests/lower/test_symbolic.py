"""The helpers of symbolic functions, ours and PyTorch's on our values, and the values themselves."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import Function

import onward
from onward.lower.symbolic import SymbolicGraph
from onward.onnx import symbolic_helper as ours


def function(forward: Callable[..., Any], symbolic: Callable[..., Any]) -> Any:
    def body(namespace: dict[str, Any]) -> None:
        namespace["forward"] = staticmethod(lambda ctx, x: forward(x))
        namespace["symbolic"] = staticmethod(symbolic)

    return types.new_class("Tested", (Function,), exec_body=body)


def constant(g: Any, value: Any) -> Any:
    return g.op("Constant", value_t=torch.tensor(value))


# What the helper computes in PyTorch, and a call of it.
HELPERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "slice": (lambda x: x[:, 1:3], lambda h, g, x: h._slice_helper(g, x, axes=[1], starts=[1], ends=[3])),
    "select": (lambda x: x[:, 1:2], lambda h, g, x: h._select_helper(g, x, 1, constant(g, 1))),
    "size": (lambda x: torch.tensor(x.shape[1]), lambda h, g, x: h._size_helper(g, x, constant(g, 1))),
    "reduce": (lambda x: x.sum(1), lambda h, g, x: h._reducesum_helper(g, x, axes_i=[1], keepdims_i=0)),
    "unsqueeze": (lambda x: x[None], lambda h, g, x: h._unsqueeze_helper(g, x, [0])),
    "squeeze": (lambda x: x, lambda h, g, x: h._squeeze_helper(g, h._unsqueeze_helper(g, x, [1]), [1])),
    "reshape": (lambda x: x.reshape(-1), lambda h, g, x: h._reshape_helper(g, x, constant(g, [-1]))),
    "less": (lambda x: x < 0, lambda h, g, x: h._lt_helper(g, x, constant(g, 0.0))),
    "numel": (lambda x: torch.tensor(x.numel()), lambda h, g, x: h._numel_helper(g, x)),
    "cast": (lambda x: x.long(), lambda h, g, x: g.op("Cast", x, to_i=h.cast_pytorch_to_onnx["Long"])),
    "scalar_type_to_onnx": (lambda x: x.double(), lambda h, g, x: g.op("Cast", x, to_i=h.scalar_type_to_onnx[7])),
}


@pytest.mark.parametrize("opset", [9, 13, 20])
@pytest.mark.parametrize("home", ["ours", "PyTorch's"])
@pytest.mark.parametrize("name", HELPERS)
def test_a_helper(name: str, home: str, opset: int) -> None:
    helpers = ours if home == "ours" else pytest.importorskip("torch.onnx.symbolic_helper")
    forward, symbolic = HELPERS[name]
    tested = function(forward, lambda g, x: symbolic(helpers, g, x))
    onward.export(
        lambda x: tested.apply(x), torch.randn(3, 4), dynamic_axes={"x": {0: "n"}}, opset_version=opset, verify=True
    )


@pytest.mark.parametrize("opset", [9, 10, 11, 20])
def test_topk(opset: int) -> None:
    tested = function(
        lambda x: x.topk(2, 1, largest=False)[0],
        lambda g, x: ours._topk_helper(g, x, constant(g, 2), 1, largest=False, sorted=True)[0],
    )
    onward.export(lambda x: tested.apply(x), torch.randn(3, 4), opset_version=opset, verify=True)


@pytest.fixture
def graph() -> SymbolicGraph:
    return SymbolicGraph(onward.lower.Emitter(18))


def test_questions_about_values(graph: SymbolicGraph) -> None:
    x = graph.wrap(graph.emitter.input("x", torch.float32, (2, 3)))
    number, nothing, numbers, tensors = graph.wrap(3), graph.wrap(None), graph.wrap([1, 2]), graph.wrap([x, x])
    assert [ours._is_value(each) for each in (x, number, nothing, 3, None)] == [True, True, True, False, False]
    assert [ours._is_none(each) for each in (x, nothing, None, 3)] == [False, True, True, False]
    assert [ours._is_constant(each) for each in (x, number, 3)] == [False, True, True]
    assert [ours._is_packed_list(each) for each in (x, numbers, tensors)] == [False, True, True]
    assert [ours._is_tensor_list(each) for each in (x, numbers, tensors)] == [False, False, True]
    assert (ours._is_fp(x), ours._is_bool(graph.wrap(True)), ours._is_fp(number)) == (True, True, False)
    assert ours._try_get_scalar_type(nothing, number, x) == "Long"
    assert (ours._get_tensor_sizes(x), ours._get_tensor_rank(x), ours._get_tensor_dim_size(x, -1)) == ([2, 3], 2, 3)
    assert ours._maybe_get_const(numbers, "is") == [1, 2]
    assert ours._maybe_get_const(x, "i") is x
    assert ours._maybe_get_scalar(number) == 3
    assert ours._unpack_list(tensors) == [x, x]
    assert ours._get_const(number, "i", "k") == 3
    with pytest.raises(TypeError, match=r"the argument 'k' has to be a constant, and is computed when the model runs"):
        ours._get_const(x, "i", "k")
    with pytest.raises(TypeError, match="is not a list"):
        ours._unpack_list(x)


def test_a_node_tells_what_it_is_made_of(graph: SymbolicGraph) -> None:
    x = graph.wrap(graph.emitter.input("x", torch.float32, (2, 3)))
    node = graph.op("Concat", x, x, axis_i=1).node()
    assert (node.kind(), node.inputsSize(), node.outputsSize(), node.i("axis")) == ("onnx::Concat", 2, 1, 1)
    assert ours._node_get(node, "axis") == 1
    assert node.attributeNames() == ["axis"]
    with pytest.raises(TypeError, match="use onward.lowers and g.subgraph for an If or Loop"):
        node.addBlock()
    with pytest.raises(AttributeError, match="a node has no 'destroy' in onward's symbolic functions"):
        node.destroy()


def test_errors_of_the_helpers() -> None:
    with pytest.raises(onward.LoweringError, match="Foo is not supported this way: only 4-d"):
        ours._unimplemented("Foo", "only 4-d")
    with pytest.raises(onward.UnsupportedOpError, match="Foo cannot be written in opset 9\n  try opset_version=11"):
        ours._onnx_opset_unsupported("Foo", 9, 11)


def test_tables_agree_with_pytorchs() -> None:
    theirs = pytest.importorskip("torch.onnx.symbolic_helper")
    assert ours.scalar_type_to_pytorch_type[:16] == theirs.scalar_type_to_pytorch_type[:16]
    for name, code in ours.cast_pytorch_to_onnx.items():
        if name in theirs.cast_pytorch_to_onnx:
            assert int(theirs.cast_pytorch_to_onnx[name]) == code, name
