"""The layer of lowerings that belongs to users, above onward's own.

Three ways lead into it: `onward.lowers` for a lowering in onward's own form, `onward.register_custom_op_symbolic` for a
symbolic function as `torch.onnx` has them, and whatever was registered with `torch.onnx.register_custom_op_symbolic`.
The newer of two registrations for the same operator and opset wins; onward's own lowerings stay below, untouched, and
are back when a registration is removed. `custom_translation_table` is one more layer on top, for one export.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onward.capture.program.facts import FunctionCall
from onward.errors import InputError, LoweringError
from onward.lower.emitter import Emitter
from onward.lower.registry import (
    FIRST_OPSET,
    Lowering,
    Registry,
    _refuse_unless_default,
    _schema_arguments,
    op_key,
    op_name,
    registry,
)
from onward.lower.symbolic.graph import SymbolicGraph
from onward.lower.symbolic.scripted import is_scripted, scripted_lowering
from onward.lower.symbolic.values import is_value
from onward.options import newest_opset
from onward.tables import place_of

_NAME = re.compile(r"(?P<namespace>[A-Za-z0-9_-]*)::(?P<op>[A-Za-z_-][A-Za-z0-9_-]*(\.[A-Za-z0-9_]+)?)")
# Where versions of PyTorch keep what users registered with it, and what its helpers look up.
_PYTORCHS = ("torch.onnx._internal.torchscript_exporter", "torch.onnx._internal", "torch.onnx")


def _run_symbolic(g: Emitter, symbolic: Callable[..., Any], name: str, values: Sequence[Any]) -> Any:
    """Call a symbolic function in the place of a lowering."""
    graph = SymbolicGraph(g)
    try:
        with _pytorch_told(g.opset):
            result = graph.unwrap(symbolic(graph, *values))
        several = isinstance(g.out, (tuple, list))
        if several and not isinstance(result, list):
            return [result]
        return result[0] if isinstance(result, list) and len(result) == 1 and not several else result
    except LoweringError:
        raise
    except Exception as error:
        # PyTorch's helpers append a picture of its graph, which is not there.
        what = str(error).partition("  [Caused by")[0] or type(error).__name__
        kind = "" if isinstance(error, (TypeError, ValueError)) else f"{type(error).__name__}: "
        details = [f"it is written at {place_of(symbolic)}"]
        if "None" in what:
            details += _varying(values)
        raise LoweringError(
            f"the symbolic function of {name} failed: {kind}{what}", op=name, details=details
        ) from error


@contextlib.contextmanager
def _pytorch_told(opset: int) -> Iterator[None]:
    """Helpers of PyTorch look up the opset in a global of theirs."""
    found = [getattr(sys.modules.get(f"{package}._globals"), "GLOBALS", None) for package in _PYTORCHS]
    before = [(each, each.export_onnx_opset_version) for each in found if each is not None]
    try:
        for each, _ in before:
            each.export_onnx_opset_version = opset
        yield
    finally:
        for each, version in before:
            each.export_onnx_opset_version = version


def _varying(values: Sequence[Any]) -> list[str]:
    """Arguments whose sizes are not all numbers: what a function may have stumbled over."""
    found = []
    for place, value in enumerate(values):
        sizes = value.type().sizes() if is_value(value) and isinstance(value.type(), torch._C.TensorType) else None
        if sizes is not None and None in sizes:
            found.append(
                f"the sizes of its argument {place} are {sizes}: an axis that varies has no number; "
                'compute with g.op("Shape", ...), or leave the axis out of dynamic_axes'
            )
    return found


def _run_operators_symbolic(g: Emitter, symbolic: Callable[..., Any], name: str, values: Sequence[Any]) -> Any:
    graph = SymbolicGraph(g)
    return _run_symbolic(g, symbolic, name, [graph.wrap(value) for value in values])


def _run_functions_symbolic(g: Emitter, call: FunctionCall, *values: Any) -> Any:
    """An autograd.Function by its own `symbolic`: tensors as values, everything else as it was given."""
    graph = SymbolicGraph(g)
    symbolic = call.function.symbolic  # type: ignore[attr-defined]
    return _run_symbolic(g, symbolic, op_name(call), call.filled([graph.wrap(value) for value in values]))


@dataclass(frozen=True, slots=True)
class SymbolicLowering(Lowering):
    """A symbolic function in the place of a lowering."""

    symbolic: Callable[..., Any]

    @staticmethod
    def of(symbolic: Callable[..., Any], since: int) -> SymbolicLowering:
        return SymbolicLowering(_run_operators_symbolic, since, place_of(symbolic), symbolic)

    def bind(self, op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """All arguments by position, in the order of the schema, as TorchScript passed them."""
        values = list(args)
        if isinstance(op, torch._ops.OpOverload):
            arguments = [argument for group in _schema_arguments(op) for argument in group]
            given = dict(zip((argument.name for argument in arguments), args, strict=False)) | kwargs
            values = [given.get(argument.name, argument.default) for argument in arguments]
            taken = _taken(self.symbolic)
            if taken is not None:
                for argument, value in zip(arguments[taken:], values[taken:], strict=True):
                    _refuse_unless_default(op, argument, value)
                values = values[:taken]
        return [self.symbolic, op_name(op), values], {}


class FunctionLowering(Lowering):
    """The `symbolic` of an autograd.Function in the place of a lowering."""

    def bind(self, op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        return [op, *args], {}


def _taken(function: Callable[..., Any]) -> int | None:
    """How many arguments a symbolic function takes after the graph; None for any number."""
    kinds = inspect.Parameter
    parameters = list(inspect.signature(function).parameters.values())
    if any(each.kind is kinds.VAR_POSITIONAL for each in parameters):
        return None
    return sum(each.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD) for each in parameters) - 1


class UserRegistry(Registry):
    """What users registered, here and with PyTorch. `ns::op` without an overload stands for all overloads."""

    def versions(self, op: Any) -> Mapping[int, Lowering]:
        if isinstance(op, FunctionCall):
            return {FIRST_OPSET: FunctionLowering(_run_functions_symbolic, FIRST_OPSET, op.function.__qualname__)}
        key = op_key(op)
        if not isinstance(key, str):
            return self._table.get(key, {})
        names = (key.removesuffix(".default"), key.partition(".")[0])
        found: dict[int, Lowering] = {}
        for name in reversed(names):
            found |= _registered_with_pytorch(name)
        for name in (*reversed(names), key):
            found |= self._table.get(name, {})
        return found

    def register_symbolic(self, name: str, symbolic: Callable[..., Any], since: int) -> None:
        self._table.setdefault(name, {})[since] = SymbolicLowering.of(symbolic, since)

    def unregister_symbolic(self, name: str, since: int) -> bool:
        """Whether there was one."""
        return self._table.get(name, {}).pop(since, None) is not None


def _registered_with_pytorch(name: str) -> dict[int, Lowering]:
    """What users gave to `torch.onnx.register_custom_op_symbolic`; never what PyTorch itself brings, or torchvision,
    which registers its own when it is imported: these take the graph of PyTorch's exporter for granted."""
    for package in _PYTORCHS:
        theirs = getattr(sys.modules.get(f"{package}.registration"), "registry", None)
        group = theirs.get_function_group(name) if theirs is not None else None
        if group is not None:
            functions = dict(group._functions._overrides)
            return {
                since: SymbolicLowering.of(function, since)
                for since, function in functions.items()
                if not str(getattr(function, "__module__", "")).startswith("torchvision.")
            }
    return {}


users = UserRegistry(registry)


def lowers(*ops: Any, since: int = FIRST_OPSET) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a lowering of your own, from an opset on: a function of an Emitter and the operator's arguments.

        @onward.lowers(torch.ops.mine.scale.default)
        def scale(g, x, factor):
            return g.op.Mul(x, g.like(x, factor))

    It comes before onward's lowering of the same operator. `onward.lower.emitter` says what `g` offers.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for op in ops:
            users.register(op, function, since, replace=True)
        return function

    return decorate


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Say what an operator is in ONNX, from an opset on.

        def elu(g, x, alpha):
            return g.op("Elu", x, alpha_f=alpha)

        onward.register_custom_op_symbolic("mine::elu", onward.onnx.symbolic_helper.parse_args("v", "f")(elu), 9)

    `ns::op` covers all overloads, `ns::op.overload` one. An operator that onward knows is overridden.
    """
    if not callable(symbolic_fn):
        raise InputError(f"the symbolic function of {symbolic_name} has to be a function, not {symbolic_fn!r}")
    users.register_symbolic(_checked(symbolic_name, opset_version), symbolic_fn, opset_version)


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Take back what was registered for exactly this name and opset."""
    if not users.unregister_symbolic(_checked(symbolic_name, opset_version), opset_version):
        warnings.warn(f"no symbolic function is registered for {symbolic_name} at opset {opset_version}", stacklevel=2)


def _checked(name: Any, opset: Any) -> str:
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise InputError(
            f"{name!r} is not the name of an operator",
            hint='a name is "namespace::operator" or "namespace::operator.overload", for example "my_ops::foo"',
        )
    if not isinstance(opset, int) or isinstance(opset, bool) or not 1 <= opset <= newest_opset():
        raise InputError(f"opset_version must be an integer from 1 to {newest_opset()}, not {opset!r}")
    return name if match["namespace"] else f"aten{name}"


# One export's own


def registry_for(table: Mapping[Any, Any] | None) -> Registry:
    """The layers for one export: `custom_translation_table` on top of what is registered."""
    layer = users.child()
    for op, given in (table or {}).items():
        functions = list(given) if isinstance(given, (list, tuple)) else [given]
        if not functions or not all(map(callable, functions)):
            raise InputError(
                f"custom_translation_table has {given!r} for {op}, and it takes a function or a list of functions",
                hint="a function of an onward.lower.Emitter and the operator's arguments, or an onnxscript function",
            )
        lowerings = [scripted_lowering(each) if is_scripted(each) else each for each in functions]
        layer.register(op, lowerings[0] if len(lowerings) == 1 else _first_that_can(lowerings))
    return layer


def _first_that_can(lowerings: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Several functions for one operator: the first that does not decline with `raise g.unsupported(...)`."""

    def lower(g: Emitter, *args: Any) -> Any:
        for each in lowerings[:-1]:
            try:
                return each(g, *args)
            except LoweringError:
                continue
        return lowerings[-1](g, *args)

    return lower
