"""Functions of one number, arithmetic, comparisons, truth values and activations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
import torch.nn.functional as F
from torch import Tensor

from .call_sizes import CallSizes
from .dimension_math import Operands
from .record import Record, find, record, register
from .seen_node import SeenNode, maker
from .shared_rules import Counted, KeepsSize, first_of_one
from .unsigned_integers import widened

# Functions of one number


class Unary(KeepsSize):
    """A function of each element. Some are not folded: constants of models rarely meet them."""

    is_elementwise = True

    def __init__(
        self, function: Callable[[Tensor], Tensor] | None = None, flops: int | None = 1, *, folds: bool = True
    ) -> None:
        if function is not None:
            self.evaluate = _of_one(function)
        super().__init__(flops)
        self.can_fold &= folds


def _of_one(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    @widened
    def run(x: Tensor) -> Tensor:
        return function(x)

    return run


_FOLDED: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": torch.abs, "Ceil": torch.ceil, "Cos": torch.cos, "Erf": torch.erf, "Exp": torch.exp, "Floor": torch.floor,
    "IsNaN": torch.isnan, "Log": torch.log, "Neg": torch.neg, "Reciprocal": torch.reciprocal, "Relu": torch.relu,
    "Round": torch.round, "Sigmoid": torch.sigmoid, "Sign": torch.sign, "Sin": torch.sin, "Sqrt": torch.sqrt,
    "Tanh": torch.tanh,
}  # fmt: skip
for _name, _function in _FOLDED.items():
    register(Unary(_function), _name)

_NOT_FOLDED: dict[str, Callable[[Tensor], Tensor]] = {
    "Acos": torch.acos, "Acosh": torch.acosh, "Asin": torch.asin, "Asinh": torch.asinh, "Atan": torch.atan,
    "Atanh": torch.atanh, "BitwiseNot": torch.bitwise_not, "Cosh": torch.cosh, "Sinh": torch.sinh,
    "Softsign": F.softsign, "Tan": torch.tan,
}  # fmt: skip
for _name, _function in _NOT_FOLDED.items():
    register(Unary(_function, folds=False), _name)

register(Unary(F.softplus, 2, folds=False), "Softplus")
register(Unary(F.hardswish, 4, folds=False), "HardSwish")
register(Unary(F.mish, 4, folds=False), "Mish")

# The backend has the functions of these, which need more than their input.
register(Unary(), "Elu", "IsInf", "ThresholdedRelu")
register(Unary(flops=2), "Celu", "HardSigmoid", "LeakyRelu", "PRelu", "Selu", "Shrink", "Swish")
register(Unary(flops=5), "Gelu")


@record("Not")
class Not(Unary):
    """The opposite of a truth value; the opposite of the opposite is the value itself."""

    def __init__(self) -> None:
        super().__init__(torch.logical_not)

    def repeats(self, node: SeenNode) -> ir.Value | None:
        inner = maker(node.inputs[0], "Not")
        return inner.inputs[0] if inner is not None else None


@record("Clip")
class Clip(KeepsSize):
    """Elements between two bounds. The upper bound wins where the two cross, as in PyTorch."""

    is_elementwise = True
    scalars = ("min", "max")

    @staticmethod
    @widened
    def evaluate(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
        if min is None and max is None:
            return x
        if not isinstance(min, Tensor) and not isinstance(max, Tensor):
            return torch.clamp(x, min, max)
        if min is not None:
            x = torch.maximum(x, torch.as_tensor(min, dtype=x.dtype, device=x.device))
        return x if max is None else torch.minimum(x, torch.as_tensor(max, dtype=x.dtype, device=x.device))


# Functions of several numbers


class Broadcasting(Record):
    """The inputs are broadcast against each other."""

    is_elementwise = True

    def dimensions(self, operands: Operands) -> Any:
        return None if None in operands.shapes else operands.broadcast(*operands.shapes)


def broadcasts(op: str) -> bool:
    """Whether an operator of ONNX's own broadcasts all of its inputs against each other."""
    return isinstance(find(op), Broadcasting)


class Binary(Counted, Broadcasting):
    """A function of two numbers. Before opset 7, the second operand was fitted to an axis of the first if asked for."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor] | None = None, *, folds: bool = True) -> None:
        if function is not None:
            self.evaluate = with_old_broadcasting(function)
        super().__init__()
        self.can_fold &= folds


def fitted(x: Tensor, y: Tensor, axis: int | None) -> Tensor:
    """The second operand with more axes at the end, so that it starts at an axis of the first."""
    if axis is None or y.dim() == 0:
        return y
    start = axis % x.dim()
    return y.reshape(*y.shape, *[1] * (x.dim() - start - y.dim()))


def with_old_broadcasting(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """A function of two tensors that also takes the attributes of opset 6."""

    @widened
    def run(x: Tensor, y: Tensor, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
        return function(x, fitted(x, y, axis) if broadcast else y)

    return run


for _name, _pair in {
    "And": torch.logical_and, "Greater": torch.gt, "GreaterOrEqual": torch.ge, "Less": torch.lt,
    "LessOrEqual": torch.le, "Or": torch.logical_or, "Xor": torch.logical_xor,
}.items():  # fmt: skip
    register(Binary(_pair), _name)

for _name, _pair in {
    "BitwiseAnd": torch.bitwise_and, "BitwiseOr": torch.bitwise_or, "BitwiseXor": torch.bitwise_xor,
}.items():  # fmt: skip
    register(Binary(_pair, folds=False), _name)
register(Binary(), "BitShift")


@record("Equal")
class Equal(Binary):
    """Whether numbers, truth values or strings are equal."""

    _of_tensors = staticmethod(with_old_broadcasting(torch.eq))

    @staticmethod
    def evaluate(x: Any, y: Any, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
        if isinstance(x, np.ndarray):  # strings
            return torch.from_numpy(np.asarray(x == y, dtype=bool))
        return Equal._of_tensors(x, y, axis=axis, broadcast=broadcast)


class Neutral(Binary):
    """Arithmetic with a number that changes nothing: x + 0 and 0 + x, x - 0, x * 1 and 1 * x, x / 1."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], number: int, *, either: bool) -> None:
        self._number, self._either = number, either
        super().__init__(function)

    def repeats(self, node: SeenNode) -> ir.Value | None:
        x, y = node.inputs
        if _is_neutral(node, x, y, self._number):
            return x
        return y if self._either and _is_neutral(node, y, x, self._number) else None


def _is_neutral(node: SeenNode, x: ir.Value | None, scalar: ir.Value | None, number: int) -> bool:
    """Whether the other operand is this number, of the same type, and gives the result no more axes."""
    if node.opset < 7 or node.numbers(scalar) != [number] or x is None:
        return False
    if node.element_type(x) is None or node.element_type(x) != node.element_type(scalar):
        return False
    rank, dims = len(node.dims(scalar) or ()), node.dims(x)
    return rank == 0 or (dims is not None and len(dims) >= rank)


def _divided(x: Tensor, y: Tensor) -> Tensor:
    return x / y if x.is_floating_point() or x.is_complex() else torch.div(x, y, rounding_mode="trunc")


register(Neutral(torch.add, 0, either=True), "Add")
register(Neutral(torch.sub, 0, either=False), "Sub")
register(Neutral(torch.mul, 1, either=True), "Mul")


def _has_zero(y: Tensor) -> bool:
    return not y.is_floating_point() and bool((y == 0).any())


@record("Div")
class Div(Neutral):
    """Integers are divided towards zero. Those that are divided by zero are for the runtime to refuse."""

    def __init__(self) -> None:
        super().__init__(_divided, 1, either=False)

    def fold(self, inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        return None if _has_zero(inputs[1]) else super().fold(inputs, attributes, opset)


@record("Mod")
class Mod(Binary):
    """The remainder with the sign of the divisor, or of the dividend with `fmod`."""

    @staticmethod
    @widened
    def evaluate(x: Tensor, y: Tensor, *, fmod: int = 0) -> Tensor:
        return torch.fmod(x, y) if fmod else torch.remainder(x, y)

    def fold(self, inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        return None if _has_zero(inputs[1]) else super().fold(inputs, attributes, opset)


def _power(x: Tensor, y: Tensor, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
    y = fitted(x, y, axis) if broadcast else y
    if x.is_floating_point() or y.is_floating_point():
        wide = torch.promote_types(x.dtype, y.dtype)
        return torch.pow(x.to(wide), y.to(wide)).to(x.dtype)
    return torch.pow(x.to(torch.int64), y.to(torch.int64)).to(x.dtype)


@record("Pow")
class Pow(Neutral):
    """A power, of the type of its base. An integer to a power that is none is for the runtime."""

    def __init__(self) -> None:
        super().__init__(torch.pow, 1, either=False)
        self.evaluate = _power

    def fold(self, inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        x, y = inputs
        if not x.is_floating_point() and (y.is_floating_point() or bool((y < 0).any())):
            return None
        return super().fold(inputs, attributes, opset)


@record("Where")
class Where(Broadcasting):
    """One of two values by a condition: a choice, and no arithmetic."""

    @staticmethod
    @widened
    def evaluate(condition: Any, x: Any, y: Any) -> Any:
        if isinstance(x, np.ndarray):
            return np.where(condition.numpy(), x, y)
        return torch.where(condition, x, y)

    def flops(self, call: CallSizes) -> int | None:
        return 0


class Variadic(Broadcasting):
    """A function of any number of operands, one after the other."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor] | None = None) -> None:
        if function is not None:
            self.evaluate = _of_several(function)
        super().__init__()

    def repeats(self, node: SeenNode) -> ir.Value | None:
        return first_of_one(node)

    def flops(self, call: CallSizes) -> int | None:
        return (len(call.node.inputs) - 1) * call.given()


def _of_several(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    @widened
    def run(*xs: Tensor) -> Tensor:
        return functools.reduce(function, xs)

    return run


register(Variadic(torch.maximum), "Max")
register(Variadic(torch.minimum), "Min")
register(Variadic(torch.add), "Sum")


@record("Mean")
class Mean(Variadic):
    """The sum of the operands by their number."""

    def flops(self, call: CallSizes) -> int | None:
        return len(call.node.inputs) * call.given()


# What is computed along axes, without changing sizes

register(KeepsSize(1, reads=True), "CumSum")
register(KeepsSize(1), "Hardmax")
register(KeepsSize(5), "LogSoftmax", "Softmax")  # a maximum, a difference, an exponential, a sum and a quotient
