"""Tensors that hold sizes: what they hold at the other probes.

A probe has no data, so a reshape to sizes that a tensor holds (`onward.operators.reshape_from_tensor_shape`) cannot be
asked of a kernel. But such a tensor is made of sizes, and these are known at every probe: the few nodes between are
run.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ..program.facts import SizeFact, SymDim, TensorFact

aten = torch.ops.aten
RESHAPE = aten._reshape_from_tensor.default


class DependsOnData(Exception):
    """The tensor holds something that is not made of sizes alone."""


def sizes_at(node: fx.Node, probe: int, constants: dict[str, Any]) -> list[int]:
    """The sizes that the tensor of a node holds at a probe."""
    known: dict[fx.Node, Any] = {}

    def value(each: fx.Node) -> Any:
        if each not in known:
            known[each] = _compute(each)
        return known[each]

    def _compute(each: fx.Node) -> Any:
        fact = each.meta.get("val")
        if isinstance(fact, SizeFact):
            return fact.values[probe]
        if each.op == "get_attr":
            return constants[str(each.target)].tensor
        if each.op != "call_function":
            raise DependsOnData
        if each.target is aten._shape_as_tensor.default:
            return torch.tensor(_sizes(each.args[0].meta["val"], probe))  # type: ignore[union-attr]
        args, kwargs = fx.map_arg((each.args, each.kwargs), value)
        return each.target(*args, **kwargs)  # type: ignore[operator]

    return [int(size) for size in value(node).tolist()]


def _sizes(fact: TensorFact, probe: int) -> list[int]:
    return [dim.values[probe] if isinstance(dim, SymDim) else dim for dim in fact.shape]
