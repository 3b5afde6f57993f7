"""Constant folding: ONNX operators evaluated on PyTorch tensors, as views wherever ONNX's meaning allows.

A folder gets the constants, the attributes and the opset, and answers with a tensor, a list of tensors, or None where
it declines. Weights are never copied: a result that is no view is kept only if it is small, or smaller than its origin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onward.lower import dtypes
from onward.tables import registrar

MAX_BYTES = 1 << 20

Tensors = Sequence[torch.Tensor | None]
Folder = Callable[[Any, dict[str, Any], int], Any]
FOLDERS: dict[str, Folder] = {}
_POINTWISE: set[str] = set()


def fold(op: str, inputs: Tensors, attributes: dict[str, Any], opset: int) -> list[torch.Tensor] | None:
    """The outputs of an operator whose inputs are all constants; None where it stays a node."""
    folder = FOLDERS.get(op)
    if folder is None or any(x is not None and x.device.type == "meta" and op not in _ON_META for x in inputs):
        return None
    largest = max((_bytes(x) for x in inputs if x is not None), default=0)
    if largest > MAX_BYTES and op in _POINTWISE:
        return None
    with torch.no_grad():
        result = folder(inputs, attributes, opset)
    if result is None:
        return None
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    total = sum(map(_bytes, results))
    if total > MAX_BYTES and total > largest:
        return None
    if total > MAX_BYTES and total == largest and not all(_is_view(r, inputs) for r in results):
        return None
    return results


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _is_view(result: torch.Tensor, inputs: Tensors) -> bool:
    if result.device.type == "meta":
        return True
    address = result.untyped_storage().data_ptr()
    return any(x is not None and x.untyped_storage().data_ptr() == address for x in inputs)


def folds(*ops: str, pointwise: bool = False) -> Callable[[Folder], Folder]:
    """Register the evaluation of one or more ONNX operators."""

    def decorate(folder: Folder) -> Folder:
        if pointwise:
            _POINTWISE.update(ops)
        return registrar(FOLDERS)(*ops)(folder)

    return decorate


def _ints(tensor: torch.Tensor | None) -> list[int] | None:
    return None if tensor is None else [int(v) for v in tensor.reshape(-1).tolist()]


def _axes(inputs: Tensors, attributes: dict[str, Any], place: int = 1) -> list[int] | None:
    """Axes as an attribute (older opsets) or as an input (newer ones)."""
    if attributes.get("axes") is not None:
        return list(attributes["axes"])
    return _ints(inputs[place]) if len(inputs) > place else None


# Structure: views.


@folds("Identity")
def identity(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    return inputs[0]


@folds("Transpose")
def transpose(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    x = inputs[0]
    return x.permute(attributes.get("perm") or list(range(x.dim()))[::-1])


@folds("Reshape")
def reshape(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    x, shape = inputs[0], _ints(inputs[1]) or []
    if not attributes.get("allowzero"):
        shape = [x.shape[i] if size == 0 else size for i, size in enumerate(shape)]
    return None if x.numel() == 0 and -1 in shape else x.reshape(shape)


@folds("Flatten")
def flatten(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    x, axis = inputs[0], attributes.get("axis", 1)
    axis += x.dim() if axis < 0 else 0
    return x.reshape(x.shape[:axis].numel(), x.shape[axis:].numel())


@folds("Unsqueeze")
def unsqueeze(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    x, axes = inputs[0], _axes(inputs, attributes) or []
    rank = x.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


@folds("Squeeze")
def squeeze(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    x, axes = inputs[0], _axes(inputs, attributes)
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


@folds("Expand")
def expand(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    return inputs[0].expand(torch.broadcast_shapes(inputs[0].shape, torch.Size(_ints(inputs[1]) or [])))


@folds("Slice")
def slice_(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    x = inputs[0]
    if opset < 10:
        starts, ends, axes, steps = attributes["starts"], attributes["ends"], attributes.get("axes"), None
    else:
        starts, ends, axes, steps = [_ints(inputs[i]) if i < len(inputs) else None for i in range(1, 5)]
    axes = list(range(len(starts))) if axes is None else axes
    for start, end, axis, step in zip(starts, ends, axes, steps or [1] * len(starts), strict=True):
        if step > 0:
            x = x[(slice(None),) * (axis % x.dim()) + (slice(start, end, step),)]
        else:
            places = torch.tensor(range(x.shape[axis])[slice(start, None if end < -x.shape[axis] else end, step)])
            x = x.index_select(axis, places.to(torch.int64))
    return x


@folds("Split")
def split(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    sizes = attributes.get("split") or (_ints(inputs[1]) if len(inputs) > 1 else None)
    return None if sizes is None else inputs[0].split(sizes, attributes.get("axis", 0))


@folds("Concat")
def concat(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    return None if sum(map(_bytes, inputs)) > MAX_BYTES else torch.cat(list(inputs), attributes["axis"])


@folds("Gather")
def gather(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    x, indices = inputs
    axis = attributes.get("axis", 0) % x.dim()
    if indices.dim() == 0:
        return x.select(axis, int(indices))
    if x[(slice(0, 1),) * x.dim()].numel() and _bytes(x) // max(x.shape[axis], 1) * indices.numel() > MAX_BYTES:
        return None
    flat = torch.where(indices < 0, indices + x.shape[axis], indices).reshape(-1)
    return x.index_select(axis, flat.to(torch.int64)).reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


@folds("Shape")
def shape_(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    return torch.tensor(list(inputs[0].shape)[attributes.get("start", 0) : attributes.get("end")], dtype=torch.int64)


@folds("Size")
def size(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    return torch.tensor(inputs[0].numel())


# Making


@folds("ConstantOfShape")
def constant_of_shape(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    value = attributes.get("value")
    value = torch.zeros(1) if value is None else value
    return value.reshape([]).expand(_ints(inputs[0]) or [])


@folds("Range")
def range_(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    start, limit, delta = (x.reshape([]).item() for x in inputs)
    if delta == 0 or (limit - start) / delta * inputs[0].element_size() > MAX_BYTES:
        return None
    empty = (limit - start) / delta <= 0
    return inputs[0].new_empty(0) if empty else torch.arange(start, limit, delta, dtype=inputs[0].dtype)


@folds("Cast")
def cast(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    target = dtypes.to_torch(attributes["to"])
    x = inputs[0]
    if _bytes(x) > MAX_BYTES and target.itemsize >= x.element_size():
        return None
    return x.to(target)


@folds("NonZero")
def nonzero(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    return inputs[0].nonzero().t()


@folds("Tile")
def tile(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    repeats = _ints(inputs[1]) or []
    return None if _bytes(inputs[0]) * torch.Size(repeats).numel() > MAX_BYTES else inputs[0].repeat(repeats)


# Arithmetic


def _unary(function: Any) -> Folder:
    return lambda inputs, attributes, opset: function(inputs[0])


def _binary(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Folder:
    return lambda inputs, attributes, opset: function(inputs[0], inputs[1])


def _divide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor | None:
    if x.is_floating_point():
        return x / y
    return None if bool((y == 0).any()) else torch.div(x, y, rounding_mode="trunc")


def _power(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor | None:
    if not x.is_floating_point() and (y.is_floating_point() or bool((y < 0).any())):
        return None
    return torch.pow(x, y.to(x.dtype)).to(x.dtype)


for _name, _function in {
    "Neg": torch.neg, "Abs": torch.abs, "Sqrt": torch.sqrt, "Exp": torch.exp, "Log": torch.log, "Floor": torch.floor,
    "Ceil": torch.ceil, "Reciprocal": torch.reciprocal, "Not": torch.logical_not, "Sign": torch.sign, "Sin": torch.sin,
    "Cos": torch.cos, "Tanh": torch.tanh, "Sigmoid": torch.sigmoid, "Relu": torch.relu, "Round": torch.round,
    "Erf": torch.erf, "IsNaN": torch.isnan,
}.items():  # fmt: skip
    folds(_name, pointwise=True)(_unary(_function))

for _name, _pair in {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": _divide, "Pow": _power, "Equal": torch.eq,
    "Less": torch.lt, "Greater": torch.gt, "LessOrEqual": torch.le, "GreaterOrEqual": torch.ge,
    "And": torch.logical_and, "Or": torch.logical_or, "Xor": torch.logical_xor,
}.items():  # fmt: skip
    folds(_name, pointwise=True)(_binary(_pair))  # type: ignore[arg-type]


@folds("Mod", pointwise=True)
def mod(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    x, y = inputs
    if not x.is_floating_point() and bool((y == 0).any()):
        return None
    return torch.fmod(x, y) if attributes.get("fmod") else torch.remainder(x, y)


@folds("Where", pointwise=True)
def where(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    return torch.where(*inputs)


def _variadic(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Folder:
    def folder(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        result = inputs[0]
        for other in inputs[1:]:
            result = function(result, other)
        return result

    return folder


folds("Max", pointwise=True)(_variadic(torch.maximum))
folds("Min", pointwise=True)(_variadic(torch.minimum))
folds("Sum", pointwise=True)(_variadic(torch.add))


@folds("Clip", pointwise=True)
def clip(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
    if opset < 11:
        return inputs[0].clamp(attributes.get("min"), attributes.get("max"))
    low, high = ([*inputs, None, None])[1:3]
    return inputs[0] if low is None and high is None else inputs[0].clamp(low, high)


# Reductions


def _reduction(function: Callable[..., torch.Tensor | None]) -> Folder:
    def folder(inputs: Any, attributes: dict[str, Any], opset: int) -> Any:
        x, axes, keep = inputs[0], _axes(inputs, attributes), bool(attributes.get("keepdims", 1))
        if not axes:
            if attributes.get("noop_with_empty_axes"):
                return None
            axes = list(range(x.dim()))
        return function(x, axes, keep) if x.dim() and x.numel() else None

    return folder


def _product(x: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    for axis in sorted((axis % x.dim() for axis in axes), reverse=True):
        x = x.prod(axis, keepdim=keep, dtype=x.dtype)
    return x


folds("ReduceSum")(_reduction(lambda x, axes, keep: x.sum(axes, keepdim=keep, dtype=x.dtype)))
folds("ReduceMean")(_reduction(lambda x, axes, keep: x.mean(axes, keepdim=keep) if x.is_floating_point() else None))
folds("ReduceMax")(_reduction(lambda x, axes, keep: x.amax(axes, keepdim=keep)))
folds("ReduceMin")(_reduction(lambda x, axes, keep: x.amin(axes, keepdim=keep)))
folds("ReduceProd")(_reduction(_product))

# What needs only the shape works on tensors without data as well.
_ON_META = frozenset({"Identity", "Transpose", "Unsqueeze", "Squeeze", "Shape", "Size", "Flatten"})
