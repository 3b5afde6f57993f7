"""Operators whose form or element types changed between opsets 9 and 26: arithmetic, comparison, indexing, softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onward.capture.program.facts import Dim, SymDim
from onward.lower.bridge import Structure, as_dim
from onward.lower.core import Number, Value
from onward.lower.size_values import Size
from onward.onnx_operators.dimension_math import Shape, broadcast


class Bridge(Structure):
    """Arithmetic and indexing."""

    # Comparisons

    def equal(self, x: Value, y: Value) -> Value:
        """x == y. Floats have no Equal before opset 11: neither less, nor greater, nor not a number."""
        if self.opset >= 11 or not self.dtype(x).is_floating_point:
            return self.op.Equal(x, y)
        apart = self.op.Or(self.op.Less(x, y), self.op.Greater(x, y))
        constant = next((v for v in (y, x) if self._is_finite(v)), None)
        doubtful = self.op.Add(x, y) if constant is None else x if constant is y else y
        return self.op.Not(self.op.Or(apart, self.op.IsNaN(doubtful)))

    def _is_finite(self, x: Value) -> bool:
        tensor = self.value_of(x)
        return tensor is not None and tensor.numel() <= 64 and bool(tensor.isfinite().all())

    def not_equal(self, x: Value, y: Value) -> Value:
        return self.op.Not(self.equal(x, y))

    def less_or_equal(self, x: Value, y: Value) -> Value:
        """x <= y; an operator of its own from opset 12."""
        return self._or_equal("LessOrEqual", "Less", "Greater", x, y)

    def greater_or_equal(self, x: Value, y: Value) -> Value:
        """x >= y; an operator of its own from opset 12."""
        return self._or_equal("GreaterOrEqual", "Greater", "Less", x, y)

    def _or_equal(self, op: str, strict: str, opposite: str, x: Value, y: Value) -> Value:
        if self.opset >= 12:
            return self.node(op, [x, y])
        if self.dtype(x).is_floating_point:  # the negation of the opposite would be true of nan
            return self.op.Or(self.node(strict, [x, y]), self.equal(x, y))
        return self.op.Not(self.node(opposite, [x, y]))

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        """x where the condition holds, else y; the condition may be of any dtype."""
        return self.op.Where(self.cast(condition, torch.bool), x, y)

    # Extremes

    def max(self, *values: Value) -> Value:
        """Elementwise maximum of two or more, broadcasting."""
        return self._extreme("Max", "Greater", "Or", values)

    def min(self, *values: Value) -> Value:
        """Elementwise minimum of two or more, broadcasting."""
        return self._extreme("Min", "Less", "And", values)

    def _extreme(self, op: str, better: str, logical: str, values: Sequence[Value]) -> Value:
        dtype = self.dtype(values[0])
        if dtype is torch.bool:
            return self._pairwise(lambda a, b: self.node(logical, [a, b]), values)
        if dtype.is_floating_point or (self.opset >= 12 and dtype is not torch.int64):
            return self.node(op, values)
        # Integers by comparison: before opset 12 there are only floats, which would not be exact, and onnxruntime
        # 1.31 compares int64 (in Max, Min and Clip, not in Less) by their low 32 bits.
        return self._pairwise(lambda a, b: self.op.Where(self.node(better, [a, b]), a, b), values)

    def _pairwise(self, function: Callable[[Value, Value], Value], values: Sequence[Value]) -> Value:
        result = values[0]
        for value in values[1:]:
            result = function(result, value)
        return result

    def clip(self, x: Value, lo: Number | Value | None = None, hi: Number | Value | None = None) -> Value:
        """x kept between lo and hi; numbers, tensors of one element or of x's shape, or None."""
        if lo is None and hi is None:
            return x
        numbers = all(bound is None or isinstance(bound, (int, float)) for bound in (lo, hi))
        small, floats = self.dtype(x) in (torch.float32, torch.float16), self.dtype(x).is_floating_point
        crossed = numbers and lo is not None and hi is not None and lo > hi  # type: ignore[operator]
        # Given one bound, Clip ends at the largest finite number on the other side, and so would infinity.
        least, most = ((-math.inf if lo is None else lo), (math.inf if hi is None else hi)) if floats else (lo, hi)
        if self.opset < 11 and numbers and small and not crossed:  # onnxruntime 1.31 refuses such attributes
            return self.op.Clip(x, min=least, max=most)
        scalars = all(not isinstance(bound, Value) or self.dims(bound) == () for bound in (lo, hi))
        # onnxruntime 1.31 cannot load a float64 Clip behind a Relu: it fails to fuse the two.
        if scalars and self.opset >= (11 if small else 12) and self.dtype(x) not in (torch.int64, torch.float64):
            return self.op.Clip(x, self._limit(x, least), self._limit(x, most))
        low, high = self._limit(x, lo), self._limit(x, hi)
        x = x if low is None else self.max(x, low)
        return x if high is None else self.min(x, high)

    def _limit(self, x: Value, bound: Any) -> Value | None:
        if bound is None or isinstance(bound, Value):
            return None if bound is None else self.cast(bound, self.dtype(x))
        return self._number(bound, self.dtype(x))

    # Arithmetic

    def fmod(self, x: Value, y: Value) -> Value:
        """The remainder with the sign of x, as C has it."""
        if self.opset >= 10 and self.dtype(x) is not torch.int64:  # onnxruntime 1.31 would do that in float64
            return self.op.Mod(x, y, fmod=1)
        if self.dtype(x).is_floating_point:  # float64, so that quotient and product are exact
            wide, by = self.cast(x, torch.float64), self.cast(y, torch.float64)
            rest = self.op.Sub(wide, self.op.Mul(self.trunc(self.op.Div(wide, by)), by))
            return self.cast(rest, self.dtype(x))
        return self.op.Sub(x, self.op.Mul(self.op.Div(x, y), y))

    def mod(self, x: Value, y: Value) -> Value:
        """The remainder with the sign of y, as Python has it."""
        if self.opset >= 10 and not self.dtype(x).is_floating_point:
            return self.op.Mod(x, y)
        rest = self.fmod(x, y)
        return self.op.Where(self._opposite(rest, y), self.op.Add(rest, y), rest)

    def _opposite(self, rest: Value, y: Value) -> Value:
        """Whether the signs differ. Without Sign on integers: onnxruntime 1.31 looks at the low 32 bits of int64."""
        zero, divisor = self.like(rest, 0), self.value_of(y)
        if divisor is not None and divisor.numel() <= 64 and bool((divisor > 0).all()):
            return self.op.Less(rest, zero)
        if self.dtype(rest).is_floating_point:
            return self.op.Less(self.op.Mul(self.op.Sign(rest), self.op.Sign(y)), zero)
        apart = self.op.Xor(self.op.Less(rest, zero), self.op.Less(y, zero))
        return self.op.And(apart, self.op.Not(self.op.Equal(rest, zero)))

    def floor_divide(self, x: Value, y: Value) -> Value:
        """x // y, rounding towards minus infinity; ONNX's integer Div truncates."""
        if self.dtype(x).is_floating_point:
            return self.op.Floor(self.op.Div(x, y))
        quotient = self.op.Div(x, y)
        if not self.dtype(x).is_signed:
            return quotient
        rest = self.op.Sub(x, self.op.Mul(quotient, y))
        return self.op.Sub(quotient, self.cast(self._opposite(rest, y), self.dtype(x)))

    def trunc(self, x: Value) -> Value:
        """Round towards zero; an integer is itself."""
        if not self.dtype(x).is_floating_point:
            return x
        return self.op.Mul(self.op.Sign(x), self.op.Floor(self.op.Abs(x)))

    def round(self, x: Value) -> Value:
        """Round to the nearest integer, halves to even; an operator of its own from opset 11."""
        if not self.dtype(x).is_floating_point:
            return x
        if self.opset >= 11:
            return self.op.Round(x)
        low = self.op.Floor(x)
        rest = self.op.Sub(x, low)
        half = self.like(x, 0.5)
        odd = self.op.Greater(
            self.op.Sub(low, self.op.Mul(self.op.Floor(self.op.Mul(low, half)), self.like(x, 2))), half
        )
        up = self.op.Or(self.op.Greater(rest, half), self.op.And(self.equal(rest, half), odd))
        return self.op.Add(low, self.cast(up, self.dtype(x)))

    def pow(self, x: Value, exponent: Value | Number) -> Value:
        """x to a power, in x's dtype."""
        if isinstance(exponent, Value):
            return self.op.Pow(x, self.cast(exponent, self.dtype(x)))
        if exponent == 2:
            return self.op.Mul(x, x)
        if exponent == 0.5:
            return self.op.Sqrt(x)
        if exponent == -1 and self.dtype(x).is_floating_point:
            return self.op.Reciprocal(x)
        return self.op.Pow(x, self.like(x, exponent))

    def cumsum(self, x: Value, axis: int) -> Value:
        """Running sum; before opset 11 a product with a triangle of ones."""
        shape = self.known_dims(x)
        if not shape:
            return x
        axis %= len(shape)
        if self.opset >= 11:
            return self.op.CumSum(x, self.const(axis))
        steps = self.arange(0, self.dim_size(x, axis))
        earlier = self.less_or_equal(self.unsqueeze(steps, [1]), self.unsqueeze(steps, [0]))
        triangle = self.cast(earlier, self.dtype(x))
        if axis == len(shape) - 1:
            return self.matmul(x, triangle) if len(shape) > 1 else self._row_times(x, triangle)
        swap = _swap_with_last(len(shape), axis)
        return self.op.Transpose(self.matmul(self.op.Transpose(x, perm=swap), triangle), perm=swap)

    def _row_times(self, x: Value, matrix: Value) -> Value:
        return self.squeeze(self.op.MatMul(self.unsqueeze(x, [0]), matrix), [0])

    def matmul(self, x: Value, y: Value) -> Value:
        """The product. onnxruntime 1.31 refuses no rows times a vector, and takes no rows times a matrix of one
        column."""
        x_dims, y_dims = self.known_dims(x), self.known_dims(y)
        if len(y_dims) == 1 and any(not isinstance(size, int) for size in x_dims[:-1]):
            return self.squeeze(self.matmul(x, self.unsqueeze(y, [1])), [len(x_dims) - 1])
        batch = broadcast(x_dims[:-2], y_dims[:-2])
        if x_dims[:-2] != y_dims[:-2] and any(isinstance(dim, SymDim) and self.may_be_empty(dim) for dim in batch):
            return self._matmul_in_batches(x, y, batch)
        return self.op.MatMul(x, y)

    def _matmul_in_batches(self, x: Value, y: Value, batch: Shape) -> Value:
        """The product where there may be no matrices: onnxruntime 1.31 refuses to broadcast one matrix to none, also
        where it makes one operator of a Transpose and a product that would run."""
        x_dims, y_dims = self.known_dims(x), self.known_dims(y)
        if len(x_dims) == 1:
            return self.squeeze(self._matmul_in_batches(self.unsqueeze(x, [0]), y, batch), [len(batch)])
        if len(y_dims) == 2:
            rows = self.op.MatMul(self.reshape(x, [-1, x_dims[-1]]), y)
            return self.reshape(rows, [*x_dims[:-1], y_dims[-1]])
        return self.op.MatMul(self.expand(x, [*batch, *x_dims[-2:]]), self.expand(y, [*batch, *y_dims[-2:]]))

    # Softmax and normalisation

    def softmax(self, x: Value, axis: int) -> Value:
        return self._softmax("Softmax", x, axis)

    def log_softmax(self, x: Value, axis: int) -> Value:
        return self._softmax("LogSoftmax", x, axis)

    def _softmax(self, op: str, x: Value, axis: int) -> Value:
        """Before opset 13 all axes from `axis` on are taken together: move the axis to the end."""
        rank = self.rank(x)
        if rank == 0:
            return self.squeeze(self._softmax(op, self.unsqueeze(x, [0]), 0), [0])
        axis %= rank
        size = (self.dims(x) or (None,) * rank)[axis]
        if self.dtype(x) is torch.float16 and isinstance(size, SymDim) and self.may_be_empty(size):
            # onnxruntime takes the largest of no elements there, and gets its buffers wrong.
            return self.cast(self._softmax(op, self.cast(x, torch.float32), axis), torch.float16)
        if self.opset >= 13 or axis == rank - 1:
            return self.node(op, [x], {"axis": axis if self.opset < 11 or axis != rank - 1 else -1})
        swap = _swap_with_last(rank, axis)
        return self.op.Transpose(self.node(op, [self.op.Transpose(x, perm=swap)], {"axis": rank - 1}), perm=swap)

    def layer_norm(self, x: Value, axes: int, weight: Value | None, bias: Value | None, epsilon: float) -> Value:
        """Normalise over the last `axes` axes; an operator of its own from opset 17."""
        shape = self.known_dims(x)
        sizes = shape[len(shape) - axes :]
        if self.opset >= 17 and (weight is not None or all(isinstance(size, int) for size in sizes)):
            if weight is None:
                weight = self.const_tensor(torch.ones(sizes, dtype=self.dtype(x)))  # type: ignore[arg-type]
            return self.op.LayerNormalization(x, weight, bias, axis=-axes, epsilon=epsilon)
        last = list(range(len(shape) - axes, len(shape)))
        centred = self.op.Sub(x, self.reduce("ReduceMean", x, last, keepdims=True))
        squares = self.op.Pow(centred, self.like(x, 2))  # as a product onnxruntime 1.31 would not fuse the whole
        variance = self.reduce("ReduceMean", squares, last, keepdims=True)
        result = self.op.Div(centred, self.op.Sqrt(self.op.Add(variance, self.like(x, epsilon))))
        result = result if weight is None else self.op.Mul(result, weight)
        return result if bias is None else self.op.Add(result, bias)

    # Indexing

    def gather_elements(self, x: Value, indices: Value, axis: int) -> Value:
        """`torch.gather`. Before opset 11: number the elements of x and pick by number."""
        axis %= max(self.rank(x), 1)
        if self.rank(x) == 0:
            flat = self.gather_elements(self.unsqueeze(x, [0]), self.reshape(indices, [-1]), 0)
            return self.reshape(flat, self.known_dims(indices))
        if self.opset >= 11:
            return self.op.GatherElements(x, indices, axis=axis)
        place = self.op.Mul(self.cast(indices, torch.int64), self.size(self._stride(x, axis)))
        rank = self.rank(x)
        for other in range(rank):
            if other != axis and self.known_dims(indices)[other] != 1:
                steps = self.arange(0, self.dim_size(indices, other))
                steps = self.op.Mul(steps, self.size(self._stride(x, other)))
                place = self.op.Add(place, self.unsqueeze(steps, [a for a in range(rank) if a != other]))
        return self.op.Gather(self.flatten(x), place, axis=0)

    def _stride(self, x: Value, axis: int) -> Any:
        """How many elements lie between neighbours along an axis."""
        return self.numel(x, range(axis + 1, self.rank(x)))

    def scatter_elements(
        self, x: Value, indices: Value, updates: Value, axis: int, reduction: str | None = None
    ) -> Value:
        """`torch.scatter`; reduction is None, "add", "mul" (opset 16), "max" or "min" (opset 18)."""
        axis %= max(self.rank(x), 1)
        needed = {None: 9, "none": 9, "add": 16, "mul": 16, "max": 18, "min": 18}[reduction]
        if self.opset < needed:
            raise self.needs_opset(needed)
        if self.opset < 11:
            return self.op.Scatter(x, indices, updates, axis=axis)
        return self.op.ScatterElements(x, indices, updates, axis=axis, reduction=reduction if needed > 9 else None)

    def one_hot(self, indices: Value, depth: Size, dtype: torch.dtype = torch.int64) -> Value:
        """A new last axis with a one where the index says."""
        computed = torch.float32 if dtype is torch.float32 else torch.int64
        result = self.op.OneHot(
            self.cast(indices, torch.int64), self.size(depth), self.const([0, 1], computed), axis=-1
        )
        shape, dim = self.dims(indices), as_dim(depth)
        if shape is not None and dim is not None:
            self.annotate(result, (*shape, dim))
        return self.cast(result, dtype)

    def resize(
        self,
        x: Value,
        *,
        sizes: Sequence[Size] | None = None,
        scales: Sequence[float] | None = None,
        mode: str = "nearest",
        coordinates: str = "asymmetric",
        nearest_mode: str = "floor",
        cubic: float = -0.75,
        antialias: bool = False,
    ) -> Value:
        """Resize all axes of x, to sizes or by scales. Before opset 11 only what `asymmetric` coordinates can say."""
        if self.opset < 11:
            return self._resize_by_scales(x, sizes, scales, mode, coordinates)
        if antialias and self.opset < 18:
            raise self.needs_opset(18)
        settings: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
        if mode == "nearest":
            settings["nearest_mode"] = nearest_mode
        if mode == "cubic":
            settings["cubic_coeff_a"] = cubic
        if antialias:  # PyTorch weighs only what lies inside
            settings |= {"antialias": 1, "exclude_outside": 1}
        blank = self.const_tensor(torch.empty(0)) if self.opset < 13 else None  # inputs became optional in 13
        if sizes is None:
            return self.op.Resize(x, blank, self.const(list(scales or ()), torch.float32), **settings)
        result = self.op.Resize(x, blank, blank, self.shape(sizes), **settings)
        dims = [as_dim(size) for size in sizes]
        return result if None in dims else self.annotate(result, dims)  # type: ignore[arg-type]

    def _resize_by_scales(self, x: Value, sizes: Any, scales: Any, mode: str, coordinates: str) -> Value:
        if mode not in ("nearest", "linear") or coordinates != "asymmetric":
            raise self.needs_opset(11)
        if scales is None:
            shape = self.known_dims(x)
            if all(isinstance(dim, int) for dim in (*shape, *map(as_dim, sizes))):
                scales = [float(size) / dim for size, dim in zip(sizes, shape, strict=True)]  # type: ignore[operator]
        if scales is not None:
            factors = self.const([float(scale) for scale in scales], torch.float32)
        else:
            wanted, present = self.cast(self.shape(sizes), torch.float32), self.cast(self.op.Shape(x), torch.float32)
            factors = self.op.Div(wanted, present)
        result = self.node("Upsample" if self.opset < 10 else "Resize", [x, factors], {"mode": mode})
        dims: list[Dim | None] = [as_dim(size) for size in sizes] if sizes is not None else [None]
        return result if None in dims else self.annotate(result, dims)  # type: ignore[arg-type]


def _swap_with_last(rank: int, axis: int) -> list[int]:
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return order
