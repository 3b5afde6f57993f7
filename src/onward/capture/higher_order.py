"""PyTorch's own control flow: `torch.cond`, `while_loop`, `scan`, `map` and `associative_scan`.

Each comes to the tracer as one operator with Python functions among its arguments, and becomes a branch or a loop
(`control.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .control import capture_branch, capture_loop
from .sizes import SYMBOLIC
from .tensor import Traced
from .tree import Structure, flatten

if TYPE_CHECKING:
    from .tracer import Tracer


def _cond(tracer: Tracer, predicate: Any, yes: Any, no: Any, operands: Any) -> Any:
    if isinstance(predicate, torch.Tensor) and not isinstance(predicate, Traced):
        predicate = bool(predicate)
    if not isinstance(predicate, (Traced, *SYMBOLIC)):
        with tracer.mode_again():
            return yes(*operands) if predicate else no(*operands)
    return capture_branch(tracer, predicate, lambda: yes(*operands), lambda: no(*operands))


def _while_loop(tracer: Tracer, condition: Any, body: Any, carried: Any, additional: Any) -> Any:
    def step(turn: Any, values: Any) -> Any:
        results = body(*values, *additional)
        results = tuple(results) if isinstance(results, (list, tuple)) else (results,)
        return condition(*results, *additional), results, ()

    with tracer.mode_again():
        first = condition(*carried, *additional)
    results, _ = capture_loop(tracer, None, first, tuple(carried), step)
    return results


def _scan(tracer: Tracer, combine: Any, initial: Any, slices: Any, additional_inputs: Any = ()) -> Any:
    count = len(initial)

    def step(turn: Any, carried: Any) -> Any:
        results = combine(*carried, *(each.select(0, turn) for each in slices), *additional_inputs)
        return True, tuple(results[:count]), tuple(results[count:])

    carried, stacked = capture_loop(tracer, slices[0].shape[0], True, tuple(initial), step)
    return [*carried, *stacked]


def _map(tracer: Tracer, function: Any, slices: Any, arguments: Any) -> Any:
    shape: list[Structure] = []

    def step(turn: Any, carried: Any) -> Any:
        leaves, structure = flatten(function(*(each.select(0, turn) for each in slices), *arguments))
        shape[:] = [structure]
        return True, (), tuple(leaves)

    _, stacked = capture_loop(tracer, slices[0].shape[0], True, (), step)
    return shape[0].unflatten(stacked)


def _associative_scan(tracer: Tracer, combine: Any, slices: Any, additional_inputs: Any = ()) -> Any:
    """Element by element; the first one is the first result."""

    def step(turn: Any, carried: Any) -> Any:
        combined = combine(*carried, *(each.select(0, turn + 1) for each in slices), *additional_inputs)
        results = tuple(flatten(combined)[0])
        return True, results, results

    with tracer.mode_again():
        first = tuple(each.select(0, 0) for each in slices)
        _, stacked = capture_loop(tracer, slices[0].shape[0] - 1, True, first, step)
        return tuple(torch.cat([each.narrow(0, 0, 1), rest]) for each, rest in zip(slices, stacked, strict=True))


def associative_scan_of(tracer: Tracer, original: Callable[..., Any]) -> Callable[..., Any]:
    """In place of the function with which PyTorch scans level by level, in Python: a loop, element by element."""

    def scan(operator: Any, leaves: Any, dim: int = 0, additional_inputs: Any = ()) -> Any:
        if dim != 0 or not any(isinstance(each, Traced) for each in leaves):
            return original(operator, leaves, dim, additional_inputs)
        whole: Any = operator.keywords["combine_fn"] if isinstance(operator, functools.partial) else None
        if hasattr(whole, "__wrapped__"):  # torch.vmap around the user's function, for many elements at once
            operator = functools.partial(operator.func, **{**operator.keywords, "combine_fn": whole.__wrapped__})
        return list(_associative_scan(tracer, operator, leaves, additional_inputs))

    return scan


# By name: PyTorch makes an operator when its module is imported, which may be later than now.
HIGHER_ORDER: dict[str, Callable[..., Any]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _map,
    "associative_scan": _associative_scan,
}
