"""What a captured program has beside ATen's operators: control flow, and lists whose length depends on data.

    branch(predicate, yes, yes_operands, no, no_operands) -> tuple
    loop(limit, condition, carried, body, operands) -> tuple: the carried values, then what every turn gave, stacked

A body is a graph of its own. Its placeholders are its inputs (for a loop: the number of the turn, then the carried
values), then what it takes from outside, in the order of the operands that go with it. It returns a flat tuple; a
loop's body returns whether to go on, the carried values, and what is to be stacked.

    list_of(tensors)  list_empty(dtype)  list_split(x, sizes, axis)  list_unbind(x, axis) -> list
    list_insert(items, tensor, index)  list_erase(items, index) -> list
    list_item(items, index)  list_cat(items, axis)  list_stack(items, axis) -> tensor    list_length(items) -> number

A list is a value like any other: what changes it gives a new one.

All are plain functions, so a captured program that has them runs in PyTorch as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from .execute import run_node
from .facts import ListFact, SizeFact, TensorFact

FOREVER = 2**63 - 1  # the limit of a loop that only its condition ends


@dataclass(frozen=True, eq=False)
class Body:
    """A part of a program that runs any number of times."""

    graph: fx.Graph
    inputs: int  # how many of the placeholders are its own; the others stand for operands

    @property
    def placeholders(self) -> list[fx.Node]:
        return [node for node in self.graph.nodes if node.op == "placeholder"]

    @property
    def results(self) -> tuple[Any, ...]:
        """The arguments of the output node."""
        output = next(node for node in reversed(self.graph.nodes) if node.op == "output")
        return tuple(output.args[0])

    def __repr__(self) -> str:
        return f"Body({len(self.graph.nodes)} nodes)"

    def run(self, inputs: Sequence[Any], operands: Sequence[Any]) -> tuple[Any, ...]:
        """Compute the results in PyTorch."""
        values: dict[fx.Node, Any] = {}
        given = iter((*inputs, *operands))
        for node in self.graph.nodes:
            if node.op == "placeholder":
                values[node] = _as_declared(next(given), node.meta["val"])
            elif node.op == "call_function":
                # A number that goes through a loop without any turn comes out as it went in.
                given_to_item = node.args[0] if node.target is torch.ops.aten.item.default else None
                number = values[given_to_item] if isinstance(given_to_item, fx.Node) else None
                is_number = number is not None and not isinstance(number, torch.Tensor)
                values[node] = number if is_number else run_node(node, values)
            else:
                return tuple(fx.map_arg(node.args[0], values.__getitem__))
        raise ValueError("the body has no output")


def branch(
    predicate: Any, yes: Body, yes_operands: Sequence[Any], no: Body, no_operands: Sequence[Any]
) -> tuple[Any, ...]:
    """One body or the other."""
    return yes.run((), yes_operands) if bool(predicate) else no.run((), no_operands)


def loop(limit: Any, condition: Any, carried: Sequence[Any], body: Body, operands: Sequence[Any]) -> tuple[Any, ...]:
    """A body again and again, while the condition holds, at most `limit` times."""
    values, stacked = list(carried), [[] for _ in body.results[1 + len(carried) :]]  # type: ignore[var-annotated]
    turn, going = 0, bool(condition)
    while going and turn < int(limit):
        going, *results = body.run((turn, *values), operands)
        values, slices = results[: len(values)], results[len(values) :]
        for each, taken in zip(stacked, slices, strict=True):
            each.append(taken)
        turn, going = turn + 1, bool(going)
    facts = [node.meta["val"] for node in body.results[1 + len(values) :]]
    return (*values, *(_stack(slices, fact) for slices, fact in zip(stacked, facts, strict=True)))


def determinant(matrices: torch.Tensor) -> torch.Tensor:
    """ONNX's Det, for the matrices and in the opsets that it serves; elsewhere determinants are loops."""
    return torch.linalg.det(matrices)


def _as_declared(value: Any, fact: Any) -> Any:
    """Numbers come out of a body as tensors, and go in as numbers."""
    return value.item() if isinstance(fact, SizeFact) and isinstance(value, torch.Tensor) else value


def _stack(slices: list[torch.Tensor], fact: TensorFact) -> torch.Tensor:
    if slices:
        return torch.stack(slices)
    sizes = [dim if isinstance(dim, int) else dim.values[0] for dim in fact.shape]
    return torch.empty((0, *sizes), dtype=fact.dtype)


def dtype_of(fact: TensorFact | SizeFact | ListFact) -> torch.dtype:
    """A value's dtype in a file, or that of a list's elements; numbers are tensors there."""
    if isinstance(fact, (TensorFact, ListFact)):
        return fact.dtype
    return {bool: torch.bool, int: torch.int64, float: torch.float64}[fact.kind]


# --- lists -----------------------------------------------------------------------------------------------------------
def list_of(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """These tensors; there is at least one."""
    return list(tensors)


def list_empty(dtype: torch.dtype) -> list[torch.Tensor]:
    """No tensors, of this dtype."""
    return []


def list_split(x: torch.Tensor, sizes: Any, axis: int) -> list[torch.Tensor]:
    """Parts of one size, the last perhaps smaller, or of the sizes that a tensor holds."""
    return list(x.split(sizes.tolist() if isinstance(sizes, torch.Tensor) else int(sizes), axis))


def list_unbind(x: torch.Tensor, axis: int) -> list[torch.Tensor]:
    """The slices along an axis, without it."""
    return list(x.unbind(axis))


def list_insert(items: Sequence[torch.Tensor], tensor: torch.Tensor, index: Any = None) -> list[torch.Tensor]:
    """With one tensor more, before the index or at the end."""
    made = list(items)
    made.insert(len(made) if index is None else int(index), tensor)
    return made


def list_erase(items: Sequence[torch.Tensor], index: Any) -> list[torch.Tensor]:
    """Without the tensor at an index, which may be negative."""
    made = list(items)
    del made[int(index)]
    return made


def list_item(items: Sequence[torch.Tensor], index: Any) -> torch.Tensor:
    """The tensor at an index, which may be negative."""
    return items[int(index)]


def list_length(items: Sequence[torch.Tensor]) -> int:
    return len(items)


def list_cat(items: Sequence[torch.Tensor], axis: int) -> torch.Tensor:
    """All of them, one after the other along an axis."""
    return torch.cat(list(items), axis)


def list_stack(items: Sequence[torch.Tensor], axis: int) -> torch.Tensor:
    """All of them along a new axis."""
    return torch.stack(list(items), axis)
