"""Functions of one value: bounds of a grid where that is all they are, and everything else from grid to grid."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..exact.integers import dequantize, lookup, quantize, rounded, table_of
from ..grids.grid import Grid
from ..run.handlers import SWITCHED_OFF, WEIGHT_ONLY, handles
from ..run.session import Phase, QuantSession, writes
from ..run.states import OnGrid, Overwritten, Pending, State, is_made, mark_made

# Bounds


@handles(F.relu, F.relu_, torch.relu, Tensor.relu, torch.relu_, Tensor.relu_)
def relu(session: QuantSession, func: Any, input: Tensor, inplace: bool = False) -> Any:
    return limited(session, func, "relu", input, 0.0, None, inplace)


@handles(F.relu6, F.hardtanh, F.hardtanh_)
def hardtanh(
    session: QuantSession,
    func: Any,
    input: Tensor,
    min_val: float | bool = -1.0,
    max_val: float = 1.0,
    inplace: bool = False,
) -> Any:
    if func is F.relu6:
        inplace = min_val is True or inplace
        min_val, max_val = 0.0, 6.0
    return limited(session, func, "hardtanh", input, min_val, max_val, inplace)


@handles(torch.clamp, Tensor.clamp, torch.clip, Tensor.clip, Tensor.clamp_, torch.clamp_, Tensor.clip_, torch.clip_)
def clamp(session: QuantSession, func: Any, input: Tensor, min: Any = None, max: Any = None) -> Any:
    if any(isinstance(each, Tensor) for each in (min, max)):
        return NotImplemented
    return limited(session, func, "clamp", input, min, max)


@handles(torch.clamp_min, Tensor.clamp_min, Tensor.clamp_min_, torch.clamp_min_)
def clamp_min(session: QuantSession, func: Any, input: Tensor, min: Any) -> Any:
    return clamp(session, func, input, min=min)


@handles(torch.clamp_max, Tensor.clamp_max, Tensor.clamp_max_, torch.clamp_max_)
def clamp_max(session: QuantSession, func: Any, input: Tensor, max: Any) -> Any:
    return clamp(session, func, input, max=max)


@handles(F.threshold, torch.threshold, torch.threshold_)
def threshold(
    session: QuantSession, func: Any, input: Tensor, threshold: float, value: float, inplace: bool = False
) -> Any:
    """max(x, threshold) where both numbers are one; any other is a function of 256 values."""
    if threshold == value:
        return limited(session, func, "threshold", input, value, None, inplace)
    compute = lambda x: from_grid_to_grid(session, "threshold", lambda v: F.threshold(v, threshold, value), x)  # noqa: E731
    return in_place(session, func, input, inplace, compute)


def in_place(session: QuantSession, func: Any, x: Tensor, inplace: bool, compute: Callable[[Tensor], Any]) -> Any:
    """compute(x), and if the function was asked to work in place, x becomes the result."""
    if not (inplace or writes(func)):
        return compute(x)
    x = session.take_view(x)
    tag = session.tag(x)
    if session.is_replaceable(x):
        result = compute(x)
        if result is not NotImplemented and result is not x:
            session.put(x, Overwritten(result))
        return result
    if isinstance(tag, Pending) and tag.settled is not None:
        session.put(x, Overwritten(tag.settled))
        x, tag = tag.settled, session.tag(tag.settled)
    result = compute(_kept(session, x, tag) if session.phase is Phase.TRAIN else x)
    if result is NotImplemented or result is x:
        return result
    after = session.tag(result)
    if isinstance(after, Pending):
        result = session.settle(result)
        after = session.tag(result)
    x.copy_(result)
    return session.written(x, after)


def _kept(session: QuantSession, x: Tensor, tag: State | None) -> Tensor:
    """A copy that autograd keeps what it computes from; it says of itself what the tensor does."""
    copy = session.put(x.clone(), tag)
    return mark_made(copy) if is_made(x) else copy


def limited(
    session: QuantSession, func: Any, name: str, x: Tensor, low: float | None, high: float | None, inplace: bool = False
) -> Any:
    """A function that bounds its argument, in place or not."""
    into = inplace or writes(func)
    if not session.has_grid(x):
        return NotImplemented if into else _lone(session, x, low, high)
    if not into:
        return bounded(session, name, x, low, high)
    return in_place(session, func, x, True, lambda each: bounded(session, name, each, low, high))


def _lone(session: QuantSession, x: Tensor, low: float | None, high: float | None = None) -> Any:
    """Bound what lies on no grid, in float. Where weights alone are quantized the file has Max and Min, because a Relu
    or Clip behind a MatMul keeps onnxruntime 1.31 from making a MatMulNBits of it."""
    plain = session.phase is not Phase.EXACT or not session.controller.has_weight_only
    if plain or x.dtype is not torch.float32:
        return NotImplemented
    y = x if low is None else torch.maximum(x, torch.tensor(float(low)))
    return y if high is None else torch.minimum(y, torch.tensor(float(high)))


def bounded(session: QuantSession, name: str, x: Tensor, low: float | None, high: float | None) -> Any:
    """min and max of a result that waits, or of one that lies on its grid: integers are bounded, nothing is rounded."""
    tag = session.tag(x)
    if not isinstance(tag, (Pending, OnGrid)):
        return NotImplemented
    if isinstance(tag, Pending) and _is_read_elsewhere(session, tag):
        if tag.settled is None and tag.bounded is None:  # a call as any other, until it was found out
            session.call(name)
        x = session.settle(x)
    waits = session.waiting(x)
    site = None if waits is None else session.call(name).site("output")
    if waits is not None and site is not None and waits[1].otherwise is not None and site.range is None:
        x, site = session.settle(x), None
    if waits is not None and site is not None:
        session.learn(x, bounded=site)
        x, waiting = waits
        session.joined(waiting.call, site)
        if session.phase is not Phase.EXACT:
            return session.finish(x, site, None, (low, high))
        onto_output = waiting.requantize or (lambda grid: quantize(x, grid, site.rounding))
        return session.finish(x, site, lambda grid: onto_output(_bounds(grid, low, high)), (low, high))
    y = torch.relu(x) if (low, high) == (0, None) else torch.clamp(x, low, high)  # a ReLU keeps its result, a clamp x
    if session.phase is not Phase.EXACT:
        return session.put(y, OnGrid())
    found = session.integers(session.settle(x))
    if found is None:
        return NotImplemented
    q, grid = found
    inside = _bounds(grid, low, high)
    if (inside.low, inside.high) == (grid.low, grid.high):
        return session.on_grid(q, grid)
    if grid.dtype in ("uint8", "int8"):
        return session.on_grid(torch.clamp(q, inside.low, inside.high), inside)
    return session.on_grid(quantize(dequantize(q, grid), inside), inside)


def _is_read_elsewhere(session: QuantSession, tag: Pending) -> bool:
    """Whether somebody also reads a result as it is, or bounds it otherwise: calibration has given it a range. With two
    QuantizeLinear behind it no runtime makes one integer operation of it, so that it is quantized once, for all."""
    if tag.settled is not None or tag.bounded is not None:
        return True
    return session.phase is not Phase.CALIBRATE and tag.call.site("output").range is not None


def _bounds(grid: Grid, low: float | None, high: float | None) -> Grid:
    """The grid between two values; each is rounded as a value of the tensor would be."""
    low_q, high_q = (None if value is None else int(rounded(torch.tensor(float(value)), grid)) for value in (low, high))
    return grid.bounded(low_q, high_q)


# Where weights alone are quantized, and where a module stays in float


def _behind_floats(handler: Callable[..., Any]) -> Callable[..., Any]:
    """For modules that are switched off: what lies on a grid, or waits for one, is bounded in float."""

    @functools.wraps(handler)
    def handle(session: QuantSession, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        return NotImplemented if session.has_grid(input) else handler(session, func, input, *args, **kwargs)

    return handle


for _bound, _functions in (
    (relu, (F.relu, torch.relu, Tensor.relu)),
    (hardtanh, (F.relu6, F.hardtanh)),
    (clamp, (torch.clamp, Tensor.clamp, torch.clip, Tensor.clip)),
):
    handles(*_functions, table=WEIGHT_ONLY)(_bound)
    handles(*_functions, table=SWITCHED_OFF)(_behind_floats(_bound))

# Functions that are computed in float, between two grids

ROUNDED_ONCE = {  # one operation of the processor: every runtime has the same result
    "leaky_relu": (F.leaky_relu, F.leaky_relu_),
    "abs": (torch.abs, Tensor.abs, Tensor.__abs__, torch.absolute, Tensor.absolute, Tensor.abs_),
    "neg": (torch.neg, Tensor.neg, Tensor.__neg__, torch.negative, Tensor.negative, Tensor.neg_),
    "square": (torch.square, Tensor.square),
    "hardshrink": (F.hardshrink,),
}
UNARY = {
    "sigmoid": (torch.sigmoid, Tensor.sigmoid, F.sigmoid, torch.sigmoid_, Tensor.sigmoid_),
    "tanh": (torch.tanh, Tensor.tanh, F.tanh, torch.tanh_, Tensor.tanh_),
    "gelu": (F.gelu,),
    "mish": (F.mish,),
    "elu": (F.elu, F.elu_),
    "celu": (F.celu, F.celu_),
    "selu": (F.selu, F.selu_),
    "softplus": (F.softplus,),
    "softsign": (F.softsign,),
    "logsigmoid": (F.logsigmoid,),
    "tanhshrink": (F.tanhshrink,),
    "softshrink": (F.softshrink,),
    "rrelu": (F.rrelu, F.rrelu_),
    "exp": (torch.exp, Tensor.exp),
    "log": (torch.log, Tensor.log),
    "sqrt": (torch.sqrt, Tensor.sqrt),
    "reciprocal": (torch.reciprocal, Tensor.reciprocal),
    "rsqrt": (torch.rsqrt, Tensor.rsqrt),
    **ROUNDED_ONCE,
}
_NAMES = {func: name for name, functions in UNARY.items() for func in functions}


@handles(*_NAMES)
def unary(session: QuantSession, func: Any, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    name = _NAMES[func]
    inplace = bool(kwargs.pop("inplace", False))
    plain = UNARY[name][0]
    if not session.has_grid(input) or (name == "rrelu" and session.phase is Phase.TRAIN):
        return NotImplemented
    return in_place(
        session,
        func,
        input,
        inplace,
        lambda x: from_grid_to_grid(session, name, lambda v: plain(v, *args, **kwargs), x),
    )


def from_grid_to_grid(session: QuantSession, name: str, function: Callable[[Tensor], Tensor], x: Tensor) -> Any:
    """Compute a function in float between two grids. Eight bits have 256 values, and none of them may lie so close to a
    tie that two runtimes could round it differently. With sixteen bits some do, and the file has a table of all
    65536."""
    if not session.has_grid(x):
        return NotImplemented
    call = session.call(name)
    site = call.site("output")
    settled = session.settle(x)
    found = session.integers(settled)
    # a chip has tables of its own, and operators with room for nothing else
    if found is None or name in ROUNDED_ONCE or session.for_a_chip:
        return session.finish(function(settled), site)
    q, x_grid = found
    if session.wide_integers(settled, call.settings) is not None:
        return session.finish(function(settled), site, lambda grid: lookup(q, table_of(function, x_grid, grid)))
    if site.range is None:
        return session.finish(function(settled), site)
    return session.finish(clear_of_ties(function, settled, x_grid, site.grid(), name), site)


def clear_of_ties(function: Callable[[Tensor], Tensor], x: Tensor, x_grid: Grid, grid: Grid, name: str) -> Tensor:
    """function(x), with a small number added where one of its values lies next to a tie of the output's grid.

    Float functions are not the same to the last bit in torch and in onnxruntime, nor on two machines. They are within a
    few units of it, so that integers are the same wherever all 256 values are further from a tie than that: nearly
    always. Otherwise all of them are shifted by a thousandth of a step or so, until it is the case."""
    y = function(x)
    steps, error = _steps(function, x_grid, grid, name)
    for shift in _SHIFTS:
        if _are_clear(steps + shift, error, grid):
            return y if shift == 0 else y + float(shift * grid.scale)
    return y


def grid_clear_of_ties(function: Callable[[Tensor], Tensor], x_grid: Grid, grid: Grid, name: str) -> Grid:
    """A grid that is some millionths wider, on which no value of a function lies next to a tie. Used for tensors whose
    grid nobody else knows."""
    for number in range(64):
        wider = replace(grid, scale=grid.scale * (1 + number * 2.0**-18))
        if _are_clear(*_steps(function, x_grid, wider, name), wider):
            return wider
    return grid


def _steps(function: Callable[[Tensor], Tensor], x_grid: Grid, grid: Grid, name: str) -> tuple[Tensor, Tensor]:
    """Every value of the function, in steps of the grid from zero, and how far off a float32 computation may be: in
    units of the largest number that it meets on its way."""
    values = (torch.arange(x_grid.low, x_grid.high + 1) - x_grid.zero_point).double() * x_grid.scale.double()
    exact = function(values)
    met = values.abs().clamp(max=8) if name in _GATES else torch.tensor(float(name in _NEAR_ONE)).double()
    scale = grid.scale.double()
    return exact / scale, torch.maximum(exact.abs(), met) * 2.0**-22 / scale


def _are_clear(steps: Tensor, error: Tensor, grid: Grid) -> bool:
    inside = steps.isfinite() & (steps > grid.low - grid.zero_point - 1) & (steps < grid.high - grid.zero_point + 1)
    return bool((((steps - torch.floor(steps) - 0.5).abs() > error) | ~inside).all())


_SHIFTS = (0.0, *(sign * number / 1024 for number in range(1, 65) for sign in (1, -1)))
_NEAR_ONE = frozenset(
    ["sigmoid", "tanh", "hardsigmoid", "elu", "celu", "selu", "softplus", "logsigmoid", "exp", "softsign"]
)
_GATES = frozenset(["gelu", "mish", "silu", "hardswish", "tanhshrink"])


@handles(F.prelu, torch.prelu, Tensor.prelu)
def prelu(session: QuantSession, func: Any, input: Tensor, weight: Tensor) -> Any:
    """One product for each value, with a slope that stays in float."""
    if not session.has_grid(input):
        return NotImplemented
    call = session.call("prelu")
    return session.finish(F.prelu(session.settle(input), weight), call.site("output"))


@handles(torch.cos, Tensor.cos, torch.sin, Tensor.sin)
def wave(session: QuantSession, func: Any, input: Tensor) -> Any:
    """The cosines and sines of positions, on their way to a grid. They are computed in float64, because those of
    float32 are another number in every tenth case."""
    if session.phase is not Phase.EXACT or input.dtype is not torch.float32 or session.for_a_chip:
        return NotImplemented
    return session.in_float(_in_float64, input, func)


def _in_float64(x: Tensor, func: Callable[[Tensor], Tensor]) -> Tensor:
    return func(x.to(torch.float64)).to(torch.float32)
