"""Functions written with onnxscript, as `custom_translation_table` has them.

onnxscript is never imported here. A function that it compiled brings its own definition (`to_function_proto`), and
becomes a local function of the model. One that is plain Python around its operators (`return op.Add(x, y)`) is run with
another `op`: one that puts nodes into our graph, where onnxscript's own would compute numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import CellType, FunctionType, ModuleType
from typing import Any

import onnx
import onnx_ir as ir
import torch

from onward.lower import dtypes
from onward.lower.emitter import Emitter
from onward.lower.schemas import definition
from onward.lower.symbolic.graph import SymbolicGraph
from onward.lower.symbolic.values import SymbolicValue, is_value


def is_scripted(function: Any) -> bool:
    """Whether a function is onnxscript's rather than a lowering in our form."""
    return _is_onnxscripts(function) or (
        inspect.isfunction(function) and any(_is_onnxscripts(each) for each in _names(function).values())
    )


def _is_onnxscripts(thing: Any) -> bool:
    module = thing.__name__ if isinstance(thing, ModuleType) else type(thing).__module__
    return module.partition(".")[0] == "onnxscript"


def _names(function: Any) -> dict[str, Any]:
    """What the names in a function stand for that are not its own."""
    known = inspect.getclosurevars(function)
    return {**known.globals, **known.nonlocals}


def scripted_lowering(function: Any) -> Callable[..., Any]:
    """An onnxscript function in our form."""
    plain = inspect.isfunction(function) or hasattr(function, "func")
    return _traced(function) if plain else _compiled(function)


def _compiled(function: Any) -> Callable[..., Any]:
    """A local function of the model, and a call of it."""

    def call(g: Emitter, *args: Any) -> Any:
        return _call_function(SymbolicGraph(g), function, args, {})

    return call


def _call_function(graph: SymbolicGraph, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The first arguments are inputs, the others attributes, as the function declares them."""
    proto: onnx.FunctionProto = function.to_function_proto()
    domain, name = graph.emitter.add_function(proto)
    names = [*proto.attribute, *(each.name for each in proto.attribute_proto)]
    count = len(proto.input)
    given = dict(zip(names, args[count:], strict=False)) | {key: value for key, value in kwargs.items() if key in names}
    inputs = [*args[:count], *(kwargs[key] for key in proto.input[len(args) :] if key in kwargs)]
    values = [graph.wrap(each).value() for each in inputs]
    attributes = {key: value for key, value in given.items() if value is not None}
    return graph.emitter.node(name, values, attributes, domain=domain, outputs=len(proto.output))


def _traced(function: Any) -> Callable[..., Any]:
    """Plain Python around onnxscript's operators."""

    def call(g: Emitter, *args: Any) -> Any:
        graph = SymbolicGraph(g)
        return graph.unwrap(_with_our_operators(graph, function)(*[_wrapped(graph, arg) for arg in args]))

    # the operator's arguments are bound by the function's own signature, with a place for `g`
    own = inspect.signature(function).parameters.values()
    graph_first = inspect.Parameter("g", inspect.Parameter.POSITIONAL_ONLY)
    call.__signature__ = inspect.Signature([graph_first, *own])  # type: ignore[attr-defined]
    return call


def _with_our_operators(graph: SymbolicGraph, function: Any) -> Callable[..., Any]:
    """The same function, in which everything of onnxscript's is replaced by what builds our graph."""
    function = getattr(function, "func", function)
    ours = {name: _replaced(graph, each) for name, each in _names(function).items()}
    cells = [CellType(ours.get(name, cell.cell_contents)) for name, cell in _cells(function)]
    made = FunctionType(
        function.__code__, {**function.__globals__, **ours}, function.__name__, function.__defaults__, tuple(cells)
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _cells(function: Any) -> list[tuple[str, Any]]:
    return list(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def _replaced(graph: SymbolicGraph, thing: Any) -> Any:
    if inspect.isfunction(thing):
        return _with_our_operators(graph, thing) if is_scripted(thing) else thing
    if not _is_onnxscripts(thing) or isinstance(thing, type):
        return thing
    if isinstance(thing, ModuleType):
        return _Module(graph, thing)
    if hasattr(thing, "func"):
        return _with_our_operators(graph, thing)
    if hasattr(thing, "to_function_proto"):
        return lambda *args, **kwargs: _outputs(graph, _call_function(graph, thing, args, kwargs))
    return _Operators(graph, thing.domain, thing.version) if hasattr(thing, "version") else thing


def _wrapped(graph: SymbolicGraph, thing: Any) -> Any:
    """Tensors as values; numbers, strings and None as they are."""
    if isinstance(thing, (list, tuple)):
        return [_wrapped(graph, each) for each in thing]
    wrapped = graph.wrap(thing)
    return _ScriptValue(graph, wrapped.value()) if isinstance(thing, ir.Value) or _is_size(thing) else thing


def _is_size(thing: Any) -> bool:
    return hasattr(thing, "values") and hasattr(thing, "operands")


class _Module:
    """`onnxscript` itself: `onnxscript.opset18.Add(x, y)`."""

    def __init__(self, graph: SymbolicGraph, module: ModuleType) -> None:
        self._graph, self._module = graph, module

    def __getattr__(self, name: str) -> Any:
        return _replaced(self._graph, getattr(self._module, name))


class _Operators:
    """An opset: `op.Add(x, y)` is a node of our graph."""

    def __init__(self, graph: SymbolicGraph, domain: str, version: int) -> None:
        self._graph, self._domain, self._version = graph, domain, version

    def __getattr__(self, name: str) -> Callable[..., Any]:
        graph = self._graph

        def call(*args: Any, **kwargs: Any) -> Any:
            values = [graph.wrap(each).value() for each in args]
            settings = {key: value for key, value in kwargs.items() if value is not None}
            count = self._count(name, values, settings)
            if self._domain:
                made = graph.emitter.node(name, values, settings, domain=self._domain, outputs=count)
            elif name == "Constant":
                (value,) = settings.values()
                made = graph.wrap(value if isinstance(value, torch.Tensor) else _tensor(value)).value()
            else:
                made = graph.standard(name, values, settings, count)
            return _outputs(graph, made)

        return call

    def _count(self, name: str, values: Sequence[Any], settings: Mapping[str, Any]) -> int:
        """How many results a call has."""
        if name == "Split" and not self._domain:
            sizes = self._graph.emitter.value_of(values[1]) if len(values) > 1 else None
            return int(settings["num_outputs"]) if sizes is None else sizes.numel()
        schema = definition(name, self._version, self._domain)
        return 1 if schema is None else len(schema.outputs)


def _tensor(value: Any) -> torch.Tensor:
    """The value of a Constant: a tensor of onnx or onnx_ir, a number or a list of numbers."""
    if isinstance(value, onnx.TensorProto):
        return torch.from_numpy(onnx.numpy_helper.to_array(value).copy())
    return torch.as_tensor(value.numpy() if hasattr(value, "numpy") else value)


def _outputs(graph: SymbolicGraph, made: Any) -> Any:
    if isinstance(made, tuple):
        return tuple(_ScriptValue(graph, each) for each in made)
    return _ScriptValue(graph, made)


class _ScriptValue(SymbolicValue):
    """A value on which Python's operators work, as onnxscript's do."""

    @property
    def dtype(self) -> ir.DataType | None:
        dtype = self.type().dtype()
        return None if dtype is None else dtypes.to_onnx(dtype)

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        sizes = self.type().sizes()
        return None if sizes is None else tuple(sizes)

    @property
    def rank(self) -> int | None:
        rank: int | None = self.type().dim()
        return rank

    def _op(self, name: str, *others: Any) -> _ScriptValue:
        values = [(each if is_value(each) else self.graph.wrap(torch.as_tensor(each))).value() for each in others]
        return _ScriptValue(self.graph, self.graph.standard(name, values, {}, 1))

    def __add__(self, other: Any) -> _ScriptValue:
        return self._op("Add", self, other)

    def __radd__(self, other: Any) -> _ScriptValue:
        return self._op("Add", other, self)

    def __sub__(self, other: Any) -> _ScriptValue:
        return self._op("Sub", self, other)

    def __rsub__(self, other: Any) -> _ScriptValue:
        return self._op("Sub", other, self)

    def __mul__(self, other: Any) -> _ScriptValue:
        return self._op("Mul", self, other)

    def __rmul__(self, other: Any) -> _ScriptValue:
        return self._op("Mul", other, self)

    def __truediv__(self, other: Any) -> _ScriptValue:
        return self._op("Div", self, other)

    def __rtruediv__(self, other: Any) -> _ScriptValue:
        return self._op("Div", other, self)

    def __matmul__(self, other: Any) -> _ScriptValue:
        return self._op("MatMul", self, other)

    def __neg__(self) -> _ScriptValue:
        return self._op("Neg", self)
