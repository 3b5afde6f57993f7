"""Operators whose form changed between opsets 9 and 26: structure and reductions, written once, right for each opset.

`bridge_math.py` continues with comparisons, rounding and the like.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import onnx_ir as ir
import torch

from onward.capture.program.facts import Dim, SymDim, length_of_slice
from onward.lower import dims as dimensions
from onward.lower.core import Number, Value
from onward.lower.sizes import Size, Sizes, SizeValue, size_of
from onward.lower.whole_numbers import exact_product, exact_sum, sums_exactly

_FAR = 2**63 - 1
# What PyTorch gives for no elements at all, where onnxruntime 1.31 gives something else or fails.
_OF_NOTHING = {
    "ReduceSum": 0,
    "ReduceSumSquare": 0,
    "ReduceL1": 0,
    "ReduceL2": 0,
    "ReduceProd": 1,
    "ReduceMean": float("nan"),
    "ReduceLogSumExp": float("-inf"),
}
_EXACTLY = {"ReduceSum": exact_sum, "ReduceProd": exact_product}
_IN_DOUBLES = (torch.int64, torch.int32)
_RESHAPES = frozenset({"Reshape", "Flatten", "Unsqueeze", "Squeeze"})


def as_dim(size: Any) -> Dim | None:
    """A wanted size as a dimension; None where only the running model knows."""
    if isinstance(size, SizeValue):
        return size.dim if size.kind is int and size.exact and size.function != "given" else SymDim(size.values, "")
    return size if isinstance(size, (int, SymDim)) else None


class Structure(Sizes):
    """Shape and structure."""

    def dim_size(self, x: Value, axis: int) -> int | SizeValue:
        """The size of an axis: an int where it is static."""
        shape = self.known_dims(x)
        axis %= len(shape)
        dim = shape[axis]
        return dim if isinstance(dim, int) else size_of(x, axis, dim.values)

    def numel(self, x: Value, axes: Sequence[int] | None = None) -> int | SizeValue:
        """How many elements x has, or how many along some axes."""
        result: Any = 1
        for axis in range(self.rank(x)) if axes is None else axes:
            result = self.dim_size(x, axis) * result
        return result

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        """Drop axes of size 1."""
        shape = self.dims(x)
        axes = self._positive(axes, shape)
        if not axes:
            return x
        if shape is not None:
            after = tuple(dim for axis, dim in enumerate(shape) if axis not in axes)
            known = next((base for base in self._reshaped_from(x) if self.dims(base) == after), None)
            if known is not None:
                return known
        return self.node("Squeeze", *self._axes_form("Squeeze", x, axes))

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value:
        """Insert axes of size 1, at positions counted in the result."""
        shape = self.dims(x)
        axes = self._positive(axes, None if shape is None else (1,) * (len(shape) + len(axes)))
        if not axes:
            return x
        inner = x.producer()
        if shape is not None and inner is not None and inner.op_type == "Unsqueeze" and inner.inputs[0] is not None:
            free = [axis for axis in range(len(shape) + len(axes)) if axis not in axes]
            x, axes = inner.inputs[0], sorted([*axes, *(free[axis] for axis in self._axes_of(inner))])
        return self.node("Unsqueeze", *self._axes_form("Unsqueeze", x, axes))

    def _axes_of(self, node: ir.Node) -> list[int]:
        """The axes of a Squeeze or Unsqueeze that this emitter made."""
        if "axes" in node.attributes:
            return list(node.attributes["axes"].as_ints())
        return [int(axis) for axis in self._session.tensors[node.inputs[1]].tolist()]  # type: ignore[index]

    def _reshaped_from(self, x: Value) -> Iterator[Value]:
        """The tensors that x is only another shape of, nearest first."""
        while (node := x.producer()) is not None and node.op_type in _RESHAPES and node.domain == "":
            base = node.inputs[0]
            if base is None or self.dims(base) is None:
                return
            yield base
            x = base

    def _positive(self, axes: Sequence[int], shape: Sequence[Dim] | None) -> list[int]:
        """Axes counted from the front, ascending: before opset 11 negative ones do not exist."""
        if shape is None:
            if self.opset < 11 and any(axis < 0 for axis in axes):
                raise self.unsupported("negative axes of a value of unknown rank")
            return list(axes)
        return sorted(axis % max(len(shape), 1) for axis in axes)

    def reduce(self, op: str, x: Value, axes: Sequence[int] | None = None, keepdims: bool = False) -> Value:
        """`ReduceSum`, `ReduceMean`, `ReduceMax`, ...; no axes (None or empty) means all."""
        shape = self.dims(x)
        if shape == ():
            x, shape, axes, keepdims = self.unsqueeze(x, [0]), (1,), [0], False
        over = range(len(shape or ())) if not axes else [axis % len(shape or (1,)) for axis in axes]
        if shape is not None and op in _OF_NOTHING and 0 in [shape[axis] for axis in over]:
            kept = [1 if axis in over else dim for axis, dim in enumerate(shape) if keepdims or axis not in over]
            return self.expand(self.like(x, _OF_NOTHING[op]), kept)
        attributes: dict[str, Any] = {"keepdims": keepdims}
        inexact = op in _EXACTLY and self._session.dtypes.get(x) in _IN_DOUBLES
        if shape is not None and inexact and not sums_exactly(self, op, x, sorted(over)):
            return _EXACTLY[op](self, x, sorted(over), keepdims)
        if not axes:
            return self.node(op, [x], attributes)
        axes = self._positive(axes, shape)
        if self.opset < (13 if op == "ReduceSum" else 18):
            return self.node(op, [x], attributes | {"axes": axes})
        return self.node(op, [x, self.const(axes)], attributes)

    def reshape(self, x: Value, sizes: Sequence[Size]) -> Value:
        """x with the wanted sizes (one may be -1), saying 0 and -1 wherever that is enough."""
        before = self.dims(x)
        wanted = self._complete(before, sizes)
        after = [as_dim(size) for size in wanted]
        if before is not None and after == list(before):
            return x
        annotation = None if None in after or -1 in after else tuple(after)
        if 0 in after or self._may_be_empty_twice(wanted, after):
            return self._reshape_empty(x, wanted, after, before, annotation)
        entries = self._reshape_entries(before, wanted, after)
        for base in self._reshaped_from(x) if annotation is not None else ():
            if self.dims(base) == annotation:
                return base
            instead = self._reshape_entries(self.dims(base), wanted, after)
            if _computed(instead) <= _computed(entries):
                x, entries = base, instead
        if self._has_run_of_sizes(entries, after):
            entries = [after[place] if entry == -1 else entry for place, entry in enumerate(entries)]
            result = self.op.Reshape(x, self.shape(entries), allowzero=1)
        else:
            result = self.op.Reshape(x, self.shape(entries))
        return self.annotate(result, annotation) if annotation is not None else result  # type: ignore[arg-type]

    def _may_be_empty_twice(self, wanted: Sequence[Size], after: Sequence[Dim | None]) -> bool:
        """Whether no place of a -1 serves, because two sizes may be 0, and all sizes can be given."""
        empty = [dim for dim in after if isinstance(dim, SymDim) and self.may_be_empty(dim)]
        return (
            self.opset >= 14
            and len(empty) > 1
            and all(
                isinstance(size, (int, SizeValue)) or (isinstance(dim, SymDim) and self.is_at_hand(dim))
                for size, dim in zip(wanted, after, strict=True)
            )
        )

    def _has_run_of_sizes(self, entries: list[Any], after: list[Dim | None]) -> bool:
        """Whether a reshape computes sizes that stand side by side in one tensor, so that one node reads them all.

        Then none is left to infer, and each of them may be 0.
        """
        places = [place for place, entry in enumerate(entries) if entry == -1 or not isinstance(entry, int)]
        found = [self._axis_of(dim.values) for place in places if isinstance(dim := after[place], SymDim)]
        if self.opset < 15 or len(places) < 2 or 0 in entries or len(found) < len(places) or None in found:
            return False
        (first, axis), start = found[0], places[0]  # type: ignore[misc]
        return places == list(range(start, start + len(places))) and found == [
            (first, axis + step) for step in range(len(places))
        ]

    def _reshape_entries(
        self, before: tuple[Dim, ...] | None, wanted: list[Size], after: list[Dim | None]
    ) -> list[Any]:
        """A reshape's sizes, with 0 where an axis stays and -1 for one that would have to be computed."""
        entries: list[Any] = []
        unknown: list[int] = []
        for place, (size, dim) in enumerate(zip(wanted, after, strict=True)):
            same = isinstance(dim, SymDim) and before is not None and place < len(before) and before[place] == dim
            entries.append(0 if same else size)
            if not same and not isinstance(dim, int):
                unknown.append(place)
        if unknown and -1 not in entries:
            entries[self._inferred(unknown, wanted, after)] = -1
        return entries

    def _inferred(self, unknown: list[int], wanted: Sequence[Size], after: list[Dim | None]) -> int:
        """The place of the -1. onnxruntime infers no size beside a 0, so it is the size that may be 0, if one may."""
        empty = [place for place, dim in enumerate(after) if isinstance(dim, SymDim) and self.may_be_empty(dim)]
        others = [(wanted[place], after[place]) for place in unknown if place not in empty]
        if len(empty) == 1 and all(
            isinstance(size, SizeValue) or (isinstance(dim, SymDim) and self.is_at_hand(dim)) for size, dim in others
        ):
            return empty[0]
        return self._costliest(unknown, wanted)

    def _complete(self, before: tuple[Dim, ...] | None, sizes: Sequence[Size]) -> list[Size]:
        """The -1 of a reshape as the size it stands for, if x's dimensions say."""
        wanted = list(sizes)
        dims = [as_dim(size) for size in wanted]
        if before is None or -1 not in dims or None in dims:
            return wanted
        place = dims.index(-1)
        left, rest = list(before), []
        for dim in (dim for dim in dims if dim != -1 and dim is not None):
            if dim in left:
                left.remove(dim)  # what both sides have need not be divided, and may be 0
            else:
                rest.append(dim)
        whole, part = dimensions.product(left), dimensions.product(rest)
        if part != 0:
            wanted[place] = dimensions.combine(lambda a, b: a // b if b else 0, whole, part)
        return wanted

    def _costliest(self, places: list[int], wanted: Sequence[Size]) -> int:
        """Of the sizes only the running model knows, the one to leave to the Reshape: rather a formula than an axis,
        and one that would have to be found again rather than one that was computed."""
        for place in sorted(places, key=lambda place: isinstance(wanted[place], SizeValue)):
            dim = as_dim(wanted[place])
            if dim is None or (isinstance(dim, SymDim) and self._axis_of(dim.values) is None):
                return place
        return places[-1]

    def _reshape_empty(self, x: Value, wanted: Any, after: Any, before: Any, annotation: Any) -> Value:
        """A tensor without elements: a 0 in the shape has to mean zero."""
        if self.opset >= 14:
            result = self.op.Reshape(x, self.shape(wanted), allowzero=1)
        else:
            blank = torch.zeros(1, dtype=self.dtype(x))
            result = self.op.ConstantOfShape(self.shape(wanted), value=blank)
        return self.annotate(result, annotation) if annotation is not None else result

    def flatten(self, x: Value, start: int = 0, end: int = -1) -> Value:
        """Merge the axes from start to end into one."""
        shape = self.known_dims(x)
        if not shape:
            return self.reshape(x, [1])
        start, end = start % len(shape), end % len(shape)
        if start == end:
            return x
        return self.reshape(x, [*shape[:start], dimensions.product(shape[start : end + 1]), *shape[end + 1 :]])

    def expand(self, x: Value, sizes: Sequence[Size]) -> Value:
        """Broadcast x to the wanted sizes; -1 keeps an axis."""
        before = self.dims(x)
        lead = len(sizes) - len(before) if before is not None else 0
        entries: list[Any] = []
        after: list[Dim | None] = []
        for place, size in enumerate(sizes):
            old = before[place - lead] if before is not None and place >= lead else None
            dim = old if isinstance(size, int) and size == -1 else as_dim(size)
            after.append(dim)
            entries.append(1 if (old is not None and dim == old) or (isinstance(size, int) and size == -1) else size)
        if before is not None and tuple(after) == before:
            return x
        result = self.op.Expand(x, self.shape(entries))
        return self.annotate(result, after) if None not in after else result  # type: ignore[arg-type]

    def slice(
        self,
        x: Value,
        starts: Sequence[Size],
        ends: Sequence[Size],
        axes: Sequence[int],
        steps: Sequence[Size] | None = None,
    ) -> Value:
        """x[start:end:step] along axes; starts, ends and steps may be computed sizes."""
        shape = self.dims(x)
        axes = [axis % len(shape) for axis in axes] if shape is not None else list(axes)
        steps = list(steps) if steps is not None else [1] * len(axes)
        fixed = all(isinstance(place, int) for place in (*starts, *ends, *steps))
        if self.opset < 10 and (not fixed or any(step != 1 for step in steps)):
            return self._slice_by_gather(x, starts, ends, axes, steps)
        if self.opset < 10:
            result = self.op.Slice(x, starts=starts, ends=ends, axes=axes)
        else:
            plain = all(isinstance(step, int) and step == 1 for step in steps)
            stride = None if plain else self.shape(steps)
            result = self.op.Slice(x, self.shape(starts), self.shape(ends), self.const(axes), stride)
        if shape is not None and not fixed:
            after = self._sliced_dims(shape, starts, ends, axes, steps)
            return self.annotate(result, after) if after is not None else result
        return result

    def _sliced_dims(self, shape: Any, starts: Any, ends: Any, axes: Any, steps: Any) -> list[Dim] | None:
        after = list(shape)
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            first, last, stride = as_dim(start), as_dim(end), as_dim(step)
            if first is None or last is None or stride is None:
                return None
            after[axis] = dimensions.combine(length_of_slice, after[axis], first, last, stride)
            doubtful = [bound for bound in (start, end, step) if isinstance(bound, SizeValue) and not bound.exact]
            after[axis] = _perhaps(after[axis], doubtful)
        return after

    def _slice_by_gather(self, x: Value, starts: Any, ends: Any, axes: Any, steps: Any) -> Value:
        """At opset 9 a slice knows neither steps nor computed bounds: pick the elements by number instead."""
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            size = self.dim_size(x, axis)
            bounded = isinstance(start, int) and isinstance(end, int) and isinstance(step, int)
            if isinstance(size, int) and bounded:
                picked = self.const(list(range(size)[slice(start, end, step)]) or [], torch.int64)
            elif isinstance(step, int) and step < 0:
                raise self.needs_opset(10)
            else:
                first, last = self.bound(start, size), self.bound(end, size)
                if not (isinstance(first, int) and first == 0) and last is not size:
                    last = SizeValue.of(torch.sym_max, last, first)
                picked = self.arange(first, last, step)
            x = self.op.Gather(x, picked, axis=axis)
        return x

    def bound(self, place: Any, size: Any) -> Any:
        """A slice's bound, counted from the front and inside the axis."""
        if isinstance(place, SymDim):
            place = SizeValue(place.values, "given", (self.size(place),))
        if isinstance(place, int) and isinstance(size, int):
            return min(max(place + size if place < 0 else place, 0), size)
        if isinstance(place, int) and place >= 2**31 - 1:
            return size
        if isinstance(place, int) and place < 0:
            return SizeValue.of(torch.sym_max, size + place, 0)
        if isinstance(place, SizeValue) and min(place.values) < 0:
            place = SizeValue.of(torch.sym_ite, SizeValue.of(operator.lt, place, 0), place + size, place)
            place = SizeValue.of(torch.sym_max, place, 0)
        return place if place == 0 else SizeValue.of(torch.sym_min, place, size)

    def split(self, x: Value, sizes: Sequence[Size], axis: int) -> list[Value]:
        """Parts of the given sizes along an axis."""
        if len(sizes) == 1:
            return [x]
        axis %= self.rank(x)
        shape = self.known_dims(x)
        if self.opset < 13:
            if not all(isinstance(size, int) for size in sizes):
                raise self.needs_opset(13)
            parts = self.node("Split", [x], {"axis": axis, "split": list(sizes)}, outputs=len(sizes))
        else:
            parts = self.node("Split", [x, self.shape(sizes)], {"axis": axis}, outputs=len(sizes))
        for part, size in zip(parts, sizes, strict=True):
            dim = as_dim(size)
            if dim is not None:
                self.annotate(part, (*shape[:axis], dim, *shape[axis + 1 :]))
        return list(parts)

    def pad(self, x: Value, pads: Sequence[Size], mode: str = "constant", value: Number = 0) -> Value:
        """Pad (or crop, where negative); pads are all begins, then all ends, as ONNX orders them."""
        fixed = all(isinstance(pad, int) for pad in pads)
        if fixed and not any(pads):
            return x
        if mode == "wrap" and self.opset < 19:
            raise self.needs_opset(19)
        if self.opset < 11:
            if not fixed:
                raise self.needs_opset(11)
            return self.op.Pad(x, pads=pads, mode=mode, value=float(value) if mode == "constant" else None)
        filler = self.like(x, value) if mode == "constant" and value else None
        result = self.op.Pad(x, self.shape(pads), filler, mode=mode)
        shape, dims = self.dims(x), [as_dim(pad) for pad in pads]
        if shape is None or fixed or None in dims:
            return result
        after = [dimensions.total([dim, dims[i], dims[i + len(shape)]]) for i, dim in enumerate(shape)]  # type: ignore[list-item]
        return self.annotate(result, after)

    def arange(self, start: Any, end: Any, step: Any = 1, dtype: torch.dtype = torch.int64) -> Value:
        """start, start + step, ... below end; numbers, sizes, or 0-d tensors."""
        bounds = (start, end, step)
        if all(isinstance(bound, (int, float)) for bound in bounds):
            return self.const_tensor(torch.arange(start, end, step, dtype=dtype))
        if self.opset >= 11:
            computed = dtype if dtype in (torch.int64, torch.int32, torch.float32, torch.float64) else torch.float32
            if dtype in (torch.int8, torch.int16, torch.uint8):
                computed = torch.int64
            counted = isinstance(start, int) and start >= 0 and isinstance(step, int) and step > 0
            if counted or computed.is_floating_point:
                result = self.op.Range(*(self._number(bound, computed) for bound in bounds))
            else:
                result = self._arange_from_zero(start, end, step, computed)
            result = self.cast(result, dtype)
        else:
            result = self._arange_by_counting(start, end, step, dtype)
        count = _arange_length(start, end, step)
        return self.annotate(result, (count,)) if count is not None else result

    def _arange_from_zero(self, start: Any, end: Any, step: Any, dtype: torch.dtype) -> Value:
        """start + Range(0, end - start, step). onnxruntime 1.31 makes a Slice of a Gather by a Range, with the same
        ends: a negative one is a place counted from the back for the Slice."""
        first = self._number(start, dtype)
        if any(isinstance(bound, Value) for bound in (start, end)):
            span = self.op.Sub(self._number(end, dtype), first)
        else:
            varies = isinstance(start, SizeValue) or isinstance(end, SizeValue)
            span = self._number(SizeValue.of(operator.sub, end, start) if varies else end - start, dtype)
        return self.op.Add(first, self.op.Range(self.const(0, dtype), span, self._number(step, dtype)))

    def _arange_by_counting(self, start: Any, end: Any, step: Any, dtype: torch.dtype) -> Value:
        """Before opset 11: the places of the ones in a row of ones are 0, 1, 2, ..."""
        if isinstance(end, Value) and (start, step) == (0, 1) and self.dtype(end) is torch.int64:
            ones = self.op.ConstantOfShape(self.size(end), value=torch.ones(1, dtype=torch.int64))
            return self.cast(self.reshape(self.op.NonZero(ones), [-1]), dtype)
        if any(isinstance(bound, Value) for bound in (start, end, step)):
            raise self.needs_opset(11)
        span = end if start == 0 and isinstance(start, int) else end - start
        if step != 1:
            span = _ceiling(span, step)
        ones = self.op.ConstantOfShape(self.size(span), value=torch.ones(1, dtype=torch.int64))
        count = self.cast(self.squeeze(self.annotate(self.op.NonZero(ones), (1, as_dim(span) or 0)), [0]), dtype)
        if step != 1:
            count = self.op.Mul(count, self._number(step, dtype))
        return count if start == 0 and isinstance(start, int) else self.op.Add(count, self._number(start, dtype))

    def _number(self, number: Any, dtype: torch.dtype) -> Value:
        """A number, size or tensor as a 0-d tensor of a dtype."""
        if isinstance(number, (int, float)):
            return self.const(number, dtype)
        return self.cast(number if isinstance(number, Value) else self.scalar(number), dtype)

    def topk(self, x: Value, k: Size, axis: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Value, Value]:
        """The k largest (or smallest) elements along an axis, and their indices."""
        shape = self.known_dims(x)
        if not shape:
            one, index = self.topk(self.unsqueeze(x, [0]), k, 0, largest, sorted)
            return self.squeeze(one, [0]), self.squeeze(index, [0])
        axis %= len(shape)
        if self.opset < 11 and not largest:
            dtype = self.dtype(x)
            signed = x if dtype.is_signed else self.cast(x, torch.int64 if dtype is not torch.bool else torch.int32)
            values, indices = self.topk(self.op.Neg(signed), k, axis, True, sorted)
            return self.cast(self.op.Neg(values), dtype), indices
        if self.opset < 10:
            if not isinstance(k, int):
                raise self.needs_opset(10)
            found = self.node("TopK", [x], {"k": k, "axis": axis}, outputs=2)
        else:
            settings = {"axis": axis} if self.opset < 11 else {"axis": axis, "largest": largest, "sorted": sorted}
            found = self.node("TopK", [x, self.size(k)], settings, outputs=2)
        dim = as_dim(k)
        if dim is not None:
            for value in found:
                self.annotate(value, (*shape[:axis], dim, *shape[axis + 1 :]))
        return found


def _computed(entries: Sequence[Any]) -> int:
    """How many entries of a shape the running model has to compute."""
    return sum(not isinstance(entry, int) for entry in entries)


def _ceiling(span: Any, step: Any) -> Any:
    """ceil(span / step) for sizes."""
    return -(-span // step)


def _perhaps(dim: Dim, doubtful: Sequence[SizeValue]) -> Dim:
    """A dimension that was computed from these sizes: if it is the same in every probe, perhaps not at every size."""
    return SymDim((dim,) * len(doubtful[0].values), "") if isinstance(dim, int) and doubtful else dim


def _arange_length(start: Any, end: Any, step: Any) -> Dim | None:
    """How many numbers an arange has, if its bounds are integers."""
    bounds = [as_dim(bound) for bound in (start, end, step) if not isinstance(bound, float)]
    if len(bounds) < 3 or None in bounds:
        return None
    count = dimensions.combine(lambda a, b, s: max(0, -((a - b) // s)), *bounds)  # type: ignore[arg-type]
    doubtful = [bound for bound in (start, end, step) if isinstance(bound, SizeValue) and not bound.exact]
    return _perhaps(count, doubtful)
