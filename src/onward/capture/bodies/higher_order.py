"""PyTorch's own control flow: `torch.cond`, `while_loop`, `scan`, `map` and `associative_scan`.

Each comes to the tracer as one operator with Python functions among its arguments, and becomes a branch or a loop
(`control_flow.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ..ground.threads import current
from ..memory.tensor import Traced
from ..sizes.sizes import SYMBOLIC
from .control_flow import BodyTrace, capture_branch, capture_loop


def _cond(tracer: BodyTrace, predicate: Any, yes: Any, no: Any, operands: Any) -> Any:
    if isinstance(predicate, torch.Tensor) and not isinstance(predicate, Traced):
        predicate = bool(predicate)
    if not isinstance(predicate, (Traced, *SYMBOLIC)):
        with tracer.model_again():
            return yes(*operands) if predicate else no(*operands)
    return capture_branch(tracer, predicate, lambda: yes(*operands), lambda: no(*operands))


def _while_loop(tracer: BodyTrace, condition: Any, body: Any, carried: Any, additional: Any) -> Any:
    form: list[pytree.TreeSpec] = []  # of what the body returns, which the carried values come back in

    def step(turn: Any, values: Any) -> Any:
        results, form[:] = _flat(body(*values, *additional))
        if len(results) != len(carried):
            return True, results, ()  # which is refused
        return condition(*results, *additional), results, ()

    with tracer.model_again():
        first = condition(*carried, *additional)
    results, _ = capture_loop(tracer, None, first, tuple(carried), step)
    return pytree.tree_unflatten(results, form[0])


def _scan(tracer: BodyTrace, combine: Any, initial: Any, slices: Any, additional_inputs: Any = ()) -> Any:
    count = len(initial)
    form: list[pytree.TreeSpec] = []
    absent: list[int] = []  # places among the results where there is nothing to stack

    def step(turn: Any, carried: Any) -> Any:
        results, form[:] = _flat(combine(*carried, *(each.select(0, turn) for each in slices), *additional_inputs))
        absent[:] = [place for place, each in enumerate(results) if place >= count and each is None]
        return True, results[:count], tuple(each for each in results[count:] if each is not None)

    carried, stacked = capture_loop(tracer, slices[0].shape[0], True, tuple(initial), step)
    results = [*carried, *stacked]
    for place in absent:
        results.insert(place, None)
    return pytree.tree_unflatten(results, form[0])


def _flat(results: Any) -> tuple[tuple[Any, ...], list[pytree.TreeSpec]]:
    """PyTorch flattens what such functions are given, and its compiler what they return."""
    leaves, form = pytree.tree_flatten(results)
    return tuple(leaves), [form]


def _map(tracer: BodyTrace, function: Any, slices: Any, arguments: Any) -> Any:
    form: list[pytree.TreeSpec] = []

    def step(turn: Any, carried: Any) -> Any:
        leaves, form[:] = _flat(function(*(each.select(0, turn) for each in slices), *arguments))
        return True, (), leaves

    _, stacked = capture_loop(tracer, slices[0].shape[0], True, (), step)
    return pytree.tree_unflatten(stacked, form[0])


def _associative_scan(tracer: BodyTrace, combine: Any, slices: Any, additional_inputs: Any = ()) -> Any:
    """Element by element; the first one is the first result."""

    def step(turn: Any, carried: Any) -> Any:
        combined = combine(*carried, *(each.select(0, turn + 1) for each in slices), *additional_inputs)
        results = tuple(pytree.tree_leaves(combined))
        return True, results, results

    with tracer.model_again():
        first = tuple(each.select(0, 0) for each in slices)
        _, stacked = capture_loop(tracer, slices[0].shape[0] - 1, True, first, step)
        return tuple(torch.cat([each.narrow(0, 0, 1), rest]) for each, rest in zip(slices, stacked, strict=True))


def associative_scan_of(original: Callable[..., Any]) -> Callable[..., Any]:
    """In place of the function with which PyTorch scans level by level, in Python: a loop, element by element."""

    def scan(operator: Any, leaves: Any, dim: int = 0, additional_inputs: Any = ()) -> Any:
        tracer: BodyTrace | None = current()
        if tracer is None or dim != 0 or not any(isinstance(each, Traced) for each in leaves):
            return original(operator, leaves, dim, additional_inputs)
        whole: Any = operator.keywords["combine_fn"] if isinstance(operator, functools.partial) else None
        if hasattr(whole, "__wrapped__"):  # torch.vmap around the user's function, for many elements at once
            operator = functools.partial(operator.func, **{**operator.keywords, "combine_fn": whole.__wrapped__})
        return list(_associative_scan(tracer, operator, leaves, additional_inputs))

    return scan


def call_at_once(tracer: BodyTrace, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """In place of PyTorch's compiler, to which torch.cond, nested_compile_region and their kin are given first."""
    if getattr(function, "__name__", "") == "_cond_op_wrapper":  # the operator itself takes no nested operands
        with _disable_current_modes():
            return _cond(tracer, *args)
    if getattr(function, "__name__", "") == "_invoke_subgraph_placeholder_wrapper":  # it would come back here
        inner, inner_args, inner_kwargs = args
        return inner(*inner_args, **inner_kwargs)
    return function(*args, **(kwargs or {}))


# By name: PyTorch makes an operator when its module is imported, which may be later than now.
HIGHER_ORDER: dict[str, Callable[..., Any]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _map,
    "associative_scan": _associative_scan,
}
