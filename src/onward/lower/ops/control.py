"""Branches, loops, and numbers read from tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onward.capture.program.facts import ListFact, SizeFact, SymDim, TensorFact
from onward.capture.program.regions import FOREVER, Body, branch, dtype_of, loop
from onward.lower.complex import as_pair, from_pair, pair_fact
from onward.lower.emitter import Emitter, Number, SizeValue, Value
from onward.lower.registry import lowers

aten = torch.ops.aten
Fact = TensorFact | ListFact


@lowers(aten.item.default, aten._local_scalar_dense.default)
def item(g: Emitter, x: Value) -> Value:
    """item(Tensor self) -> Scalar"""
    return x if g.dims(x) == () else g.reshape(x, [])


@lowers(branch)
def branch_(
    g: Emitter,
    predicate: Value | SizeValue,
    yes: Body,
    yes_operands: Sequence[Any],
    no: Body,
    no_operands: Sequence[Any],
) -> list[Value]:
    """branch(predicate, yes, yes_operands, no, no_operands) -> tuple"""
    facts = [pair_fact(fact) for fact in g.out]
    g.check_open("If", [fact.dtype for fact in facts if isinstance(fact, TensorFact)])
    graphs = {}
    for name, body, operands in (("then_branch", yes, yes_operands), ("else_branch", no, no_operands)):
        inner = g.subgraph(name)
        results = inner.lower(body, (), operands)
        results = _typed(inner, results, facts)
        if g.opset < 11:
            results = [_of_open_shape(inner, value, fact) for value, fact in zip(results, facts, strict=True)]
        graphs[name] = inner.graph(results)
    made = g.node("If", [g.as_value(predicate, torch.bool)], graphs, outputs=len(facts))
    return _annotated(g, made if isinstance(made, tuple) else (made,), facts)


@lowers(loop)
def loop_(
    g: Emitter,
    limit: Value | SizeValue | Number,
    condition: Value | SizeValue | bool,
    carried: Sequence[Any],
    body: Body,
    operands: Sequence[Any],
) -> list[Value]:
    """loop(limit, condition, carried, body, operands) -> tuple"""
    facts = [pair_fact(fact) for fact in g.out]
    g.check_open("Loop", [fact.dtype for fact in facts if isinstance(fact, TensorFact)])
    initial = _typed(g, carried, facts[: len(carried)])
    idle = not initial and g.opset < 13  # Loop had to carry something then
    inner = g.subgraph("body")
    given: list[Any] = []
    for place, node in enumerate(body.placeholders[: body.inputs]):
        fact = pair_fact(node.meta["val"])
        if isinstance(fact, ListFact):
            given.append(inner.input_list(f"carried_{place}", fact))
            continue
        shape = fact.shape if isinstance(fact, TensorFact) else ()
        value = inner.input("turn" if place == 0 else f"carried_{place}", dtype_of(fact), shape)
        if place == 0:
            inner.input("going", torch.bool, ())
        entered = from_pair(inner, value, node.meta["val"])
        given.append(SizeValue(fact.values, "given", (value,)) if isinstance(fact, SizeFact) else entered)
    going, *results = inner.lower(body, given, operands)
    slices = [TensorFact(fact.dtype, fact.shape[1:]) for fact in facts[len(initial) :]]
    results = _typed(inner, results, [*facts[: len(initial)], *slices])
    if idle:
        initial, results = [g.const(0)], [inner.input("carried", torch.int64, ()), *results]
    graph = inner.graph([_scalar(inner, going), *results])
    most = None if limit == FOREVER else _scalar(g, limit, torch.int64)
    made = g.node("Loop", [most, _scalar(g, condition), *initial], {"body": graph}, outputs=len(facts) + idle)
    return _annotated(g, (made if isinstance(made, tuple) else (made,))[idle:], facts)


def _scalar(g: Emitter, value: Any, dtype: torch.dtype = torch.bool) -> Value:
    made = g.as_value(value, dtype)
    return made if g.dims(made) == () else g.reshape(made, [])


def _typed(g: Emitter, results: Sequence[Any], facts: Sequence[Fact]) -> list[Value]:
    pairs = zip(results, facts, strict=True)
    return [value if isinstance(fact, ListFact) else g.as_value(as_pair(g, value), fact.dtype) for value, fact in pairs]


def _of_open_shape(g: Emitter, value: Value, fact: TensorFact) -> Value:
    """A result of one side whose sizes the other does not have: the first If insists that both sides infer the same.

    Nothing is inferred of what Compress gives, and here it keeps everything.
    """
    dims = g.dims(value)
    if dims is None:
        return value
    pairs = enumerate(zip(dims, fact.shape, strict=True))
    axis = next((i for i, (size, merged) in pairs if isinstance(size, int) and isinstance(merged, SymDim)), None)
    if axis is None:
        return value
    all_of_them = g.const_tensor(torch.ones(dims[axis], dtype=torch.bool))  # type: ignore[arg-type]
    hidden = g.node("Compress", [g.identity(value), all_of_them], {"axis": axis})
    return g.annotate(hidden, fact.shape, fact.dtype)


def _annotated(g: Emitter, made: Sequence[Value], facts: Sequence[Fact]) -> list[Value]:
    return [
        g.annotate_list(value, fact) if isinstance(fact, ListFact) else g.annotate(value, fact.shape, fact.dtype)
        for value, fact in zip(made, facts, strict=True)
    ]
