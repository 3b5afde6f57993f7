"""Complex tensors in operators that move numbers about, or are linear: the lowerings for real ones, on the parts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from ..complex import (
    Complex,
    bilinear,
    by_parts,
    family,
    imag_of,
    join,
    lift,
    lower_real,
    lowers_complex,
    product,
    real_dtype,
    real_only,
    split,
)
from ..emitter import Emitter, Value
from ..registry import lowers
from . import index, matrix, pad, rearrange, repeat, scatter, select, shape, window, write
from . import join as joining

aten = torch.ops.aten

# Joining and choosing promote: among complex tensors, real ones are complex numbers too.
_JOINS = [aten.cat, aten.concat, aten.concatenate, aten.stack, aten.hstack, aten.vstack, aten.row_stack]
by_parts(*(op.default for op in _JOINS), data=(0,))
by_parts(aten.where.self, data=(1, 2))
by_parts(aten.where.ScalarOther, data=(1,))
by_parts(aten.where.ScalarSelf, data=(2,))
by_parts(aten.where.Scalar)
by_parts(aten.masked_fill.Scalar)
by_parts(aten.masked_fill.Tensor, data=(0, 2))

# The same elements elsewhere. What a conjugate transpose is made of comes here by itself.
by_parts(*family(shape, without=[aten.adjoint.default, aten.mH.default, aten.matrix_H.default]))
by_parts(*family(joining, without=[op.default for op in _JOINS]))
by_parts(*family(index, without=[aten.nonzero.default]))
by_parts(
    *family(
        scatter,  # a product is none of the parts'
        without=[
            aten.scatter.reduce, aten.scatter.value_reduce, aten.index_reduce.default, aten.scatter_reduce.two,
        ],
    )
)  # fmt: skip


@lowers_complex(aten.scatter.reduce)
def scatter_reduce(g: Emitter, x: Complex, dim: int, index_: Value, src: Complex, *, reduce: str) -> Complex:
    """scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor"""
    if reduce != "add":
        raise g.unsupported(f"complex numbers, reduce={reduce!r}")
    parts = zip((x.real, imag_of(g, x)), (src.real, imag_of(g, src)), strict=True)
    return Complex(*(lower_real(g, aten.scatter_add.default, [old, dim, index_, new]) for old, new in parts))


for _module in (rearrange, repeat, select, window, write):
    by_parts(*family(_module))
by_parts(*family(pad, without=[aten.pad.default]))  # which does not say that its value is a number of this kind
by_parts(
    aten.clone.default, aten.contiguous.default, aten.alias.default, aten.alias_copy.default, aten.detach.default,
    aten.detach_copy.default, aten.lift.default, aten.lift_fresh.default, aten.lift_fresh_copy.default,
    aten.positive.default, aten.resolve_conj.default, aten.resolve_neg.default,
)  # fmt: skip

# Linear in what goes in.
by_parts(*family(matrix, without=[aten.linalg_cross.default]))
by_parts(
    aten.neg.default, aten.negative.default, aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim,
    aten.cumsum.default,
)  # fmt: skip

# New tensors.
by_parts(aten.full.default, aten.full_like.default, aten.new_full.default, aten.fill.Scalar, aten.fill.Tensor)
by_parts(aten.scalar_tensor.default)
real_only(
    aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default, aten.zero.default, aten.ones.default,
    aten.ones_like.default, aten.new_ones.default, aten.eye.default, aten.eye.m, aten.empty.memory_format,
    aten.empty_like.default, aten.empty_permuted.default, aten.empty_strided.default, aten.new_empty.default,
    aten.new_empty_strided.default, aten.arange.default, aten.arange.start, aten.arange.start_step,
)  # fmt: skip

# Products.
bilinear(
    aten.mm.default, aten.bmm.default, aten.matmul.default, aten.linalg_matmul.default, aten.mv.default,
    aten.dot.default, aten.outer.default, aten.ger.default, aten.linalg_cross.default,
)  # fmt: skip
bilinear(
    aten.linear.default, aten.conv1d.default, aten.conv1d.padding, aten.conv2d.default, aten.conv2d.padding,
    aten.conv3d.default, aten.conv3d.padding, aten.convolution.default, aten.conv_transpose1d.default,
    aten.conv_transpose2d.input, aten.conv_transpose3d.input,
    bias=2,
)  # fmt: skip


@lowers_complex(aten.vdot.default)
def vdot(g: Emitter, x: Complex, y: Complex) -> Complex:
    """vdot(Tensor self, Tensor other) -> Tensor"""
    return product(aten.dot.default)(g, conj(g, x), y)


@lowers_complex(aten.einsum.default, since=12)
def einsum(g: Emitter, equation: str, tensors: Sequence[Any], *, path: Sequence[int] | None = None) -> Complex:
    """einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor; every part with every other ones"""
    sums: list[Value | None] = [None, None]
    parts = [list(enumerate(lift(g, each).parts)) for each in tensors]
    for chosen in itertools.product(*parts):
        turns = sum(place for place, _ in chosen)  # i to this power
        term = lower_real(g, aten.einsum.default, [equation, [part for _, part in chosen]])
        before, negative = sums[turns % 2], turns % 4 > 1
        if before is None:
            sums[turns % 2] = g.op.Neg(term) if negative else term
        else:
            sums[turns % 2] = (g.op.Sub if negative else g.op.Add)(before, term)
    assert sums[0] is not None
    return Complex(sums[0], sums[1])


# There and back


@lowers(aten.view_as_complex.default, aten.view_as_complex_copy.default)
def view_as_complex(g: Emitter, x: Value) -> Complex:
    """view_as_complex(Tensor(a) self) -> Tensor(a)"""
    return split(g, x)


@lowers(aten.complex.default)
def complex_(g: Emitter, real: Value, imag: Value) -> Complex:
    """complex(Tensor real, Tensor imag) -> Tensor"""
    parts = [g.cast(part, real_dtype(g.out_dtype)) for part in (real, imag)]
    return Complex(*(g.expand(part, g.out.shape) for part in parts))


@lowers(aten.polar.default)
def polar(g: Emitter, length: Value, angle: Value) -> Complex:
    """polar(Tensor abs, Tensor angle) -> Tensor"""
    return Complex(g.op.Mul(length, g.op.Cos(angle)), g.op.Mul(length, g.op.Sin(angle)))


@lowers_complex(aten.view_as_real.default, aten.view_as_real_copy.default)
def view_as_real(g: Emitter, z: Complex) -> Value:
    """view_as_real(Tensor(a) self) -> Tensor(a)"""
    return join(g, z)


@lowers_complex(aten._conj.default, aten._conj_copy.default, aten._conj_physical.default, aten.conj_physical.default)
def conj(g: Emitter, z: Complex) -> Complex:
    """conj_physical(Tensor self) -> Tensor"""
    return z if z.imag is None else Complex(z.real, g.op.Neg(z.imag))


@lowers(aten._neg_view.default, aten._neg_view_copy.default)
def neg_view(g: Emitter, x: Value) -> Value:
    """_neg_view(Tensor(a) self) -> Tensor(a)"""
    return g.op.Neg(x)


by_parts(aten._neg_view.default)


@lowers_complex(
    aten._to_copy.default, aten.to.dtype, aten.to.dtype_layout, aten.to.device, aten.to.other, aten.to.prim_Device,
    aten.to.prim_dtype, aten.to.prim_other, aten.type_as.default, aten.copy.default,
)  # fmt: skip
def to(g: Emitter, x: Complex | Value, *rest: Any, **options: Any) -> Complex | Value:
    """_to_copy(Tensor self, *, ScalarType? dtype=None, ...) -> Tensor; a real type takes the real part"""
    if g.place.op == "aten.copy.default":
        x = rest[0]
    if g.out_dtype.is_complex:
        z = lift(g, x)
        parts = (z.real,) if z.imag is None else z.parts
        return Complex(*(g.expand(part, g.out.shape) for part in parts))
    if not isinstance(x, Complex):
        return g.cast(x, g.out_dtype)
    if g.out_dtype is torch.bool:
        return truth(g, x)
    return g.cast(x.real, g.out_dtype)


@lowers_complex(aten.view.dtype)
def view_dtype(g: Emitter, x: Complex | Value, dtype: torch.dtype) -> Complex | Value:
    """view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)"""
    if isinstance(x, Complex):
        if dtype.is_complex or dtype is not g.dtype(x.real):
            raise g.unsupported(f"complex numbers seen as {dtype}")
        return g.reshape(join(g, x), g.out.shape)
    if g.dtype(x) is not real_dtype(dtype):
        raise g.unsupported(f"{g.dtype(x)} seen as {dtype}")
    return split(g, g.reshape(x, [*g.out.shape, 2]))


# Truth


def truth(g: Emitter, z: Complex | Value) -> Value:
    """Where a tensor is not zero."""
    parts = z.parts if isinstance(z, Complex) else (z,)
    found = [part if g.dtype(part) is torch.bool else g.not_equal(part, g.like(part, 0)) for part in parts]
    return found[0] if len(found) == 1 else g.op.Or(*found)


def _on_truth(op: Any) -> Any:
    def apply(g: Emitter, *args: Any, **kwargs: Any) -> Any:
        given = [truth(g, value) if isinstance(value, (Complex, Value)) else value for value in args]
        return lower_real(g, op, given, kwargs)

    return apply


for _op in (
    aten.any.default, aten.any.dim, aten.any.dims, aten.all.default, aten.all.dim, aten.all.dims,
    aten.logical_not.default, aten.logical_and.default, aten.logical_or.default, aten.logical_xor.default,
    aten.nonzero.default, aten.nonzero_static.default, aten.count_nonzero.default, aten.count_nonzero.dim_IntList,
):  # fmt: skip
    lowers_complex(_op)(_on_truth(_op))


def _compares(op: Any, meets: str) -> Any:
    def apply(g: Emitter, x: Any, y: Any) -> Value:
        kinds = [each for each in (x, y) if isinstance(each, (Complex, Value))]
        dtype = g.result_type(*(each.real if isinstance(each, Complex) else each for each in kinds))
        a, b = (lift(g, each, dtype) for each in (x, y))
        real, imag = (lower_real(g, op, pair) for pair in ((a.real, b.real), (imag_of(g, a), imag_of(g, b))))
        return g.node(meets, [real, imag])

    return apply


for _op in (aten.eq.Tensor, aten.eq.Scalar):
    lowers_complex(_op)(_compares(aten.eq.Tensor, "And"))
for _op in (aten.ne.Tensor, aten.ne.Scalar, aten.not_equal.Tensor, aten.not_equal.Scalar):
    lowers_complex(_op)(_compares(aten.ne.Tensor, "Or"))


def _of_either(op: Any, meets: str) -> Any:
    def apply(g: Emitter, z: Complex) -> Value:
        found = [lower_real(g, op, [part]) for part in z.parts]
        return found[0] if len(found) == 1 else g.node(meets, found)

    return apply


for _op, _meets in ((aten.isnan.default, "Or"), (aten.isinf.default, "Or"), (aten.isfinite.default, "And")):
    lowers_complex(_op)(_of_either(_op, _meets))
