"""Registration by overload and opset, and the binding of arguments."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

from onward.errors import LoweringError
from onward.lower.registry import Registry, op_name
from tests.opsets import NEWEST

aten = torch.ops.aten


def test_the_highest_since_not_above_the_opset_wins() -> None:
    table = Registry()
    table.register(aten.gelu.default, lambda g, x: "old")
    table.register(aten.gelu.default, lambda g, x: "new", since=20)
    assert [table.find(aten.gelu.default, opset).function(None, 1) for opset in (9, 19, 20, NEWEST)] == [
        "old",
        "old",
        "new",
        "new",
    ]
    assert table.available_since(aten.gelu.default) == [9, 20]


def test_an_op_may_begin_late() -> None:
    table = Registry()
    table.register(aten.det.default, lambda g, x: x, since=11)
    assert not table.has_lowering(aten.det.default, 10)
    assert table.has_lowering(aten.det.default, 11)


def test_the_same_since_twice_names_both_places() -> None:
    table = Registry()
    table.register(aten.relu.default, lambda g, x: x)
    with pytest.raises(
        ValueError, match=r"aten\.relu\.default has two lowerings since opset 9: .*test_registry\.py:\d+ and"
    ):
        table.register(aten.relu.default, lambda g, x: x)


def test_names_and_overloads_are_the_same_key() -> None:
    table = Registry()
    table.register("aten::relu", lambda g, x: x)
    table.register("mine::op.fancy", lambda g, x: x)
    table.register(operator.matmul, lambda g, x: x)
    assert table.has_lowering(aten.relu.default, 9)
    assert table.has_lowering("mine::op.fancy", 9)
    assert table.operators() == ["aten.relu.default", "mine.op.fancy", "operator.matmul"]


def test_a_packet_is_refused_by_naming_its_overloads() -> None:
    with pytest.raises(TypeError, match="name the one you mean: .*add.Tensor"):
        Registry().register(aten.add, lambda g, x: x)


def test_a_child_comes_before_its_parent_and_leaves_it_alone() -> None:
    parent = Registry()
    parent.register(aten.relu.default, lambda g, x: "parent", since=13)
    child = parent.child()
    child.register(aten.relu.default, lambda g, x: "child", since=9)
    assert child.find(aten.relu.default, 18).function(None, 1) == "child"
    assert parent.find(aten.relu.default, 18).function(None, 1) == "parent"
    assert child.available_since(aten.relu.default) == [9, 13]
    child.unregister(aten.relu.default)
    assert child.find(aten.relu.default, 18).function(None, 1) == "parent"


def bind(function: Any, op: Any, *args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    table = Registry()
    table.register(op, function)
    return table.find(op, 9).bind(op, args, kwargs)


def test_defaults_are_filled_in_and_names_are_free() -> None:
    def conv(g: Any, x: Any, w: Any, b: Any, strides: Any, pads: Any, dilations: Any, group: int) -> None: ...

    assert bind(conv, aten.conv2d.default, "x", "w", stride=[2, 2]) == (["x", "w", None, [2, 2], [0, 0], [1, 1], 1], {})


def test_keyword_only_arguments_are_passed_by_name() -> None:
    def add(g: Any, x: Any, y: Any, alpha: Any = 1) -> None: ...

    def add_strict(g: Any, x: Any, y: Any, *, alpha: Any) -> None: ...

    assert bind(add, aten.add.Tensor, "x", "y", alpha=2) == (["x", "y"], {"alpha": 2})
    assert bind(add_strict, aten.add.Tensor, "x", "y") == (["x", "y"], {"alpha": 1})


def test_what_a_lowering_leaves_out_must_be_the_default() -> None:
    def short(g: Any, x: Any, y: Any) -> None: ...

    assert bind(short, aten.add.Tensor, "x", "y") == (["x", "y"], {})
    assert bind(short, aten.add.Tensor, "x", "y", alpha=1.0) == (["x", "y"], {})
    with pytest.raises(LoweringError, match=r"aten\.add\.Tensor: argument alpha=2 is not supported"):
        bind(short, aten.add.Tensor, "x", "y", alpha=2)


def test_where_a_tensor_lives_is_ignored() -> None:
    def clone(g: Any, x: Any) -> None: ...

    assert bind(clone, aten.clone.default, "x", memory_format=torch.channels_last) == (["x"], {})


def test_names_in_messages() -> None:
    assert op_name(aten.add.Tensor) == "aten.add.Tensor"
    assert op_name(operator.mul) == "operator.mul"
