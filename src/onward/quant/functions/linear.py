"""Products of matrices: of an activation with a weight, and of two activations."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...capture.session import is_capturing
from .. import ops
from ..caution import refuse_overflow
from ..grid import Grid
from ..product import Product, compute
from ..session import Call, Phase, Session
from ..tags import Pending
from .registry import handles


@handles(F.linear)
def linear(session: Session, func: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    if not session.is_full(input):
        return NotImplemented
    if weight.dim() != 2 or not is_layers_weight(session, weight):  # worked out from activations
        y = session.composed(lambda: torch.matmul(input, weight.mT if weight.dim() > 1 else weight))
        return y if bias is None else session.again(torch.add, y, bias)
    return linear_with(session, input, weight, bias)


def linear_with(session: Session, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x @ weight.T + bias, with a weight in the form of nn.Linear."""
    call = session.call("linear")
    x = session.settle(x, call.site("input"))
    return compute(session, call, Product(x, weight, bias, 0, -1, F.linear, ops.linear))


def is_weight(session: Session, x: Tensor) -> bool:
    """Whether a tensor is one of the model's own, and no activation: a parameter, a buffer, or made of parameters."""
    return not session.has_grid(x) and _is_own(session, x)


def _is_own(session: Session, x: Tensor) -> bool:
    return session.is_weight(x) or any(x is each for each in session.frames[-1].module._buffers.values())


def is_layers_weight(session: Session, x: Tensor) -> bool:
    """The same for the weight of `F.linear`, where a layer also has what its parametrisation (weight norm) computes."""
    if session.has_grid(x):
        return False
    return _is_own(session, x) or isinstance(session.frames[-1].module, (nn.Linear, nn.MultiheadAttention))


MATMUL = (
    torch.matmul, Tensor.matmul, Tensor.__matmul__, Tensor.__rmatmul__, torch.bmm, Tensor.bmm, torch.mm, Tensor.mm,
    torch.mv, Tensor.mv,
)  # fmt: skip


def in_order(func: Any, input: Tensor, other: Any) -> tuple[Tensor, Tensor] | None:
    """The operands of one of these, the left one first; None unless both are tensors of float32."""
    if not isinstance(other, Tensor) or not (input.dtype is other.dtype is torch.float32):
        return None
    return (other, input) if func is Tensor.__rmatmul__ else (input, other)


@handles(*MATMUL)
def matmul(session: Session, func: Any, input: Tensor, other: Tensor | None = None, **named: Tensor) -> Any:
    operands = in_order(func, input, named.get("mat2", named.get("vec")) if other is None else other)
    if operands is None:
        return NotImplemented
    input, second = operands
    if second.dim() in (1, 2) and is_weight(session, second) and not is_weight(session, input):
        y = linear_with(session, input, second.t() if second.dim() == 2 else second.unsqueeze(0), None)
        return y if second.dim() == 2 else session.again(torch.squeeze, y, -1)
    call = session.call("matmul")
    a, b = session.settle(input, call.site("input")), session.settle(second, call.site("other"))
    one, two = session.integers(a), session.integers(b)
    if one is not None and two is not None:
        sums = f"{call.told} adds up {a.shape[-1]} products"
        refuse_overflow(call, one[1], two[1].scale, sums, "leave the module in float: a rule with off=True")
    return of_activations(session, call, a, b)


def of_activations(
    session: Session, call: Call, a: Tensor, b: Tensor, factor: float = 1.0, known: Tensor | None = None
) -> Tensor:
    """a @ b * factor of two settled tensors. It waits for its grid, which a softmax behind it does without.

    `known` are the sums of the integers where they are: a factor is part of a scale, and leaves them as they are."""
    one, two = session.integers(a), session.integers(b)
    if (
        session.phase is not Phase.EXACT
        or one is None
        or two is None
        or (session.for_a_chip and any(each[1].dtype not in ("uint8", "int8") for each in (one, two)))
        or min(a.dim(), b.dim()) < 2
    ):
        product = torch.matmul(a, b)
        y = session.wait(product if factor == 1 else product * factor, call)
        return _scalable(session, y, factor, lambda call, y, number: session.wait(y * number, call))
    (x, x_grid), (z, z_grid) = one, two
    x_grid = replace(x_grid, scale=x_grid.scale * factor)
    sums = ops.matmul(x, x_grid, z, z_grid) if known is None else known

    def requantise(grid: Grid) -> Tensor:
        if grid.dtype in ("uint16", "int16") and not session.for_a_chip:  # no kernel gives these
            wide, wide_grid = ops.widened(x, x_grid)
            values = ops.wide_values(ops.matmul(wide, wide_grid, z, z_grid), x_grid, z_grid)
            return ops.quantize(values, grid, call.settings.rounding)
        return ops.requantize(sums, x_grid, z_grid, None, grid, call.settings.rounding)

    if any(each.dtype not in ("uint8", "int8") for each in (x_grid, z_grid)):
        y = session.wait(ops.wide_values(sums, x_grid, z_grid), call)
    else:
        y = session.wait(ops.rescale(sums, x_grid, z_grid, None), call, requantise)
    kept = None if is_capturing() else sums  # in a file the scales, and with them the factor, are the operands'
    return _scalable(session, y, factor, lambda call, y, number: of_activations(session, call, a, b, number, kept))


def _scalable(session: Session, y: Tensor, factor: float, again: Callable[[Call, Tensor, float], Tensor]) -> Tensor:
    """A number that the product is multiplied with, as scores of attention are, becomes part of a scale.

    `again` gives the call, the product and the number; it does not hold the product, which holds it.
    """
    waiting = session.tag(y)
    if factor == 1 and isinstance(waiting, Pending) and not session.for_a_chip:
        call = waiting.call
        waiting.scaled = lambda y, number: again(call.scaled, y, number)
    return y


@handles(torch.addmm, Tensor.addmm, torch.baddbmm, Tensor.baddbmm, torch.addbmm, Tensor.addbmm)
def addmm(session: Session, func: Any, input: Tensor, one: Any = None, two: Any = None, **kwargs: Any) -> Any:
    """input + one @ two. Where `two` is a weight and `input` its bias it is a linear layer, turned around."""
    first = next((kwargs.pop(name) for name in ("mat1", "batch1") if name in kwargs), one)
    second = next((kwargs.pop(name) for name in ("mat2", "batch2") if name in kwargs), two)
    beta, alpha = kwargs.pop("beta", 1), kwargs.pop("alpha", 1)
    is_sum = func in (torch.addbmm, Tensor.addbmm)
    operands = (input, first, second)
    if kwargs or is_sum or not all(isinstance(each, Tensor) and each.dtype is torch.float32 for each in operands):
        return NotImplemented
    if (beta, alpha) == (1, 1) and second.dim() == 2 and is_weight(session, second) and is_weight(session, input):
        bias = input if input.dim() == 1 else None
        y = linear_with(session, first, second.t(), bias)
        return y if bias is not None else session.again(torch.add, y, input)
    y = session.again(torch.matmul, first, second)
    y = y if alpha == 1 else session.again(torch.mul, y, alpha)
    if beta == 0:
        return y
    return session.again(torch.add, y, input if beta == 1 else session.again(torch.mul, input, beta))


@handles(torch.einsum)
def einsum(session: Session, func: Any, equation: Any, *operands: Any) -> Any:
    """Two operands and no letter twice in one of them: a product of matrices, with the axes moved where they belong."""
    tensors = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if not isinstance(equation, str) or len(tensors) != 2:
        return NotImplemented
    plan = _as_matmul(equation, tensors)
    return NotImplemented if plan is None else session.composed(lambda: _multiply(plan, *tensors))


def _as_matmul(equation: str, tensors: Any) -> tuple[str, str, str] | None:
    """The letters of both operands and the result; None for what is not one product of matrices."""
    inputs, _, result = _spelled_out(equation.replace(" ", ""), tensors).partition("->")
    one, comma, two = inputs.partition(",")
    if not comma or any(len(set(each)) != len(each) for each in (one, two, result)):
        return None
    if (len(one), len(two)) != (tensors[0].dim(), tensors[1].dim()):
        return None
    shared, kept = set(one) & set(two), set(result)
    if (set(one) ^ set(two)) - kept or not shared - kept:  # sums over one operand alone, or no sum at all
        return None
    return one, two, result


def _spelled_out(equation: str, tensors: Any) -> str:
    """The equation with letters for the axes that `...` stands for, the last of which are the same in all operands, and
    with its result, which without one is what is there once, in the order of the alphabet."""
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


def _multiply(plan: tuple[str, str, str], a: Tensor, b: Tensor) -> Tensor:
    one, two, result = plan
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
