"""A call of a PyTorch operator as an ONNX node, and back: nothing is lost on the way.

    y = torch.ops.aten.view.default(x, [s, 64])      y = org.pytorch.aten.ATen <
                                                             operator = "aten::view", overload_name = "",
                                                             arguments = ["self=tensor", "size=[size, 64]"]> (x, s)

Tensors and numbers that depend on sizes are inputs, in the order of the arguments. Every other argument is an attribute
under its name in the operator's schema, of the type that fits. `arguments` says for each argument that the call gives
what it is, because an attribute alone does not (0 or False, 1.0 or 1, a dtype or a string, None or left out):

    tensor                          the next input
    size, float size, bool size     the next input, a 0-d tensor to be read as an int, a float or a bool
    none                            None
    int, float, bool, string        an attribute INT, FLOAT, INT (0 or 1), STRING
    ints, floats, bools, strings    an attribute INTS, FLOATS, INTS, STRINGS
    dtype, layout, memory_format    an attribute STRING: the name in the module torch
    device, complex                 an attribute STRING: as Python writes it
    float 1e-05, floats 0.1 0.2     the same, exactly: ONNX attributes are float32 only
    [tensor, none, 64, 0.5, True]   a list in which not everything is constant; numbers stand for themselves

Arguments that the call does not give are not there: the operator's defaults hold. Results are the node's outputs in
order, each tensor of a returned list included.

A node can have its operator's own name instead, `custom_ops.foo <...> (x)`, without the attribute `operator`.
Arithmetic on sizes, which has no schema, is written so too:

    operator.mul <arguments = ["arg0=size", "arg1=int"], arg1 = 2> (s)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir
import torch

from onward.errors import LoweringError, UnsupportedOpError
from onward.lower.emitter import Emitter, SizeValue, Value
from onward.lower.size_values import size_functions

DOMAIN, OP_TYPE = "org.pytorch.aten", "ATen"
OPERATOR, OVERLOAD, ARGUMENTS = "operator", "overload_name", "arguments"

_NUMBER_INPUTS = {int: "size", float: "float size", bool: "bool size"}
_NUMBER_TYPES = {kind: type_ for type_, kind in _NUMBER_INPUTS.items()}
_NAMED_IN_TORCH = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format"}
_CONSTANT_LISTS = {int: "ints", float: "floats", bool: "bools", str: "strings"}


@dataclass(frozen=True, slots=True)
class Given:
    """In a decoded call: an argument that is an input of the node, a tensor or a number of this type."""

    index: int
    type: type = torch.Tensor

    def of(self, inputs: Sequence[Any]) -> Any:
        value = inputs[self.index]
        return value if self.type is torch.Tensor else self.type(value.item())


@dataclass(frozen=True)
class DecodedCall:
    """A function with its arguments, in which `Given` stands for the inputs of the node."""

    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def bind(self, inputs: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments for these inputs (tensors)."""

        def bound(value: Any) -> Any:
            if isinstance(value, Given):
                return value.of(inputs)
            return [bound(item) for item in value] if isinstance(value, list) else value

        return tuple(map(bound, self.args)), {name: bound(value) for name, value in self.kwargs.items()}

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Call it; the results in the order of the node's outputs."""
        args, kwargs = self.bind(inputs)
        result = self.target(*args, **kwargs)
        if isinstance(result, (tuple, list)):
            return list(result)
        return [
            result if isinstance(result, torch.Tensor) else torch.tensor(result, dtype=_NUMBER_DTYPES[type(result)])
        ]


_NUMBER_DTYPES = {int: torch.int64, float: torch.float64, bool: torch.bool}


# Names


def own_name(target: Any) -> tuple[str, str]:
    """Domain and type of a node that is named after its operator: ("custom_ops", "foo"), ("operator", "mul")."""
    if isinstance(target, torch._ops.OpOverload):
        namespace, _, name = target._schema.name.partition("::")
        return namespace, name
    found = _size_function_names().get(target)
    if found is None:
        raise LoweringError(f"{target} cannot be written down as a node")
    return found


def _size_function_names() -> dict[Any, tuple[str, str]]:
    return {each: (each.__module__.lstrip("_"), each.__name__) for each in size_functions()}


def is_call(node: ir.Node) -> bool:
    """Whether a node is a call that was written down."""
    return node.domain != "" and ARGUMENTS in node.attributes


def call_name(node: ir.Node) -> str:
    """`aten::conv2d`, of a node that is a call."""
    return node.attributes[OPERATOR].as_string() if OPERATOR in node.attributes else f"{node.domain}::{node.op_type}"


def calls_in(model: ir.Model) -> list[str]:
    """The operators of a model that only PyTorch can run, each once, in order."""
    found: dict[str, None] = {}
    graphs: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for graph in graphs:
        nodes = ir.traversal.RecursiveGraphIterator(graph)
        found.update((call_name(node), None) for node in nodes if is_call(node))
    return list(found)


# Encoding


def encode(
    g: Emitter, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], name: tuple[str, str], outputs: int
) -> Any:
    """Emit a call as a node of this domain and type: a Value, or a list of them if there is not exactly one."""
    encoder = _Encoder(g)
    for argument, value in _named(target, args, kwargs):
        encoder.add(argument, value)
    attributes = []
    if isinstance(target, torch._ops.OpOverload):
        if name == (DOMAIN, OP_TYPE):
            attributes.append(ir.AttrString(OPERATOR, target._schema.name))
        attributes.append(ir.AttrString(OVERLOAD, target._schema.overload_name))
    attributes += [ir.AttrStrings(ARGUMENTS, encoder.notes), *encoder.attributes]
    domain, op_type = name
    # Made here and not by g.node, which would share equal calls: two calls of dropout are not one.
    node = ir.Node(domain, op_type, encoder.inputs, attributes, num_outputs=outputs)
    g.nodes.append(node)
    g.opset_imports.setdefault(domain, 1)
    return node.outputs[0] if outputs == 1 else list(node.outputs)


def _named(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(target, torch._ops.OpOverload):
        yield from zip([argument.name for argument in target._schema.arguments], args, strict=False)
    else:
        yield from ((f"arg{place}", value) for place, value in enumerate(args))
    yield from kwargs.items()


class _Encoder:
    """Arguments, one by one, as inputs, attributes and notes."""

    def __init__(self, g: Emitter) -> None:
        self._g = g
        self.inputs: list[Value] = []
        self.attributes: list[ir.Attr] = []
        self.notes: list[str] = []

    def add(self, name: str, value: Any) -> None:
        kind = self._kind(_attribute_name(name), value)
        if kind is None:
            raise self._g.unsupported(f"its argument {name} is a {type(value).__name__}, which no node can hold")
        self.notes.append(f"{name}={kind}")

    def _kind(self, name: str, value: Any) -> str | None:
        """What the argument is, once it is stored; None if it cannot be."""
        if isinstance(value, (list, tuple)):
            return self._constants(name, list(value)) or self._list(value)
        variable = self._variable(value)
        if variable is not None:
            return variable
        if isinstance(value, bool):
            return self._store(ir.AttrInt64(name, int(value)), "bool")
        if isinstance(value, int) and -(2**63) <= value < 2**63:
            return self._store(ir.AttrInt64(name, value), "int")
        if isinstance(value, float):
            return self._store(ir.AttrFloat32(name, _single(value)), f"float{_exactly([value])}")
        if isinstance(value, str):
            return self._store(ir.AttrString(name, value), "string")
        if type(value) in _NAMED_IN_TORCH:
            text = str(value).removeprefix("torch.")
            return self._store(ir.AttrString(name, text), _NAMED_IN_TORCH[type(value)])
        if isinstance(value, (torch.device, complex)):
            return self._store(ir.AttrString(name, str(value)), type(value).__name__)
        return None

    def _store(self, attribute: ir.Attr, kind: str) -> str:
        self.attributes.append(attribute)
        return kind

    def _constants(self, name: str, items: list[Any]) -> str | None:
        """A list of constants of one type as an attribute."""
        types = {type(item) for item in items}
        kind = _CONSTANT_LISTS.get(types.pop()) if len(types) == 1 else None
        if kind == "ints" or kind == "bools":
            return self._store(ir.AttrInt64s(name, [int(item) for item in items]), kind)
        if kind == "floats":
            return self._store(ir.AttrFloat32s(name, [_single(item) for item in items]), f"floats{_exactly(items)}")
        return self._store(ir.AttrStrings(name, items), kind) if kind else None

    def _list(self, items: Sequence[Any]) -> str | None:
        kinds = [self._list(item) if isinstance(item, (list, tuple)) else self._item(item) for item in items]
        return None if None in kinds else f"[{', '.join(map(str, kinds))}]"

    def _item(self, value: Any) -> str | None:
        return repr(value) if isinstance(value, (bool, int, float)) else self._variable(value)

    def _variable(self, value: Any) -> str | None:
        if value is None:
            return "none"
        if isinstance(value, Value):
            self.inputs.append(value)
            return "tensor"
        if isinstance(value, SizeValue):
            self.inputs.append(self._number(value))
            return _NUMBER_INPUTS[value.kind]
        return None

    def _number(self, size: SizeValue) -> Value:
        """A 0-d tensor: the one that a node made, where arithmetic on sizes is written down too."""
        if size.function == "given" and self._g.dims(size.operands[0]) == ():
            return size.operands[0]
        return self._g.scalar(size)


def _attribute_name(argument: str) -> str:
    return f"{argument}_" if argument in (OPERATOR, OVERLOAD, ARGUMENTS) else argument


def _single(value: float) -> float:
    """The nearest float32; what is too large for one is infinite."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _exactly(values: Sequence[float]) -> str:
    """Nothing where float32 holds the numbers, otherwise the numbers."""
    exact = all(value != value or _single(value) == value for value in values)
    return "" if exact else f" {' '.join(map(repr, values))}"


# Decoding


def decode(node: ir.Node | onnx.NodeProto) -> DecodedCall:
    """The call that a node stands for."""
    if isinstance(node, onnx.NodeProto):
        inputs = [ir.Value(name=name) for name in node.input]
        attributes = [ir.serde.deserialize_attribute(each) for each in node.attribute]
        node = ir.Node(node.domain, node.op_type, inputs, attributes, name=node.name)
    if not is_call(node):
        raise LoweringError(
            f"the node {node.name!r} ({node.domain or 'ai.onnx'}.{node.op_type}) has no attribute {ARGUMENTS!r}: "
            "it is not a PyTorch operator that onward wrote down"
        )
    target = _target(node)
    schema = target._schema.arguments if isinstance(target, torch._ops.OpOverload) else ()
    by_keyword = {argument.name for argument in schema if argument.kwarg_only}
    order = {argument.name: place for place, argument in enumerate(schema)}
    decoder = _Decoder(node)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for note in node.attributes[ARGUMENTS].as_strings():
        name, _, kind = note.partition("=")
        value = decoder.value(name, kind)
        if name in by_keyword or (schema and order.get(name) != len(args)):
            kwargs[name] = value
        else:
            args.append(value)
    return DecodedCall(target, tuple(args), kwargs)


def _target(node: ir.Node) -> Any:
    name = call_name(node)
    if OVERLOAD not in node.attributes:
        functions = {key: function for function, key in _size_function_names().items()}
        if (node.domain, node.op_type) in functions:
            return functions[node.domain, node.op_type]
        raise UnsupportedOpError(f"{name} is no function of sizes that onward knows", op=name)
    namespace, _, short = name.partition("::")
    overload = node.attributes[OVERLOAD].as_string() or "default"
    target: Any = torch.ops
    for part in (namespace, short, overload):
        # A file is untrusted, and objects have attributes that are no operators: `__call__`, `__globals__`.
        target = getattr(target, part, None) if part.isidentifier() else None
    if not isinstance(target, torch._ops.OpOverload):
        raise UnsupportedOpError(
            f"this PyTorch has no operator {name} with the overload {overload!r}",
            op=name,
            hint="import the package that defines it first, if it is a custom operator",
        )
    return target


class _Decoder:
    def __init__(self, node: ir.Node) -> None:
        self._node = node
        self._next = 0

    def value(self, name: str, kind: str) -> Any:
        if kind.startswith("["):
            return self._items(kind)
        found, value = self._variable(kind)
        return value if found else self._constant(name, kind)

    def _variable(self, kind: str) -> tuple[bool, Any]:
        if kind == "none":
            return True, None
        if kind != "tensor" and kind not in _NUMBER_TYPES:
            return False, None
        self._next += 1
        return True, Given(self._next - 1, _NUMBER_TYPES.get(kind, torch.Tensor))

    def _constant(self, name: str, kind: str) -> Any:
        attribute = self._node.attributes[_attribute_name(name)]
        base, _, exact = kind.partition(" ")
        if base == "float":
            return float(exact) if exact else attribute.as_float()
        if base == "floats":
            return [float(each) for each in exact.split()] if exact else list(attribute.as_floats())
        if kind in _NAMED_IN_TORCH.values():
            return self._named_in_torch(name, kind, attribute.as_string())
        readers: dict[str, Callable[[], Any]] = {
            "int": attribute.as_int,
            "bool": lambda: bool(attribute.as_int()),
            "string": attribute.as_string,
            "ints": lambda: list(attribute.as_ints()),
            "bools": lambda: [bool(each) for each in attribute.as_ints()],
            "strings": lambda: list(attribute.as_strings()),
            "device": lambda: torch.device(attribute.as_string()),
            "complex": lambda: complex(attribute.as_string()),
        }
        if kind not in readers:
            raise LoweringError(f"the node {self._node.name!r} has an argument {name} of an unknown kind: {kind!r}")
        return readers[kind]()

    def _named_in_torch(self, name: str, kind: str, text: str) -> Any:
        value = getattr(torch, text, None)
        if _NAMED_IN_TORCH.get(type(value)) != kind:
            raise LoweringError(f"the node {self._node.name!r} has an argument {name} that is no {kind}: {text!r}")
        return value

    def _items(self, text: str) -> list[Any]:
        return [self._items(item) if item.startswith("[") else self._item(item) for item in _split(text[1:-1])]

    def _item(self, text: str) -> Any:
        found, value = self._variable(text)
        if found:
            return value
        if text in ("True", "False"):
            return text == "True"
        return int(text) if text.lstrip("-").isdigit() else float(text)


def _split(text: str) -> Iterator[str]:
    """The items of a list, in which items may be lists."""
    depth, start = 0, 0
    for place, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    if text[start:].strip():
        yield text[start:].strip()
