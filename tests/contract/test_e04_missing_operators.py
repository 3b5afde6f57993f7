"""E4: every operator without a lowering in one error, with its line, its module, and what to write."""

from __future__ import annotations

import pytest
import torch

import onward
from tests.opsets import DEFAULT

NAMESPACE = "onward_e04"


@torch.library.custom_op(f"{NAMESPACE}::twist", mutates_args=())
def twist(x: torch.Tensor) -> torch.Tensor:
    return x.flip(0)


@torch.library.custom_op(f"{NAMESPACE}::turn", mutates_args=())
def turn(x: torch.Tensor, times: int) -> torch.Tensor:
    return x.roll(times, 0)


class Block(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.onward_e04.turn(torch.ops.onward_e04.twist(x), 2)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x.relu()


LINE = f"{__file__}:{Block.forward.__code__.co_firstlineno + 1}"


def test_all_of_them_at_once() -> None:
    with pytest.raises(onward.UnsupportedOpError) as caught:
        onward.export(Model(), torch.randn(4, 3), dynamic_axes={"x": [0]}, opset_version=17)
    assert str(caught.value) == (
        "2 operators have no lowering for opset 17\n"
        f"  onward_e04.twist.default: 2 calls, first at {LINE} in blocks.0\n"
        f"  onward_e04.turn.default: 2 calls, first at {LINE} in blocks.0\n"
        "  register them:\n"
        '    onward.register_custom_op_symbolic("onward_e04::twist", function, 17)\n'
        '    onward.register_custom_op_symbolic("onward_e04::turn", function, 17)'
    )


def test_one_of_them() -> None:
    class Once(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.onward_e04.twist(x)

    with pytest.raises(onward.UnsupportedOpError) as caught:
        onward.export(Once(), torch.randn(4, 3))
    assert str(caught.value) == (
        f"onward_e04.twist.default has no lowering for opset {DEFAULT}\n"
        f"  at {__file__}:{Once.forward.__code__.co_firstlineno + 1}\n"
        '  register one: onward.register_custom_op_symbolic("onward_e04::twist", function, 20)'
    )
    assert (caught.value.op, caught.value.stage) == ("onward_e04.twist.default", "lower")


def test_what_it_says_to_write_is_enough() -> None:
    names = [f"{NAMESPACE}::twist", f"{NAMESPACE}::turn"]
    for name in names:
        onward.register_custom_op_symbolic(name, lambda g, x, *rest: g.op("my::Op", x), 17)
    try:
        program = onward.export(Model(), torch.randn(4, 3), opset_version=17)
    finally:
        for name in names:
            onward.unregister_custom_op_symbolic(name, 17)
    assert [node.op_type for node in program.model.graph] == ["Op"] * 4 + ["Relu"]


def test_one_that_a_newer_opset_has() -> None:
    name = f"{NAMESPACE}::twist"
    onward.register_custom_op_symbolic(name, lambda g, x: g.op("my::Op", x), 18)
    try:
        with pytest.raises(onward.UnsupportedOpError) as caught:
            onward.export(torch.ops.onward_e04.twist, torch.randn(4, 3), opset_version=17)
    finally:
        onward.unregister_custom_op_symbolic(name, 18)
    assert "onward_e04.twist.default has no lowering for opset 17 (exists from 18)" in str(caught.value)
    assert "try opset_version=18, or register one: " in str(caught.value)
