"""Operators of your own: three ways to say what one is in ONNX, and what happens if nobody says.

python examples/custom_operators.py [model.onnx]
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor, nn

import onward
import onward.backend
from onward.onnx.symbolic_helper import parse_args


@torch.library.custom_op("shop::discount", mutates_args=())
def discount(x: Tensor, rate: float) -> Tensor:
    return x * (1 - rate)


@discount.register_fake  # which sizes come out; without it the operator is tried on zeros
def _(x: Tensor, rate: float) -> Tensor:
    return torch.empty_like(x)


class Shout(torch.autograd.Function):
    """An autograd.Function is what its `symbolic` says."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.where(x > 0, x, torch.expm1(x))

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Elu", x, alpha_f=1.0)


class Net(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Shout.apply(torch.ops.shop.discount(x, 0.25))


@parse_args("v", "f")
def one_node(g: Any, x: Any, rate: float) -> Any:
    """A node of a domain of one's own, for a runtime that knows it."""
    return g.op("shop.example::Discount", x, rate_f=rate)


def with_standard_nodes(g: Any, x: Any, rate: float) -> Any:
    """The same out of what ONNX has."""
    return g.op.Mul(x, g.like(x, 1 - rate))


@onward.backend.implements("Discount", domain="shop.example", since=1)
def run_discount(x: Tensor, *, rate: float) -> Tensor:
    """What the node does on onward.backend, which runs files on PyTorch."""
    return x * (1 - rate)


def main(path: str = "model.onnx") -> None:
    model, x = Net(), torch.linspace(-2, 2, 6).view(2, 3)
    axes = {"x": {0: "batch"}}
    try:
        onward.export(model, (x,))
    except onward.UnsupportedOpError as error:
        print(f"before: {error}\n")

    table = {torch.ops.shop.discount.default: with_standard_nodes}  # for this export only
    program = onward.export(model, (x,), path, dynamic_axes=axes, custom_translation_table=table, verify=True)
    print(f"standard nodes: {[node.op_type for node in program.model.graph]}, verified in onnxruntime")

    onward.register_custom_op_symbolic("shop::discount", one_node, 9)  # for the process
    try:
        program = onward.export(model, (x,), path, dynamic_axes=axes, custom_opsets={"shop.example": 1})
    finally:
        onward.unregister_custom_op_symbolic("shop::discount", 9)
    print(f"a node of one's own: {[f'{node.domain}::{node.op_type}' for node in program.model.graph]}")
    (y,) = onward.backend.prepare(path).run(x)
    print(f"run on PyTorch: off by {(y - model(x)).abs().max().item():.1e}")


if __name__ == "__main__":
    main(*sys.argv[1:])
