"""E1: what a symbolic function can write with `g.op`, and what it can ask of its values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

import onward
from onward.onnx.symbolic_helper import parse_args
from tests.opsets import DEFAULT, NEWEST

from .running import assert_same, load, run

NAME = "onward_e01::act"


@torch.library.custom_op(NAME, mutates_args=())
def act(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return torch.nn.functional.elu(x, alpha)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.onward_e01.act(x, 0.5).sigmoid()


X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Callable[..., onnx.ModelProto]]:
    """Export the model with a symbolic function for its operator, and load the file."""

    def export(symbolic: Callable[..., Any], model: torch.nn.Module | None = None, **options: Any) -> onnx.ModelProto:
        onward.register_custom_op_symbolic(NAME, symbolic, 9)
        file = tmp_path / "model.onnx"
        onward.export(model or Model(), X, file, **options)
        return load(file)

    yield export
    onward.unregister_custom_op_symbolic(NAME, 9)


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}


@pytest.mark.parametrize("opset", [9, 13, 17, 20, NEWEST])
def test_an_operator_of_onnx(written: Any, tmp_path: Path, opset: int) -> None:
    @parse_args("v", "f")
    def symbolic(g: Any, x: Any, alpha: float) -> Any:
        assert g.opset == opset
        return g.op("Elu", x, alpha_f=alpha)

    proto = written(symbolic, opset_version=opset, dynamic_axes={"x": {0: "batch"}})
    assert [node.op_type for node in proto.graph.node] == ["Elu", "Sigmoid"]
    assert attributes(proto.graph.node[0]) == {"alpha": 0.5}
    for size in (2, 1, 5):
        x = torch.randn(size, 3)
        assert_same(run(tmp_path / "model.onnx", [x]), [Model()(x)])


def test_every_suffix_and_its_list(written: Any) -> None:
    tensor = torch.tensor([[1, 2], [3, 4]], dtype=torch.int32)

    def symbolic(g: Any, x: Any, alpha: Any) -> Any:
        return g.op(
            "my.domain::Foo", x, a_f=0.5, b_f=[1.0, 2], c_i=3, d_i=(4, 5), e_s="six", f_s=["seven", "eight"],
            g_t=tensor, h_t=[tensor, tensor], absent_i=None, flag_i=True, empty_s="",
        )  # fmt: skip

    proto = written(symbolic)
    node = proto.graph.node[0]
    found = attributes(node)
    assert (node.domain, node.op_type, list(node.input)) == ("my.domain", "Foo", ["x"])
    assert onnx.numpy_helper.to_array(found.pop("g")).tolist() == tensor.tolist()
    assert [onnx.numpy_helper.to_array(each).tolist() for each in found.pop("h")] == [tensor.tolist()] * 2
    assert found == {"a": 0.5, "b": [1.0, 2.0], "c": 3, "d": [4, 5], "e": b"six", "f": [b"seven", b"eight"],
                     "flag": 1, "empty": b""}  # fmt: skip
    assert {each.domain: each.version for each in proto.opset_import} == {"": DEFAULT, "my.domain": 1}
    # nothing but the program knows its type, so the file has to say it
    assert {each.name: each.type.tensor_type.elem_type for each in proto.graph.value_info}[node.output[0]] == 1


def test_several_outputs(written: Any, tmp_path: Path) -> None:
    def symbolic(g: Any, x: Any, alpha: Any) -> Any:
        first, second = g.op("Split", x, axis_i=1, split_i=[1, 2], outputs=2)
        return g.op("Elu", g.op("Concat", first, second, axis_i=1), alpha_f=0.5)

    for opset in (9, 13, 18):
        written(symbolic, opset_version=opset)
        assert_same(run(tmp_path / "model.onnx", [X]), [Model()(X)])


@pytest.mark.parametrize(
    ("name", "domain", "kind"),
    [
        ("onnx::Elu", "", "Elu"),
        ("com.microsoft::Gelu", "com.microsoft", "Gelu"),
        ("custom_domain::Foo", "custom_domain", "Foo"),
        ("aten::ATen", "org.pytorch.aten", "ATen"),
        ("ATen", "org.pytorch.aten", "ATen"),
    ],
)
def test_namespaces(written: Any, name: str, domain: str, kind: str) -> None:
    node = written(lambda g, x, alpha: g.op(name, x)).graph.node[0]
    assert (node.domain, node.op_type) == (domain, kind)


def test_a_node_of_another_domain_is_never_shared_or_dropped(written: Any) -> None:
    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.onward_e01.act(x, 0.5) + torch.ops.onward_e01.act(x, 0.5)

    proto = written(lambda g, x, alpha: g.op("my::Noise", x), Twice())
    assert [node.op_type for node in proto.graph.node] == ["Noise", "Noise", "Add"]


def test_numbers_and_tensors_serve_as_inputs(written: Any, tmp_path: Path) -> None:
    def symbolic(g: Any, x: Any, alpha: Any) -> Any:
        down = g.op("Mul", g.op("Sub", g.op("Exp", x), 1), alpha)  # an int constant takes the type of x
        zero = g.op("Constant", value_t=torch.tensor(0, dtype=torch.float64))
        return g.op("Where", g.op("Greater", x, torch.zeros(1)), x, g.op("Min", down, zero))

    written(symbolic)
    assert_same(run(tmp_path / "model.onnx", [X]), [Model()(X)])


def test_half_precision_stays_half(written: Any, tmp_path: Path) -> None:
    written(lambda g, x, alpha: g.op("Elu", x, alpha_f=0.5))
    file = tmp_path / "half.onnx"
    onward.export(Model(), X.half(), file)
    assert load(file).graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16


@pytest.mark.parametrize("opset", [9, 13, 18, NEWEST])
def test_attributes_that_became_inputs_may_be_given_as_attributes(written: Any, tmp_path: Path, opset: int) -> None:
    def symbolic(g: Any, x: Any, alpha: Any) -> Any:
        x = g.op("Squeeze", g.op("Unsqueeze", x, axes_i=[0]), axes_i=[0])
        x = g.op("Clip", x, min_f=-100.0, max_f=100.0)
        x = g.op("Slice", g.op("Pad", x, pads_i=[0, 0, 0, 1], value_f=1.0), starts_i=[0], ends_i=[-1], axes_i=[1])
        nothing = g.op("Mul", g.op("ReduceSum", x, axes_i=[1], keepdims_i=1), 0)
        return g.op("Elu", g.op("Add", x, nothing), alpha_f=0.5)

    written(symbolic, opset_version=opset)
    assert_same(run(tmp_path / "model.onnx", [X]), [Model()(X)])


def test_what_a_value_says_of_itself(written: Any) -> None:
    seen: dict[str, Any] = {}

    def symbolic(g: Any, x: Any, alpha: Any) -> Any:
        kind = x.type()
        seen.update(
            sizes=kind.sizes(), dim=kind.dim(), scalar=kind.scalarType(), dtype=kind.dtype(), node=x.node().kind(),
            name=x.debugName(), complete=x.isCompleteTensor(), alpha=alpha.node().kind(), type=str(kind),
        )  # fmt: skip
        made = g.op("my::Foo", x)
        seen.update(unknown=made.type().scalarType(), unknown_sizes=made.type().sizes(), made=made.node().kind())
        made.setType(kind.with_dtype(torch.int64).with_sizes([None, 7]))
        seen.update(stated=made.type().scalarType(), stated_sizes=made.type().sizes())
        return g.op("my::Bar", made)

    written(symbolic, dynamic_axes={"x": {0: "batch"}})
    assert seen == {
        "sizes": [None, 3], "dim": 2, "scalar": "Float", "dtype": torch.float32, "node": "prim::Param", "name": "x",
        "complete": False, "alpha": "onnx::Constant", "type": "Float(*, 3)", "unknown": None, "unknown_sizes": None,
        "made": "my::Foo", "stated": "Long", "stated_sizes": [None, 7],
    }  # fmt: skip
    written(symbolic)
    assert (seen["sizes"], seen["complete"], seen["type"]) == ([2, 3], True, "Float(2, 3)")


@pytest.mark.parametrize(
    ("symbolic", "message"),
    [
        (lambda g, x, a: g.op("Elu", x, alpha=0.5),
         "the attribute 'alpha' needs a suffix that says its type: alpha_f, alpha_i, alpha_s or alpha_t"),
        (lambda g, x, a: g.op("Elu", x, alpha_f=a),
         "alpha_f is given a value of the graph (%1 : Float() = onnx::Constant), and an attribute is a constant: "
         'decorate the function with parse_args(..., "f", ...) to get constants, or make it an input'),
        (lambda g, x, a: g.op("my::Foo", x, n_i=1.5), "n_i has to be an integer (or a list of them), not 1.5"),
        (lambda g, x, a: g.op("my::Foo", x, n_s=1), "n_s has to be a string (or a list of them), not 1"),
        (lambda g, x, a: g.op("my::Foo", x, n_f="big"), "n_f has to be a float (or a list of them), not 'big'"),
        (lambda g, x, a: g.op("Foo", x),
         'ONNX has no operator Foo; one of your own needs a domain: g.op("my.domain::Foo", ...)'),
        (lambda g, x, a: g.op("::Foo", x), "an operator's name is \"Name\" or \"domain::Name\", not '::Foo'"),
        (lambda g, x, a: g.op("prim::If", x), "prim::If is a part of TorchScript, which ONNX does not have"),
        (lambda g, x, a: g.op("Elu", x, beta_f=0.5), "Elu has no attribute beta since opset 6; it has ['alpha']"),
        (lambda g, x, a: object(), "and a symbolic function returns what g.op gives"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_both_places(written: Any, symbolic: Any, message: str) -> None:
    with pytest.raises(onward.LoweringError) as caught:
        written(symbolic)
    text = str(caught.value)
    assert text.startswith("the symbolic function of onward_e01.act.default failed: ")
    assert message in text
    line = Model.forward.__code__.co_firstlineno + 1
    assert f"\n  at {__file__}:{line}" in text
    assert f"\n  it is written at {__file__}:{symbolic.__code__.co_firstlineno}" in text
