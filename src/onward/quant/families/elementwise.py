"""Sums, differences, products and quotients, element by element.

    Add(DequantizeLinear(a), DequantizeLinear(b)) -> QuantizeLinear     -> QLinearAdd (com.microsoft)
    Mul(DequantizeLinear(a), DequantizeLinear(b)) -> QuantizeLinear     -> QLinearMul (com.microsoft)

onnxruntime fuses these where all three are uint8 or all three int8, with one scale each; either operand may be a
constant. Other operations stay in float between DequantizeLinear and QuantizeLinear: one operation that IEEE 754 rounds
is the same number everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...errors import QuantizationError
from ...lower.emitter import Emitter, Value
from ..exact.declare import GridValues, exact
from ..exact.integers import (
    ROUNDING_IS_TOLD,
    around_zero,
    check_type,
    dequantized,
    quantize,
    quantized,
    to_grid,
    values_of,
)
from ..grids.grid import Grid, dtype_bounds, is_power_of_two, torch_dtype
from ..run.float_values import before_rounding, in_both_forms, is_float, was_read_in_float
from ..run.handlers import HANDLERS, handles
from ..run.session import Call, Phase, QuantSession
from ..run.states import OnGrid, Pending, is_made
from .activation import in_place

# Exact steps


@exact
def add(x: Tensor, x_grid: Grid, y: Tensor, y_grid: Grid, grid: Grid) -> Tensor:
    """x + y, broadcast.

    The runtime does not center the integers: it folds both zero points into one float32 number and then adds the two
    scaled operands with fused multiply-adds, the second operand first. Where a single element of the first operand
    meets a row of the second, the operands change places.
    """
    if _changes_places(x.shape, y.shape):
        x, x_grid, y, y_grid = y, y_grid, x, x_grid
    low, high = dtype_bounds(x_grid.dtype)
    if max(x.numel(), y.numel()) <= (high - low + 1) ** 2:
        return _sum(x.to(torch.float32), x_grid, y.to(torch.float32), y_grid, grid)
    every = torch.arange(low, high + 1, dtype=torch.float32, device=x.device)  # fewer pairs than elements: a table
    return _sum(every[:, None], x_grid, every, y_grid, grid)[x.to(torch.int64) - low, y.to(torch.int64) - low]


@exact
def mul(x: Tensor, x_grid: Grid, y: Tensor, y_grid: Grid, grid: Grid) -> Tensor:
    """x * y, broadcast. The zero point is added before rounding: with an odd one, half to even rounds other ties up."""
    ratio = x_grid.scale * y_grid.scale / grid.scale
    products = (around_zero(x, x_grid) * around_zero(y, y_grid)).to(torch.float32)
    return _bounded(products * ratio + grid.zero_point, grid)


@exact
def add_half_up(x: Tensor, x_grid: Grid, y: Tensor, y_grid: Grid, grid: Grid) -> Tensor:
    """x + y as linger's chips add: each operand is brought to the scale of the result first, floor(x + 0.5)."""
    values = (values_of(x, x_grid), values_of(y, y_grid))
    first, second = (torch.floor(each / grid.scale + 0.5) for each in values)
    return to_grid(first + second, grid)


for _step in (add, mul, add_half_up):

    @_step.shape
    def _(x: Tensor, x_grid: GridValues, y: Tensor, y_grid: GridValues, grid: GridValues) -> Tensor:
        return x.new_empty(torch.broadcast_shapes(x.shape, y.shape), dtype=torch_dtype(grid.dtype))


def _between_grids(op: str) -> Callable[..., Value]:
    def lower(g: Emitter, x: Value, x_grid: GridValues, y: Value, y_grid: GridValues, grid: GridValues) -> Value:
        operands = [dequantized(g, q, each.scale, each.zero_point) for q, each in ((x, x_grid), (y, y_grid))]
        check_type(g, grid.dtype)
        return quantized(g, g.node(op, operands), grid, "half_even")

    return lower


add.lowers()(_between_grids("Add"))
mul.lowers()(_between_grids("Mul"))


@add_half_up.lowers()
def _(g: Emitter, x: Value, x_grid: GridValues, y: Value, y_grid: GridValues, grid: GridValues) -> Value:
    if ROUNDING_IS_TOLD.get():
        return _between_grids("Add")(g, x, x_grid, y, y_grid, grid)
    operands = [dequantized(g, q, each.scale, each.zero_point) for q, each in ((x, x_grid), (y, y_grid))]
    check_type(g, grid.dtype)
    steps = [g.op.Floor(g.op.Add(g.op.Div(each, grid.scale), g.like(each, 0.5))) for each in operands]
    total = g.op.Add(g.op.Add(*steps), g.like(steps[0], grid.zero_point))
    return g.cast(g.clip(total, grid.low, grid.high), torch_dtype(grid.dtype))


def _sum(a: Tensor, ga: Grid, b: Tensor, gb: Grid, gy: Grid) -> Tensor:
    ratio_a, ratio_b = ga.scale / gy.scale, gb.scale / gy.scale
    zero = torch.tensor(float(ga.zero_point), device=a.device)
    fixed = gy.zero_point - fma(ratio_a, zero, ratio_b * gb.zero_point)
    return _bounded(fma(a, ratio_a, fma(b, ratio_b, fixed)), gy)


def _changes_places(a: torch.Size, b: torch.Size) -> bool:
    """Whether, in the runtime's innermost loop, the first operand stands still.

    The loop is over the innermost axis that both have and that is not 1 in both, or else the outermost both have.
    """
    common = min(len(a), len(b))
    if common == 0:
        return not a or a[-1] == 1
    pairs = [(a[-1 - each], b[-1 - each]) for each in range(common)]
    return next((pair for pair in pairs if max(pair) > 1), pairs[-1])[0] == 1


def _bounded(total: Tensor, grid: Grid) -> Tensor:
    """The integers for float32 numbers that have the zero point in them already."""
    return total.round().clamp(grid.low, grid.high).to(torch.int32).to(grid.torch_dtype)


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """float32(a * b + c) for float32 tensors.

    The product of two float32 is exact in float64. The sum may not be, and rounding it twice can end on the wrong
    side of a tie, so it is rounded to odd in float64 first: of the two float64 next to the exact sum the one whose
    last bit is set, which stands on no float32 and no midpoint between two.
    """
    product, wide = a.double() * b.double(), c.double()
    total = product + wide
    back = total - product
    error = (product - (total - back)) + (wide - back)  # Knuth: total + error is the exact sum
    if not bool(error.any()):  # by far the usual case: both had room in float64
        return total.to(torch.float32)
    bits = total.view(torch.int64)
    step = torch.where((error > 0) == (total > 0), 1, -1)  # in magnitude, as the bits count
    odd = torch.where((error != 0) & ((bits & 1) == 0), bits + step, bits)
    return odd.view(torch.float64).to(torch.float32)


# Functions


@handles(torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__)
def sum_of_two(session: QuantSession, func: Any, input: Any, other: Any, *, alpha: Any = 1) -> Any:
    if alpha != 1:
        return _with_factor(session, torch.add, input, other, alpha)
    return _binary(session, func, "add", input, other)


def _with_factor(session: QuantSession, func: Any, input: Any, other: Any, factor: Any) -> Any:
    """input + factor * other, and the like."""
    if not any(isinstance(each, Tensor) and session.has_grid(each) for each in (input, other)):
        return NotImplemented
    return session.composed(lambda: func(input, other if factor == 1 else other * factor))


@handles(torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__, torch.multiply, Tensor.multiply)
def product_of_two(session: QuantSession, func: Any, input: Any, other: Any) -> Any:
    return _binary(session, func, "mul", input, other)


@handles(torch.sub, Tensor.sub, Tensor.__sub__, Tensor.__rsub__, torch.subtract, Tensor.subtract)
def sub(session: QuantSession, func: Any, input: Any, other: Any, *, alpha: Any = 1) -> Any:
    if alpha != 1:
        return _with_factor(session, torch.sub, input, other, alpha)
    return _binary(session, func, "sub", input, other)


@handles(torch.addcmul, Tensor.addcmul, torch.addcdiv, Tensor.addcdiv)
def addcmul(session: QuantSession, func: Any, input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """input + value * tensor1 * tensor2, or the quotient."""
    if not any(map(session.has_grid, (tensor1, tensor2))):
        return NotImplemented
    combine = torch.mul if func in (torch.addcmul, Tensor.addcmul) else torch.div
    return _with_factor(session, torch.add, input, session.again(combine, tensor1, tensor2), value)


@handles(torch.lerp, Tensor.lerp)
def lerp(session: QuantSession, func: Any, input: Any, end: Any, weight: Any) -> Any:
    """input + weight * (end - input)."""
    if not any(map(session.has_grid, (input, end))):
        return NotImplemented
    return session.composed(lambda: input + (end - input) * weight)


@handles(torch.div, Tensor.div, Tensor.__truediv__, Tensor.__rtruediv__, torch.true_divide, Tensor.true_divide)
def div(session: QuantSession, func: Any, input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode is not None:
        return NotImplemented
    return _binary(session, func, "div", input, other)


_IN_PLACE = {
    Tensor.__iadd__: torch.add, Tensor.add_: torch.add, Tensor.__isub__: torch.sub, Tensor.sub_: torch.sub,
    Tensor.__imul__: torch.mul, Tensor.mul_: torch.mul, Tensor.multiply_: torch.mul,
    Tensor.__itruediv__: torch.div, Tensor.div_: torch.div, Tensor.subtract_: torch.sub,
    Tensor.addcmul_: torch.addcmul, Tensor.addcdiv_: torch.addcdiv, Tensor.lerp_: torch.lerp,
}  # fmt: skip


@handles(*_IN_PLACE)
def in_place_form(session: QuantSession, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    plain = _IN_PLACE[func]
    if input.dtype is not torch.float32:
        counts = not any(isinstance(each, Tensor) for each in (*args, *kwargs.values()))  # as a batch norm its batches
        return func(input, *args, **kwargs) if counts else NotImplemented
    return in_place(session, func, input, True, lambda x: HANDLERS[plain](session, plain, x, *args, **kwargs))


def _binary(session: QuantSession, func: Any, name: str, input: Any, other: Any) -> Any:
    """Two activations, or an activation and a number. Numbers alone, and integers, are left to PyTorch."""
    operands = [each for each in (input, other) if isinstance(each, Tensor)]
    if any(each.dtype is not torch.float32 for each in operands) or not any(map(session.has_grid, operands)):
        return NotImplemented
    if len(operands) == 1 or any(each.dim() == 0 for each in operands):
        return _with_number(session, func, name, input, other)
    # A mask may be there in one run and not in another: it is not counted among the others.
    call = session.call(f"{name}_made" if any(map(is_made, operands)) else name)
    if name == "mul" and _is_for_training_alone(session, call):
        x, factor = (input, other) if is_made(other) else (other, input)
        return dropped(session, x, lambda x: x * factor)
    for scores, mask, role in ((input, other, "other"), (other, input, "input")):
        may_be = are_scores(session, scores) or (is_made(mask) and are_scores(session, scores, "add"))
        if may_be and not session.is_on_grid(session.settle(mask, call.site(role))):
            return func(input, other)
    if name == "add" and (is_float(session, input) or is_float(session, other)):
        total = _sum_in_float(session, func, call, input, other)
        if total is not None:
            return total
    return _of_rounded(session, func, call, name, input, other)


def _is_for_training_alone(session: QuantSession, call: Call) -> bool:
    """Whether a factor that is made of numbers (see `mark_made`) drops paths: calibration, without which nothing is
    trained where ranges are learned or stay, has not seen it."""
    if session.phase is not Phase.TRAIN or not call.name.startswith("mul_made"):
        return False
    site = call.site("output")
    return (site.settings.learned or not site.settings.averaging) and site.range is None


def dropped(session: QuantSession, x: Tensor, drop: Callable[[Tensor], Tensor]) -> Tensor:
    """Zero some values of x, as training does and evaluation does not; the grid is wider."""
    if not is_float(session, x):
        settled = session.settle(x)
        y = drop(settled)
        return session.put(y, OnGrid()) if session.is_on_grid(settled) else y
    # A product that may stay in float: in evaluation it is not looked at here, and so not rounded for this.
    then, waiting = session.label(x), session.tag(x)
    assert isinstance(waiting, Pending)
    kept = drop(torch.ones_like(x))
    y = session.wait(x * kept, waiting.call)

    def rounded(call: Call) -> Tensor | None:
        return None if session.has_changed_since(x, then) else session.put(session.settle(x) * kept, OnGrid())

    return in_both_forms(session, y, rounded, was_read_in_float(session, x))


def _of_rounded(session: QuantSession, func: Any, call: Call, name: str, input: Tensor, other: Tensor) -> Tensor:
    a, b = session.settle(input, call.site("input")), session.settle(other, call.site("other"))
    y: Tensor = func(a, b)
    if not (session.is_on_grid(a) and session.is_on_grid(b)):  # a mask, which no grid can hold
        return y
    return session.wait(y, call, _onto_output(session, call, name, a, b))


def _sum_in_float(session: QuantSession, func: Any, call: Call, input: Tensor, other: Tensor) -> Tensor | None:
    """A sum with a product of matrices that waits, as of a layer and what goes around it. It is rounded if an integer
    kernel reads it, and not if a norm does. None where one operand is a mask."""
    values = []
    for role, x in (("input", input), ("other", other)):
        if not is_float(session, x):
            x = session.settle(x, call.site(role))
            if not session.is_on_grid(x):
                return None
            x = before_rounding(session, x)
        values.append(x)
    y = session.wait(func(*values), call)
    first, second = session.label(input), session.label(other)

    def rounded(call: Call) -> Tensor | None:
        if session.has_changed_since(input, first) or session.has_changed_since(other, second):
            return None
        return _of_rounded(session, func, call, "add", input, other)

    return in_both_forms(session, y, rounded, was_read_in_float(session, input) or was_read_in_float(session, other))


def are_scores(session: QuantSession, x: Tensor, made_by: str = "matmul") -> bool:
    """Whether a tensor is a product of activations that waits: as one of attention it is masked as it is, in float. So
    is a sum, which may be of a product and what positions add to it: a softmax takes both without a grid, and where
    calibration has seen no mask they have none."""
    waiting = session.tag(x)
    return (
        isinstance(waiting, Pending)
        and waiting.settled is None
        and waiting.call.is_one_of(made_by)
        and not session.for_a_chip
    )


def _onto_output(session: QuantSession, call: Call, name: str, a: Tensor, b: Tensor) -> Any:
    """The integer kernel, where onnxruntime has one."""
    if session.phase is not Phase.EXACT or name not in ("add", "mul"):
        return None
    one, two = session.integers(a), session.integers(b)
    if one is None or two is None:
        return None
    (x, x_grid), (y, y_grid) = one, two
    if call.settings.rounding != "half_even":
        # A product has one rounding of what is exact, which needs no kernel of its own; a sum rounds its operands.
        return (lambda grid: add_half_up(x, x_grid, y, y_grid, grid)) if name == "add" else None
    if x_grid.dtype != y_grid.dtype or x_grid.dtype not in ("uint8", "int8"):
        return None

    def onto_output(grid: Grid) -> Tensor:
        if grid.dtype != x_grid.dtype:
            return quantize(getattr(torch, name)(a, b), grid, call.settings.rounding)
        return (add if name == "add" else mul)(x, x_grid, y, y_grid, grid)

    return onto_output


def _with_number(session: QuantSession, func: Any, name: str, input: Any, other: Any) -> Any:
    """A product with a positive number only changes the scale; anything else is computed in float."""
    if _changes_nothing(func, name, other) and isinstance(input, Tensor):
        return _same(session, input)
    call = session.call(name)
    scaled = _scaled(session, func, name, input, other)
    if scaled is not None:
        return scaled
    input, other = (session.settle(each) if isinstance(each, Tensor) else each for each in (input, other))
    y = func(input, other)
    factor = _factor(name, input, other)
    tensor = input if isinstance(input, Tensor) else other
    if factor is None or factor <= 0 or not session.is_on_grid(tensor) or func in (Tensor.__rtruediv__,):
        _check_size(session, call, name, input, other)
        return session.wait(y, call)
    if session.for_a_chip and not is_power_of_two(factor):  # its scales are
        return session.wait(y, call)
    return session.rescaled(y, tensor, factor)


def _check_size(session: QuantSession, call: Call, name: str, *operands: Any) -> None:
    """A number changes the scale, and needs no range. One that is different in every run of a file would need one, and
    what evaluation computes with a number would be something else."""
    varies = any(isinstance(each, (torch.SymInt, torch.SymFloat)) for each in operands)
    if varies and name in ("mul", "div") and session.phase is Phase.EXACT and call.site("output").range is None:
        raise QuantizationError(
            f"{call.path or 'the model itself'} {'multiplies' if name == 'mul' else 'divides'} what lies on a grid by "
            "a size that varies from run to run, and the scale of the grid cannot",
            hint="leave that axis fixed, or compute it otherwise: x.mean(axes) for a sum divided by their sizes",
        )


def _scaled(session: QuantSession, func: Any, name: str, input: Any, other: Any) -> Tensor | None:
    """A product that waits, times a positive number: it goes on waiting, with the number in one of its scales."""
    tensor, factor = input if isinstance(input, Tensor) else other, _factor(name, input, other)
    waiting = session.tag(tensor)
    if not isinstance(waiting, Pending) or waiting.settled is not None or waiting.scaled is None:
        return None
    if factor is None or factor <= 0 or func is Tensor.__rtruediv__:
        return None
    return waiting.scaled(tensor, factor)


def _changes_nothing(func: Any, name: str, number: Any) -> bool:
    """x + 0, which sums over branches begin with, x - 0, x * 1 and x / 1."""
    if isinstance(number, (Tensor, torch.SymInt, torch.SymFloat)) or func in (Tensor.__rsub__, Tensor.__rtruediv__):
        return False
    return bool(number == (0 if name in ("add", "sub") else 1))


def _same(session: QuantSession, x: Tensor) -> Tensor:
    """A new tensor for an operation that changes nothing: either of the two may be written to, and the other stays."""
    tag = session.tag(x)
    if not isinstance(tag, Pending) or tag.settled is not None:
        copy: Tensor = session.run(torch.clone, x)
        return copy
    rounded = tag.rounded

    def copied(call: Call) -> Tensor | None:
        found = None if rounded is None else rounded(call)
        return None if found is None else session.run(torch.clone, found)

    again = rounded if tag.view is None else copied  # of another form it would be a view
    return session.put(x.view_as(x), tag._replace(rounded=again, view=None, is_viewed=False, forms=()))


def _factor(name: str, input: Any, other: Any) -> float | None:
    number = other if isinstance(input, Tensor) else input
    if isinstance(number, (Tensor, torch.SymInt, torch.SymFloat)):
        return None
    if name == "mul":
        return float(number)
    return 1.0 / float(number) if name == "div" and number else None
