"""What scripts take from `torch.onnx.symbolic_helper`, for symbolic functions: `parse_args` above all.

The names are PyTorch's, underscores included, so that such a script runs with another import line.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from onward.errors import LoweringError, UnsupportedOpError
from onward.lower import dtypes
from onward.lower.symbolic.types import SCALAR_TYPES
from onward.lower.symbolic.values import CONSTANT, LIST, is_value

__all__ = [
    "_get_const", "_get_tensor_dim_size", "_get_tensor_rank", "_get_tensor_sizes", "_is_bool", "_is_constant",
    "_is_fp", "_is_list", "_is_none", "_is_onnx_constant", "_is_packed_list", "_is_tensor", "_is_tensor_list",
    "_is_value", "_lt_helper", "_maybe_get_const", "_maybe_get_scalar", "_node_get", "_numel_helper",
    "_onnx_opset_unsupported", "_onnx_opset_unsupported_detailed", "_onnx_unsupported", "_parse_arg",
    "_reducesum_helper", "_reshape_helper", "_scalar", "_select_helper", "_size_helper", "_slice_helper",
    "_squeeze_helper", "_topk_helper", "_try_get_scalar_type", "_unimplemented", "_unpack_list", "_unsqueeze_helper",
    "cast_pytorch_to_onnx", "parse_args", "pytorch_name_to_type", "quantized_args", "scalar_name_to_pytorch",
    "scalar_type_to_onnx", "scalar_type_to_pytorch_type",
]  # fmt: skip

_EXPRESSIBLE = [(dtype, name) for dtype, name in SCALAR_TYPES if not name.startswith(("Q", "ComplexHalf"))]

cast_pytorch_to_onnx = {name: int(dtypes.to_onnx(dtype)) for dtype, name in _EXPRESSIBLE if not dtype.is_complex}
scalar_type_to_pytorch_type = [dtype for dtype, _ in SCALAR_TYPES]
scalar_type_to_onnx = [cast_pytorch_to_onnx.get(name, 0) for _, name in SCALAR_TYPES]
pytorch_name_to_type = {name: dtype for dtype, name in SCALAR_TYPES}
scalar_name_to_pytorch = {str(dtype).removeprefix("torch."): name for dtype, name in SCALAR_TYPES}


# Arguments


_LETTERS = {
    "v": "a value", "i": "an int", "is": "a list of ints", "f": "a float", "fs": "a list of floats", "b": "a bool",
    "s": "a string", "t": "a tensor", "none": "anything",
}  # fmt: skip


def parse_args(*descriptors: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a symbolic function so that it gets constants as Python values.

    One descriptor per argument after `g`: v (a value of the graph, as it is), i, is, f, fs, b, s, t (int, list of ints,
    float, list of floats, bool, string, tensor), none (not used).
    """
    for each in descriptors:
        if each not in _LETTERS:
            raise ValueError(f"parse_args takes the descriptors {', '.join(_LETTERS)}, not {each!r}")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function._arg_descriptors = descriptors  # type: ignore[attr-defined]
        names = [*inspect.signature(function).parameters][1:]

        @functools.wraps(function)
        def parsed(g: Any, *args: Any, **kwargs: Any) -> Any:
            if len(args) > len(descriptors):
                raise TypeError(
                    f"{function.__name__} has {len(descriptors)} descriptors in parse_args "
                    f"and gets {len(args)} arguments"
                )
            names_of = [*names, *(f"argument {place}" for place in range(len(names), len(args)))]
            values = [
                _parse_arg(arg, descriptor, name, function.__name__)
                for arg, descriptor, name in zip(args, descriptors, names_of, strict=False)
            ]
            return function(g, *values, **kwargs)

        return parsed

    return decorate


def quantized_args(*_: bool, **__: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Accepted for its name: tensors of PyTorch's quantised types do not reach symbolic functions here."""
    return lambda function: function


def _parse_arg(value: Any, descriptor: str, arg_name: str | None = None, node_name: str | None = None) -> Any:
    """A constant as a Python value; what is no value of the graph, as it is."""
    if descriptor in ("v", "none") or not is_value(value):
        return value
    node = value.node()
    if node.mustBeNone():
        return None
    if node.kind() == LIST:
        held: Any = [_parse_arg(each, descriptor.removesuffix("s"), arg_name, node_name) for each in node.inputs()]
        if descriptor in ("is", "fs"):
            return held
    elif node.kind() == CONSTANT:
        held = node[_VALUE] if hasattr(node, "__getitem__") else getattr(node, node.kindOf(_VALUE))(_VALUE)
    else:
        argument = f"the argument {arg_name!r} of {node_name}" if arg_name and node_name else "an argument"
        raise TypeError(
            f"{argument} has to be {_LETTERS[descriptor]} (a constant), and is computed when the model runs ({value!r})"
        )
    try:
        return _as_python(held, descriptor)
    except (TypeError, ValueError, RuntimeError):
        argument = f"the argument {arg_name!r} of {node_name}" if arg_name and node_name else "an argument"
        raise TypeError(f"{argument} has to be {_LETTERS[descriptor]}, not {held!r}") from None


_VALUE = "value"


def _as_python(held: Any, descriptor: str) -> Any:
    if descriptor == "t":
        if not isinstance(held, torch.Tensor):
            raise TypeError(held)
        return held
    if descriptor == "s":
        if not isinstance(held, str):
            raise TypeError(held)
        return held
    if isinstance(held, str):
        raise TypeError(held)
    if descriptor == "is":
        return [int(each) for each in held]
    if descriptor == "fs":
        return [float(each) for each in held]
    return {"i": int, "f": float, "b": bool}[descriptor](held)


def _node_get(node: Any, key: str) -> Any:
    return getattr(node, node.kindOf(key))(key)


def _maybe_get_const(value: Any, descriptor: str) -> Any:
    """A constant as a Python value; anything else as it is."""
    if is_value(value) and value.node().kind() in (CONSTANT, LIST):
        try:
            return _parse_arg(value, descriptor)
        except TypeError:
            return value
    return value


def _maybe_get_scalar(value: Any) -> Any:
    found = _maybe_get_const(value, "t")
    return found if isinstance(found, torch.Tensor) and found.shape == () else value


def _get_const(value: Any, descriptor: str, arg_name: str) -> Any:
    if not _is_constant(value):
        raise TypeError(
            f"the argument {arg_name!r} has to be a constant, and is computed when the model runs ({value!r})"
        )
    return _parse_arg(value, descriptor)


def _scalar(x: Any) -> Any:
    """The number of a tensor with one element."""
    return x.item() if isinstance(x, torch.Tensor) and x.numel() == 1 else None


def _unpack_list(value: Any) -> list[Any]:
    if not _is_packed_list(value):
        raise TypeError(f"{value!r} is not a list")
    return list(value.node().inputs())


# Questions


def _is_value(x: Any) -> bool:
    return is_value(x)


def _is_none(x: Any) -> bool:
    return x is None or (is_value(x) and x.node().mustBeNone())


def _is_constant(x: Any) -> bool:
    return not is_value(x) or x.node().kind() in (CONSTANT, "prim::Constant")


_is_onnx_constant = _is_constant


def _is_packed_list(x: Any) -> bool:
    return is_value(x) and x.node().kind() == LIST


def _is_tensor(x: Any) -> bool:
    return bool(x.type().kind() == "TensorType")


def _is_list(x: Any) -> bool:
    return bool(x.type().kind() == "ListType")


def _is_tensor_list(x: Any) -> bool:
    return _is_list(x) and x.type().getElementType().kind() == "TensorType"


def _is_fp(x: Any) -> bool:
    dtype = _dtype(x)
    return dtype is not None and dtype.is_floating_point


def _is_bool(x: Any) -> bool:
    return _dtype(x) is torch.bool


def _dtype(x: Any) -> torch.dtype | None:
    found: torch.dtype | None = x.type().dtype() if is_value(x) and _is_tensor(x) else None
    return found


def _try_get_scalar_type(*values: Any) -> str | None:
    """`"Float"`, `"Long"`, ...: of the first value whose type is known."""
    for each in values:
        if is_value(each) and _is_tensor(each) and each.type().scalarType() is not None:
            return str(each.type().scalarType())
    return None


def _get_tensor_sizes(x: Any, allow_nonstatic: bool = True) -> list[int | None] | None:
    """The sizes, None for an axis that varies (or None for all, if that is not allowed)."""
    sizes: list[int | None] | None = x.type().sizes() if _is_tensor(x) else None
    return None if sizes is not None and None in sizes and not allow_nonstatic else sizes


def _get_tensor_rank(x: Any) -> int | None:
    rank: int | None = x.type().dim() if _is_tensor(x) else None
    return rank


def _get_tensor_dim_size(x: Any, dim: int) -> int | None:
    sizes = _get_tensor_sizes(x)
    return None if sizes is None else sizes[dim]


# Errors


def _unimplemented(op: str, message: str, value: Any = None) -> NoReturn:
    raise LoweringError(f"{op} is not supported this way: {message}")


def _onnx_unsupported(op_name: str, value: Any = None) -> NoReturn:
    raise UnsupportedOpError(f"{op_name} cannot be written in ONNX", hint="write the model with other operators")


def _onnx_opset_unsupported(op_name: str, current_opset: int, supported_opset: int, value: Any = None) -> NoReturn:
    raise UnsupportedOpError(
        f"{op_name} cannot be written in opset {current_opset}", hint=f"try opset_version={supported_opset}"
    )


def _onnx_opset_unsupported_detailed(
    op_name: str, current_opset: int, supported_opset: int, reason: str, value: Any = None
) -> NoReturn:
    raise UnsupportedOpError(
        f"{op_name} cannot be written in opset {current_opset}: {reason}", hint=f"try opset_version={supported_opset}"
    )


# Forms that differ between opsets. `g.op` takes the older form at every opset, so one form is enough.


def _unsqueeze_helper(g: Any, input: Any, axes_i: Sequence[int]) -> Any:
    return g.op("Unsqueeze", input, axes_i=list(axes_i))


def _squeeze_helper(g: Any, input: Any, axes_i: Sequence[int]) -> Any:
    if is_value(axes_i):
        return g.op("Squeeze", input, axes_i)
    return g.op("Squeeze", input, axes_i=list(axes_i))


def _reducesum_helper(
    g: Any, input: Any, axes_i: Sequence[int] | None = None, keepdims_i: int = 1, noop_with_empty_axes_i: int = 0
) -> Any:
    return g.op("ReduceSum", input, axes_i=list(axes_i) if axes_i is not None else None, keepdims_i=keepdims_i)


def _slice_helper(
    g: Any, input: Any, axes: Any, starts: Any, ends: Any, steps: Any = None, dynamic_slice: bool = False
) -> Any:
    if any(is_value(each) for each in (axes, starts, ends, steps)):
        given = [
            torch.tensor(each) if isinstance(each, (list, tuple)) else each for each in (starts, ends, axes, steps)
        ]
        return g.op("Slice", input, *(each for each in given if each is not None))
    return g.op("Slice", input, starts_i=list(starts), ends_i=list(ends), axes_i=list(axes))


def _select_helper(g: Any, self: Any, dim: int, index: Any, apply_reshape: bool = True) -> Any:
    """The part at an index. The axis stays, with one element, as PyTorch's helper has it."""
    if not is_value(index):
        index = g.constant(index)
    if _get_tensor_rank(index) == 0 and apply_reshape:
        index = _reshape_helper(g, index, [1])
    return g.op("Gather", self, index, axis_i=dim)


def _size_helper(g: Any, self: Any, dim: Any) -> Any:
    axis = dim if is_value(dim) else torch.tensor(dim)
    return g.op("Gather", g.op("Shape", self), axis, axis_i=0)


def _numel_helper(g: Any, self: Any) -> Any:
    return g.op("Size", self)


def _reshape_helper(g: Any, input: Any, shape: Any, allowzero: int = 0) -> Any:
    if not is_value(shape):
        shape = g.op("Constant", value_t=torch.tensor(list(shape), dtype=torch.int64))
    return g.op("Reshape", input, shape, allowzero_i=allowzero or None)


def _lt_helper(g: Any, input: Any, other: Any) -> Any:
    return g.op("Less", input, other)


def _topk_helper(
    g: Any, input: Any, k: Any, dim: int, largest: bool = True, sorted: bool = False, out: Any = None
) -> Any:
    """The k largest or smallest, with their indices, in the form that the opset has."""
    number = _maybe_get_const(k, "i")
    count = number if isinstance(number, int) else k.value()
    return tuple(g.wrap(each) for each in g.emitter.topk(g.wrap(input).value(), count, dim, largest, sorted))
