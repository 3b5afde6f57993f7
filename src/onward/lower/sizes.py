"""Numbers computed from sizes: where a dimension comes from, and arithmetic on it.

A size is emitted as an int64 tensor of shape [1], because that is the form `Concat` needs to build a shape. Nothing is
emitted until somebody asks. A size whose fingerprint is that of an axis of a graph input is read from that input, so
the same question asked twice gives the same node.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
import torch

from onward.capture.facts import Dim, SymDim, line
from onward.lower.bits import by_planes
from onward.lower.core import Core, Value

_LARGEST_STEP = 8  # of slices, in formulas that are tried


class SizeValue:
    """A number computed from sizes: an axis of a tensor, a given value, or a function of others.

    Arithmetic on it in a lowering (`s + 1`, `s // 2`) gives another SizeValue; nothing is emitted until
    `g.size(s)`, `g.scalar(s)` or `g.shape([...])` asks for it.
    """

    __slots__ = ("exact", "function", "operands", "values")

    def __init__(self, values: tuple[Any, ...], function: Callable[..., Any] | str, operands: tuple[Any, ...]) -> None:
        self.values = values  # one per probe
        self.function = function  # "axis" (tensor, axis), "given" (value,), or a Python function of the operands
        self.operands = operands
        # Whether the fingerprint alone says what it is: after min, max, a comparison or a division that rounds, other
        # sizes may differ (probes are often all even: s // 2 and s - s // 2 look the same there).
        self.exact: bool = _made_of(_POLYNOMIAL, function, operands)

    @property
    def kind(self) -> type:
        """int, float or bool"""
        return type(self.values[0])

    @property
    def dim(self) -> Dim:
        """As a dimension: an int if it is the same in every probe."""
        return self.values[0] if len(set(self.values)) == 1 else SymDim(self.values, "")

    @property
    def depends_on_data(self) -> bool:
        """Whether it was read from a tensor: whatever it is in the example, it may have any sign."""
        return self.function == "given" or any(isinstance(o, SizeValue) and o.depends_on_data for o in self.operands)

    @staticmethod
    def of(function: Callable[..., Any], *operands: Any) -> SizeValue:
        """A function of numbers, some of which are SizeValues."""
        count = next(len(o.values) for o in operands if isinstance(o, SizeValue))
        columns = [o.values if isinstance(o, SizeValue) else (o,) * count for o in operands]
        return SizeValue(tuple(function(*row) for row in zip(*columns, strict=True)), function, operands)

    def __repr__(self) -> str:
        return f"SizeValue{self.values}"

    def __add__(self, other: Any) -> SizeValue:
        return SizeValue.of(operator.add, self, other)

    def __radd__(self, other: Any) -> SizeValue:
        return SizeValue.of(operator.add, other, self)

    def __sub__(self, other: Any) -> SizeValue:
        return SizeValue.of(operator.sub, self, other)

    def __rsub__(self, other: Any) -> SizeValue:
        return SizeValue.of(operator.sub, other, self)

    def __mul__(self, other: Any) -> SizeValue:
        return SizeValue.of(operator.mul, self, other)

    def __rmul__(self, other: Any) -> SizeValue:
        return SizeValue.of(operator.mul, other, self)

    def __floordiv__(self, other: Any) -> SizeValue:
        return SizeValue.of(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> SizeValue:
        return SizeValue.of(operator.floordiv, other, self)

    def __truediv__(self, other: Any) -> SizeValue:
        return SizeValue.of(operator.truediv, self, other)

    def __neg__(self) -> SizeValue:
        return SizeValue.of(operator.neg, self)


_POLYNOMIAL = frozenset({operator.add, operator.sub, operator.mul, operator.neg, operator.pow, torch.sym_int})
_FORMULAS = _POLYNOMIAL | {operator.floordiv}


def _made_of(functions: frozenset[Any], function: Any, operands: tuple[Any, ...]) -> bool:
    """Whether a number comes from sizes through these functions alone."""
    if function in ("axis", "given"):
        return True
    return function in functions and all(
        _made_of(functions, o.function, o.operands) for o in operands if isinstance(o, SizeValue)
    )


Size = int | SymDim | SizeValue | Value


class Sizes(Core):
    """The part of the emitter that deals in sizes."""

    def __init__(self, opset: int, *, parent: Sizes | None = None) -> None:
        super().__init__(opset, parent=parent)
        self._axes: dict[tuple[int, ...], tuple[Value, int]] = {}  # fingerprint -> the first tensor axis that has it
        self._computed: dict[tuple[int, ...], SizeValue] = {}  # fingerprint -> a number the program computed
        self._doubtful: set[tuple[int, ...]] = set() if parent is None else parent._doubtful

    def _found_axes(self, x: Value) -> None:
        for axis, dim in enumerate(self._session.dims[x]):
            if isinstance(dim, SymDim):
                self._axes.setdefault(dim.values, (x, axis))

    def read_sizes_from(self, x: Value, instead: Value) -> None:
        """Sizes that would be read from x are read from another tensor of its shape, for the sake of runtimes that fuse
        what makes x with what reads it, if nobody else does."""
        for dim in self._session.dims.get(x) or ():
            if isinstance(dim, SymDim) and (found := self._axes.get(dim.values)) is not None and found[0] is x:
                self._axes[dim.values] = (instead, found[1])

    def note_size(self, size: SizeValue) -> None:
        """Remember a number of the program, for dimensions that are made of it."""
        if size.kind is int and _made_of(_FORMULAS, size.function, size.operands):
            self._computed.setdefault(size.values, size)

    def doubt(self, dims: Sequence[Dim], sizes: Sequence[Any]) -> None:
        """Dimensions that an operator makes of min, max or a remainder: what they agree with on the probes they need
        not agree with elsewhere, so numbers of the program are not read from them."""
        if any(isinstance(size, SizeValue) and not _made_of(_FORMULAS, size.function, size.operands) for size in sizes):
            made = {dim.values for dim in dims if isinstance(dim, SymDim)}
            self._doubtful.update(values for values in made if self._axis_of(values) is None)

    # What lowerings ask for

    def like(self, x: Value, value: Any) -> Value:
        """A number of x's dtype, as a 0-d tensor: a constant, or one computed from sizes."""
        if isinstance(value, SizeValue):
            return self.cast(self.scalar(value), self.dtype(x))
        return super().like(x, value)

    def size(self, size: Any) -> Value:
        """A size as an int64 tensor of shape [1] (float64 or bool for a SizeValue of that kind)."""
        return self.shape([size]) if isinstance(size, (int, SymDim)) and not isinstance(size, bool) else self._one(size)

    def scalar(self, size: Any) -> Value:
        """A size as a 0-d tensor."""
        if isinstance(size, (int, float)):
            return self.const(size)
        if isinstance(size, SizeValue) and size.function == "given" and self.dims(size.operands[0]) == ():
            return self.cast(size.operands[0], self._number_dtype(size.operands[0]))
        one = self.size(size)
        return self.annotate(self.node("Squeeze", *self._axes_form("Squeeze", one, [0])), ())

    def shape(self, sizes: Sequence[Any]) -> Value:
        """A 1-D int64 tensor of sizes: ints, SymDims, SizeValues or tensors with one element."""
        pieces: list[Value] = []
        pending: list[int] = []
        run: list[tuple[Value, int]] = []

        def flush() -> None:
            if pending:
                pieces.append(self.const(list(pending), torch.int64))
                pending.clear()
            if run:
                pieces.append(self._shape_part(run[0][0], run[0][1], run[-1][1] + 1))
                run.clear()

        for size in sizes:
            found = self._locate(size)
            if isinstance(found, int):
                if run:
                    flush()
                pending.append(found)
            elif isinstance(found, tuple):
                if pending or (run and (run[-1][0], run[-1][1] + 1) != found):
                    flush()
                run.append(found)
            else:
                flush()
                pieces.append(self._one(found))
        flush()
        if not pieces:
            return self.const_tensor(torch.empty(0, dtype=torch.int64))
        return self.node("Concat", pieces, {"axis": 0})

    def _locate(self, size: Any) -> int | tuple[Value, int] | SizeValue | Value:
        """A size as a number, as an axis of a tensor, or as something to compute."""
        if isinstance(size, Value):
            tensor = self.value_of(size)
            return int(tensor.item()) if tensor is not None and tensor.numel() == 1 else size
        if isinstance(size, SymDim):
            return self._axis_of(size.values) or self._derive(size)
        if isinstance(size, SizeValue):
            if size.kind is not int or not size.exact or size.function == "given":
                return size
            if len(set(size.values)) == 1 and size.function != "given":
                return size.values[0]
            axis = self._axis_of(size.values) if size.values not in self._doubtful else None
            if axis is not None:
                return axis
            return size.operands if size.function == "axis" else size
        return operator.index(size)

    def _axis_of(self, values: tuple[int, ...]) -> tuple[Value, int] | None:
        """The outermost, first tensor axis with this fingerprint: a graph input's if there is one."""
        layers: list[Any] = [self]
        while layers[-1]._parent is not None:
            layers.append(layers[-1]._parent)
        return next((layer._axes[values] for layer in reversed(layers) if values in layer._axes), None)

    def may_be_empty(self, dim: SymDim) -> bool:
        """Whether a dimension is 0 where an axis of an input is 1, as `batch - 1` and `batch // 2` are."""
        axes = self._input_axes()
        return dim.values not in axes and any(_is_empty_at_one(values, dim.values) for values in axes)

    def is_at_hand(self, dim: SymDim) -> bool:
        """Whether some tensor has this dimension, or it is a multiple of an axis of an input."""
        multiples = (line(values, dim.values) for values in self._input_axes())
        return self._axis_of(dim.values) is not None or any(
            slope is not None and slope.denominator == 1 and offset == 0 for slope, offset in multiples
        )

    def _input_axes(self) -> list[tuple[int, ...]]:
        outermost: Any = self
        while outermost._parent is not None:
            outermost = outermost._parent
        return [values for values, (tensor, _) in outermost._axes.items() if tensor.producer() is None]

    def _derive(self, dim: SymDim) -> SizeValue:
        """A dimension that no tensor has, from those that some have: a computed number, or a simple formula."""
        layer: Any = self
        known: dict[tuple[int, ...], SizeValue] = {}
        while layer is not None:
            if dim.values in layer._computed:
                return layer._computed[dim.values]
            known |= {values: SizeValue(values, "axis", axis) for values, axis in layer._axes.items()} | layer._computed
            layer = layer._parent
        for values, size in known.items():
            pairs = list(zip(dim.values, values, strict=True))
            if any(b == 0 for _, b in pairs):
                continue
            if all(a % b == 0 for a, b in pairs) and len({a // b for a, b in pairs}) == 1:
                return size * (pairs[0][0] // pairs[0][1])
            if all(a and b % a == 0 for a, b in pairs) and len({b // a for a, b in pairs}) == 1:
                return size // (pairs[0][1] // pairs[0][0])
            if len({a - b for a, b in pairs}) == 1:
                return size + (pairs[0][0] - pairs[0][1])
        for values, size in known.items():
            quotients = tuple(a // b if b and a % b == 0 else 0 for a, b in zip(dim.values, values, strict=True))
            if quotients in known:
                return size * known[quotients]
            differences = tuple(a - b for a, b in zip(dim.values, values, strict=True))
            if differences in known:
                return size + known[differences]
        return self._derive_product(dim, known)

    def _derive_product(self, dim: SymDim, known: dict[tuple[int, ...], SizeValue]) -> SizeValue:
        """number * size * size, as a flattened [batch, sequence, 4] has it."""
        for left, size in known.items():
            for right, other in known.items():
                spans = [a * b for a, b in zip(left, right, strict=True)]
                if all(span and a % span == 0 for a, span in zip(dim.values, spans, strict=True)):
                    factors = {a // span for a, span in zip(dim.values, spans, strict=True)}
                    if len(factors) == 1:
                        return size * other * factors.pop()
        raise self.unsupported(f"the size {dim.name or dim.values} cannot be computed from sizes that are known here")

    def _shape_part(self, x: Value, start: int, end: int) -> Value:
        """Sizes of consecutive axes."""
        if (start, end) == (0, len(self._session.dims.get(x, ())) or None):
            return self.op.Shape(x)
        if self.opset >= 15:
            return self.op.Shape(x, start=start, end=end)
        whole = self.op.Shape(x)
        if self.opset < 10:
            return self.op.Slice(whole, starts=[start], ends=[end], axes=[0])
        return self.op.Slice(whole, self.const([start]), self.const([end]), self.const([0]))

    def _axes_form(self, op: str, x: Value, axes: Sequence[int]) -> tuple[list[Value | None], dict[str, Any]]:
        """Squeeze and Unsqueeze: axes are an attribute before opset 13, an input since."""
        return ([x], {"axes": list(axes)}) if self.opset < 13 else ([x, self.const(list(axes))], {})

    # Emitting

    def _one(self, size: Any) -> Value:
        """A number as a tensor of shape [1]."""
        if isinstance(size, (bool, int, float)):
            kind = torch.float64 if isinstance(size, float) else None
            return self.const([size], kind)
        if isinstance(size, SymDim):
            return self.shape([size])
        if isinstance(size, Value):
            return self._flat(size)
        found = self._locate(size)
        if isinstance(found, int):
            return self.const([found], torch.int64)
        if isinstance(found, tuple):
            return self._shape_part(found[0], found[1], found[1] + 1)
        if not isinstance(found, SizeValue):
            return self._flat(found)
        if found.function == "given":
            return self._flat(found.operands[0])
        emit = _FUNCTIONS.get(found.function)
        if emit is None:
            raise self.unsupported(f"{found.function} on sizes")
        return emit(self, *found.operands)

    def _flat(self, x: Value) -> Value:
        """A tensor with one element, as int64 (or float64, bool) of shape [1]."""
        wanted = self._number_dtype(x)
        if self.dims(x) != (1,):
            x = self.node("Reshape", [x, self.const([1])])
        return self.cast(x, wanted)

    def _number_dtype(self, x: Value) -> torch.dtype:
        dtype = self.dtype(x)
        return torch.bool if dtype is torch.bool else torch.float64 if dtype.is_floating_point else torch.int64

    def _operands(self, *numbers: Any) -> list[Value]:
        """Numbers of one type: float64 if any is a float, so that big sizes stay exact, else int64."""
        ones = [self._one(number) for number in numbers]
        floats = any(self.dtype(one).is_floating_point for one in ones)
        return [self.cast(one, torch.float64 if floats else torch.int64) for one in ones]

    def _binary(self, op: str, a: Any, b: Any) -> Value:
        return self.node(op, self._operands(a, b))

    def _true_divide(self, a: Any, b: Any) -> Value:
        return self.op.Div(*(self.cast(x, torch.float64) for x in self._operands(a, b)))

    def _floor_divide(self, a: Any, b: Any) -> Value:
        x, y = self._operands(a, b)
        if self.dtype(x).is_floating_point:
            return self.op.Floor(self.op.Div(x, y))
        quotient = self.op.Div(x, y)  # truncates
        if _never_negative(a) and _never_negative(b):
            return quotient
        rest = self.op.Sub(x, self.op.Mul(quotient, y))
        zero = self.const([0])
        opposite = self.op.Less(self.op.Mul(rest, y), zero)  # the remainder has the other sign: one too many
        return self.op.Sub(quotient, self.cast(opposite, torch.int64))

    def _modulo(self, a: Any, b: Any) -> Value:
        x, y = self._operands(a, b)
        if self.opset >= 10 and not self.dtype(x).is_floating_point:
            return self.op.Mod(x, y)
        return self.op.Sub(x, self.op.Mul(self._floor_divide(a, b), y))

    def _power(self, a: Any, b: Any) -> Value:
        x = self._one(a)
        if isinstance(b, int) and 1 <= b <= 4:
            result = x
            for _ in range(b - 1):
                result = self.op.Mul(result, x)
            return result
        integer = not any(self.dtype(v).is_floating_point for v in self._operands(a, b))
        y = self.op.Pow(*(self.cast(v, torch.float64) for v in self._operands(a, b)))
        return self.cast(y, torch.int64) if integer and isinstance(b, int) and b >= 0 else y

    def _rounded(self, op: str | None, a: Any) -> Value:
        """floor, ceil, trunc: an int64 from a float64; an integer is itself."""
        x = self._one(a)
        if self.dtype(x).is_floating_point:
            x = x if op is None else self.node(op, [x])
        return self.cast(x, torch.int64)

    def _compare(self, op: str, a: Any, b: Any, *, negate: bool = False) -> Value:
        x, y = self._operands(a, b)
        if op == "Equal" and self.dtype(x).is_floating_point and self.opset < 11:
            apart = self.op.Or(self.op.Less(x, y), self.op.Greater(x, y))
            return apart if negate else self.op.Not(apart)
        result = self.node(op, [x, y])
        return self.op.Not(result) if negate else result

    def _logical(self, op: str, *numbers: Any) -> Value:
        return self.node(op, [self.cast(self._one(number), torch.bool) for number in numbers])

    def _bitwise(self, op: str, a: Any, b: Any) -> Value:
        """`&`, `|`, `^`: of truth values the logical operator, and bit by bit if a whole number is among them."""
        ones = [self._one(number) for number in (a, b)]
        if all(self.dtype(one) is torch.bool for one in ones):
            return self.node(op, ones)
        whole = [self.cast(one, torch.int64) for one in ones]
        if self.opset >= 18:
            return self.node(f"Bitwise{op}", whole)
        return by_planes(self, whole[0], whole[1], torch.int64, lambda g, x, y: g.node(op, [x, y]))

    def _power_of_two(self, places: Any) -> Value:
        """2 ** places as a whole number, for shifts."""
        if isinstance(places, int):
            return self.const([1 << places])
        table = self.const([1 << place for place in range(63)], torch.int64)
        return self.op.Gather(table, self._one(places), axis=0)

    def _shift_left(self, a: Any, places: Any) -> Value:
        return self.op.Mul(self.cast(self._one(a), torch.int64), self._power_of_two(places))

    def _shift_right(self, a: Any, places: Any) -> Value:
        """Towards minus infinity, as dividing with the floor is."""
        return self._floor_divide(a, self._power_of_two(places))

    def _if_then_else(self, condition: Any, a: Any, b: Any) -> Value:
        return self.op.Where(self.cast(self._one(condition), torch.bool), *self._operands(a, b))


def _never_negative(number: Any) -> bool:
    values = number.values if isinstance(number, SizeValue) else (number,)
    if isinstance(number, SizeValue) and number.depends_on_data:
        return False
    return all(isinstance(value, (int, float)) and value >= 0 for value in values)


def size_of(x: ir.Value, axis: int, values: tuple[int, ...]) -> SizeValue:
    """The size of a tensor along an axis."""
    return SizeValue(values, "axis", (x, axis))


def _round(g: Any, a: Any, digits: int | None = None) -> Value:
    """To the nearest whole number, or to so many digits; the rounding itself is the emitter's."""
    x = g._one(a)
    is_float = g.dtype(x).is_floating_point
    if digits is None or (not is_float and digits >= 0):
        return g.cast(g.round(x), torch.int64)
    x = g.cast(x, torch.float64)
    scale = g.const([10.0 ** abs(digits)], torch.float64)
    if digits >= 0:
        return g.op.Div(_nearest_of_product(g, x, 10**digits), scale)
    tens = g.op.Mul(g.round(g.op.Div(x, scale)), scale)
    return tens if is_float else g.cast(tens, torch.int64)


def _nearest_of_product(g: Any, x: Value, scale: int) -> Value:
    """The whole number nearest to x * scale, by the exact product: 0.15 * 10 is below 1.5, and its float64 is not.

    Where the product in float64 is halfway between two whole numbers, what it lacks decides (Dekker's product).
    """
    product = g.op.Mul(x, g.const([float(scale)], torch.float64))
    many = g.op.Mul(x, g.const([134217729.0], torch.float64))  # 2**27 + 1 parts 53 bits in halves
    high = g.op.Sub(many, g.op.Sub(many, x))
    low = g.op.Sub(x, high)
    upper = float(scale >> 27 << 27)
    lower = float(scale) - upper
    parts = [(high, upper), (high, lower), (low, upper), (low, lower)]
    terms = [g.op.Mul(part, g.const([factor], torch.float64)) for part, factor in parts]
    lacking = g.op.Sub(terms[0], product)
    for term in terms[1:]:
        lacking = g.op.Add(lacking, term)
    below = g.op.Floor(product)
    is_halfway = g.equal(g.op.Sub(product, below), g.const([0.5], torch.float64))
    zero = g.const([0.0], torch.float64)
    above = g.op.Add(below, g.const([1.0], torch.float64))
    decided = g.where(g.op.Greater(lacking, zero), above, g.where(g.op.Less(lacking, zero), below, g.round(product)))
    return g.where(is_halfway, decided, g.round(product))


_FUNCTIONS: dict[Any, Callable[..., Value]] = {
    operator.add: lambda g, a, b: g._binary("Add", a, b),
    operator.sub: lambda g, a, b: g._binary("Sub", a, b),
    operator.mul: lambda g, a, b: g._binary("Mul", a, b),
    operator.truediv: Sizes._true_divide,
    operator.floordiv: Sizes._floor_divide,
    operator.mod: Sizes._modulo,
    operator.pow: Sizes._power,
    operator.neg: lambda g, a: g.op.Neg(g._one(a)),
    operator.abs: lambda g, a: g.op.Abs(g._one(a)),
    builtins.abs: lambda g, a: g.op.Abs(g._one(a)),
    operator.eq: lambda g, a, b: g._compare("Equal", a, b),
    operator.ne: lambda g, a, b: g._compare("Equal", a, b, negate=True),
    operator.lt: lambda g, a, b: g._compare("Less", a, b),
    operator.gt: lambda g, a, b: g._compare("Greater", a, b),
    operator.le: lambda g, a, b: g._compare("Greater", a, b, negate=True),
    operator.ge: lambda g, a, b: g._compare("Less", a, b, negate=True),
    operator.and_: lambda g, a, b: g._bitwise("And", a, b),
    operator.or_: lambda g, a, b: g._bitwise("Or", a, b),
    operator.xor: lambda g, a, b: g._bitwise("Xor", a, b),
    operator.invert: lambda g, a: g.op.Sub(g.const([-1]), g.cast(g._one(a), torch.int64)),
    operator.lshift: Sizes._shift_left,
    operator.rshift: Sizes._shift_right,
    operator.not_: lambda g, a: g._logical("Not", a),
    torch.sym_not: lambda g, a: g._logical("Not", a),
    torch.sym_max: lambda g, a, b: g._binary("Max", a, b),
    torch.sym_min: lambda g, a, b: g._binary("Min", a, b),
    builtins.max: lambda g, a, b: g._binary("Max", a, b),
    builtins.min: lambda g, a, b: g._binary("Min", a, b),
    torch.sym_int: lambda g, a: g._rounded(None, a),
    torch.sym_float: lambda g, a: g.cast(g._one(a), torch.float64),
    torch.sym_ite: Sizes._if_then_else,
    math.floor: lambda g, a: g._rounded("Floor", a),
    math.ceil: lambda g, a: g._rounded("Ceil", a),
    math.trunc: lambda g, a: g._rounded(None, a),
    math.sqrt: lambda g, a: g.op.Sqrt(g.cast(g._one(a), torch.float64)),
    builtins.int: lambda g, a: g._rounded(None, a),
    builtins.float: lambda g, a: g.cast(g._one(a), torch.float64),
    builtins.round: _round,
}
if hasattr(torch, "_sym_sqrt"):
    _FUNCTIONS[torch._sym_sqrt] = _FUNCTIONS[math.sqrt]


def is_size_function(function: Any) -> bool:
    """Whether a node of the program is arithmetic on sizes."""
    try:
        return function in _FUNCTIONS
    except TypeError:
        return False


def size_functions() -> tuple[Any, ...]:
    """Every function that arithmetic on sizes is made of."""
    return tuple(_FUNCTIONS)


__all__ = ["Size", "SizeValue", "Sizes", "is_size_function", "size_functions", "size_of"]


def _is_empty_at_one(axis: tuple[int, ...], values: tuple[int, ...]) -> bool:
    """Whether sizes follow an axis by a line, or by a quotient as a step makes it, that is 0 where the axis is 1."""
    slope, offset = line(axis, values)
    if slope is not None and slope.denominator == 1:
        return slope + offset <= 0
    return any(
        (1 + more) // step <= 0
        and all((size + more) // step == value for size, value in zip(axis, values, strict=True))
        for step in range(2, _LARGEST_STEP + 1)
        for more in range(-step, step)
    )
