"""What an op does to sizes, asked of PyTorch's own kernels.

A probe other than the example holds no data, only a `Layout`. An op is run on `meta` tensors of those layouts. Where
the meta kernel is missing or stricter than the real one, the real kernel runs on zeros of that size, but only if it is
known to check its sizes (`_checking_kernels.py`): some do not, and write past the end of memory (`size_checks.py`).
Answers are remembered: a network of equal layers asks every question once. The most common ops have a shortcut
(`layout_rules.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload

from ...errors import first_line
from ..ground._checking_kernels import CHECKING_KERNELS
from ..ground.operator_schemas import traits
from ..ground.size_checks import SizesDoNotFit, check_sizes
from .layout_rules import ProbeFailure, rule_for

aten = torch.ops.aten
LARGEST_REAL_PROBE = 1 << 26  # elements; beyond this a real run on zeros costs more than it tells
_META = torch.device("meta")
_PYTORCHS_OWN = frozenset({"aten", "prims", "prim", "quantized", "mkldnn", "_c10d_functional"})
_REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, AssertionError, ArithmeticError)
_FAKE = (
    "The operator has no fake kernel, so its own ran on zeros of another size; "
    "register one to say what it does to sizes: torch.library.register_fake"
)


class Layout(NamedTuple):
    """A tensor without data."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The size, under the name that tensors have for it."""
        return self.size

    @staticmethod
    def of(tensor: torch.Tensor) -> Layout:
        return Layout(tuple(tensor.size()), tensor.stride(), tensor.dtype)


def dense_like(size: tuple[int, ...], tensor: torch.Tensor) -> Layout:
    """A layout of another size whose axes lie in memory in the order in which the tensor's do."""
    order = sorted(range(len(size)), key=lambda axis: (tensor.stride(axis), -axis))
    stride, step = [1] * len(size), 1
    for axis in order:
        stride[axis] = step
        step *= max(size[axis], 1)
    return Layout(size, tuple(stride), tensor.dtype)


def dense_strides(size: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor whose elements lie one after the other."""
    stride, step = [1] * len(size), 1
    for axis in reversed(range(len(size))):
        stride[axis] = step
        step *= max(size[axis], 1)
    return tuple(stride)


def _form(value: Any) -> Any:
    """A call, remembered by everything but the sizes of its tensors; None if one of them has gaps, another order of
    axes, or no elements. Which axes have a size of 1 belongs to the form: their strides may say anything."""
    if isinstance(value, Layout):
        if 0 in value.size or value.stride != dense_strides(value.size):
            return None
        return value.dtype, tuple(size == 1 for size in value.size)
    if isinstance(value, tuple):
        parts = tuple(map(_form, value))
        return (
            None if any(part is None and each is not None for part, each in zip(parts, value, strict=True)) else parts
        )
    return value


def _dtypes_if_told(op: OpOverload, args: tuple, kwargs: dict[str, Any], result: Any) -> torch.dtype | None:
    """The dtype of a dense result that the rule for an op would have told as well; None if it would not."""
    if not isinstance(result, Layout) or result.stride != dense_strides(result.size):
        return None
    try:
        told = rule_for(op)(*args, **kwargs)  # type: ignore[misc]
    except ProbeFailure:
        return None
    return result.dtype if told == result.size else None


def _laid_out(op: OpOverload, args: Sequence[Any], size: tuple[int, ...], tensor: torch.Tensor) -> Layout:
    """The layout of a result that has another size than the example's tensor.

    Strides of axes of size 1 say nothing about the order of axes. What is computed element by element has then the
    order that PyTorch finds for any such operator: addition stands for all of them.
    """
    hidden = any(own == 1 != other for own, other in zip(tensor.size(), size, strict=True))
    given = _layouts(args)
    if not hidden or torch.Tag.pointwise not in op.tags or not 1 <= len(given) <= 3:
        return dense_like(size, tensor)
    empties = [torch.empty_strided(each.size, each.stride, device="meta") for each in given]
    made = torch.addcmul(*empties) if len(given) == 3 else torch.add(empties[0], empties[-1])
    return Layout(size, made.stride(), tensor.dtype) if made.size() == size else dense_like(size, tensor)


# Their result is a view where the strides allow it.
COPIES_IF_IT_MUST = frozenset(
    {aten.reshape.default, aten.reshape_as.default, aten.flatten.using_ints, aten.ravel.default}
)


class LayoutKernels:
    """Runs ops on layouts, with a memory."""

    def __init__(self) -> None:
        self._memory: dict[Any, Any] = {}
        self._dtypes: dict[Any, Any] = {}  # by the form of a call of which a rule has said what the kernel did

    def shortcut(self, op: OpOverload, calls: Sequence[tuple[list[Any], dict[str, Any]]], out: Any) -> list[Any] | None:
        """By rule, the results of several calls, the first of which is known to give `out`; None without a rule."""
        rule = rule_for(op)
        outs = [out] if isinstance(out, torch.Tensor) else out
        if rule is None or not all(isinstance(each, torch.Tensor) for each in outs):
            return None
        results = []
        for index, (args, kwargs) in enumerate(calls):
            sizes = rule(*args, **kwargs)
            if sizes is None:
                return None
            sizes = sizes if isinstance(sizes, list) else [sizes]
            if index == 0:
                if [tuple(each.size()) for each in outs] != sizes:
                    return None
                continue
            layouts = [_laid_out(op, args, size, each) for size, each in zip(sizes, outs, strict=True)]
            results.append(layouts[0] if isinstance(out, torch.Tensor) else layouts)
        return results

    def run(self, op: OpOverload, args: tuple, kwargs: dict[str, Any], *, largest: int = LARGEST_REAL_PROBE) -> Any:
        """The op's result with Layouts where tensors would be. Raises ProbeFailure if the sizes are refused.

        A kernel that needs data is run on zeros, up to the `largest` number of elements.
        """
        key: Any = None
        known: Any = None
        try:
            key = (op, _hashable(args), tuple((name, _hashable(value)) for name, value in kwargs.items()))
            known = self._memory.get(key)
        except TypeError:  # an argument that cannot be remembered by
            key = None
        if known is None:
            form = None if key is None or rule_for(op) is None else _form(key)
            known = self._by_rule(form, op, args, kwargs)
            if known is None:
                known = self._compute(op, args, kwargs, largest)
                if form is not None and form not in self._dtypes:
                    self._dtypes[form] = _dtypes_if_told(op, args, kwargs, known)
            if key is not None:
                self._memory[key] = known
        return known

    def _by_rule(self, form: Any, op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        """What a rule says of a call, if it was right about one that differs in nothing but sizes; None otherwise.

        Only of tensors whose elements lie one after the other: a rule says nothing about strides.
        """
        dtypes = None if form is None else self._dtypes.get(form)
        if dtypes is None:
            return None
        try:
            check_sizes(op, args, kwargs)
        except SizesDoNotFit as error:
            raise ProbeFailure(str(error)) from error
        sizes = rule_for(op)(*args, **kwargs)  # type: ignore[misc]
        if not isinstance(sizes, tuple) or 0 in sizes:
            return None
        return Layout(sizes, dense_strides(sizes), dtypes)

    def _compute(self, op: OpOverload, args: tuple, kwargs: dict[str, Any], largest: int) -> Any:
        meta_error: Exception | None = None
        try:
            check_sizes(op, args, kwargs)
        except SizesDoNotFit as error:
            raise ProbeFailure(str(error)) from error
        if runs_on_meta(op):
            try:
                return self._call(op, args, kwargs, _META)
            except _REFUSALS as error:
                meta_error = error
        if not _may_run(op, meta_error):
            raise ProbeFailure(
                first_line(meta_error) if meta_error is not None else "it does not say what it does to sizes"
            ) from meta_error
        elements = sum(math.prod(layout.size) for layout in _layouts((args, tuple(kwargs.values()))))
        if elements > largest:
            raise ProbeFailure(
                first_line(meta_error) if meta_error is not None else f"{elements} elements are too many. {_FAKE}"
            ) from meta_error
        try:
            return self._call(op, args, kwargs, torch.device("cpu"))
        except Exception as error:
            advice = "" if op.namespace in _PYTORCHS_OWN or meta_error is not None else f". {_FAKE}"
            raise ProbeFailure(first_line(error) + advice) from error

    def _call(self, op: OpOverload, args: tuple, kwargs: dict[str, Any], device: torch.device) -> Any:
        def tensor(value: Any) -> Any:
            if isinstance(value, Layout):
                empty = torch.empty_strided(value.size, value.stride, dtype=value.dtype, device=device)
                return empty if device is _META else empty.zero_()
            return device if isinstance(value, torch.device) else value

        args = _map(args, tensor)
        kwargs = {name: _map(value, tensor) for name, value in kwargs.items()}
        if traits(op).takes_device:
            kwargs["device"] = device
        return _map(op(*args, **kwargs), lambda value: Layout.of(value) if isinstance(value, torch.Tensor) else value)


def runs_on_meta(op: OpOverload) -> bool:
    """Whether an op may be run on tensors without data: PyTorch's own, and those with a kernel made for it.

    The kernel of anybody else's op, if it is registered for all devices, would be handed a null pointer as data.
    """
    return op.namespace in _PYTORCHS_OWN or op.has_kernel_for_dispatch_key(torch._C.DispatchKey.Meta)


def _may_run(op: OpOverload, meta_error: Exception | None) -> bool:
    """Whether the real kernel may be run on zeros of sizes that its meta kernel, if it has one, has refused.

    One of PyTorch's may if it was seen to check its sizes. Anybody else's may unless its own fake kernel has refused.
    """
    if op.namespace in _PYTORCHS_OWN:
        return str(op) in CHECKING_KERNELS
    return meta_error is None or isinstance(meta_error, NotImplementedError) or _has_no_fake(op)


def _has_no_fake(op: OpOverload) -> bool:
    """Whether `torch.library.custom_op` made the op, and nobody has registered a fake kernel for it: then the kernel
    that PyTorch puts in its place does nothing but raise."""
    made = torch._library.custom_ops.OPDEFS.get(op._schema.name)
    return made is not None and made._abstract_fn is None


def _map(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, Layout):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)([_map(each, function) for each in value])
    return function(value)


def _layouts(value: Any) -> list[Layout]:
    if isinstance(value, Layout):
        return [value]
    if isinstance(value, (list, tuple)):
        return [layout for each in value for layout in _layouts(each)]
    return []


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and not isinstance(value, Layout):
        return tuple(_hashable(each) for each in value)
    # 1, 1.0 and True are equal as keys but not as arguments.
    return (type(value), value) if isinstance(value, (float, bool)) else value
