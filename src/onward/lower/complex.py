"""Complex numbers, which ONNX has types for and no operators: every complex tensor is two real ones.

Between the operators of a program a complex value is a `Complex`: its real and its imaginary part, kept apart, as that
is what arithmetic needs. Where it has to be one tensor (inputs and outputs of the model, what loops and branches hand
over, `view_as_real`, the DFT operator), it is a pair: a real tensor with a last axis of 2. `split` and `join` lead from
one to the other, and undo each other without a trace.

    x: complex64[batch, 8]      x: float32[batch, 8, 2]       x.real = Gather(x, 0, axis=-1)
    y = x * 2j                                                 x.imag = Gather(x, 1, axis=-1)   ...

An operator of complex numbers gets its lowering from `complex_registry`:

    @lowers_complex(aten.mul.Tensor)            written out: gets Complex, Value or number, returns Complex or Value
    by_parts(aten.view.default, ...)            the lowering for real numbers, on either part
    bilinear(aten.mm.default, ...)              the same on products of parts
    real_only(aten.ones.default, ...)           the same, and there is no imaginary part

An operator that has none of these is decomposed by PyTorch's rules, even if it has a lowering for real numbers. One
that makes complex numbers of real ones (`aten.polar`) has an ordinary lowering that returns a Complex.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onward.capture.program.facts import TensorFact
from onward.lower import registry as registries
from onward.lower.emitter import Emitter, SizeValue, Value
from onward.lower.registry import complex_registry


@dataclass(frozen=True, slots=True, eq=False)
class Complex:
    """A complex tensor. No imaginary part: it is zero everywhere, and nothing has been emitted for it."""

    real: Value
    imag: Value | None = None

    @property
    def parts(self) -> tuple[Value, ...]:
        return (self.real,) if self.imag is None else (self.real, self.imag)


Operand = Complex | Value | SizeValue | int | float | bool | complex


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type of the parts of a complex number; other types are their own."""
    return dtype.to_real() if dtype.is_complex else dtype


def real_fact(fact: Any) -> Any:
    """What is known of either part."""
    if isinstance(fact, (tuple, list)):
        return type(fact)(map(real_fact, fact))
    return TensorFact(real_dtype(fact.dtype), fact.shape) if isinstance(fact, TensorFact) else fact


def pair_fact(fact: Any) -> Any:
    """What is known of a value as one tensor: a complex one has one more axis there."""
    if not isinstance(fact, TensorFact) or not fact.dtype.is_complex:
        return fact
    return TensorFact(real_dtype(fact.dtype), (*fact.shape, 2))


def split(g: Emitter, pair: Value) -> Complex:
    """A tensor with a last axis of 2 as a complex one."""
    real, imag = (g.op.Gather(pair, g.const(place), axis=g.rank(pair) - 1) for place in (0, 1))
    return Complex(real, imag)


def join(g: Emitter, z: Complex) -> Value:
    """A complex tensor as one with a last axis of 2."""
    axis, parts = g.rank(z.real), (z.real, imag_of(g, z))
    pair = _split_from(g, *parts)
    return g.op.Concat(*(g.unsqueeze(part, [axis]) for part in parts), axis=axis) if pair is None else pair


def _split_from(g: Emitter, real: Value, imag: Value) -> Value | None:
    """The pair whose parts these are, if they were just taken from one."""
    makers = [part.producer() for part in (real, imag)]
    sources = set()
    for place, maker in enumerate(makers):
        if maker is None or maker.op_type != "Gather" or maker.domain != "":
            return None
        source, index = maker.inputs
        position = g.value_of(index)
        if source is None or position is None or position.dim() or int(position) != place:
            return None
        if g.dims(source) is None or maker.attributes["axis"].as_int() != g.rank(source) - 1:
            return None
        sources.add(source)
    only = sources.pop() if len(sources) == 1 else None
    return only if only is not None and g.known_dims(only)[-1] == 2 else None


def constant(g: Emitter, tensor: torch.Tensor, name: str | None) -> Complex:
    """A complex constant: two views of its memory."""
    plain = tensor.detach().resolve_conj()
    return Complex(*(g.const_tensor(part, name and f"{name}.{kind}") for kind, part in _views(plain)))


def _views(tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    return [("real", tensor.real.resolve_neg()), ("imag", tensor.imag.resolve_neg())]


def imag_of(g: Emitter, z: Complex) -> Value:
    """The imaginary part, made if there is none."""
    if z.imag is not None:
        return z.imag
    return g.annotate(g.expand(g.like(z.real, 0), g.known_dims(z.real)), g.dims(z.real))


def lift(g: Emitter, value: Operand, dtype: torch.dtype | None = None) -> Complex:
    """Anything as a complex tensor with parts of this type: by default, of that of the result."""
    kind = real_dtype(g.out_dtype if dtype is None else dtype)
    if isinstance(value, Complex):
        return Complex(g.cast(value.real, kind), None if value.imag is None else g.cast(value.imag, kind))
    if isinstance(value, complex):
        return Complex(g.const(value.real, kind), g.const(value.imag, kind) if value.imag else None)
    return Complex(g.as_value(value, kind))


def as_pair(g: Emitter, value: Any) -> Any:
    """A Complex as one tensor, anything else as it is; also in lists."""
    if isinstance(value, (list, tuple)):
        return type(value)(as_pair(g, each) for each in value)
    return join(g, value) if isinstance(value, Complex) else value


def from_pair(g: Emitter, value: Value, fact: Any) -> Complex | Value:
    """What a value of the graph stands for, by what capture saw: a pair, or a real tensor in place of a complex one."""
    if not isinstance(fact, TensorFact) or not fact.dtype.is_complex:
        return value
    return split(g, value) if g.rank(value) == fact.rank + 1 else Complex(value)


# Rules


@contextlib.contextmanager
def _real_facts(g: Emitter) -> Iterator[None]:
    """Inside, `g.out` is what capture would have seen of one part."""
    session = g._session
    place = session.place
    session.place = dataclasses.replace(place, fact=real_fact(place.fact))
    try:
        yield
    finally:
        session.place = place


def lower_real(g: Emitter, op: Any, args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> Any:
    """What the lowering for real numbers makes of these arguments."""
    lowering = registries.registry.find(op, g.opset)
    if lowering is None:
        raise g.needs_opset(min(registries.registry.available_since(op)))
    positional, named = lowering.bind(op, args, kwargs or {})
    with _real_facts(g):
        return lowering.function(g, *positional, **named)


class _Part:
    """The arguments of an operator, reduced to one part: `place` 0 the real one, 1 the imaginary one."""

    def __init__(self, g: Emitter, op: torch._ops.OpOverload, place: int) -> None:
        self._g, self._place = g, place
        schema = op._schema.arguments
        self._scalars = {each.name for each in schema if isinstance(each.type, torch.NumberType)}
        self._names = [each.name for each in schema if not each.kwarg_only]

    def arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        of = [self._of(name, value) for name, value in zip(self._names, args, strict=False)]
        return of, {name: self._of(name, value) for name, value in kwargs.items()}

    def _of(self, name: str, value: Any) -> Any:
        if name == "alpha":
            if isinstance(value, complex):
                raise self._g.unsupported("a complex alpha")
            return value
        if isinstance(value, (list, tuple)):
            return [self._of(name, each) for each in value]
        if isinstance(value, Complex):
            return imag_of(self._g, value) if self._place else value.real
        if isinstance(value, complex):
            return value.imag if self._place else value.real
        if isinstance(value, torch.dtype):
            return real_dtype(value)
        if self._place and name in self._scalars and isinstance(value, (bool, int, float, SizeValue)):
            return 0
        if self._place and isinstance(value, Value) and self._g.dtype(value).is_floating_point:
            return imag_of(self._g, Complex(value))  # indices and masks are for both parts, other numbers are data
        return value


def by_parts(*ops: Any, data: Sequence[int] = ()) -> None:
    """Operators that do the same to either part. Arguments at `data` are complex even if they are given as reals of any
    type, as in `where(mask, x, 1)`."""
    for op in ops:
        complex_registry.register(op, _by_parts(op, data))


def _by_parts(op: Any, data: Sequence[int]) -> Callable[..., Any]:
    def apply(g: Emitter, *args: Any, **kwargs: Any) -> Any:
        given = [_lifted(g, value) if place in data else value for place, value in enumerate(args)]
        imaginary = _has_imaginary([*given, *kwargs.values()])
        results = []
        for place in (0, 1) if imaginary else (0,):
            part_args, part_kwargs = _Part(g, op, place).arguments(given, kwargs)
            results.append(lower_real(g, op, part_args, part_kwargs))
        return _combined(*results)

    return apply


def _lifted(g: Emitter, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_lifted(g, each) for each in value]
    return lift(g, value) if isinstance(value, (Complex, Value)) else value


def _has_imaginary(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_imaginary, value))
    return isinstance(value, complex) or (isinstance(value, Complex) and value.imag is not None)


def _combined(real: Any, imag: Any = None) -> Any:
    if isinstance(real, (list, tuple)):
        return list(map(_combined, real, imag or [None] * len(real)))
    return real if real is None else Complex(real, imag)


def real_only(*ops: Any) -> None:
    """Operators whose result has no imaginary part, whatever goes in."""
    for op in ops:
        complex_registry.register(op, _real_only(op))


def _real_only(op: Any) -> Callable[..., Any]:
    def apply(g: Emitter, *args: Any, **kwargs: Any) -> Any:
        return _combined(lower_real(g, op, *_Part(g, op, 0).arguments(args, kwargs)))

    return apply


def bilinear(*ops: Any, operands: tuple[int, int] = (0, 1), bias: int | None = None) -> None:
    """Operators that are linear in two operands each: (a + bi)(c + di) is (ac - bd) + (ad + bc)i. The argument `bias`
    is added to the result by the operator itself."""
    for op in ops:
        complex_registry.register(op, product(op, operands, bias))


def product(op: Any, operands: tuple[int, int] = (0, 1), bias: int | None = None) -> Callable[..., Complex]:
    """The lowering of a bilinear operator."""

    def apply(g: Emitter, *args: Any, **kwargs: Any) -> Complex:
        first, second = (lift(g, args[place]) for place in operands)
        added = Complex(None) if bias is None or args[bias] is None else lift(g, args[bias])  # type: ignore[arg-type]
        if added.imag is not None:
            second = Complex(second.real, imag_of(g, second))

        def of_parts(left: Value, right: Value, plus: Value | None = None) -> Value:
            given = list(args)
            given[operands[0]], given[operands[1]] = left, right
            if bias is not None:
                given[bias] = plus
            return lower_real(g, op, given, kwargs)

        real, imag = of_parts(first.real, second.real, added.real), None
        if second.imag is not None:
            imag = of_parts(first.real, second.imag, added.imag)
        if first.imag is not None:
            crossed = of_parts(first.imag, second.real)
            imag = crossed if imag is None else g.op.Add(imag, crossed)
        if first.imag is not None and second.imag is not None:
            real = g.op.Sub(real, of_parts(first.imag, second.imag))
        return Complex(real, imag)

    return apply


def lowers_complex(
    *ops: Any, since: int = registries.FIRST_OPSET
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the lowering of operators where complex numbers go in, for opsets from `since` on."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for op in ops:
            complex_registry.register(op, function, since)
        return function

    return decorate


def family(module: Any, *, without: Sequence[Any] = ()) -> list[Any]:
    """The operators that a file of lowerings is about, but for some."""
    found = [_overload(key) for key in registries.registry.made_in(module.__name__)]
    return [op for op in found if op not in without]


def _overload(key: str) -> Any:
    namespace, name = key.split("::")
    packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)
