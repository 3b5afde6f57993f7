"""Copies: the same numbers, in another dtype or in a memory of their own."""

from __future__ import annotations

import torch

from ..emitter import Emitter, Value
from ..registry import lowers

aten = torch.ops.aten


@lowers(
    aten.clone.default,
    aten.alias.default,
    aten.detach.default,
    aten.contiguous.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
    aten.lift.default,
    aten.alias_copy.default,
    aten.detach_copy.default,
)
def clone(g: Emitter, x: Value) -> Value:
    """clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor; values of a graph have no memory to share"""
    return x


@lowers(
    aten.to.dtype,
    aten.to.device,
    aten.to.dtype_layout,
    aten.to.other,
    aten.to.prim_Device,
    aten.to.prim_dtype,
    aten.to.prim_other,
    aten._to_copy.default,
    aten.type_as.default,
    aten._cast_Byte.default,
    aten._cast_Char.default,
    aten._cast_Double.default,
    aten._cast_Float.default,
    aten._cast_Half.default,
    aten._cast_Int.default,
    aten._cast_Long.default,
    aten._cast_Short.default,
    torch.ops.prims.convert_element_type.default,
)
def to(g: Emitter, x: Value, *rest: object, dtype: object = None) -> Value:
    """to.dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, ...) -> Tensor"""
    return g.cast(x, g.out_dtype)


@lowers(aten.copy.default)
def copy(g: Emitter, x: Value, source: Value, non_blocking: bool = False) -> Value:
    """copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor: src in the shape and dtype of self"""
    return g.expand(g.cast(source, g.out_dtype), g.out.shape)


@lowers(aten.view.dtype)
def view_dtype(g: Emitter, x: Value, dtype: torch.dtype) -> Value:
    """view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a): the same bits, read as another type"""
    given = g.dtype(x)
    _check_width(g, given, dtype)
    if given.is_floating_point or dtype.is_floating_point:
        raise g.needs_opset(26)
    return g.cast(x, dtype)  # between whole numbers of one width a cast keeps the bits


@lowers(aten.view.dtype, since=26)
def view_dtype_26(g: Emitter, x: Value, dtype: torch.dtype) -> Value:
    """view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a): BitCast"""
    given = g.dtype(x)
    if not given.is_floating_point and not dtype.is_floating_point:
        return view_dtype(g, x, dtype)
    _check_width(g, given, dtype)
    return x if given is dtype else g.op.BitCast(x, to=dtype)


def _check_width(g: Emitter, given: torch.dtype, wanted: torch.dtype) -> None:
    if given.itemsize != wanted.itemsize:
        raise g.unsupported(f"the bits of {given} as {wanted}, which is of another width")
