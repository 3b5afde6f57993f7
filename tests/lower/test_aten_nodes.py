"""A call becomes a node and comes back the same, argument by argument, type by type."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch

from onward.errors import LoweringError, UnsupportedOpError
from onward.lower.aten_nodes import DOMAIN, OP_TYPE, Given, calls_in, decode, encode, own_name
from onward.lower.emitter import Emitter, SizeValue

aten = torch.ops.aten
ATEN = (DOMAIN, OP_TYPE)


@pytest.fixture(scope="module")
def anything() -> Iterator[Any]:
    """An operator that takes one argument of every kind, some under the names that the encoding needs itself."""
    library = torch.library.Library("aten_nodes_test", "DEF")
    library.define(
        "anything(Tensor x, Scalar number=0, Scalar[]? numbers=None, float[]? floats=None, bool[]? flags=None, "
        "str[]? words=None, Tensor?[]? maybe=None, SymInt[]? sizes=None, ScalarType? dtype=None, Layout? layout=None, "
        "Device? device=None, MemoryFormat? memory_format=None, *, str operator='', bool arguments=False, "
        "float? overload_name=None) -> Tensor"
    )
    yield torch.ops.aten_nodes_test.anything.default
    library._destroy()


def emitter() -> tuple[Emitter, ir.Value]:
    g = Emitter(20)
    return g, g.input("x", torch.float32, (2, 3))


def there_and_back(g: Emitter, target: Any, args: tuple[Any, ...], **kwargs: Any) -> Any:
    """Through protobuf, as a file would."""
    encode(g, target, args, kwargs, ATEN if isinstance(target, torch._ops.OpOverload) else own_name(target), 1)
    node = g.nodes[-1]
    g.name_node(node, "node")
    proto = onnx.NodeProto.FromString(ir.to_proto(node).SerializeToString())
    decoded = decode(proto)
    assert repr(decoded) == repr(decode(node))
    assert decoded.target is target
    return decoded


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("number", 1), ("number", 1.0), ("number", True), ("number", 0.1), ("number", -0.0), ("number", math.inf),
        ("number", math.nan), ("number", 1e300), ("number", 1e-300), ("number", 2**62), ("number", 2j),
        ("number", -(2**63)), ("numbers", [1, 2.5, True]), ("numbers", []), ("numbers", [1, math.nan, -math.inf]),
        ("floats", [0.5, 1.0]), ("floats", [0.1, 0.2]), ("floats", []), ("flags", [True, False]),
        ("words", ["a", "b=c, d]"]), ("words", []), ("sizes", [2, -1]), ("dtype", torch.bfloat16),
        ("dtype", torch.complex64), ("dtype", None), ("layout", torch.strided), ("device", torch.device("cpu")),
        ("device", torch.device("cuda", 1)), ("memory_format", torch.channels_last), ("operator", "mul"),
        ("arguments", True), ("overload_name", 0.25), ("overload_name", None), ("operator", ""),
    ],
)  # fmt: skip
def test_constants(anything: Any, name: str, value: Any) -> None:
    g, x = emitter()
    decoded = there_and_back(g, anything, (x,), **{name: value})
    found = decoded.kwargs[name] if name in decoded.kwargs else decoded.args[1]
    assert repr(found) == repr(value)  # 1 is not 1.0 or True, 0.0 is not -0.0, nan is nan
    assert type(found) is type(value)


def test_positions_are_kept_and_what_is_not_given_is_not_there(anything: Any) -> None:
    g, x = emitter()
    assert there_and_back(g, anything, (x, 2, [1])).args == (Given(0), 2, [1])
    assert there_and_back(g, anything, (x,)).kwargs == {}


def test_tensors_and_sizes_are_inputs_in_order(anything: Any) -> None:
    g, x = emitter()
    batch = g.input("y", torch.float32, ())
    size = SizeValue((2, 6), "given", (g.input("n", torch.int64, ()),))
    half = SizeValue((0.5, 1.5), "given", (g.input("f", torch.float64, ()),))
    flag = SizeValue((True, False), "given", (g.input("b", torch.bool, ()),))
    decoded = there_and_back(g, anything, (x, half, [flag, 3]), maybe=[None, batch, x], sizes=[size, 64, size])
    assert decoded.args == (Given(0), Given(1, float), [Given(2, bool), 3])
    assert decoded.kwargs == {"maybe": [None, Given(3), Given(4)], "sizes": [Given(5, int), 64, Given(6, int)]}
    assert [value.name for value in g.nodes[-1].inputs] == ["x", "f", "b", "y", "x", "n", "n"]


def test_bound_and_run() -> None:
    g, x = emitter()
    size = SizeValue((2, 6), "given", (g.input("n", torch.int64, ()),))
    decoded = there_and_back(g, aten.view.default, (x, [size, -1]))
    data, n = torch.randn(2, 3), torch.tensor(3)
    assert decoded.bind([data, n]) == ((data, [3, -1]), {})
    (result,) = decoded.run([data, n])
    assert result.shape == (3, 2)
    parts = there_and_back(g, aten.unbind.int, (x, 1)).run([data])
    assert [part.shape for part in parts] == [(2,)] * 3


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        (operator.mul, (3, 2), torch.tensor(6)),
        (operator.truediv, (3, 2), torch.tensor(1.5, dtype=torch.float64)),
        (operator.gt, (3, 2), torch.tensor(True)),
        (torch.sym_max, (3, 2), torch.tensor(3)),
        (math.sqrt, (4,), torch.tensor(2.0, dtype=torch.float64)),
    ],
)
def test_arithmetic_on_sizes(function: Any, values: tuple[int, ...], expected: torch.Tensor) -> None:
    g, _ = emitter()
    first = SizeValue((values[0],) * 2, "given", (g.input("n", torch.int64, ()),))
    decoded = there_and_back(g, function, (first, *values[1:]))
    (result,) = decoded.run([torch.tensor(values[0])])
    torch.testing.assert_close(result, expected, rtol=0, atol=0)


def test_calls_are_never_shared() -> None:
    g, x = emitter()
    for _ in range(2):
        encode(g, aten.rand_like.default, (x,), {}, ATEN, 1)
    assert len(g.nodes) == 2


def test_what_no_node_can_hold_is_refused() -> None:
    g, x = emitter()
    with pytest.raises(LoweringError, match="its argument generator is a Generator, which no node can hold"):
        encode(g, aten.bernoulli.default, (x,), {"generator": torch.Generator()}, ATEN, 1)
    with pytest.raises(LoweringError, match="cannot be written down as a node"):
        own_name(print)


def node(op_type: str, domain: str = DOMAIN, **attributes: Any) -> onnx.NodeProto:
    return onnx.helper.make_node(op_type, ["x"], ["y"], name="n", domain=domain, **attributes)


def test_nodes_that_cannot_be_read_are_errors_that_say_why() -> None:
    with pytest.raises(LoweringError, match=r"the node 'n' \(ai\.onnx\.Relu\) has no attribute 'arguments'"):
        decode(node("Relu", ""))
    unknown = {"operator": "nobody::knows", "overload_name": "", "arguments": ["x=tensor"]}
    with pytest.raises(UnsupportedOpError, match="this PyTorch has no operator nobody::knows with the overload"):
        decode(node(OP_TYPE, **unknown))
    with pytest.raises(UnsupportedOpError, match="os::system is no function of sizes that onward knows"):
        decode(node("system", "os", arguments=["arg0=string"], arg0="true"))
    strange = {"operator": "aten::relu", "overload_name": "", "arguments": ["self=thing"], "self": 1}
    with pytest.raises(LoweringError, match="has an argument self of an unknown kind: 'thing'"):
        decode(node(OP_TYPE, **strange))


def test_the_calls_of_a_model_are_found_in_bodies_and_functions() -> None:
    call = 'ATen <operator = "aten::{}", overload_name = "", arguments = ["self=tensor"]>'
    text = f"""<ir_version: 9, opset_import: ["": 18, "{DOMAIN}": 1, "mine": 1]>
    g (float[2] x, bool c) => (float[2] z) {{
        y = If(c) <then_branch = t () => (float[2] p) {{ p = {DOMAIN}.{call.format("exp")}(x) }},
                   else_branch = e () => (float[2] q) {{ q = Relu(x) }}>
        z = mine.F(y)
    }}
    <domain: "mine", opset_import: ["": 18, "{DOMAIN}": 1]>
    F (a) => (b) {{ b = {DOMAIN}.{call.format("sin")}(a) }}"""
    assert calls_in(ir.from_proto(onnx.parser.parse_model(text))) == ["aten::exp", "aten::sin"]
