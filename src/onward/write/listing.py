"""A graph as text for a person to read.

    graph AlexNet (opset 20)
      inputs
        %x             : Float(batch, 3, 224, 224)
      weights
        %conv.weight   : Float(64, 3, 11, 11)
      constants
        %i64_2_minus_1 : Long(2) = {2, -1}
    {
      %features.0.conv2d : Float(batch, 64, 55, 55) = onnx::Conv[...](%x, %conv.weight), scope: ...  # net.py:42
      return (%y)
    }

Dimensions are sizes or names, `?` where the file says nothing. Small integers are shown where they are read, since
nobody wants to look up the shape of a Reshape. Scopes and source lines come from onward's own metadata, or from that of
PyTorch's exporter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import onnx_ir as ir

from onward.write.node_scopes import scope_of, source_of
from onward.write.type_texts import dimensions

_TYPES = {
    "FLOAT": "Float", "DOUBLE": "Double", "FLOAT16": "Half", "BFLOAT16": "BFloat16", "INT64": "Long", "INT32": "Int",
    "INT16": "Short", "INT8": "Char", "UINT8": "Byte", "BOOL": "Bool", "STRING": "String", "UINT16": "UShort",
    "UINT32": "UInt", "UINT64": "ULong", "COMPLEX64": "ComplexFloat", "COMPLEX128": "ComplexDouble",
}  # fmt: skip
_SHOWN = 8  # elements of a list or of a constant that are written out
_LONGEST_STRING = 60
_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def listing(model: ir.Model) -> str:
    """The whole model: the graph, then its functions."""
    blocks = ["\n".join(_graph(model.graph, _title(model)))]
    blocks += ["\n".join(_function(function)) for function in model.functions.values()]
    return "\n\n".join(blocks)


def _title(model: ir.Model) -> str:
    opsets = ", ".join(f"{domain or 'opset'} {version}" for domain, version in model.graph.opset_imports.items())
    return f"graph {model.graph.name or 'main'} ({opsets})"


def _graph(graph: ir.Graph, title: str) -> list[str]:
    inputs = list(graph.inputs)
    held = [value for value in graph.initializers.values() if value not in set(inputs)]
    constants = [value for value in held if _is_small(value)]
    weights = [value for value in held if not _is_small(value)]
    lines = [title]
    for heading, values in (("inputs", inputs), ("weights", weights), ("constants", constants)):
        lines += [f"  {heading}", *_declared(values)] if values else []
    return [*lines, "{", *_body(graph, graph.outputs, "  "), "}"]


def _function(function: ir.Function) -> list[str]:
    arguments = ", ".join([_name(value) for value in function.inputs])
    settings = f"[{', '.join(function.attributes)}]" if function.attributes else ""
    title = f"function {function.domain}::{function.name}{settings}({arguments})"
    return [title, "{", *_body(function, function.outputs, "  "), "}"]


def _declared(values: Sequence[ir.Value]) -> Iterator[str]:
    width = min(max(len(_name(value)) for value in values), 60)
    for value in values:
        content = _content(value)
        given = f" = {content}" if content is not None else " = a default" if _has_default(value) else ""
        yield f"    {_name(value):<{width}} : {_type(value)}{given}"


def _has_default(value: ir.Value) -> bool:
    return value.is_graph_input() and value.const_value is not None


def _body(graph: Any, outputs: Sequence[ir.Value], indent: str) -> Iterator[str]:
    for node in graph:
        yield from _node(node, indent)
    yield f"{indent}return ({', '.join(_name(value) for value in outputs)})"


def _node(node: ir.Node, indent: str) -> Iterator[str]:
    results = ", ".join(f"{_name(value)} : {_type(value)}" for value in node.outputs if value.name)
    settings = [f"{name}={_setting(each)}" for name, each in node.attributes.items() if each.type not in _GRAPHS]
    listed = f"[{', '.join(settings)}]" if settings else ""
    called = f"{node.domain or 'onnx'}::{node.op_type}{listed}"
    arguments = ", ".join(_argument(value) for value in node.inputs)
    scope, source = scope_of(node), source_of(node)
    where = f", scope: {scope}" if scope else ""
    yield f"{indent}{results} = {called}({arguments}){where}{f'  # {source}' if source else ''}"
    for name, attribute in node.attributes.items():
        if attribute.type in _GRAPHS and not attribute.is_ref():
            bodies = [attribute.value] if attribute.type == ir.AttributeType.GRAPH else attribute.value
            for body in bodies:
                yield from _subgraph(name, body, indent + "  ")


def _subgraph(name: str, graph: ir.Graph, indent: str) -> Iterator[str]:
    inputs = ", ".join(f"{_name(value)} : {_type(value)}" for value in graph.inputs)
    yield f"{indent}{name}({inputs}) {{"
    for value in graph.initializers.values():
        content = _content(value)
        yield f"{indent}  {_name(value)} : {_type(value)}{f' = {content}' if content is not None else ''}"
    yield from _body(graph, graph.outputs, indent + "  ")
    yield f"{indent}}}"


# Values


def _name(value: ir.Value | None) -> str:
    return "None" if value is None or value.name == "" else f"%{value.name}"


def _argument(value: ir.Value | None) -> str:
    """A name, or what a small constant holds."""
    if value is None or value.is_graph_input() or not (value.is_initializer() or _is_constant_node(value)):
        return _name(value)
    return (_content(value) if _is_small(value) else None) or _name(value)


def _is_constant_node(value: ir.Value) -> bool:
    node = value.producer()
    return node is not None and node.op_type == "Constant" and node.domain == ""


def _is_small(value: ir.Value) -> bool:
    """Sizes, axes, indices, a number: a constant that says more than its name. A short bias is still a weight."""
    tensor = value.const_value
    if tensor is None or math.prod(_sizes(tensor)) > _SHOWN:
        return False
    return len(tensor.shape) == 0 or (len(tensor.shape) == 1 and not tensor.dtype.is_floating_point())


def _content(value: ir.Value) -> str | None:
    """The elements of a short constant; None for a longer one, and for what has no data at hand."""
    tensor = value.const_value
    if tensor is None or math.prod(_sizes(tensor)) > _SHOWN or len(tensor.shape) > 1:
        return None
    return _elements(tensor)


def _sizes(tensor: ir.TensorProtocol) -> tuple[int, ...]:
    return tuple(int(size) for size in tensor.shape.numpy())


def _elements(tensor: ir.TensorProtocol) -> str | None:
    if isinstance(tensor, ir.ExternalTensor) or getattr(getattr(tensor, "raw", None), "is_meta", False):
        return None
    items = tensor.numpy().reshape(-1).tolist()
    shown = ", ".join(_number(item) for item in items)
    return shown if len(tensor.shape) == 0 else f"{{{shown}}}"


def _type(value: ir.Value) -> str:
    kind = value.type
    if kind is None:
        return "Dynamic"
    shape = value.shape
    if shape is None:
        sizes = "..."
    else:
        sizes = ", ".join(map(str, dimensions(shape)))
    wrappers = []
    while isinstance(kind, (ir.SequenceType, ir.OptionalType)):
        wrappers.append("Sequence" if isinstance(kind, ir.SequenceType) else "Optional")
        kind = kind.elem_type
    name = _TYPES.get(kind.dtype.name, kind.dtype.name)
    text = f"Sparse{name}({sizes})" if isinstance(kind, ir.SparseTensorType) else f"{name}({sizes})"
    for wrapper in reversed(wrappers):
        text = f"{wrapper}[{text}]"
    return text


# Attributes


def _setting(attribute: ir.Attr) -> str:
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    value = attribute.value
    if attribute.type == ir.AttributeType.TENSOR:
        return _tensor(value)
    if attribute.type == ir.AttributeType.TENSORS:
        return f"[{', '.join(_tensor(each) for each in value)}]"
    if isinstance(value, (list, tuple)):
        return _list(value)
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST_STRING else f"{value[: _LONGEST_STRING - 3]}...")
    if attribute.name == "to" and attribute.type == ir.AttributeType.INT:
        return _TYPES.get(ir.DataType(value).name, ir.DataType(value).name)
    return _number(value)


def _list(items: Sequence[Any]) -> str:
    shown = [repr(item) if isinstance(item, str) else _number(item) for item in items[:_SHOWN]]
    more = [f"... {len(items)} in all"] if len(items) > _SHOWN else []
    return f"[{', '.join(shown + more)}]"


def _tensor(tensor: ir.TensorProtocol) -> str:
    content = _elements(tensor) if math.prod(_sizes(tensor)) <= _SHOWN else None
    if content is not None:
        return content if content.startswith("{") else f"{{{content}}}"
    return f"{_TYPES.get(tensor.dtype.name, tensor.dtype.name)}({', '.join(map(str, _sizes(tensor)))})"


def _number(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value.decode(errors="replace"))
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
