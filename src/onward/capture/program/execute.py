"""Run a captured program in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_map

from ..ground.operator_schemas import SQUEEZES
from ..ground.size_checks import check_sizes
from .facts import CapturedProgram, TensorFact

aten = torch.ops.aten


def _as_strided(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return aten.as_strided.default(x.contiguous(), *args, **kwargs)


# A value of the graph is what it holds; how PyTorch lays it out in memory here says nothing.
_BY_VALUE: dict[Any, Any] = {
    aten.view.default: aten.reshape.default,
    aten.view_as.default: aten.reshape_as.default,
    aten.as_strided.default: _as_strided,
}


def _squeezed(fact: TensorFact, x: torch.Tensor, axes: int | Sequence[int] | None = None) -> torch.Tensor:
    """As a file does it: which axes go was decided by the sizes that were traced, whatever their size is now."""
    asked = range(fact.rank) if axes is None else [axes] if isinstance(axes, int) else axes
    dropped = {axis % fact.rank for axis in asked if fact.rank and fact.shape[axis] == 1}
    return x.reshape([size for axis, size in enumerate(x.shape) if axis not in dropped])


class Stream:
    """Random numbers from where the process's generator stands; the generator itself is not moved.

    It is put back after each draw: whoever runs a program step by step may draw numbers of his own in between.
    """

    def __init__(self) -> None:
        self._state: torch.Tensor | None = None

    def __enter__(self) -> None:
        self._outside = torch.get_rng_state()
        if self._state is not None:
            torch.set_rng_state(self._state)

    def __exit__(self, *error: object) -> None:
        now = torch.get_rng_state()
        if not torch.equal(now, self._outside):
            self._state = now
            torch.set_rng_state(self._outside)


class Misfit(Exception):
    """A result is not what the program says of it: the graph was made for other sizes."""


def execute(program: CapturedProgram, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The program's outputs for these inputs, in order. Raises Misfit where the graph does not hold for them: an op
    that gives three pieces here and gave two to the tracer has only two in a file."""
    result: Any = ()
    for node, value in steps(program, inputs):
        if node.op == "call_function":
            _check(node, value, node.meta.get("val"))
        result = value
    return tuple(result)


def steps(
    program: CapturedProgram, inputs: Sequence[torch.Tensor], widen: Callable[[Any], Any] | None = None
) -> Iterator[tuple[fx.Node, Any]]:
    """Every node of the program with its value, one after the other; the last is the output node with the outputs.

    A value is let go after its last use. `widen` is applied to inputs, constants and arguments: what they are computed
    with in place of what they are. No mode is open while the caller has a value: a generator that is left in the middle
    would close it at a moment that nobody can foresee.
    """
    values: dict[fx.Node, Any] = {}
    given = iter(inputs)
    last_use = {used: node for node in program.graph.nodes for used in node.all_input_nodes}
    stream = Stream()
    for node in program.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "get_attr":
            values[node] = program.constants[str(node.target)].tensor
        elif node.op == "call_function":
            with torch.no_grad(), stream:
                values[node] = run_node(node, values, widen)
        else:
            yield node, fx.map_arg(node.args[0], values.__getitem__)
            return
        yield node, values[node]
        for used in node.all_input_nodes:
            if last_use[used] is node:
                del values[used]
    raise ValueError("the graph has no output")


def run_node(node: fx.Node, values: Mapping[fx.Node, Any], widen: Callable[[Any], Any] | None = None) -> Any:
    """What one call gives for the values of the nodes before it."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
    if widen is not None:
        args, kwargs = tree_map(widen, (args, kwargs))
    check_sizes(node.target, args, kwargs)
    if node.target in SQUEEZES and isinstance(node.args[0], fx.Node):
        return _squeezed(node.args[0].meta["val"], *args)  # type: ignore[arg-type]
    return _BY_VALUE.get(node.target, node.target)(*args, **kwargs)


def _is_all_one(op: Any) -> bool:
    """Whether a file has one form of an op for all sizes: each element by itself, or moved to another place."""
    return op in _AT_ANY_SIZE or torch.Tag.pointwise in getattr(op, "tags", ())


_AT_ANY_SIZE = frozenset({
    aten.slice.Tensor, aten.slice_scatter.default, aten.select.int, aten.select_scatter.default, aten.transpose.int,
    aten.permute.default, aten.t.default, aten.unsqueeze.default, aten.clone.default, aten.copy.default,
    aten.alias.default, aten.cat.default, aten.flip.default, aten.detach.default, aten.contiguous.default,
    aten.sum.dim_IntList, aten.sum.default, aten.amax.default, aten.amin.default, aten.fill.Tensor, aten.fill.Scalar,
    aten.full_like.default, aten.zeros_like.default, aten.ones_like.default,
})  # fmt: skip


def _check(node: fx.Node, result: Any, fact: Any) -> None:
    """Number of results, rank and fixed sizes must be those of the trace: lowering has relied on them. Where an op does
    the same at any size, another size alone is no harm; but what was always empty is not in a file at all."""
    if isinstance(fact, TensorFact) and isinstance(result, torch.Tensor):
        fixed = zip(fact.shape, result.shape, strict=False)
        other = any(isinstance(size, int) and size != now for size, now in fixed) and not _is_all_one(node.target)
        if result.dim() != fact.rank or other or (0 in fact.shape and result.numel()):
            raise Misfit(f"{node.name} is {tuple(result.shape)} in place of {fact.shape}")
    elif isinstance(fact, tuple) and isinstance(result, (tuple, list)):
        if len(fact) != len(result):
            raise Misfit(f"{node.name} gives {len(result)} results in place of {len(fact)}")
        for each, of in zip(result, fact, strict=True):
            _check(node, each, of)
