"""Products of tensors along whatever axes: products of matrices, with the axes moved to where these have them."""

from __future__ import annotations

import functools
import string
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..run.handlers import handles
from ..run.session import QuantSession


@handles(torch.einsum)
def einsum(session: QuantSession, func: Any, equation: Any, *operands: Any) -> Any:
    """Two operands at a time, from the left. A letter twice in one of them is a diagonal: that stays in float."""
    tensors = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if not isinstance(equation, str):
        return NotImplemented
    inputs, _, result = _spelled_out(equation.replace(" ", ""), tensors).partition("->")
    parts = inputs.split(",")
    if any(len(set(each)) != len(each) for each in (*parts, result)):
        return NotImplemented
    if [len(each) for each in parts] != [each.dim() for each in tensors] or _stretches(parts, tensors, result):
        return NotImplemented
    return session.composed(lambda: _contracted(parts, tensors, result))


@handles(F.bilinear)
def bilinear(
    session: QuantSession, func: Any, input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Any:
    """A linear layer of the first input gives a matrix for each row, which the second is multiplied with."""
    if any(each.dtype is not torch.float32 for each in (input1, input2, weight)):
        return NotImplemented
    y = session.again(torch.einsum, "...i,kij,...j->...k", input1, weight, input2)
    return y if bias is None else session.again(torch.add, y, bias)


@handles(torch.tensordot)
def tensordot(session: QuantSession, func: Any, a: Tensor, b: Tensor, dims: Any = 2) -> Any:
    if isinstance(dims, int):
        dims = list(range(a.dim() - dims, a.dim())), list(range(dims))
    if not isinstance(dims, (list, tuple)) or not all(isinstance(each, (list, tuple)) for each in dims):
        return NotImplemented
    return session.composed(lambda: _along(a, b, *dims))


@handles(torch.inner, Tensor.inner)
def inner(session: QuantSession, func: Any, input: Tensor, other: Tensor) -> Any:
    if 0 in (input.dim(), other.dim()):
        return session.again(torch.mul, input, other)
    return session.composed(lambda: _along(input, other, [-1], [-1]))


@handles(torch.linalg.vecdot)
def vecdot(session: QuantSession, func: Any, x: Tensor, y: Tensor, *, dim: int = -1) -> Any:
    if x.dtype is not torch.float32:
        return NotImplemented
    moved = session.composed(lambda: [each.movedim(dim, -1) for each in (x, y)])
    return session.again(torch.einsum, "...i,...i->...", *moved)


@handles(torch.outer, Tensor.outer, torch.ger, Tensor.ger)
def outer(session: QuantSession, func: Any, input: Tensor, vec2: Tensor) -> Any:
    return session.composed(lambda: input.unsqueeze(-1) * vec2)


@handles(torch.linalg.multi_dot)
def multi_dot(session: QuantSession, func: Any, tensors: Sequence[Tensor]) -> Any:
    return session.composed(lambda: functools.reduce(torch.matmul, tensors))


@handles(torch.chain_matmul)
def chain_matmul(session: QuantSession, func: Any, *matrices: Tensor) -> Any:
    return multi_dot(session, func, matrices)


def _spelled_out(equation: str, tensors: Any) -> str:
    """The equation with every axis as a letter, and with its result. `...` becomes letters; the last of these are the
    same in all operands. An equation without a result means the letters that occur once, in the order of the
    alphabet."""
    inputs, arrow, result = equation.partition("->")
    parts = inputs.split(",")
    if not arrow:
        once = sorted(each for each in set(inputs) if each.isalpha() and inputs.count(each) == 1)
        result = "".join(["..." * ("..." in inputs), *once])
    unused = [each for each in string.ascii_letters if each not in equation]
    letters = [""]
    for number, (part, tensor) in enumerate(zip(parts, tensors, strict=False)):
        count = tensor.dim() - len(part.replace("...", ""))
        letters.append("".join(reversed(unused[:count])))
        parts[number] = part.replace("...", letters[-1])
    return ",".join(parts) + "->" + result.replace("...", max(letters, key=len))


def _stretches(parts: Sequence[str], tensors: Sequence[Tensor], result: str) -> bool:
    """Whether one operand has a single element along an axis that is summed up, where another has several."""
    pairs = zip(parts, tensors, strict=True)
    axes = [each for part, x in pairs for each in zip(part, x.shape, strict=True)]
    sizes = {each: size for each, size in axes if each not in result}
    return any(type(size) is int and sizes.get(each, size) != size for each, size in axes)


def _along(a: Tensor, b: Tensor, first: Sequence[int], second: Sequence[int]) -> Tensor:
    """The sums of products along some axes of a and as many of b."""
    one = string.ascii_lowercase[: a.dim()]
    two = list(string.ascii_uppercase[: b.dim()])
    for axis, other in zip(first, second, strict=True):
        two[other] = one[axis]
    result = [each for each in (*one, *two) if (each in one) != (each in two)]
    return _product(one, a, "".join(two), b, "".join(result))


def _contracted(parts: Sequence[str], tensors: Sequence[Tensor], result: str) -> Tensor:
    """The product of all, one after the other; axes that neither a later one nor the result has are summed up."""
    letters, y = parts[0], tensors[0]
    for number in range(1, len(parts)):
        later = {*result, *"".join(parts[number + 1 :])}
        both = letters + parts[number]
        kept = result if number == len(parts) - 1 else "".join(each for each in dict.fromkeys(both) if each in later)
        letters, y = kept, _product(letters, y, parts[number], tensors[number], kept)
    letters, y = _summed(letters, y, result)
    return _permuted(y, [letters.index(each) for each in result])


def _product(one: str, a: Tensor, two: str, b: Tensor, result: str) -> Tensor:
    one, a = _summed(one, a, two + result)
    two, b = _summed(two, b, one + result)
    if set(one + two) == set(result):
        return _laid_out(one, a, result) * _laid_out(two, b, result)
    return _multiplied(one, a, two, b, result)


def _summed(letters: str, x: Tensor, kept: str) -> tuple[str, Tensor]:
    """An operand without the axes that nothing else has."""
    axes = [axis for axis, each in enumerate(letters) if each not in kept]
    return "".join(each for each in letters if each in kept), x.sum(axes) if axes else x


def _laid_out(letters: str, x: Tensor, result: str) -> Tensor:
    """The axes in the order of the result, with an axis of one element for each that is missing."""
    x = _permuted(x, [letters.index(each) for each in result if each in letters])
    for axis, each in enumerate(result):
        x = x if each in letters else x.unsqueeze(axis)
    return x


def _multiplied(one: str, a: Tensor, two: str, b: Tensor, result: str) -> Tensor:
    """A product of matrices. Every letter is in both operands, or in one and the result."""
    batch = [each for each in result if each in one and each in two]
    summed = [each for each in one if each in two and each not in result]
    rows = [each for each in result if each in one and each not in two]
    columns = [each for each in result if each in two and each not in one]
    sizes = dict(zip(one + two, [*a.shape, *b.shape], strict=True))
    sizes |= {each: size for each, size in zip(one, a.shape, strict=True) if type(sizes[each]) is int and size != 1}

    def laid_out(x: Tensor, letters: str, first: list[str], second: list[str]) -> Tensor:
        own = dict(zip(letters, x.shape, strict=True))  # one element may stand for all that the other operand has
        x = _permuted(x, [letters.index(each) for each in (*batch, *first, *second)])
        shape = [*(own[each] for each in batch), *(_size(own, each) for each in (first, second))]
        return x if len(first) == len(second) == 1 else x.reshape(shape)

    y = torch.matmul(laid_out(a, one, rows, summed), laid_out(b, two, summed, columns))
    order = [*batch, *rows, *columns]
    if len(rows) != 1 or len(columns) != 1:
        y = y.reshape([sizes[each] for each in order])
    return _permuted(y, [order.index(each) for each in result])


def _permuted(x: Tensor, order: list[int]) -> Tensor:
    return x if order == sorted(order) else x.permute(order)


def _size(sizes: dict[str, Any], letters: list[str]) -> Any:
    total: Any = 1
    for each in letters:
        total = total * sizes[each]
    return total
