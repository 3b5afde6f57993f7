"""E2: registering symbolic functions, here and with PyTorch; `parse_args`; `custom_opsets`; one export's own table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

import onward
from onward.onnx import symbolic_helper
from tests.opsets import DEFAULT

from .running import assert_same, load, run

LIBRARY = torch.library.Library("onward_e02", "DEF")
LIBRARY.define("foo_forward(Tensor x, Tensor y, float scale, int times=1) -> Tensor")
LIBRARY.define("foo_forward.twice(Tensor x) -> Tensor")
LIBRARY.define(
    "many(Tensor x, int[] sizes, float[] weights, str mode, bool flag, Tensor? bias=None, *, int last=3) -> Tensor"
)
LIBRARY.impl("foo_forward", lambda x, y, scale, times=1: (x + y) * scale * times, "CPU")
LIBRARY.impl("foo_forward.twice", lambda x: x * 2, "CPU")
LIBRARY.impl("many", lambda x, *rest, **named: x.clone(), "CPU")
OP = "onward_e02::foo_forward"


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.onward_e02.foo_forward(x, y, 0.5, 3)


def inputs(batch: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, 3), torch.randn(batch, 3)


@symbolic_helper.parse_args("v", "v", "f", "i")
def foo_forward(g: Any, x: Any, y: Any, scale: float, times: int) -> Any:
    return g.op("custom_domain::Foo", x, y, scale_f=scale, times_i=times)


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    from onward.lower.symbolic import users

    before = {key: dict(versions) for key, versions in users._table.items()}
    yield
    users._table.clear()
    users._table.update(before)


def kinds(program: onward.Program) -> list[str]:
    return [f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in program.model.graph]


def test_the_documents_example(tmp_path: Path) -> None:
    onward.register_custom_op_symbolic(OP, foo_forward, 9)
    file = tmp_path / "model.onnx"
    onward.export(
        Model(), inputs(), file, custom_opsets={"custom_domain": 2}, dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}
    )
    proto = load(file)
    (node,) = proto.graph.node
    assert (node.domain, node.op_type) == ("custom_domain", "Foo")
    assert {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} == {"scale": 0.5, "times": 3}
    assert {each.domain: each.version for each in proto.opset_import} == {"": DEFAULT, "custom_domain": 2}


def test_unregistered_it_is_missing_again() -> None:
    onward.register_custom_op_symbolic(OP, foo_forward, 9)
    onward.unregister_custom_op_symbolic(OP, 9)
    with pytest.raises(onward.UnsupportedOpError, match="onward_e02.foo_forward.default has no lowering"):
        onward.export(Model(), inputs())
    with pytest.warns(UserWarning, match="no symbolic function is registered for onward_e02::foo_forward at opset 9"):
        onward.unregister_custom_op_symbolic(OP, 9)


def test_onward_onnx_has_the_same_functions() -> None:
    assert onward.onnx.register_custom_op_symbolic is onward.register_custom_op_symbolic
    assert onward.onnx.unregister_custom_op_symbolic is onward.unregister_custom_op_symbolic
    assert onward.onnx.utils.register_custom_op_symbolic is onward.register_custom_op_symbolic
    assert onward.onnx.utils.unregister_custom_op_symbolic is onward.unregister_custom_op_symbolic


def test_a_name_covers_all_overloads_and_an_overload_comes_first() -> None:
    def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.onward_e02.foo_forward(x, y, 0.5) + torch.ops.onward_e02.foo_forward.twice(x)

    onward.register_custom_op_symbolic(OP, lambda g, x, *rest: g.op("my::Any", x), 9)
    assert kinds(onward.export(both, inputs())) == ["my::Any", "my::Any", "Add"]
    onward.register_custom_op_symbolic(f"{OP}.twice", lambda g, x: g.op("my::Twice", x), 9)
    assert kinds(onward.export(both, inputs())) == ["my::Any", "my::Twice", "Add"]


def test_the_highest_opset_not_above_the_export_is_taken() -> None:
    for opset in (1, 13, 18):
        onward.register_custom_op_symbolic(OP, lambda g, x, *rest, name=f"my::From{opset}": g.op(name, x), opset)
    found = {opset: kinds(onward.export(Model(), inputs(), opset_version=opset)) for opset in (9, 13, 17, 18, 20)}
    assert found == {9: ["my::From1"], 13: ["my::From13"], 17: ["my::From13"], 18: ["my::From18"], 20: ["my::From18"]}


def test_an_operator_of_pytorch_is_overridden_from_that_opset_on_and_comes_back() -> None:
    model = torch.nn.Hardswish()
    x = torch.randn(2, 3)
    ours = kinds(onward.export(model, x, opset_version=13))
    onward.register_custom_op_symbolic("aten::hardswish", lambda g, x: g.op("my::Swish", x), 14)
    assert kinds(onward.export(model, x, opset_version=14)) == ["my::Swish"]
    assert kinds(onward.export(model, x, opset_version=13)) == ours
    onward.unregister_custom_op_symbolic("aten::hardswish", 14)
    assert kinds(onward.export(model, x, opset_version=14)) != ["my::Swish"]
    onward.register_custom_op_symbolic("::hardswish", lambda g, x: g.op("my::Swish", x), 9)  # PyTorch's short form
    assert kinds(onward.export(model, x)) == ["my::Swish"]


def test_an_operator_that_would_be_decomposed_is_kept() -> None:
    onward.register_custom_op_symbolic("aten::linalg_det", lambda g, x: g.op("Det", x), 11)
    program = onward.export(torch.linalg.det, torch.randn(2, 3, 3), verify=True)
    assert kinds(program) == ["Det"]


@pytest.mark.parametrize("name", ["foo", "", "a::b::c", "a::", "my ops::foo", "a::1b", None, 3])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    for call in (
        lambda: onward.register_custom_op_symbolic(name, foo_forward, 9),
        lambda: onward.unregister_custom_op_symbolic(name, 9),
    ):
        with pytest.raises(onward.InputError) as caught:
            call()
        assert str(caught.value) == (
            f"{name!r} is not the name of an operator\n"
            '  a name is "namespace::operator" or "namespace::operator.overload", for example "my_ops::foo"'
        )


def test_an_opset_or_a_function_that_is_none_is_refused() -> None:
    for opset in (0, 99, "9", True, None):
        with pytest.raises(onward.InputError, match=r"opset_version must be an integer from 1 to \d+, not "):
            onward.register_custom_op_symbolic(OP, foo_forward, opset)  # type: ignore[arg-type]
    with pytest.raises(onward.InputError, match="has to be a function, not 'foo'"):
        onward.register_custom_op_symbolic(OP, "foo", 9)  # type: ignore[arg-type]


# parse_args


class Many(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.onward_e02.many(x, [1, 2], [0.5, 1.5], "bilinear", True)


def _pytorchs() -> Any:
    return pytest.importorskip("torch.onnx.symbolic_helper").parse_args


@pytest.mark.parametrize("parse", [symbolic_helper.parse_args, "PyTorch's"], ids=["ours", "PyTorch's"])
def test_every_letter_of_parse_args(parse: Any) -> None:
    parse = _pytorchs() if isinstance(parse, str) else parse
    seen: list[Any] = []

    @parse("v", "is", "fs", "s", "b", "t", "i")
    def symbolic(g: Any, x: Any, sizes: Any, weights: Any, mode: Any, flag: Any, bias: Any, last: Any) -> Any:
        seen.extend([sizes, weights, mode, flag, bias, last])
        return x

    onward.register_custom_op_symbolic("onward_e02::many", symbolic, 9)
    onward.export(Many(), torch.randn(2, 3))
    assert seen == [[1, 2], [0.5, 1.5], "bilinear", True, None, 3]
    assert [type(each) for each in (*seen[0], *seen[1], seen[3], seen[5])] == [int, int, float, float, bool, int]


@pytest.mark.parametrize("parse", [symbolic_helper.parse_args, "PyTorch's"], ids=["ours", "PyTorch's"])
def test_a_tensor_where_a_constant_is_wanted(parse: Any) -> None:
    parse = _pytorchs() if isinstance(parse, str) else parse
    wanted = "the argument 'y' of symbolic has to be a float" if parse is symbolic_helper.parse_args else "argument 'y'"

    @parse("v", "f", "f", "i")
    def symbolic(g: Any, x: Any, y: float, scale: float, times: int) -> Any:
        return x

    onward.register_custom_op_symbolic(OP, symbolic, 9)
    with pytest.raises(onward.LoweringError) as caught:
        onward.export(Model(), inputs())
    assert wanted in str(caught.value)
    assert f"at {__file__}:{Model.forward.__code__.co_firstlineno + 1}" in str(caught.value)


def test_mistakes_with_parse_args() -> None:
    with pytest.raises(
        ValueError, match="parse_args takes the descriptors v, i, is, f, fs, b, s, t, none, not 'float'"
    ):
        symbolic_helper.parse_args("v", "float")

    def fails(*descriptors: str) -> str:
        onward.register_custom_op_symbolic(OP, symbolic_helper.parse_args(*descriptors)(lambda g, *args: args[0]), 9)
        with pytest.raises(onward.LoweringError) as caught:
            onward.export(Model(), inputs())
        return str(caught.value)

    assert "<lambda> has 2 descriptors in parse_args and gets 4 arguments" in fails("v", "v")
    assert "has to be a string, not tensor(0.5000)" in fails("v", "v", "s", "i")
    assert "has to be a list of ints, not tensor(3)" in fails("v", "v", "f", "is")


def test_arguments_beyond_those_that_a_function_takes_must_be_defaults() -> None:
    onward.register_custom_op_symbolic(OP, lambda g, x, y, scale: g.op("my::Foo", x, y), 9)
    with pytest.raises(onward.LoweringError, match=r"argument times=3 is not supported"):
        onward.export(Model(), inputs())
    program = onward.export(lambda x, y: torch.ops.onward_e02.foo_forward(x, y, 0.5), inputs())
    assert kinds(program) == ["my::Foo"]


# PyTorch's own registry


def test_what_was_registered_with_pytorch_is_honoured() -> None:
    theirs = pytest.importorskip("torch.onnx.symbolic_helper")

    @theirs.parse_args("v", "v", "f", "i")
    def symbolic(g: Any, x: Any, y: Any, scale: float, times: int) -> Any:
        sizes = theirs._get_tensor_sizes(x)
        assert (sizes, theirs._get_tensor_rank(x), theirs._is_value(y)) == ([None, 3], 2, True)
        total = theirs._squeeze_helper(g, g.op("Add", x, theirs._unsqueeze_helper(g, y, [0])), [0])
        return g.op("Mul", total, g.op("Constant", value_t=torch.tensor(scale * times)))

    torch.onnx.register_custom_op_symbolic(OP, symbolic, 9)
    try:
        program = onward.export(Model(), inputs(), dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, verify=True)
        assert kinds(program) == ["Unsqueeze", "Add", "Squeeze", "Mul"]
        onward.register_custom_op_symbolic(OP, foo_forward, 9)  # ours comes before PyTorch's
        assert kinds(onward.export(Model(), inputs())) == ["custom_domain::Foo"]
    finally:
        torch.onnx.unregister_custom_op_symbolic(OP, 9)
    onward.unregister_custom_op_symbolic(OP, 9)
    with pytest.raises(onward.UnsupportedOpError):
        onward.export(Model(), inputs())


def test_pytorchs_own_symbolic_functions_are_not_used() -> None:
    pytest.importorskip("torch.onnx.symbolic_opset9")
    program = onward.export(torch.nn.GELU(), torch.randn(2, 3), opset_version=20)
    assert kinds(program) == ["Gelu"]  # PyTorch's is made of Erf at every opset


def test_a_script_of_old_runs_as_it_is(tmp_path: Path) -> None:
    """Nothing in it knows of onward but its first lines."""
    pytest.importorskip("torch.onnx.symbolic_helper")
    with onward.init():
        from torch.onnx.symbolic_helper import parse_args

        @parse_args("v", "v", "f", "i")
        def symbolic(g: Any, x: Any, y: Any, scale: float, times: int) -> Any:
            from torch.onnx._internal.torchscript_exporter._globals import GLOBALS

            assert g.opset == GLOBALS.export_onnx_opset_version == 11
            return g.op("custom_domain::Foo", x, y, scale_f=scale, times_i=times)

        torch.onnx.register_custom_op_symbolic(OP, symbolic, 9)
        try:
            torch.onnx.export(
                Model(), inputs(), tmp_path / "model.onnx", opset_version=11, custom_opsets={"custom_domain": 1},
                input_names=["a", "b"], dynamic_axes={"a": {0: "n"}, "b": {0: "n"}},
            )  # fmt: skip
        finally:
            torch.onnx.unregister_custom_op_symbolic(OP, 9)
    assert [node.op_type for node in load(tmp_path / "model.onnx").graph.node] == ["Foo"]


def test_a_size_is_a_value_and_no_constant() -> None:
    def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.onward_e02.foo_forward(x, y, 0.5, x.shape[0])

    axes = {"x": {0: "n"}, "y": {0: "n"}}
    onward.register_custom_op_symbolic(OP, lambda g, x, y, scale, times: g.op("my::Foo", x, times), 9)
    assert kinds(onward.export(call, inputs(), dynamic_axes=axes))[-1] == "my::Foo"
    onward.register_custom_op_symbolic(OP, foo_forward, 9)
    assert kinds(onward.export(call, inputs())) == ["custom_domain::Foo"]
    with pytest.raises(onward.LoweringError) as caught:
        onward.export(call, inputs(), dynamic_axes=axes)
    assert "the argument 'times' of foo_forward has to be an int (a constant), and is computed when" in str(
        caught.value
    )


# custom_opsets


def test_a_domain_that_is_not_used_is_warned_about() -> None:
    onward.register_custom_op_symbolic(OP, foo_forward, 9)
    with pytest.warns(UserWarning) as caught:
        program = onward.export(Model(), inputs(), custom_opsets={"custom_domian": 2})
    assert [str(each.message) for each in caught] == [
        "custom_opsets names the domain 'custom_domian', and no node of the model is of it "
        "(domains used: 'custom_domain')"
    ]
    assert program.model.opset_imports == {"": DEFAULT, "custom_domain": 1}


# custom_translation_table


def test_one_exports_own_lowering() -> None:
    def lowering(g: onward.lower.Emitter, x: Any, y: Any, scale: float, times: int) -> Any:
        return g.op.Mul(g.op.Add(x, y), g.like(x, scale * times))

    table = {torch.ops.onward_e02.foo_forward.default: lowering}
    program = onward.export(
        Model(), inputs(), custom_translation_table=table, dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, verify=True
    )
    assert kinds(program) == ["Add", "Mul"]
    with pytest.raises(onward.UnsupportedOpError):
        onward.export(Model(), inputs())


def test_the_table_comes_before_everything_else() -> None:
    onward.register_custom_op_symbolic("aten::relu", lambda g, x: g.op("my::Registered", x), 9)
    table = {torch.ops.aten.relu.default: lambda g, x: g.node("InTable", [x], domain="my")}
    assert kinds(onward.export(torch.relu, torch.randn(2), custom_translation_table=table)) == ["my::InTable"]
    assert kinds(onward.export(torch.relu, torch.randn(2))) == ["my::Registered"]


def test_of_several_functions_the_first_that_does_not_decline() -> None:
    def only_floats(g: Any, x: Any) -> Any:
        if not g.dtype(x).is_floating_point:
            raise g.unsupported("integers")
        return g.node("Floats", [x], domain="my")

    table = {torch.ops.aten.relu.default: [only_floats, lambda g, x: g.node("Any", [x], domain="my")]}
    assert kinds(onward.export(torch.relu, torch.randn(2), custom_translation_table=table)) == ["my::Floats"]
    assert kinds(onward.export(torch.relu, torch.arange(2), custom_translation_table=table)) == ["my::Any"]


@pytest.mark.parametrize("given", [3, [], [None]])
def test_what_is_no_function_is_refused(given: Any) -> None:
    with pytest.raises(onward.InputError, match="takes a function or a list of functions"):
        onward.export(torch.relu, torch.randn(2), custom_translation_table={torch.ops.aten.relu.default: given})


def test_an_onnxscript_function_becomes_a_local_function(tmp_path: Path) -> None:
    onnxscript = pytest.importorskip("onnxscript")
    from .scripted import foo

    assert onnxscript
    file = tmp_path / "model.onnx"
    table = {torch.ops.onward_e02.foo_forward.default: foo}
    axes = {"x": {0: "n"}, "y": {0: "n"}}
    onward.export(Model(), inputs(), file, custom_translation_table=table, dynamic_axes=axes, opset_version=18)
    proto = load(file)
    assert [(each.domain, each.name) for each in proto.functions] == [("onward.tests", "foo")]
    assert [(node.domain, node.op_type) for node in proto.graph.node] == [("onward.tests", "foo")]
    x, y = inputs(5)
    assert_same(run(file, [x, y]), [Model()(x, y)])
    with pytest.raises(onward.LoweringError, match=r"foo is written for opset 18, where Constant is another than in"):
        onward.export(Model(), inputs(), custom_translation_table=table, opset_version=20)


def _calls_onnxscript(name: str) -> Any:
    onnxscript = pytest.importorskip("onnxscript")
    from .scripted import foo

    op = onnxscript.opset18

    def total(x, y):  # type: ignore[no-untyped-def]
        return op.Add(x, y)

    def by_operators(x, y, scale: float, times: int = 1):  # type: ignore[no-untyped-def]
        return onnxscript.opset18.Mul(total(x, y), scale * times)

    def by_pythons_operators(x, y, scale, times):  # type: ignore[no-untyped-def]
        parts = op.Split(op.Concat(x, y, axis=0), op.Constant(value_ints=[2, 2]), axis=0)
        assert (x.rank, x.shape, x.dtype.name) == (2, (2, 3), "FLOAT")
        return (parts[0] + parts[1]) * scale * times - 0.0

    def by_a_function(x, y, scale, times):  # type: ignore[no-untyped-def]
        return op.Identity(foo(x, y, scale=scale, times=times))

    return {each.__name__: each for each in (by_operators, by_pythons_operators, by_a_function)}[name]


@pytest.mark.parametrize("name", ["by_operators", "by_pythons_operators", "by_a_function"])
def test_a_plain_function_of_onnxscripts_operators(name: str) -> None:
    table = {torch.ops.onward_e02.foo_forward.default: _calls_onnxscript(name)}
    onward.export(Model(), inputs(), custom_translation_table=table, opset_version=18, verify=True)


# onward.lowers


def test_a_lowering_of_ones_own_comes_before_ours_and_the_newer_wins() -> None:
    @onward.lowers(torch.ops.aten.relu.default)
    def first(g: Any, x: Any) -> Any:
        return g.node("First", [x], domain="my")

    assert kinds(onward.export(torch.relu, torch.randn(2))) == ["my::First"]

    @onward.lowers(torch.ops.aten.relu.default)
    def second(g: Any, x: Any) -> Any:
        return g.node("Second", [x], domain="my")

    assert kinds(onward.export(torch.relu, torch.randn(2))) == ["my::Second"]
    assert onward.lower.lowers is onward.lowers
