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

from onward.capture.program.facts import Dim, SymDim, bit_length
from onward.lower.core import Core, Value
from onward.lower.integer_bits import by_planes


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
        example, *others = zip(*columns, strict=True)
        first = function(*example)
        return SizeValue((first, *(_or(first, function, row) for row in others)), function, operands)

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


def _or(otherwise: Any, function: Callable[..., Any], row: tuple[Any, ...]) -> Any:
    """A function's value, or another one at a point where it has none: a division by a count that may be 0."""
    try:
        return function(*row)
    except (ArithmeticError, ValueError):
        return otherwise


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
                return size.operands if size.function == "axis" else size
            if len(set(size.values)) == 1:
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
        """Whether a dimension may be 0 though no axis of an input is, as `batch - 1` and `batch // 2` are."""
        return 0 in dim.values

    def is_at_hand(self, dim: SymDim) -> bool:
        """Whether some tensor has this dimension, or it can be computed from those that tensors have."""
        return self._axis_of(dim.values) is not None or self._derived(dim) is not None

    def _derive(self, dim: SymDim) -> SizeValue:
        """A dimension that no tensor has, from those that some have: a computed number, or a simple formula."""
        found = self._derived(dim)
        if found is None:
            raise self.unsupported(f"the size {dim.name or dim.values[0]} cannot be computed from sizes known here")
        return found

    def _derived(self, dim: SymDim) -> SizeValue | None:
        known = self._known_sizes()
        if dim.values in known:
            return known[dim.values]
        found = self._as_multiple(dim, known)
        if found is not None:
            return found
        for values, size in known.items():
            difference = dim.values[0] - values[0]
            if all(a - b == difference for a, b in zip(dim.values, values, strict=True)):
                return size + difference
        for values, size in known.items():
            differences = tuple(a - b for a, b in zip(dim.values, values, strict=True))
            if differences in known:
                return size + known[differences]
        return self._derive_product(dim, known)

    def _known_sizes(self) -> dict[tuple[int, ...], SizeValue]:
        """The axes of tensors, and the numbers that the program computed, inside and around a body."""
        layer: Any = self
        known: dict[tuple[int, ...], SizeValue] = {}
        while layer is not None:
            known |= {values: SizeValue(values, "axis", axis) for values, axis in layer._axes.items()} | layer._computed
            layer = layer._parent
        return known

    def _as_multiple(self, dim: SymDim, known: dict[tuple[int, ...], SizeValue]) -> SizeValue | None:
        """A multiple or a part of a size that is known. Either may be 0 at some sizes of the inputs."""
        for values, size in known.items():
            if (factor := _factor(dim.values, values)) is not None:
                return size * factor
            if (factor := _factor(values, dim.values)) is not None:
                return size // factor
        return None

    def _derive_product(self, dim: SymDim, known: dict[tuple[int, ...], SizeValue]) -> SizeValue | None:
        """number * size * size, as a flattened [batch, sequence, 4] has it."""
        for left, size in known.items():
            for right, other in known.items():
                if dim.values[0] % (left[0] * right[0] or 1) == 0:
                    factor = _factor(dim.values, tuple(a * b for a, b in zip(left, right, strict=True)))
                    if factor is not None:
                        return size * other if factor == 1 else size * other * factor
        return None

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
        return self.cast(y, torch.int64) if integer and _never_negative(b) else y

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
    size = SizeValue(values, "axis", (x, axis))
    if len(set(values)) == 1:  # as long as a diagonal: the same in every probe, and less at smaller sizes
        size.exact = False
    return size


def _logarithm(g: Any, a: Any, base: float) -> Value:
    """log2 and log10 are exact where the answer is whole: a quotient of logarithms may be a little less."""
    x = g.cast(g._one(a), torch.float64)
    quotient = g.op.Div(g.op.Log(x), g.const([math.log(base)], torch.float64))
    whole = g.round(quotient)
    power = g.op.Pow(g.const([base], torch.float64), whole)
    return g.where(g.equal(g.round(power), x), whole, quotient)


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
    math.isqrt: lambda g, a: g._rounded("Floor", SizeValue.of(math.sqrt, a)),
    math.exp: lambda g, a: g.op.Exp(g.cast(g._one(a), torch.float64)),
    math.log: lambda g, a: g.op.Log(g.cast(g._one(a), torch.float64)),
    math.sin: lambda g, a: g.op.Sin(g.cast(g._one(a), torch.float64)),
    math.cos: lambda g, a: g.op.Cos(g.cast(g._one(a), torch.float64)),
    math.log2: lambda g, a: _logarithm(g, a, 2.0),
    math.log10: lambda g, a: _logarithm(g, a, 10.0),
    bit_length: lambda g, a: g.reduce(
        "ReduceSum",
        g.cast(
            g.op.Not(g.op.Less(g.op.Abs(g._one(a)), g.const([1 << n for n in range(63)], torch.int64))), torch.int64
        ),
        [0],
        True,
    ),
    builtins.int: lambda g, a: g._rounded(None, a),
    builtins.float: lambda g, a: g.cast(g._one(a), torch.float64),
    builtins.round: _round,
}
if hasattr(torch, "_sym_sqrt"):
    _FUNCTIONS[torch._sym_sqrt] = _FUNCTIONS[math.sqrt]


def _factor(values: tuple[Any, ...], of: tuple[Any, ...]) -> int | None:
    """The whole number of times that sizes are others."""
    first = next((place for place, size in enumerate(of) if size), None)
    if first is None or values[first] % of[first] or not values[first]:
        return None
    factor: int = values[first] // of[first]
    return factor if all(a == factor * b for a, b in zip(values, of, strict=True)) else None


def number(g: Any, function: Any, *operands: Any) -> Value:
    """A function of sizes as a tensor of shape [1]; its operands may be such tensors themselves."""
    return _FUNCTIONS[function](g, *operands)


def is_size_function(function: Any) -> bool:
    """Whether a node of the program is arithmetic on sizes."""
    try:
        return function in _FUNCTIONS
    except TypeError:
        return False


def size_functions() -> tuple[Any, ...]:
    """Every function that arithmetic on sizes is made of."""
    return tuple(_FUNCTIONS)


__all__ = ["Size", "SizeValue", "Sizes", "is_size_function", "number", "size_functions", "size_of"]
