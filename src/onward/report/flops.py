"""How many arithmetic operations a node takes, from its shapes. A multiplication and an addition are two.

Products (convolutions, matrix products, attention) are counted as `torch.utils.flop_counter` does: two per
multiplication and addition, without the bias. Everything else is counted by what its definition says: one for every
function of an element, be it an addition or an exponential, and as many as it takes for norms, softmax and pools. What
only moves data takes none. An operator that is not in these tables has no number: None, never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import onnx_ir as ir

from .sizes import Sized, Sizes

Count = int | None
Rule = Callable[["Shapes"], Count]


class Shapes:
    """The sizes of what a node reads and gives. One that is needed and not known is an `Unknown`."""

    def __init__(self, node: ir.Node, sized: Sized) -> None:
        self.node, self._sized = node, sized

    def has(self, place: int) -> bool:
        return place < len(self.node.inputs) and self.node.inputs[place] is not None

    def x(self, place: int = 0) -> Sizes:
        value = self.node.inputs[place] if place < len(self.node.inputs) else None
        return self._of(value)

    def y(self, place: int = 0) -> Sizes:
        return self._of(self.node.outputs[place])

    def read(self, place: int = 0) -> int:
        """Elements of an input."""
        return math.prod(self.x(place))

    def given(self) -> int:
        """Elements of the first output."""
        return math.prod(self.y())

    def _of(self, value: ir.Value | None) -> Sizes:
        if value is None or value not in self._sized.sizes:
            raise Unknown
        return self._sized.sizes[value]

    def number(self, name: str, default: int) -> int:
        return self.node.attributes.get_int(name, default)

    def numbers(self, name: str) -> Sequence[int]:
        return self.node.attributes.get_ints(name, ())

    def text(self, name: str, default: str) -> str:
        return self.node.attributes.get_string(name, default)


class Unknown(Exception):
    """A shape that a count needs."""


def flops_of(node: ir.Node, sized: Sized, inner: Sequence[Sequence[Count]], *, is_call: bool) -> Count:
    """The count of one node; `inner` are those of the nodes in the graphs that it holds."""
    if is_call:
        return _sum(inner[0]) if inner else None  # a call that was not opened
    if inner:
        return _of_body(node, sized, inner)
    rule = RULES.get((node.domain, node.op_type))
    if rule is None:
        return None
    try:
        return rule(Shapes(node, sized))
    except (Unknown, IndexError, TypeError):  # IndexError, TypeError: a malformed node, for the checker to tell of
        return None


def _sum(counts: Sequence[Count]) -> Count:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _of_body(node: ir.Node, sized: Sized, inner: Sequence[Sequence[Count]]) -> Count:
    """Branches that cost the same, and loops whose number of turns follows from shapes or constants."""
    each = [_sum(counts) for counts in inner]
    if None in each or not each:
        return None
    if node.op_type == "If":
        return each[0] if len(set(each)) == 1 else None
    turns = _turns(node, sized)
    return None if turns is None or each[0] is None else turns * each[0]


def _turns(node: ir.Node, sized: Sized) -> int | None:
    if node.op_type == "Scan":
        scanned = node.attributes.get_int("num_scan_inputs", 0)
        axes = node.attributes.get_ints("scan_input_axes", ()) or (0,)
        first = node.inputs[len(node.inputs) - scanned] if scanned else None
        sizes = sized.sizes.get(first) if first is not None else None
        return sizes[axes[0]] if sizes else None
    if node.op_type != "Loop" or not node.inputs or node.inputs[0] is None:
        return None
    limit, condition = node.inputs[0].const_value, node.inputs[1] if len(node.inputs) > 1 else None
    if limit is None or limit.size != 1 or not _goes_on(node, condition):
        return None
    return int(limit.numpy().item())


def _goes_on(node: ir.Node, condition: ir.Value | None) -> bool:
    """Whether nothing but the limit ends a loop: the condition is true at the start, and passed on as it is."""
    if condition is not None and (condition.const_value is None or not bool(condition.const_value.numpy().item())):
        return False
    body = node.attributes["body"].as_graph()
    told = body.outputs[0]
    maker = told.producer()
    while maker is not None and maker.op_type == "Identity" and maker.inputs[0] is not None:
        told = maker.inputs[0]
        maker = told.producer()
    if told.const_value is not None:
        return bool(told.const_value.numpy().item())
    return told is body.inputs[1]


# Products


def _conv(s: Shapes, weight: int = 1) -> Count:
    return 2 * s.given() * math.prod(s.x(weight)[1:])


def _conv_transpose(s: Shapes) -> Count:
    return 2 * s.read() * math.prod(s.x(1)[1:])


def _gemm(s: Shapes) -> Count:
    return 2 * s.given() * s.x()[0 if s.number("transA", 0) else 1]


def _matmul(s: Shapes) -> Count:
    return 2 * s.given() * s.x()[-1]


def _fused_matmul(s: Shapes) -> Count:
    return 2 * s.given() * s.x()[-2 if s.number("transA", 0) else -1]


def _matmul_nbits(s: Shapes) -> Count:
    return 2 * s.given() * s.number("K", 0)


def _einsum(s: Shapes) -> Count:
    """Two operands: every combination of indices once. More are contracted in an order of the runtime's choice."""
    equation = s.text("equation", "").replace(" ", "")
    left, _, right = equation.partition("->")
    operands = left.split(",")
    if "." in equation or len(operands) != len(s.node.inputs) or len(operands) > 2:
        return None
    sizes: dict[str, int] = {}
    for place, letters in enumerate(operands):
        for letter, size in zip(letters, s.x(place), strict=True):
            sizes[letter] = max(sizes.get(letter, 1), size)
    summed = any(letter not in right for letter in sizes) if "->" in equation else True
    every = math.prod(sizes.values())
    if len(operands) == 1:
        return every if summed else 0
    return 2 * every if summed else every


def _attention(s: Shapes) -> Count:
    """Queries with keys, softmax, its rows with values. ai.onnx 23 on; 4-D, or 3-D with the number of heads."""
    q, k, v = s.x(0), s.x(1), s.x(2)
    if len(q) == 4:
        batch, heads, length, width = q
        keys, depth = k[2], v[3]
    else:
        batch, length, heads = q[0], q[1], s.number("q_num_heads", 0)
        kv_heads = s.number("kv_num_heads", 0)
        if not heads or not kv_heads:
            return None
        width, keys, depth = q[2] // heads, k[1], v[2] // kv_heads
    keys += s.x(4)[2] if s.has(4) else 0
    scores = batch * heads * length * keys
    return 2 * scores * (width + depth) + 5 * scores


def _recurrent(gates: int, others: int) -> Rule:
    """Both products of every step, and so many operations on the state: sums of gates, activations, the new state."""

    def rule(s: Shapes) -> Count:
        x, recurrent = s.x(0), s.x(2)
        directions, hidden = recurrent[0], recurrent[2]
        steps = x[0] * x[1]  # length and batch, in either order
        return directions * steps * (2 * gates * hidden * (x[2] + hidden) + others * hidden)

    return rule


# Everything else


def _each(times: int = 1) -> Rule:
    return lambda s: times * s.given()


def _each_read(times: int = 1) -> Rule:
    return lambda s: times * s.read()


def _variadic(s: Shapes) -> Count:
    return (len(s.node.inputs) - 1) * s.given()


def _pool(s: Shapes) -> Count:
    return s.given() * math.prod(s.numbers("kernel_shape") or (1,))


def _layer_norm(s: Shapes) -> Count:
    """Mean and variance 4, division and root 2, scale, bias."""
    return s.read() * (6 + s.has(1) + s.has(2))


def _resize(s: Shapes) -> Count:
    """Neighbours of every element: two per axis that is resized (four if cubic), each weighed and added."""
    mode = s.text("mode", "nearest")
    if mode == "nearest":
        return 0
    axes = sum(before != after for before, after in zip(s.x(), s.y(), strict=True))
    return 2 * s.given() * (4 if mode == "cubic" else 2) ** axes


def _scatter(s: Shapes) -> Count:
    return 0 if s.text("reduction", "none") == "none" else s.read(2)


def _nothing(s: Shapes) -> Count:
    return 0


_ELEMENT_WISE = (
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd", "BitwiseNot",
    "BitwiseOr", "BitwiseXor", "Ceil", "Clip", "Cos", "Cosh", "Div", "Elu", "Equal", "Erf", "Exp", "Floor",
    "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Log", "Mod", "Mul", "Neg", "Not", "Or", "Pow",
    "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Sqrt", "Sub", "Tan", "Tanh",
    "ThresholdedRelu", "Xor", "Softsign", "IsInf", "IsNaN",
)  # fmt: skip
_TWICE = ("LeakyRelu", "PRelu", "Celu", "Selu", "HardSigmoid", "Softplus", "Shrink", "Swish")
_REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceLogSum", "ArgMax", "ArgMin", "CumSum",
    "Col2Im", "GlobalAveragePool", "GlobalMaxPool",
)  # fmt: skip
_TWICE_READ = ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare", "GlobalLpPool")
_MOVES = (
    "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Transpose", "Concat", "Split", "Slice", "Gather",
    "GatherElements", "GatherND", "Expand", "Tile", "Pad", "Shape", "Size", "Constant", "ConstantOfShape", "Cast",
    "CastLike", "DepthToSpace", "SpaceToDepth", "Where", "OneHot", "Range", "EyeLike", "Dropout", "Trilu",
    "Compress", "NonZero", "ReverseSequence", "CenterCropPad", "SequenceAt", "SequenceConstruct", "SequenceEmpty",
    "SequenceInsert", "SequenceErase", "SequenceLength", "SplitToSequence", "ConcatFromSequence", "Optional",
    "OptionalGetElement", "OptionalHasElement", "BitCast", "TensorScatter",
)  # fmt: skip

RULES: dict[tuple[str, str], Rule] = {
    **{("", op): _nothing for op in _MOVES},
    **{("", op): _each() for op in _ELEMENT_WISE},
    **{("", op): _each(2) for op in _TWICE},
    **{("", op): _each_read() for op in _REDUCTIONS},
    **{("", op): _each_read(2) for op in _TWICE_READ},
    **{("", op): _variadic for op in ("Sum", "Max", "Min")},
    ("", "Mean"): lambda s: len(s.node.inputs) * s.given(),
    ("", "Conv"): _conv,
    ("", "ConvInteger"): _conv,
    ("", "QLinearConv"): lambda s: _conv(s, 3),
    ("", "ConvTranspose"): _conv_transpose,
    ("", "Gemm"): _gemm,
    ("", "MatMul"): _matmul,
    ("", "MatMulInteger"): _matmul,
    ("", "QLinearMatMul"): _matmul,
    ("", "Einsum"): _einsum,
    ("", "Attention"): _attention,
    ("", "LSTM"): _recurrent(4, 13),
    ("", "GRU"): _recurrent(3, 11),
    ("", "RNN"): _recurrent(1, 2),
    ("", "Softmax"): _each(5),
    ("", "LogSoftmax"): _each(5),
    ("", "Hardmax"): _each(),
    ("", "Gelu"): _each(5),
    ("", "Mish"): _each(4),
    ("", "HardSwish"): _each(4),
    ("", "BatchNormalization"): _each(2),
    ("", "InstanceNormalization"): _each_read(8),
    ("", "GroupNormalization"): _each_read(8),
    ("", "LayerNormalization"): _layer_norm,
    ("", "RMSNormalization"): _each_read(5),
    ("", "MeanVarianceNormalization"): _each_read(6),
    ("", "LpNormalization"): _each_read(3),
    ("", "LRN"): lambda s: s.given() * (2 * s.number("size", 1) + 4),
    ("", "AveragePool"): _pool,
    ("", "MaxPool"): _pool,
    ("", "LpPool"): lambda s: 2 * s.given() * math.prod(s.numbers("kernel_shape") or (1,)),
    ("", "Resize"): _resize,
    ("", "Upsample"): _resize,
    ("", "ScatterElements"): _scatter,
    ("", "ScatterND"): _scatter,
    ("", "Scatter"): _nothing,
    ("", "QuantizeLinear"): _each(4),  # division, rounding, zero point, clipping
    ("", "DequantizeLinear"): _each(2),
    ("", "DynamicQuantizeLinear"): _each_read(6),  # and the two extremes
    ("com.microsoft", "QuantizeLinear"): _each(4),
    ("com.microsoft", "DequantizeLinear"): _each(2),
    ("com.microsoft", "MatMulNBits"): _matmul_nbits,
    ("com.microsoft", "MatMulBnb4"): _matmul_nbits,
    ("com.microsoft", "FusedMatMul"): _fused_matmul,
    ("com.microsoft", "FusedConv"): _conv,
    ("com.microsoft", "FusedGemm"): _gemm,
    ("com.microsoft", "QGemm"): _gemm,
    ("com.microsoft", "MatMulIntegerToFloat"): _matmul,
    ("com.microsoft", "DynamicQuantizeMatMul"): _matmul,
    ("com.microsoft", "QLinearAdd"): _each(),
    ("com.microsoft", "QLinearMul"): _each(),
    ("com.microsoft", "Gelu"): _each(5),
    ("com.microsoft", "QuickGelu"): _each(3),
}
