"""onnx's shape inference on files that nobody vouches for.

Beside shapes, onnx follows numbers that shapes are computed from (`data_prop`): a vector of known length becomes a list
of that length, whether it is a shape or the weights of a layer. A vector of a million numbers is a list of a million
entries, and 45 nodes that each join a vector with itself are one of 2**45, which no machine finishes. So inference goes
without numbers first. Then nodes that would make long lists, or lists of unknown length, are hidden from the inference
that follows numbers: it learns nothing from them anyway, for sizes are short lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx

from ..errors import InputError, first_line
from .structure import nodes_written_out

_LONGEST = 4096  # of a list of numbers that is followed
_MOST_NODES = 20_000  # with functions written out; beyond it, what calls of functions give is not inferred
_ROUNDS = 4
_HIDDEN = "Hidden by onward: "
# The operators through which onnx 1.23 follows numbers. The first two need none to start with.
_SOURCES = frozenset({"Shape", "Size", "Constant"})
_FOLLOWED = frozenset({"Add", "Cast", "Concat", "Gather", "Mul", "Slice", "Squeeze", "Sub", "Unsqueeze"})
Lengths = dict[str, "int | None"]  # of vectors, None for one of unknown length; other values are not in it


def infer_by_onnx(proto: onnx.ModelProto) -> onnx.GraphProto:
    """The main graph with the types and shapes that onnx finds. The model is not to be used afterwards."""
    if nodes_written_out(proto) > _MOST_NODES or _growth_in_functions(proto) > _LONGEST:
        del proto.functions[:]
    found, hidden = _inferred(proto, data_prop=False), -1
    for _ in range(_ROUNDS):
        count = _hide(found)
        # From the model as it was: a size that onnx once named unknown stays so when it is inferred again.
        _rename(proto.graph, found.graph)
        found = _shown(_inferred(proto, data_prop=True))
        if count:
            found = _inferred(found, data_prop=False)  # the shapes behind nodes that were hidden
        if not count or count == hidden:
            break
        hidden = count
    return found.graph


def _inferred(proto: onnx.ModelProto, *, data_prop: bool) -> onnx.ModelProto:
    try:
        return onnx.shape_inference.infer_shapes(proto, data_prop=data_prop)
    except Exception as error:  # its classes share no base but this, and some are plain RuntimeErrors
        raise InputError(
            f"the model contradicts itself: {first_line(error)}", hint="onnx.checker may say more"
        ) from error


# What is hidden


def _hide(proto: onnx.ModelProto) -> int:
    """Give nodes that would make long lists the name of an operator that nobody knows; how many there are."""
    calls = {(each.domain, each.name) for each in proto.functions}
    return _hide_in(proto.graph, {}, {}, calls)


def _hide_in(graph: onnx.GraphProto, lengths: Lengths, growth: dict[str, int], calls: set[tuple[str, str]]) -> int:
    lengths, growth = {**lengths, **_lengths(graph)}, dict(growth)
    growth.update((each.name, 1) for each in graph.initializer)
    count = 0
    for node in graph.node:
        for body in _bodies(node):
            count += _hide_in(body, lengths, growth, calls)
        grown = _growth(node, growth)
        if _is_long(node, lengths, growth, calls) or grown > _LONGEST:
            node.op_type = _HIDDEN + node.op_type
            count += 1
        elif node.op_type in _FOLLOWED | _SOURCES and not node.domain:
            growth.update((name, grown) for name in node.output)
    return count


def _is_long(node: onnx.NodeProto, lengths: Lengths, growth: Mapping[str, int], calls: set[tuple[str, str]]) -> bool:
    if (node.domain, node.op_type) in calls:
        return any((lengths.get(name) or 0) > _LONGEST for name in node.input)
    if node.domain or node.op_type not in _FOLLOWED:
        return False
    for name in node.input:
        length = lengths.get(name, 0)
        # Numbers come from shapes, constants and what is computed from them. A vector from elsewhere has none.
        if (length is None and name not in growth) or (length or 0) > _LONGEST:
            return True
    return any((lengths.get(name) or 0) > _LONGEST for name in node.output)


def _growth(node: onnx.NodeProto, growth: Mapping[str, int]) -> int:
    """How many times longer than what it started from a list can be."""
    sizes = [growth.get(name, 1) for name in node.input]
    return (sum if node.op_type == "Concat" else max)(sizes) if sizes else 1


def _lengths(graph: onnx.GraphProto) -> Lengths:
    """The lengths of vectors, and of what may be one: a value without a shape."""
    found: Lengths = {}
    for node in graph.node:
        found.update((name, None) for name in node.output if name)
    for info in (*graph.input, *graph.output, *graph.value_info):
        if not info.type.HasField("tensor_type") or not info.type.tensor_type.HasField("shape"):
            found.setdefault(info.name, None)
            continue
        found.pop(info.name, None)
        sizes = info.type.tensor_type.shape.dim
        if len(sizes) == 1:
            found[info.name] = sizes[0].dim_value if sizes[0].HasField("dim_value") else None
    for tensor in graph.initializer:
        found.pop(tensor.name, None)
        if len(tensor.dims) == 1:
            found[tensor.name] = tensor.dims[0]
    return found


def _growth_in_functions(proto: onnx.ModelProto) -> int:
    """How many times longer a function of the file makes a list, at most. Functions are known not to go in circles."""
    functions = {(each.domain, each.name): each for each in proto.functions}
    known: dict[tuple[str, str], int] = {}

    def of(key: tuple[str, str]) -> int:
        if key not in known:
            growth: dict[str, int] = {}
            most = 1
            for node in functions[key].node:
                inner = (node.domain, node.op_type)
                grown = _growth(node, growth) * (of(inner) if inner in functions else 1)
                growth.update((name, grown) for name in node.output)
                most = max(most, grown)
            known[key] = most
        return known[key]

    return max(map(of, functions), default=1)


def _rename(graph: onnx.GraphProto, like: onnx.GraphProto) -> None:
    """Give every node the name of operator that it has in another copy of the graph."""
    for node, other in zip(graph.node, like.node, strict=True):
        node.op_type = other.op_type
        for body, other_body in zip(_bodies(node), _bodies(other), strict=True):
            _rename(body, other_body)


def _shown(proto: onnx.ModelProto) -> onnx.ModelProto:
    waiting: list[Iterable[onnx.NodeProto]] = [proto.graph.node]
    while waiting:
        for node in waiting.pop():
            node.op_type = node.op_type.removeprefix(_HIDDEN)
            waiting.extend(body.node for body in _bodies(node))
    return proto


def _bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
