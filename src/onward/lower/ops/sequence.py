"""Lists of tensors whose length depends on data: ONNX sequences, from opset 11 on.

Branches and loops take and give them from opset 13 on (`control.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onward.capture.program.regions import (
    list_cat,
    list_empty,
    list_erase,
    list_insert,
    list_item,
    list_length,
    list_of,
    list_split,
    list_stack,
    list_unbind,
)
from onward.lower import schemas
from onward.lower.emitter import Emitter, SizeValue, Value
from onward.lower.registry import lowers


def _place(g: Emitter, index: int | SizeValue | Value | None) -> Value | None:
    return None if index is None else g.as_value(index, torch.int64)


def _check_dtype(g: Emitter) -> None:
    """Whoever makes a list asks first: ONNX leaves types out of sequences, and a cast would make another list."""
    schema = schemas.find("SequenceConstruct", g.opset)
    if schema is not None and g.out.dtype not in schema.allowed["T"]:
        raise g.unsupported(f"ONNX has no sequences of {g.out.dtype}; keep tensors of another type in the list")


@lowers(list_of, since=11)
def list_of_(g: Emitter, tensors: Sequence[Value]) -> Value:
    """list_of(tensors) -> list"""
    _check_dtype(g)
    return g.op.SequenceConstruct(*tensors)


@lowers(list_empty, since=11)
def list_empty_(g: Emitter, dtype: torch.dtype) -> Value:
    """list_empty(dtype) -> list"""
    _check_dtype(g)
    return g.op.SequenceEmpty(dtype=dtype)


@lowers(list_split, since=11)
def list_split_(g: Emitter, x: Value, sizes: Any, axis: int) -> Value:
    """list_split(x, sizes, axis) -> list"""
    _check_dtype(g)
    lengths = g.as_value(sizes, torch.int64)
    if _splits(g):
        return g.op.SplitToSequence(x, lengths, axis=axis)
    if g.dims(lengths) == ():
        whole = g.scalar(g.dim_size(x, axis))
        turns = g.op.Div(g.op.Sub(g.op.Add(whole, lengths), g.const(1)), lengths)

        def part(body: Emitter, turn: Value) -> Value:
            start = body.op.Mul(turn, lengths)
            return body.slice(x, [start], [body.op.Add(start, lengths)], [axis])
    else:
        turns, ends = g.scalar(g.dim_size(lengths, 0)), g.cumsum(lengths, 0)

        def part(body: Emitter, turn: Value) -> Value:
            end = body.op.Gather(ends, turn, axis=0)
            return body.slice(x, [body.op.Sub(end, body.op.Gather(lengths, turn, axis=0))], [end], [axis])

    return _collected(g, turns, part)


@lowers(list_unbind, since=11)
def list_unbind_(g: Emitter, x: Value, axis: int) -> Value:
    """list_unbind(x, axis) -> list"""
    _check_dtype(g)
    if _splits(g):
        return g.op.SplitToSequence(x, axis=axis, keepdims=0)
    return _collected(g, g.scalar(g.dim_size(x, axis)), lambda body, turn: body.op.Gather(x, turn, axis=axis))


def _splits(g: Emitter) -> bool:
    """Whether onnxruntime's SplitToSequence takes the type; small integers it does not (1.31)."""
    schema = schemas.find("SplitToSequence", g.opset)
    return schema is not None and g.out.dtype in schema.allowed["T"]


def _collected(g: Emitter, turns: Value, part: Callable[[Emitter, Value], Value]) -> Value:
    """The parts one by one, in a Loop."""
    if g.opset < 13:
        raise g.needs_opset(13, f"a list of {g.out.dtype} that is split off a tensor")
    body = g.subgraph("body")
    turn, going = body.input("turn", torch.int64, ()), body.input("going", torch.bool, ())
    items = body.input_list("items", g.out)
    more = body.annotate_list(body.op.SequenceInsert(items, part(body, turn)), g.out)
    empty = g.annotate_list(g.op.SequenceEmpty(dtype=g.out.dtype), g.out)
    return g.node("Loop", [turns, g.const(True), empty], {"body": body.graph([going, more])})


@lowers(list_insert, since=11)
def list_insert_(g: Emitter, items: Value, tensor: Value, index: int | SizeValue | None = None) -> Value:
    """list_insert(items, tensor, index=None) -> list"""
    return g.op.SequenceInsert(items, tensor, _place(g, index))


@lowers(list_erase, since=11)
def list_erase_(g: Emitter, items: Value, index: int | SizeValue) -> Value:
    """list_erase(items, index) -> list"""
    return g.op.SequenceErase(items, None if index == -1 else _place(g, index))


@lowers(list_item, since=11)
def list_item_(g: Emitter, items: Value, index: int | SizeValue) -> Value:
    """list_item(items, index) -> Tensor"""
    return g.op.SequenceAt(items, _place(g, index))


@lowers(list_length, since=11)
def list_length_(g: Emitter, items: Value) -> Value:
    """list_length(items) -> int"""
    return g.annotate(g.op.SequenceLength(items), (), torch.int64)


@lowers(list_cat, since=11)
def list_cat_(g: Emitter, items: Value, axis: int) -> Value:
    """list_cat(items, axis) -> Tensor"""
    return g.op.ConcatFromSequence(items, axis=axis)


@lowers(list_stack, since=11)
def list_stack_(g: Emitter, items: Value, axis: int) -> Value:
    """list_stack(items, axis) -> Tensor"""
    return g.op.ConcatFromSequence(items, axis=axis, new_axis=1)
