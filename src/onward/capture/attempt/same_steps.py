"""Whether model and program take the same steps at some sizes, which is found out without data.

Both run on tensors that have sizes and no data, and every result is numbered by the operator that made it and by the
numbers of what it was made of. If the results of the two have the same numbers, they are computed by the same operators
from the same inputs, and no data can tell them apart. Steps that change nothing at these sizes have no number of their
own: padding by nothing, a slice of everything, a view with the same sizes. What the numbers cannot follow is no answer,
and the two are then compared on data as ever.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..decisions.assumptions import LARGEST_WITH_DATA
from ..ground.memory import storage
from ..ground.operator_schemas import draws
from ..ground.try_blocks import may_survive
from ..program.execute import execute
from ..program.facts import CapturedProgram, OtherResults, Output
from ..python.libraries import asked_as_exported
from ..sizes.layout_rules import ProbeFailure
from ..sizes.layouts import Layout, LayoutKernels, dense_strides
from .session import below_autograd

aten = torch.ops.aten
_AS_IT_IS = frozenset({
    aten.clone.default, aten.contiguous.default, aten.alias.default, aten.detach.default, aten.lift_fresh.default,
})  # fmt: skip
_VIEWS = frozenset({
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten._reshape_alias.default,
    aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default, aten.expand.default,
})  # fmt: skip
# What they drop is drawn; where nothing is, they give their very argument.
_NOT_IN_TRAINING = frozenset({
    aten.dropout.default, aten.dropout_.default, aten.feature_dropout.default, aten.alpha_dropout.default,
    aten.feature_alpha_dropout.default,
})  # fmt: skip
_MAY_SHARE = (
    _AS_IT_IS | _VIEWS | {aten.flatten.using_ints, aten.reshape_as.default, aten.to.dtype, aten.type_as.default}
)
_NEAREST = frozenset({
    aten.upsample_nearest1d.default, aten.upsample_nearest2d.default, aten.upsample_nearest3d.default,
    aten.upsample_nearest1d.vec, aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec,
})  # fmt: skip
_UPSAMPLING = _NEAREST | {
    aten._upsample_nearest_exact1d.vec, aten._upsample_nearest_exact2d.vec, aten._upsample_nearest_exact3d.vec,
    aten.upsample_linear1d.vec, aten.upsample_bilinear2d.vec, aten.upsample_trilinear3d.vec,
    aten.upsample_bicubic2d.vec,
}  # fmt: skip
_DATA_DECIDES = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})
_OF_OTHERS = (OtherResults, NotImplementedError, TypeError)  # which may be about what a tensor is
_RAISE = dis.opmap["RAISE_VARARGS"]
_COMPARED = frozenset({  # dtypes that PyTorch copies and compares; others, such as uint2, are like no other tensor
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128, torch.bool,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
})  # fmt: skip
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_SMALL = 1 << 12  # elements up to which a plain tensor is known by its bytes
_MODEST = 1 << 13  # elements of plain tensors of which nothing large is made, nor of numbers up to that
_LARGEST_REMEMBERED = 1 << 22  # elements of a tensor that is neither an input nor a constant


class Untold(Exception):
    """Something happens that numbers do not follow.

    The run remembers it (`_Following.untold`), for the model may survive it in a `try` of its own. It is an ordinary
    exception even so: after others, PyTorch does not call the hooks of modules that put things back.
    """


class _Numbers:
    """The numbers of all that two runs make: one and the same for what is computed alike."""

    def __init__(self, constants: Iterable[torch.Tensor]) -> None:
        self._known: dict[Any, int] = {}
        self._small: dict[Any, int] = {}  # plain tensors, by what they hold
        self._large: dict[Any, dict[int, torch.Tensor]] = {}  # by size
        self._places: dict[Any, int] = {}
        self.written: set[int] = set()  # memory of plain tensors that a run has written to
        for each in constants:
            self._places[self._place(each)] = self._of_content(each, "constant")

    def of(self, key: Any) -> int:
        return self._known.setdefault(key, len(self._known))

    def of_plain(self, tensor: torch.Tensor) -> int:
        """The number of the program's constant that is the same memory, or of any tensor that holds the same; one of
        its own if there is none. Models and programs make such tensors of sizes and weights."""
        number = self._places.get(self._place(tensor))
        return self._of_content(tensor, "unknown") if number is None else number

    def _place(self, tensor: torch.Tensor) -> Any:
        """The same for what is the same memory, if the run has not written to it. A tensor that cannot tell is like no
        other."""
        if tensor.layout is not torch.strided or not tensor.numel():
            return object()
        if self.written and storage(tensor) in self.written:
            return object()
        return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype

    def _of_content(self, tensor: torch.Tensor, kind: str) -> int:
        """The number of a tensor with the same bits: 0.0 is not -0.0."""
        if tensor.dtype not in _COMPARED:
            return self.of((kind, len(self._known)))
        key = (tensor.shape, tensor.dtype, tensor.layout, tensor.device)
        if tensor.layout is torch.strided and not tensor.is_quantized and tensor.numel() <= _SMALL:
            plain = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
            bits = plain.reshape(-1).view(torch.uint8).cpu().numpy().tobytes()
            if (key, bits) not in self._small:
                self._small[key, bits] = self.of((kind, len(self._known)))
            return self._small[key, bits]
        alike = self._large.setdefault(key, {})
        number = next((number for number, each in alike.items() if _is_same(tensor, each)), None)
        if number is None:
            number = self.of((kind, len(self._known)))
            if kind == "constant":
                alike[number] = tensor
            elif tensor.numel() <= _LARGEST_REMEMBERED:
                alike[number] = tensor.clone()  # it may be written to
        return number


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one size and dtype hold the same bits."""
    bits = _BITS.get(one.element_size()) if one.is_floating_point() and one.layout is torch.strided else None
    return torch.equal(one, other) if bits is None else torch.equal(one.view(bits), other.view(bits))


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
        run = _first((*args, *kwargs.values())).run
        try:
            return run.step(op, args, kwargs)
        except Exception as error:
            run.untold.append(error)
            run.may_go_on = run.may_go_on or may_survive()
            run.failed = _kind(op, args, kwargs)
            raise

    def _is_not_there(self, *args: Any, **kwargs: Any) -> Any:
        error = Untold("the model asks for data, or where a tensor lies in memory")
        self.run.untold.append(error)
        raise error

    numpy = tolist = data_ptr = untyped_storage = __array__ = __dlpack__ = _is_not_there
    storage_offset = is_set_to = _is_view = __repr__ = __format__ = _is_not_there  # type: ignore[assignment]
    _base = property(_is_not_there)


class _Following:
    """One run without data, numbered."""

    def __init__(self, numbers: _Numbers, kernels: LayoutKernels, device: torch.device) -> None:
        self._numbers, self.kernels, self.device = numbers, kernels, device
        self.untold: list[Exception] = []  # what was raised that may be otherwise with data, or asks for it
        self.done: set[Any] | None = None  # the kinds of calls that have worked without data, where they are asked for
        self.failed: Any = None  # the kind of the last one that has not
        self.may_go_on = False  # whether a `try` of the model's stood around a failure, which is another one with data

    def is_refused(self, error: Exception, known: Callable[[], Collection[Any]]) -> bool:
        """Whether the run ended with an error about sizes, which any data would meet.

        An operator that fails without data may need data, and says something else then. It is believed if it has worked
        in the same way before: `known` are the kinds of calls of a whole run without data at the example's sizes.
        """
        if isinstance(error, ProbeFailure):
            is_first = len(self.untold) == 1 and self.untold[0] is error
            return is_first and not self.may_go_on and self.failed in known()
        return not self.untold and _is_raised(error)

    def input(self, tensor: torch.Tensor, place: int) -> torch.Tensor:
        return _Sized(_dense(tuple(tensor.shape), tensor.dtype), self._numbers.of(("input", place)), [0], self)

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
        if not isinstance(op, OpOverload) or draws(op, args, kwargs) or _data_decides(op, args):
            raise Untold(str(op))
        if op in _NOT_IN_TRAINING:
            return args[0]
        name, writes = _written(op)
        if writes and not (isinstance(args[0], _Sized) and args[0].memory[0] == 1):
            raise Untold("it writes to memory that others see")
        given = self.value(args), tuple(sorted((key, self.value(each)) for key, each in kwargs.items()))
        at_args = tuple(map(_laid_out, args))
        result = self.kernels.run(op, at_args, {key: _laid_out(each) for key, each in kwargs.items()}, largest=0)
        if self.done is not None:
            self.done.add(_kind(op, args, kwargs))
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
            elif op in _UPSAMPLING:
                value = (value[0], self.value(first), result.size, *_scaling(op, args, kwargs, result.size))
        return _Sized(result, self._numbers.of(value), memory, self)

    def _memory(self, op: OpOverload, args: tuple) -> list[int] | None:
        """The memory that a result shares with the first argument, or may share."""
        if not args or not isinstance(args[0], _Sized):
            return None
        shares = any(each.alias_info is not None for each in op._schema.returns)
        return args[0].memory if shares or op in _MAY_SHARE else None


def _data_decides(op: OpOverload, args: tuple) -> bool:
    """Whether data says how large the results are, or what they are in Python; whole numbers as indices do not."""
    if _DATA_DECIDES.isdisjoint(op.tags):
        return False
    by_number = (each is None or each.dtype in (torch.int32, torch.int64) for each in args[1]) if len(args) > 1 else ()
    return op not in (aten.index.Tensor, aten._unsafe_index.Tensor) or not all(by_number)


def _kind(op: Any, args: Any, kwargs: Any) -> Any:
    """A call by everything but the sizes and numbers in it."""
    return op, tuple(
        each.dtype if isinstance(each, torch.Tensor) else type(each) for each in tree_leaves((args, kwargs))
    )


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


def _dense(size: tuple[int, ...], dtype: torch.dtype) -> Layout:
    """A tensor whose elements lie one after the other."""
    return Layout(size, dense_strides(size), dtype)


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


def _scaling(op: OpOverload, args: tuple, kwargs: dict[str, Any], now: tuple[int, ...]) -> tuple[Any, ...]:
    """What an upsampling does besides its new sizes: its flags, and how far it steps through its input. It is told that
    by factors, or by the sizes alone. A factor of 2.0 is the same as twice the size; of others that are no powers of
    two, rounding may make something else."""
    names = [each.name for each in op._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    spatial = len(now) - 2
    factors = given.get("scale_factors") or [given.get(name) for name in names if name.startswith("scales")]
    factors = [*factors, *[None] * (spatial - len(factors))]
    sizes = zip(factors, given[names[0]].shape[2:], now[2:], strict=True)
    told_more = (scale for scale, old, new in sizes if scale and (scale * old != new or math.frexp(scale)[0] != 0.5))
    return given.get("align_corners"), tuple(factors) if any(told_more) else None


class _Modest(TorchDispatchMode):
    """Inside, plain tensors stay small, also where inputs are larger than any memory: they do have data."""

    def __init__(self, kernels: LayoutKernels) -> None:
        super().__init__()
        self._kernels = kernels

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        values = [each for each in tree_leaves((args, kwargs)) if isinstance(each, (int, torch.Tensor))]
        sizes = [each.numel() if isinstance(each, torch.Tensor) else each for each in values]
        if max(sizes, default=0) > _MODEST and not any(isinstance(each, _Sized) for each in values):
            named = {key: _laid_out(each) for key, each in kwargs.items()}
            made = self._kernels.run(func, tuple(map(_laid_out, args)), named, largest=0)
            if any(math.prod(each.size) > _LARGEST_REMEMBERED for each in _layouts(made)):
                raise Untold(f"{func} makes a tensor that is too large")
        return func(*args, **kwargs)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # as in session.py


def _layouts(made: Any) -> list[Layout]:
    return [made] if isinstance(made, Layout) else [each for each in made if isinstance(each, Layout)]


@dataclass(frozen=True)
class _Ended:
    """A run without data that has no results to compare."""

    following: _Following
    error: Exception | None  # None if the model caught the error and went on


class SameSteps:
    """A program and the model that it was made from, compared at several sizes.

    The model is called with inputs, and with a function that it tells the memory of plain tensors that it writes to.
    `example` are inputs of the example's sizes.
    """

    def __init__(
        self,
        program: CapturedProgram,
        model: Callable[..., Sequence[Output]],
        kernels: LayoutKernels,
        example: Sequence[torch.Tensor],
    ) -> None:
        self._program, self._model, self._kernels, self._example = program, model, kernels, example
        self._numbers = _Numbers(each.tensor for each in program.constants.values())

    def at(self, inputs: Sequence[torch.Tensor], *, or_refused: bool = True) -> bool:
        """Whether the two do the same at the sizes of these inputs, whatever the data is, or, with `or_refused`, the
        model refuses the sizes, whatever the data is.

        False says nothing: they may give the same results in another way.

        If the model looks into its data, it is called a second time, and libraries hear that they are being exported.
        They heard the same when the program was made.
        """
        if len({each.device for each in inputs}) != 1:
            return False
        model = functools.partial(self._model, on_write=self._numbers.written.add)
        wanted = self._steps(model, inputs)
        if isinstance(wanted, _Ended):
            if or_refused and wanted.error and wanted.following.is_refused(wanted.error, self._known):
                return True
            with asked_as_exported(_Sized):
                wanted = self._steps(model, inputs)
            if isinstance(wanted, _Ended):
                return False
        found = self._steps(functools.partial(execute, self._program), inputs)
        if isinstance(found, _Ended):
            return False
        return found == wanted and self._program.declares([shape for shape, _, _ in found])

    def _steps(self, run: Callable[..., Sequence[Output]], inputs: Sequence[torch.Tensor]) -> list[Any] | _Ended:
        """The results of a run without data, by what they were made of; how it ended if data has to tell."""
        following = _Following(self._numbers, self._kernels, inputs[0].device)
        given = [following.input(each, place) for place, each in enumerate(inputs)]
        are_large = sum(each.numel() for each in inputs) > LARGEST_WITH_DATA
        self._numbers.written.clear()
        try:
            with below_autograd(), _Modest(self._kernels) if are_large else contextlib.nullcontext():
                results = run(given)
            if following.untold:
                return _Ended(following, None)
            return [(each.shape, each.dtype, following.value(each)) for each in results]  # type: ignore[union-attr]
        except Exception as error:  # Untold, data that is asked for, or sizes that are refused
            return _Ended(following, error)

    def _known(self) -> Collection[Any]:
        return _calls_of(lambda given: self._model(given, on_write=lambda memory: None), self._example, self._kernels)


def _calls_of(model: Callable[..., Any], inputs: Sequence[torch.Tensor], kernels: LayoutKernels) -> Collection[Any]:
    """The kinds of calls that a model makes at the sizes of these inputs; none if it does not get to its end."""
    following = _Following(_Numbers(()), kernels, inputs[0].device)
    following.done = set()
    return frozenset() if _error_of(model, inputs, following) is not None else following.done


def refuses(
    model: Callable[..., Any], inputs: Sequence[torch.Tensor], example: Sequence[torch.Tensor], kernels: LayoutKernels
) -> bool:
    """Whether a model refuses the sizes of these inputs, whatever the data is. False says nothing."""
    devices = {each.device for each in inputs}
    if len(devices) != 1:
        return False
    following = _Following(_Numbers(()), kernels, *devices)
    error = _error_of(model, inputs, following)
    return error is not None and following.is_refused(error, lambda: _calls_of(model, example, kernels))


def _error_of(model: Callable[..., Any], inputs: Sequence[torch.Tensor], following: _Following) -> Exception | None:
    """How a run without data ends."""
    try:
        with below_autograd(), _Modest(following.kernels):
            model([following.input(each, place) for place, each in enumerate(inputs)])
    except Exception as error:
        return error
    return following.untold[0] if following.untold else None


def _is_raised(error: Exception) -> bool:
    """Whether a statement of Python has raised an error, and not in answer to another one: `raise`, or `assert`."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or error.__context__ is not None or isinstance(error, _OF_OTHERS):
        return False
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == _RAISE
