"""Products of matrices: of an activation with a weight, and of two activations.

    Reshape to (-1, in) -> Gemm(DequantizeLinear(x), DequantizeLinear(w, axis=0), DequantizeLinear(bias), transB=1)
    [-> QuantizeLinear] -> Reshape back                                             -> QGemm

    MatMul(DequantizeLinear(a), DequantizeLinear(b)) -> QuantizeLinear              -> QLinearMatMul
    MatMul(DequantizeLinear(a), DequantizeLinear(b))                                -> MatMulIntegerToFloat

onnxruntime fuses the first where x and y are uint8 and w uint8 or int8, or all three int8; with one scale or one for
each row of w; beta is 1, and the bias is absent or int32 behind a DequantizeLinear with scale sx*sw (the runtime looks
at its type, not at its scale). It fuses the others where a and y are uint8 and b uint8 or int8; an int8 a stays in
float on x86-64.

Where activations stay in float, weights lie in blocks, each with a scale: onnxruntime's MatMulNBits computes with them
as they are. One scale for a channel is the same scale for each of its blocks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import onnx_ir as ir
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...capture.attempt.session import is_capturing
from ...lower.emitter import Emitter, Value
from ..config.settings import Weights
from ..exact import sums as exact_sums
from ..exact.declare import GridValues, exact
from ..exact.integers import around_zero, dequantized
from ..exact.integers import quantize as onto_grid
from ..exact.sums import requantize, rescale, wide_values, widened
from ..grids.fake_quantize import fake_quantize_weight
from ..grids.grid import Grid, weight_scale, weight_steps
from ..grids.ranges import weight_range
from ..run.handlers import WEIGHT_ONLY, handles
from ..run.overflow import refuse_overflow
from ..run.session import Call, Phase, QuantSession
from ..run.states import Pending, Product
from ..run.study import is_rounded, show_weight
from .product import compute

BLOCK = 128  # of channels with one scale

# Exact steps


@exact
def linear(x: Tensor, x_grid: Grid, w: Tensor, w_grid: Grid, bias: Tensor | None) -> Tensor:
    """The sums of x @ w.T + bias with w as torch.nn.Linear keeps it, (out, in); x of any rank. They are as int32 has
    them; of sixteen bits, without a bias, next to exact in float32.

    MatMulInteger(high byte of x, w) * 256 + MatMulInteger(low byte of x, w)     as floats, for sixteen bits
    """
    weight, values = around_zero(w, w_grid), around_zero(x, x_grid)
    if bias is None and exact_sums.can_be_split(x, x_grid, weight):
        high, low = exact_sums.in_parts(values)
        matrix = weight.to(torch.float32).mT
        return torch.matmul(high, matrix) - torch.matmul(low, matrix)
    dtype = exact_sums.sum_type(x_grid, weight, bias)
    total = torch.matmul(values.to(dtype), weight.to(dtype).mT)
    total = total if bias is None else total + bias
    return (total if exact_sums.is_wide(x) else exact_sums.in_int32(total)).to(torch.float32)


linear.shape(lambda x, x_grid, w, *_: x.new_empty([*x.shape[:-1], w.shape[0]], dtype=torch.float32))


@linear.lowers()
def _(g: Emitter, x: Value, x_grid: GridValues, w: Value, w_grid: GridValues, bias: Value | None) -> Value:
    """As a Gemm of two axes: onnxruntime has no integer MatMul with a bias. The Reshape before it moves integers."""
    if exact_sums.are_wide(g, x):
        return _of_bytes(g, x, x_grid.zero_point, w)
    rows = x if g.rank(x) == 2 else g.reshape(x, [-1, g.dim_size(x, -1)])
    if bias is None and g.opset < 11:  # until then a Gemm has to have one
        bias = g.const_tensor(torch.zeros(int(g.known_dims(w)[0]), dtype=torch.int32))  # type: ignore[arg-type]
    y = g.op.Gemm(*exact_sums.operands_of(g, rows, x_grid, w, w_grid, bias), transB=1)
    if g.rank(x) == 2:
        return y
    return g.reshape(y, [*(g.dim_size(x, axis) for axis in range(g.rank(x) - 1)), g.dim_size(w, 0)])


def _of_bytes(g: Emitter, x: Value, zero: int, w: Value) -> Value:
    """The sums of sixteen bits, by onnxruntime's integer kernel for bytes: it is several times as fast as that for
    floats."""
    known = g.value_of(w)
    matrix = g.op.Transpose(w, perm=[1, 0]) if known is None else g.const_tensor(known.t().contiguous())
    parts = [g.op.MatMulInteger(q, matrix, zero_point) for q, zero_point in exact_sums.bytes_of(g, x, zero)]
    return exact_sums.joined_bytes(g, *parts, fit=known is not None and exact_sums.parts_fit(known))


@exact
def matmul(x: Tensor, x_grid: Grid, y: Tensor, y_grid: Grid) -> Tensor:
    """The sums of x @ y of two activations, batches broadcast; as int32 has them unless they are of sixteen bits."""
    total = torch.matmul(around_zero(x, x_grid).to(torch.float64), around_zero(y, y_grid).to(torch.float64))
    is_wide = exact_sums.is_wide(x) or exact_sums.is_wide(y)
    return (total if is_wide else exact_sums.in_int32(total)).to(torch.float32)


matmul.shape(lambda x, x_grid, y, *_: torch.matmul(x.float(), y.float()))


@matmul.lowers()
def _(g: Emitter, x: Value, x_grid: GridValues, y: Value, y_grid: GridValues) -> Value:
    """Of sixteen bits in float64, which has whole numbers up to 2**53."""
    operands = (x, x_grid), (y, y_grid)
    if exact_sums.are_wide(g, x, y):
        wide = [g.cast(exact_sums.whole_numbers(g, q, grid.zero_point), torch.float64) for q, grid in operands]
        return g.cast(g.op.MatMul(*wide), torch.float32)
    return g.op.MatMul(*(dequantized(g, q, grid.scale, grid.zero_point) for q, grid in operands))


@exact
def linear_blocks(x: Tensor, q: Tensor, scale: Tensor, bits: int, block: int) -> Tensor:
    """x @ w.T of floats with a weight in blocks: `q` is [outputs, inputs], `scale` [outputs, blocks of inputs].

    As MatMulNBits computes it at accuracy level 4, its level behind DequantizeLinear: every block of a row of x is
    rounded to 8 bits of its own, whole numbers are multiplied and summed, and blocks are added in float.
    """
    short = -x.shape[-1] % block
    rows = F.pad(x.reshape(-1, x.shape[-1]), (0, short)).unflatten(1, (-1, block))
    weights = F.pad(q.to(torch.float32), (0, short)).unflatten(1, (-1, block))
    largest = rows.abs().amax(-1, keepdim=True)
    steps = torch.round(rows * torch.where(largest > 0, 127 / largest, 0))
    factors = largest / 127
    y = x.new_zeros(rows.shape[0], q.shape[0])
    for each in range(rows.shape[1]):
        sums = steps[:, each] @ weights[:, each].T  # below 2**24, so exact
        y += sums * (factors[:, each] * scale[:, each])
    return y.reshape(*x.shape[:-1], q.shape[0])


linear_blocks.shape(lambda x, q, *_: x.new_empty([*x.shape[:-1], q.shape[0]]))


@linear_blocks.lowers()
def _(g: Emitter, x: Value, q: Value, scale: Value, bits: int, block: int) -> Value:
    """onnxruntime's own operator: DequantizeLinear knows of blocks from opset 21 on."""
    values, scales = _known(g, q), _known(g, scale)
    outputs, inputs = values.shape
    short = F.pad(values, (0, -inputs % block)).unflatten(1, (-1, block))
    stored = (short.to(torch.int16) + (1 << (bits - 1))).to(torch.uint8)
    if bits == 4:
        stored = stored[..., 0::2] | (stored[..., 1::2] << 4)
    settings = {"K": inputs, "N": outputs, "bits": bits, "block_size": block, "accuracy_level": 4}
    weights = g.const_tensor(stored.contiguous()), g.const_tensor(scales.flatten())
    y: Value = g.node("MatMulNBits", [x, *weights], settings, domain="com.microsoft")
    g.annotate(y, (*g.known_dims(x)[:-1], outputs), torch.float32)
    return y


@linear_blocks.lowers(since=21)
def _(g: Emitter, x: Value, q: Value, scale: Value, bits: int, block: int) -> Value:
    """onnxruntime makes a MatMulNBits of it if the weight is [inputs, outputs] with blocks along the first axis, behind
    a MatMul; of a Gemm, or with a Transpose between, it does not (1.31)."""
    turned = _known(g, q).T.contiguous()
    weight = g.const_packed(turned, ir.DataType.INT4) if bits == 4 else g.const_tensor(turned)
    scales = g.const_tensor(_known(g, scale).T.contiguous())
    return g.op.MatMul(x, g.op.DequantizeLinear(weight, scales, axis=0, block_size=block))


def _known(g: Emitter, x: Value) -> Tensor:
    tensor = g.value_of(x)
    if tensor is None:
        raise g.unsupported("a weight in blocks that is worked out from inputs")
    return tensor


# Functions


@handles(F.linear)
def linear_layer(session: QuantSession, func: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    if not session.is_full(input):
        return NotImplemented
    if weight.dim() != 2 or not is_layers_weight(session, weight):  # worked out from activations
        y = session.composed(lambda: torch.matmul(input, weight.mT if weight.dim() > 1 else weight))
        return y if bias is None else session.again(torch.add, y, bias)
    return linear_with(session, input, weight, bias)


def linear_with(session: QuantSession, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x @ weight.T + bias, with a weight in the form of nn.Linear."""
    call = session.call("linear")
    x = session.settle(x, call.site("input"))
    return compute(session, call, Product(x, weight, bias, 0, -1, F.linear, linear))


def is_weight(session: QuantSession, x: Tensor) -> bool:
    """Whether a tensor is one of the model's own, and no activation: a parameter, a buffer, or made of parameters."""
    return not session.has_grid(x) and _is_own(session, x)


def _is_own(session: QuantSession, x: Tensor) -> bool:
    return session.is_weight(x) or session.frame.has_buffer(x)


def is_layers_weight(session: QuantSession, x: Tensor) -> bool:
    """Whether a tensor is the weight of `F.linear`: one of the model's own, or what the parametrization of a layer
    (weight norm) computes."""
    if session.has_grid(x):
        return False
    return _is_own(session, x) or isinstance(session.frame.module, (nn.Linear, nn.MultiheadAttention))


MATMUL = (
    torch.matmul, Tensor.matmul, Tensor.__matmul__, Tensor.__rmatmul__, torch.bmm, Tensor.bmm, torch.mm, Tensor.mm,
    torch.mv, Tensor.mv, torch.dot, Tensor.dot, torch.vdot, Tensor.vdot, torch.linalg.matmul,
)  # fmt: skip


def in_order(func: Any, input: Tensor, other: Any, **named: Tensor) -> tuple[Tensor, Tensor] | None:
    """The operands of one of these, the left one first; None unless both are tensors of float32. The second has its own
    name in each."""
    other = next(iter(named.values()), other)
    if not isinstance(other, Tensor) or not (input.dtype is other.dtype is torch.float32):
        return None
    return (other, input) if func is Tensor.__rmatmul__ else (input, other)


@handles(*MATMUL)
def matrix_product(
    session: QuantSession, func: Any, input: Tensor, other: Tensor | None = None, **named: Tensor
) -> Any:
    operands = in_order(func, input, other, **named)
    if operands is None:
        return NotImplemented
    input, second = operands
    if second.dim() == 2 and is_weight(session, second) and not is_weight(session, input):
        return linear_with(session, input, second.t(), None)
    if 1 in (input.dim(), second.dim()):
        return session.composed(lambda: _of_vectors(input, second))
    call = session.call("matmul")
    a, b = session.settle(input, call.site("input")), session.settle(second, call.site("other"))
    one, two = session.integers(a), session.integers(b)
    if one is not None and two is not None:
        sums = f"{call.told} adds up {a.shape[-1]} products"
        refuse_overflow(call, one[1], two[1].scale, sums, "leave the module in float: a rule with off=True")
    return of_activations(session, call, a, b)


def _of_vectors(a: Tensor, b: Tensor) -> Tensor:
    """A row, a column or both, as matrices: integer kernels take nothing else."""
    y = torch.matmul(a.unsqueeze(0) if a.dim() == 1 else a, b.unsqueeze(-1) if b.dim() == 1 else b)
    y = y.squeeze(-1) if b.dim() == 1 else y
    return y.squeeze(-1 if b.dim() == 1 else -2) if a.dim() == 1 else y


def of_activations(
    session: QuantSession, call: Call, a: Tensor, b: Tensor, factor: float = 1.0, known: Tensor | None = None
) -> Tensor:
    """a @ b * factor of two settled tensors. It waits for its grid, which a softmax behind it does without.

    `known` are the sums of the integers where they are: a factor is part of a scale, and leaves them as they are."""
    one, two = session.integers(a), session.integers(b)
    if (
        session.phase is not Phase.EXACT
        or one is None
        or two is None
        or (session.for_a_chip and any(each[1].dtype not in ("uint8", "int8") for each in (one, two)))
    ):
        product = torch.matmul(a, b)
        y = session.wait(product if factor == 1 else product * factor, call)
        return _scalable(session, y, factor, lambda call, y, number: session.wait(y * number, call))
    (x, x_grid), (z, z_grid) = one, two
    x_grid = replace(x_grid, scale=x_grid.scale * factor)
    sums = matmul(x, x_grid, z, z_grid) if known is None else known

    def onto_output(grid: Grid) -> Tensor:
        if grid.dtype in ("uint16", "int16") and not session.for_a_chip:  # no kernel gives these
            wide, wide_grid = widened(x, x_grid)
            values = wide_values(matmul(wide, wide_grid, z, z_grid), x_grid, z_grid)
            return onto_grid(values, grid, call.settings.rounding)
        return requantize(sums, x_grid, z_grid, None, grid, call.settings.rounding)

    if any(each.dtype not in ("uint8", "int8") for each in (x_grid, z_grid)):
        y = session.wait(wide_values(sums, x_grid, z_grid), call)
    else:
        y = session.wait(rescale(sums, x_grid, z_grid, None), call, onto_output)
    kept = None if is_capturing() else sums  # in a file the scales, and with them the factor, are the operands'
    return _scalable(session, y, factor, lambda call, y, number: of_activations(session, call, a, b, number, kept))


def _scalable(
    session: QuantSession, y: Tensor, factor: float, again: Callable[[Call, Tensor, float], Tensor]
) -> Tensor:
    """A number that the product is multiplied with, as scores of attention are, becomes part of a scale.

    `again` gives the call, the product and the number; it does not hold the product, which holds it.
    """
    waiting = session.tag(y)
    if factor == 1 and isinstance(waiting, Pending) and not session.for_a_chip:
        call = waiting.call
        session.learn(y, scaled=lambda y, number: again(call.scaled, y, number))
    return y


ADDED = (
    torch.addmm, Tensor.addmm, torch.baddbmm, Tensor.baddbmm, torch.addbmm, Tensor.addbmm, torch.addmv, Tensor.addmv,
)  # fmt: skip


@handles(*ADDED)
def addmm(session: QuantSession, func: Any, input: Tensor, one: Any = None, two: Any = None, **kwargs: Any) -> Any:
    """input + one @ two. Where `two` is a weight and `input` its bias it is a linear layer, turned around."""
    first = next((kwargs.pop(name) for name in ("mat1", "batch1", "mat") if name in kwargs), one)
    second = next((kwargs.pop(name) for name in ("mat2", "batch2", "vec") if name in kwargs), two)
    beta, alpha = kwargs.pop("beta", 1), kwargs.pop("alpha", 1)
    operands = (input, first, second)
    if kwargs or not all(isinstance(each, Tensor) and each.dtype is torch.float32 for each in operands):
        return NotImplemented
    if func in (torch.addbmm, Tensor.addbmm):  # the sum of the products is the product of all in a row
        first, second = session.composed(lambda: (first.transpose(0, 1).flatten(1), second.flatten(0, 1)))
    if (beta, alpha) == (1, 1) and second.dim() == 2 and is_weight(session, second) and is_weight(session, input):
        bias = input if input.dim() == 1 else None
        y = linear_with(session, first, second.t(), bias)
        return y if bias is not None else session.again(torch.add, y, input)
    y = session.again(torch.matmul, first, second)
    y = y if alpha == 1 else session.again(torch.mul, y, alpha)
    if beta == 0:
        return y
    return session.again(torch.add, y, input if beta == 1 else session.again(torch.mul, input, beta))


# Where activations stay in float


@handles(F.linear, table=WEIGHT_ONLY)
def linear_in_blocks(
    session: QuantSession, func: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Any:
    if input.dtype is not torch.float32 or weight.dim() != 2 or not is_layers_weight(session, weight):
        return NotImplemented
    return _with_blocks(session, input, weight, bias)


@handles(*MATMUL, table=WEIGHT_ONLY)
def matrix_product_in_blocks(
    session: QuantSession, func: Any, input: Tensor, other: Tensor | None = None, **named: Tensor
) -> Any:
    operands = in_order(func, input, other, **named)
    if operands is None:
        return NotImplemented
    input, second = operands
    if second.dim() != 2 or not is_weight(session, second) or is_weight(session, input):
        return NotImplemented
    return _with_blocks(session, input, second.t(), None)


@handles(torch.addmm, table=WEIGHT_ONLY)
def addmm_in_blocks(session: QuantSession, func: Any, input: Tensor, mat1: Tensor, mat2: Tensor, **kwargs: Any) -> Any:
    if kwargs or mat1.dtype is not torch.float32 or not is_weight(session, mat2):
        return NotImplemented
    return _with_blocks(session, mat1, mat2.t(), input)


def _with_blocks(session: QuantSession, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x @ weight.T + bias, with the weight in blocks."""
    call = session.call("linear")
    spec = call.settings.weights
    x = session.apart(input)
    rounds = session.phase is Phase.TRAIN or is_rounded(session.study, call.path)
    if session.phase is Phase.CALIBRATE and not rounds:
        return F.linear(x, weight, bias)
    if rounds:
        return F.linear(x, fake_quantize_weight(weight, spec, axis=0), bias)
    show_weight(
        session.study, call.path, call.name, weight, functools.partial(fake_quantize_weight, weight, spec, axis=0)
    )
    y = linear_blocks(x, *_blocks_of(weight.detach(), spec))
    return y if bias is None else y + bias


def _blocks_of(weight: Tensor, spec: Weights) -> tuple[Tensor, Tensor, int, int]:
    """The integers of [outputs, inputs], their scales [outputs, blocks], how many bits each is stored in, and the size
    of a block."""
    outputs, inputs = weight.shape
    block = spec.block_size or BLOCK
    scale = weight_scale(weight_range(weight, spec, 0), spec)
    if spec.block_size is None:
        scale = scale.reshape(-1, 1).expand(outputs, -(-inputs // block))
    steps = weight_steps(spec)
    each = scale.repeat_interleave(block, 1)[:, :inputs]
    q = torch.round(weight.float() / each).clamp(-steps - int(spec.power_of_two), steps).to(torch.int8)
    return q, scale.contiguous(), 4 if spec.bits <= 4 else 8, block
