"""Whether model and program take the same steps at some sizes, which is found out without data.

Both run on tensors that have sizes and no data, and every result is numbered by the operator that made it and by the
numbers of what it was made of. If the results of the two have the same numbers, they are computed by the same operators
from the same inputs, and no data can tell them apart. Steps that change nothing at these sizes have no number of their
own: padding by nothing, a slice of everything, a view with the same sizes. What the numbers cannot follow is no answer,
and the two are then compared on data as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from .execute import execute
from .facts import CapturedProgram, Output
from .layouts import Layout, LayoutKernels
from .session import below_autograd

aten = torch.ops.aten
_AS_IT_IS = frozenset({
    aten.clone.default, aten.contiguous.default, aten.alias.default, aten.detach.default, aten.lift_fresh.default,
})  # fmt: skip
_VIEWS = frozenset({
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten._reshape_alias.default,
    aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default, aten.expand.default,
})  # fmt: skip
_MAY_SHARE = (
    _AS_IT_IS | _VIEWS | {aten.flatten.using_ints, aten.reshape_as.default, aten.to.dtype, aten.type_as.default}
)
_NEAREST = frozenset({
    aten.upsample_nearest1d.default, aten.upsample_nearest2d.default, aten.upsample_nearest3d.default,
    aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec,
})  # fmt: skip


class Untold(Exception):
    """Something happens that numbers do not follow."""


class _Numbers:
    """The numbers of all that two runs make: one and the same for what is computed alike."""

    def __init__(self, constants: Iterable[torch.Tensor]) -> None:
        self._known: dict[Any, int] = {}
        self._constants: dict[Any, dict[int, torch.Tensor]] = {}  # by size: those of the program, by their numbers
        self._places: dict[Any, int] = {}
        for each in constants:
            alike = self._constants.setdefault((each.shape, each.dtype, each.layout), {})
            number = self._like(each, alike)
            number = self.of(("constant", len(self._known))) if number is None else number
            self._places[_place(each)] = number
            alike[number] = each

    def of(self, key: Any) -> int:
        return self._known.setdefault(key, len(self._known))

    def of_plain(self, tensor: torch.Tensor) -> int:
        """The number of the program's constant that is the same memory, or holds the same; one of its own if none."""
        number = self._places.get(_place(tensor))
        if number is None:
            number = self._like(tensor, self._constants.get((tensor.shape, tensor.dtype, tensor.layout), {}))
        return self.of(("unknown", len(self._known))) if number is None else number

    def _like(self, tensor: torch.Tensor, others: Mapping[int, torch.Tensor]) -> int | None:
        return next((number for number, each in others.items() if torch.equal(tensor, each)), None)


def _place(tensor: torch.Tensor) -> Any:
    """The same for what is the same memory, if nobody has written to it. A tensor that cannot tell is like no other."""
    if tensor.layout is not torch.strided or tensor.is_inference() or not tensor.numel():
        return object()
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor._version


class _Sized(torch.Tensor):
    """A tensor that has a size and a number, and no data. It says that it is where the data would be."""

    number: int
    memory: list[int]  # one for all views of one memory; its element is how many there are
    run: _Following

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, layout: Layout, number: int, memory: list[int], run: _Following) -> _Sized:
        made = torch.Tensor._make_wrapper_subclass(
            cls, layout.size, strides=layout.stride, dtype=layout.dtype, device=run.device
        )
        torch._C._set_throw_on_mutable_data_ptr(made)
        memory[0] += 1
        made.number, made.memory, made.run = number, memory, run
        return made

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        kwargs = kwargs or {}
        return _first((*args, *kwargs.values())).run.step(op, args, kwargs)


class _Following:
    """One run without data, numbered."""

    def __init__(self, numbers: _Numbers, kernels: LayoutKernels, device: torch.device) -> None:
        self._numbers, self._kernels, self.device = numbers, kernels, device

    def input(self, tensor: torch.Tensor, place: int) -> torch.Tensor:
        return _Sized(_dense(tensor.shape, tensor.dtype), self._numbers.of(("input", place)), [0], self)

    def value(self, leaf: Any) -> Any:
        """What stands for an argument in a number."""
        if isinstance(leaf, torch.Tensor):
            return ("value", leaf.number if isinstance(leaf, _Sized) else self._numbers.of_plain(leaf))
        if isinstance(leaf, (list, tuple)):
            return tuple(map(self.value, leaf))
        return (type(leaf), leaf)

    def step(self, op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """One step of the run."""
        if op is aten.sym_size.int:
            return args[0].shape[args[1]]
        if not isinstance(op, OpOverload) or torch.Tag.nondeterministic_seeded in op.tags:
            raise Untold(str(op))
        name, writes = _written(op)
        if writes and not (isinstance(args[0], _Sized) and args[0].memory[0] == 1):
            raise Untold("it writes to memory that others see")
        given = self.value(args), tuple(sorted((key, self.value(each)) for key, each in kwargs.items()))
        at_args = tuple(map(_laid_out, args))
        result = self._kernels.run(op, at_args, {key: _laid_out(each) for key, each in kwargs.items()}, largest=0)
        if isinstance(result, Layout):
            if writes:
                args[0].number = self._numbers.of((name, op._overloadname, given, args[0].dtype))
                return args[0]
            return self._made(op, args, kwargs, result, (name, op._overloadname, given, result.dtype))
        if not isinstance(result, (list, tuple)) or not all(isinstance(each, Layout) for each in result):
            raise Untold(f"{op} gives something else than tensors")
        memory = self._memory(op, args)
        numbers = [self._numbers.of((name, op._overloadname, given, place)) for place in range(len(result))]
        pairs = zip(result, numbers, strict=True)
        return type(result)(_Sized(each, number, memory or [0], self) for each, number in pairs)

    def _made(self, op: OpOverload, args: tuple, kwargs: dict[str, Any], result: Layout, value: Any) -> _Sized:
        memory = self._memory(op, args) or [0]
        first = args[0] if args else None
        if isinstance(first, torch.Tensor) and first.dtype == result.dtype:
            if _same_as_first(op, args, kwargs, tuple(first.shape), result.size):
                return _Sized(result, self.value(first)[1], memory, self)
            if op in _VIEWS:
                value = ("view", self.value(first), result.size)
        return _Sized(result, self._numbers.of(value), memory, self)

    def _memory(self, op: OpOverload, args: tuple) -> list[int] | None:
        """The memory that a result shares with the first argument, or may share."""
        if not args or not isinstance(args[0], _Sized):
            return None
        shares = any(each.alias_info is not None for each in op._schema.returns)
        return args[0].memory if shares or op in _MAY_SHARE else None


def _first(values: Sequence[Any]) -> _Sized:
    for each in values:
        if isinstance(each, _Sized):
            return each
        if isinstance(each, (list, tuple)) and any(isinstance(inner, _Sized) for inner in each):
            return _first(each)
    raise Untold("a step on tensors that cannot be found among its arguments")


def _laid_out(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return Layout(tuple(value.shape), tuple(value.stride()), value.dtype)
    return type(value)(map(_laid_out, value)) if type(value) in (list, tuple) else value


def _dense(size: Sequence[int], dtype: torch.dtype) -> Layout:
    """A tensor whose elements lie one after the other."""
    stride, step = [1] * len(size), 1
    for axis in reversed(range(len(size))):
        stride[axis] = step
        step *= max(size[axis], 1)
    return Layout(tuple(size), tuple(stride), dtype)


def _written(op: OpOverload) -> tuple[str, bool]:
    """The name of an operator, without what says that it works in place, and whether it does."""
    schema = op._schema
    if not schema.is_mutable:
        return schema.name, False
    first = schema.arguments[0].alias_info
    others = any(each.alias_info is not None and each.alias_info.is_write for each in schema.arguments[1:])
    if not schema.name.endswith("_") or first is None or not first.is_write or others:
        raise Untold(f"{op} writes to its arguments")
    return schema.name.removesuffix("_"), True


def _same_as_first(op: OpOverload, args: Any, kwargs: Any, sizes: tuple[int, ...], now: tuple[int, ...]) -> bool:
    """Whether a step gives its first argument, as it is."""
    if op in _AS_IT_IS:
        return True
    if op.overloadpacket is aten.to:  # the dtype is the same, or it would not be asked
        devices = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.device)]
        return all(each == args[0].device for each in devices)
    if now != sizes:
        return False
    if op in _VIEWS or op is aten.slice.Tensor:
        return True
    if op is aten.constant_pad_nd.default or op is aten.pad.default:
        return not any(args[1])
    return op in _NEAREST and all(each is None for each in (*args[2:], *kwargs.values()))


class SameSteps:
    """A program and the model that it was made from, compared at several sizes."""

    def __init__(
        self,
        program: CapturedProgram,
        model: Callable[[Sequence[torch.Tensor]], Sequence[Output]],
        kernels: LayoutKernels,
    ) -> None:
        self._program, self._model, self._kernels = program, model, kernels
        self._numbers = _Numbers(each.tensor for each in program.constants.values())

    def at(self, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether the two do the same at the sizes of these inputs, whatever the data is.

        False says nothing: they may give the same results in another way.
        """
        devices = {each.device for each in inputs}
        if len(devices) != 1:
            return False
        found = []
        for run in (self._model, lambda given: execute(self._program, given)):
            following = _Following(self._numbers, self._kernels, *devices)
            given = [following.input(each, place) for place, each in enumerate(inputs)]
            try:
                with below_autograd():
                    results = run(given)
                found.append([(each.shape, each.dtype, following.value(each)) for each in results])  # type: ignore[union-attr]
            except Exception:  # Untold, data that is asked for, or sizes that are refused: data has to tell
                return False
        return bool(found[0] == found[1])
