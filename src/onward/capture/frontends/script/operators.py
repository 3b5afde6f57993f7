"""What the interpreter does itself: numbers, lists, tuples, dicts, strings. Tensors are PyTorch's business."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from ...sizes.sizes import SYMBOLIC, either
from .columns import counted
from .enumerations import dtype_of, format_of, number_of
from .list_operators import numbers_in
from .lists import UNINITIALIZED, ScriptObject

NUMBERS = (bool, int, float, *SYMBOLIC)


def _truth(value: Any) -> Any:
    """`Bool`: of a number or a tensor with one element."""
    if isinstance(value, torch.Tensor):
        value = value.item()
    if isinstance(value, (bool, torch.SymBool)):
        return value
    return value != 0


def _whole(value: Any) -> Any:
    """`Int`"""
    if isinstance(value, torch.Tensor):
        value = value.item()
    if isinstance(value, torch.SymBool):
        return either(value, 1, 0)
    return torch.sym_int(value) if isinstance(value, SYMBOLIC) else int(value)


def _real(value: Any) -> Any:
    """`Float`"""
    if isinstance(value, torch.Tensor):
        value = value.item()
    return torch.sym_float(value) if isinstance(value, SYMBOLIC) else float(value)


def _not(value: Any) -> Any:
    return torch.sym_not(value) if isinstance(value, torch.SymBool) else not value


def _round(value: Any) -> Any:
    """`round`: TorchScript's is a float, as what it is given."""
    rounded = round(value)
    return torch.sym_float(rounded) if isinstance(rounded, SYMBOLIC) else float(rounded)


def _power(base: Any, exponent: Any) -> Any:
    """`**`: with an exponent that is not known, of floats; PyTorch's whole numbers would ask for its sign."""
    if isinstance(exponent, SYMBOLIC):
        return _real(base) ** _real(exponent)
    return base**exponent


def _number(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """A function of tensors as one of numbers that depend on data or on a size."""

    def compute(*numbers: Any) -> Any:
        return function(*(torch.scalar_tensor(each, dtype=torch.float64) for each in numbers)).item()

    return compute


def _as_whole(number: Any) -> torch.Tensor:
    return torch.scalar_tensor(number, dtype=torch.int64)


# Functions of `math`, for numbers that depend on data or on a size; others are computed by TorchScript's own.
MATH: dict[str, Callable[..., Any]] = {
    "aten::sqrt": lambda x: torch.sym_sqrt(x),
    "aten::fabs": lambda x: torch.sym_float(abs(x)),
    "aten::gamma": _number(lambda x: torch.lgamma(x).exp()),
    "aten::divmod": lambda one, other: (one // other, one % other),
    "aten::gcd": lambda one, other: torch.gcd(_as_whole(one), _as_whole(other)).item(),
    "aten::modf": lambda x: (x - _real(_whole(x)), _real(_whole(x))),
    "aten::ldexp": lambda x, exponent: x * _power(2.0, exponent),
    "aten::isnan": lambda x: x != x,
    "aten::isinf": lambda x: abs(_real(x)) == math.inf,
    "aten::isfinite": lambda x: abs(_real(x)) < math.inf,
    "aten::degrees": _number(torch.rad2deg),
    "aten::radians": _number(torch.deg2rad),
    **{
        f"aten::{name}": _number(getattr(torch, name))
        for name in (
            "exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
            "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "atan2", "fmod", "copysign",
        )
    },
}  # fmt: skip


def _equal(one: Any, other: Any) -> Any:
    """`==`, of lists too: with sizes among their items, the answer is a number that depends on them."""
    if not isinstance(one, list) or not isinstance(other, list):
        return one == other
    if len(one) != len(other):
        return False
    return functools.reduce(_both, map(_equal, one, other), True)


def _contains(container: Any, item: Any) -> Any:
    if not isinstance(container, list) or not any(isinstance(each, SYMBOLIC) for each in (item, *container)):
        return item in container
    return _not(functools.reduce(_both, [_not(each == item) for each in container], True))


def _count(container: Any, item: Any) -> Any:
    if not any(isinstance(each, SYMBOLIC) for each in (item, *container)):
        return container.count(item)
    return sum(_whole(each == item) for each in container)


def _both(one: Any, other: Any) -> Any:
    """`one and other` of truth values."""
    if isinstance(one, bool):
        return other if one else False
    if isinstance(other, bool):
        return one if other else False
    return one & other


def _exclusive(one: Any, other: Any) -> Any:
    """`^`: PyTorch's truth values have none."""
    if isinstance(other, torch.SymBool) and isinstance(one, bool):
        one, other = other, one
    if not isinstance(one, torch.SymBool):
        return one ^ other
    return (_not(one) if other else one) if isinstance(other, bool) else either(one, _not(other), other)


def _convolution(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """What `torch.jit.optimize_for_inference` makes of a convolution."""
    return (torch.conv1d, torch.conv2d, torch.conv3d)[x.dim() - 3](x, weight, bias, stride, padding, dilation, groups)


def _range_length(start: Any, end: Any, step: Any) -> Any:
    length = (end - start + step - 1) // step if step > 0 else (start - end - step - 1) // -step
    return torch.sym_max(length, 0) if isinstance(length, SYMBOLIC) else max(length, 0)


def _sizes(x: torch.Tensor) -> list[Any]:
    return [counted(size) for size in x.size()]


def _size(x: torch.Tensor, axis: int) -> Any:
    return counted(x.size(axis))


def _numel(x: torch.Tensor) -> Any:
    return math.prod(_sizes(x))


def _is_contiguous(x: torch.Tensor, memory_format: int = 0) -> bool:
    return x.is_contiguous(memory_format=format_of(memory_format))


# Operators on numbers, strings, lists and dicts: by name, if no argument is a tensor.
PLAIN: dict[str, Callable[..., Any]] = {
    "aten::add": operator.add,
    "aten::sub": operator.sub,
    "aten::mul": operator.mul,
    "aten::div": operator.truediv,
    "aten::floordiv": operator.floordiv,
    "aten::remainder": operator.mod,
    "aten::pow": _power,
    "aten::neg": operator.neg,
    "aten::abs": abs,
    "prim::abs": abs,
    "aten::eq": _equal,
    "aten::ne": lambda one, other: _not(_equal(one, other)),
    "aten::lt": operator.lt,
    "aten::le": operator.le,
    "aten::gt": operator.gt,
    "aten::ge": operator.ge,
    "aten::__and__": operator.and_,
    "aten::__or__": operator.or_,
    "aten::__xor__": _exclusive,
    "aten::__lshift__": operator.lshift,
    "aten::__rshift__": operator.rshift,
    "aten::__not__": _not,
    "aten::floor": math.floor,
    "aten::ceil": math.ceil,
    "aten::round": _round,
    "prim::min": lambda *values: min(*values),
    "prim::max": lambda *values: max(*values),
    "aten::keys": lambda x: list(x.keys()),
    "aten::values": lambda x: list(x.values()),
    "aten::items": lambda x: list(x.items()),
    "aten::get": lambda x, key, default=None: x.get(key, default),
    "aten::__contains__": _contains,
    "aten::index": lambda x, item: x.index(item),
    "aten::count": _count,
    "aten::sum": sum,
    "aten::any": lambda values: _not(functools.reduce(_both, map(_not, map(_truth, values)), True)),
    "aten::all": lambda values: functools.reduce(_both, map(_truth, values), True),
}


def _getitem(container: Any, index: Any) -> Any:
    return container[index]


def _slice(container: Any, start: Any, end: Any, step: int = 1) -> Any:
    return container[slice(start, end, step)]


def _set(container: Any, index: Any, value: Any) -> Any:
    container[index] = value
    return container


def _append(container: list[Any], value: Any) -> Any:
    container.append(value)
    return container


def _extend(container: list[Any], values: list[Any]) -> None:
    container.extend(values)


def _insert(container: list[Any], index: int, value: Any) -> None:
    container.insert(index, value)


def _reverse(container: list[Any]) -> None:
    container.reverse()


def _sorted(container: list[Any], reverse: bool = False) -> list[Any]:
    """In order; of numbers that depend on data or sizes, by a network of comparisons."""
    if not any(isinstance(each, SYMBOLIC) for each in container):
        return sorted(container, reverse=reverse)
    items = list(container)
    for end in range(len(items) - 1, 0, -1):
        for place in range(end):
            low, high = torch.sym_min(*items[place : place + 2]), torch.sym_max(*items[place : place + 2])
            items[place : place + 2] = (high, low) if reverse else (low, high)
    return items


def _remove(container: list[Any], value: Any) -> None:
    container.remove(value)


def _sort(container: list[Any], reverse: bool = False) -> None:
    container[:] = _sorted(container, reverse)


def _clear(container: Any) -> None:
    container.clear()


def _delete(container: Any, index: Any) -> None:
    del container[index]


# Operators whose first argument is a list, a tuple, a dict or a string.
ON_CONTAINERS: dict[str, Callable[..., Any]] = {
    "aten::add": operator.add,
    "aten::mul": operator.mul,
    "aten::list": list,
    "aten::copy": lambda container: container.copy(),
    "aten::__getitem__": _getitem,
    "aten::slice": _slice,
    "aten::_set_item": _set,
    "aten::append": _append,
    "aten::extend": _extend,
    "aten::insert": _insert,
    "aten::pop": lambda container, *where: container.pop(*where),
    "aten::remove": _remove,
    "aten::reverse": _reverse,
    "aten::sort": _sort,
    "aten::sorted": _sorted,
    "aten::clear": _clear,
    "aten::Delete": _delete,
    "aten::update": lambda container, other: container.update(other),
    "aten::setdefault": lambda container, key, value: container.setdefault(key, value),
    "aten::add_": lambda container, other: (container.extend(other), container)[1],
}


def _is(first: Any, second: Any) -> bool:
    return first is second


# Operators that act on any value, tensors among them.
GENERAL: dict[str, Callable[..., Any]] = {
    "aten::Bool": _truth,
    "aten::Int": _whole,
    "aten::IntImplicit": _whole,
    "aten::Float": _real,
    "aten::FloatImplicit": _real,
    "aten::ScalarImplicit": lambda x: x.item(),
    "aten::item": lambda x: x.item(),
    "aten::__is__": _is,
    "aten::__isnot__": lambda a, b: a is not b,
    "aten::dim": lambda x: x.dim(),
    "aten::size": lambda x, *axis: _size(x, *axis) if axis else _sizes(x),
    "aten::numel": _numel,
    "aten::len": lambda x: _size(x, 0) if isinstance(x, torch.Tensor) else len(x),
    "aten::is_floating_point": lambda x: x.is_floating_point(),
    "aten::is_complex": lambda x: x.is_complex(),
    "aten::is_contiguous": _is_contiguous,
    "aten::device": lambda *args: torch.device(*args),
    "prim::NumToTensor": lambda x: torch.scalar_tensor(x, dtype=_dtype_of_number(x)),
    "aten::as_tensor": lambda data, dtype=None, device=None: torch.as_tensor(data, dtype=dtype_of(dtype)),
    "aten::tensor": lambda data, dtype=None, device=None, grad=False: torch.tensor(data, dtype=dtype_of(dtype)),
    "prim::TupleConstruct": lambda *items: tuple(items),
    "prim::ListConstruct": lambda *items: list(items),
    "prim::TupleIndex": lambda items, index: items[index],
    "prim::unchecked_cast": lambda x: x,
    "prim::unchecked_unwrap_optional": lambda x: x,
    "aten::_unwrap_optional": lambda x: x,
    "prim::dtype": lambda x: number_of(x.dtype),
    "prim::device": lambda x: x.device,
    "prim::layout": lambda x: number_of(x.layout),
    "aten::is_grad_enabled": lambda: True,  # as where a model is simply called; `torch.no_grad()` changes no numbers
    "prim::is_cuda": lambda x: False,
    "prim::is_mkldnn": lambda x: False,
    "prim::is_quantized": lambda x: False,
    "prim::is_sparse": lambda x: False,
    "prim::is_meta": lambda x: False,
    "prim::shape": _sizes,
    "prim::data": lambda x: x,
    "prim::Uninitialized": lambda: UNINITIALIZED,
    "prim::CreateObject": ScriptObject,
    "aten::to_mkldnn": lambda x, dtype=None: x,
    "aten::to_dense": lambda x, dtype=None, masked=None: x,
    "prim::mkldnn_convolution": _convolution,
    "aten::__range_length": _range_length,
    "aten::__derive_index": lambda index, start, step: start + index * step,
    "prim::tolist": lambda x, *kind: numbers_in(x),
    "aten::wait": lambda x: x,
    "prim::Print": lambda *values: None,
    "aten::warn": lambda *values: None,
    "aten::manual_seed": lambda *values: None,
    "prim::EnumValue": lambda x: x.value,
    "prim::EnumName": lambda x: x.name,
    "prim::StringIndex": lambda text, index: text[index],
    "aten::set_grad_enabled": lambda value: None,
    "prim::rangelist": lambda n: list(range(n)),
}


def _dtype_of_number(value: Any) -> torch.dtype:
    if isinstance(value, (bool, torch.SymBool)):
        return torch.bool
    return torch.float64 if isinstance(value, (float, torch.SymFloat)) else torch.int64
