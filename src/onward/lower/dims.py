"""Dimensions of intermediate values, worked out from those of their inputs.

A dimension is an int or a fingerprint (its size in every probe), so sizes of intermediates are computed by doing the
arithmetic once per probe; no algebra is needed. A rule answers None where it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onward.capture.program.facts import Dim, SymDim, length_of_slice
from onward.tables import registrar

Shape = tuple[Dim, ...]
Rule = Callable[[Sequence[Shape | None], Sequence[torch.Tensor | None], dict[str, Any], int], Any]

BROADCAST = frozenset({
    "Add", "Sub", "Mul", "Div", "Pow", "Mod", "And", "Or", "Xor", "Equal", "Less", "Greater", "LessOrEqual",
    "GreaterOrEqual", "Where", "Max", "Min", "Sum", "Mean", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
})  # fmt: skip

LIKE_FIRST = frozenset({
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BatchNormalization", "BitwiseNot", "Cast", "CastLike",
    "Ceil", "Celu", "Clip", "Cos", "Cosh", "CumSum", "DequantizeLinear", "Dropout", "Elu", "Erf", "Exp", "EyeLike",
    "Floor", "Gelu", "GroupNormalization", "HardSigmoid", "HardSwish", "Hardmax", "Identity", "InstanceNormalization",
    "IsInf", "IsNaN", "LRN", "LayerNormalization", "LeakyRelu", "Log", "LogSoftmax", "LpNormalization",
    "MeanVarianceNormalization", "Mish", "Neg", "Not", "PRelu", "QuantizeLinear", "RMSNormalization",
    "RandomNormalLike", "RandomUniformLike", "Reciprocal", "Relu", "ReverseSequence", "Round", "Scatter",
    "ScatterElements", "ScatterND", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus",
    "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Trilu",
})  # fmt: skip

_RULES: dict[str, Rule] = {}


def combine(function: Callable[..., Any], *dims: Dim) -> Dim:
    """A dimension computed from others: the function applied once per probe."""
    count = next((len(dim.values) for dim in dims if isinstance(dim, SymDim)), 1)
    columns = [dim.values if isinstance(dim, SymDim) else (dim,) * count for dim in dims]
    values = tuple(int(function(*row)) for row in zip(*columns, strict=True))
    return values[0] if len(set(values)) == 1 else SymDim(values, "")


def product(dims: Sequence[Dim]) -> Dim:
    """How many elements the dimensions span."""
    result: Dim = 1
    for dim in dims:
        result = combine(lambda a, b: a * b, result, dim)
    return result


def total(dims: Sequence[Dim]) -> Dim:
    result: Dim = 0
    for dim in dims:
        result = combine(lambda a, b: a + b, result, dim)
    return result


def broadcast(*shapes: Shape) -> Shape:
    """The common shape, axes aligned at the end."""
    rank = max(map(len, shapes), default=0)
    return tuple(
        _broadcast_axis([shape[axis - rank + len(shape)] for shape in shapes if axis - rank + len(shape) >= 0])
        for axis in range(rank)
    )


def _broadcast_axis(sizes: Sequence[Dim]) -> Dim:
    result: Dim = 1
    for size in sizes:
        if result == 1:
            result = size
        elif size != 1 and size != result:
            result = combine(lambda a, b: b if a == 1 else a, result, size)
    return result


def propagate(
    op: str,
    shapes: Sequence[Shape | None],
    constants: Sequence[torch.Tensor | None],
    attributes: dict[str, Any],
    outputs: int,
) -> list[Shape | None]:
    """The dimensions of each output; None for those that no rule gives."""
    unknown: list[Shape | None] = [None] * outputs
    if not shapes:
        return unknown
    if op in BROADCAST:
        return unknown if None in shapes else [broadcast(*shapes)]  # type: ignore[arg-type]
    if op in LIKE_FIRST:
        return [shapes[0], *unknown[1:]]
    rule = _RULES.get(op)
    if rule is None or shapes[0] is None:
        return unknown
    result = rule(shapes, constants, attributes, outputs)
    return [*result, *unknown[len(result) :]] if isinstance(result, list) else [result, *unknown[1:]]


_rule = registrar(_RULES)


def _ints(constants: Sequence[torch.Tensor | None], place: int) -> list[int] | None:
    tensor = constants[place] if place < len(constants) else None
    return None if tensor is None else [int(v) for v in tensor.reshape(-1).tolist()]


def _axes(shapes: Any, constants: Any, attributes: dict[str, Any], place: int = 1) -> tuple[bool, list[int] | None]:
    """(whether they are known, the axes or None for all)"""
    if attributes.get("axes") is not None:
        return True, list(attributes["axes"])
    if place < len(shapes) and shapes[place] is not None:
        found = _ints(constants, place)
        return found is not None, found
    return True, None


@_rule("Transpose")
def _transpose(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    shape = shapes[0]
    return tuple(shape[axis] for axis in attributes.get("perm") or range(len(shape))[::-1])


@_rule("Unsqueeze")
def _unsqueeze(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    known, axes = _axes(shapes, constants, attributes)
    if not known or axes is None:
        return None
    rank = len(shapes[0]) + len(axes)
    places, rest = {axis % rank for axis in axes}, iter(shapes[0])
    return tuple(1 if axis in places else next(rest) for axis in range(rank))


@_rule("Squeeze")
def _squeeze(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    known, axes = _axes(shapes, constants, attributes)
    if not known or axes is None:
        return None
    gone = {axis % len(shapes[0]) for axis in axes}
    return tuple(dim for axis, dim in enumerate(shapes[0]) if axis not in gone)


@_rule("Reshape")
def _reshape(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    wanted = _ints(constants, 1)
    if wanted is None:
        return None
    keep = not attributes.get("allowzero")
    sizes = [shapes[0][axis] if size == 0 and keep else size for axis, size in enumerate(wanted)]
    if -1 in sizes:
        rest = product([size for size in sizes if size != -1])
        if rest == 0:
            return None
        sizes[sizes.index(-1)] = combine(lambda a, b: a // b if b else 0, product(shapes[0]), rest)
    return tuple(sizes)


@_rule("Expand")
def _expand(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    wanted = _ints(constants, 1)
    return None if wanted is None else broadcast(shapes[0], tuple(wanted))


@_rule("Concat")
def _concat(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    if None in shapes:
        return None
    axis = attributes["axis"] % len(shapes[0])
    return (*shapes[0][:axis], total([shape[axis] for shape in shapes]), *shapes[0][axis + 1 :])


@_rule("MatMul")
def _matmul(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    left, right = shapes[0], shapes[1]
    if right is None or not left or not right:
        return None
    batch = broadcast(left[:-2], right[:-2])
    return (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


@_rule("Gemm")
def _gemm(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    if shapes[1] is None:
        return None
    return shapes[0][1 if attributes.get("transA") else 0], shapes[1][0 if attributes.get("transB") else 1]


@_rule("Gather")
def _gather(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    if shapes[1] is None:
        return None
    axis = attributes.get("axis", 0) % len(shapes[0])
    return (*shapes[0][:axis], *shapes[1], *shapes[0][axis + 1 :])


@_rule("GatherElements")
def _gather_elements(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    return shapes[1]


@_rule("Shape")
def _shape(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    return (len(range(len(shapes[0]))[attributes.get("start", 0) : attributes.get("end")]),)


@_rule("Size")
def _size(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    return ()


@_rule("Flatten")
def _flatten(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    axis = attributes.get("axis", 1)
    axis += len(shapes[0]) if axis < 0 else 0
    return product(shapes[0][:axis]), product(shapes[0][axis:])


@_rule("Slice")
def _slice(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    if "starts" in attributes:
        starts, ends, axes, steps = attributes["starts"], attributes["ends"], attributes.get("axes"), None
    else:
        starts, ends, axes, steps = (_ints(constants, place) for place in range(1, 5))
        given = len(constants)
        if starts is None or ends is None or (given > 3 and axes is None) or (given > 4 and steps is None):
            return None
    sizes = list(shapes[0])
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = axes[place] if axes else place
        step = steps[place] if steps else 1
        sizes[axis] = combine(lambda n, s=start, e=end, t=step: slice_length(n, s, e, t), sizes[axis])
    return tuple(sizes)


def slice_length(size: int, start: int, end: int, step: int) -> int:
    stop = None if step < 0 and end < -size else end
    return length_of_slice(size, start, stop, step)


@_rule("Split")
def _split(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    axis = attributes.get("axis", 0) % len(shapes[0])
    sizes = attributes.get("split") or _ints(constants, 1)
    if sizes is None:
        return None
    return [(*shapes[0][:axis], size, *shapes[0][axis + 1 :]) for size in sizes]


@_rule("TopK")
def _topk(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    count = [attributes["k"]] if "k" in attributes else _ints(constants, 1)
    if count is None:
        return None
    axis = attributes.get("axis", -1) % len(shapes[0])
    return [(*shapes[0][:axis], count[0], *shapes[0][axis + 1 :])] * 2


@_rule("Pad")
def _pad(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    pads = attributes.get("pads") or _ints(constants, 1)
    if pads is None or len(pads) != 2 * len(shapes[0]):
        return None
    return tuple(
        combine(lambda n, a=before, b=after: n + a + b, dim)
        for dim, before, after in zip(shapes[0], pads[: len(shapes[0])], pads[len(shapes[0]) :], strict=True)
    )


@_rule("Tile")
def _tile(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    repeats = _ints(constants, 1)
    return None if repeats is None else tuple(map(lambda dim, n: product([dim, n]), shapes[0], repeats))


@_rule("ConstantOfShape")
def _constant_of_shape(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    sizes = _ints(constants, 0)
    return None if sizes is None else tuple(sizes)


@_rule("ArgMax", "ArgMin")
def _arg_reduce(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    return _reduced(shapes[0], [attributes.get("axis", 0)], attributes)


@_rule(
    *(f"Reduce{kind}" for kind in ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"])
)
def _reduce(shapes: Any, constants: Any, attributes: dict[str, Any], outputs: int) -> Any:
    known, axes = _axes(shapes, constants, attributes)
    if not known:
        return None
    if not axes and attributes.get("noop_with_empty_axes"):
        return shapes[0]
    return _reduced(shapes[0], axes or list(range(len(shapes[0]))), attributes)


def _reduced(shape: Shape, axes: list[int], attributes: dict[str, Any]) -> Shape:
    gone = {axis % max(len(shape), 1) for axis in axes}
    if attributes.get("keepdims", 1):
        return tuple(1 if axis in gone else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in gone)
