"""What a file must be before anybody walks over it: no node that needs its own result, no functions without an end.

A few bytes can describe a graph that no machine finishes: 28 functions that call the one before twice are 268 million
nodes when they are written out, which is what runtimes and shape inference do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import onnx

from ..errors import InputError

MOST_NODES = 200_000  # with every call of a function written out; more only if the file itself is that long
MOST_LEVELS = 100  # of functions that call functions
Key = tuple[str, str, str]


@dataclass
class _Function:
    nodes: int = 0
    calls: Counter[Key] = field(default_factory=Counter)
    written_out: int = 0  # nodes, with those of the functions that it calls
    levels: int = 0


def check_structure(proto: onnx.ModelProto, what: str) -> bool:
    """Refuse a model that cannot be walked over; whether its nodes come in an order in which they can be computed."""
    stored = sum(1 for _ in all_nodes(proto.graph.node))
    stored += sum(1 for function in proto.functions for _ in all_nodes(function.node))
    count = nodes_written_out(proto, what)
    if count > max(MOST_NODES, 10 * stored):
        raise InputError(f"the functions of {what}, written out, have {count:,} nodes, which nothing can run")
    for opset in proto.opset_import:
        if not 0 < opset.version < 1 << 31:
            raise InputError(f"{what} is malformed: version {opset.version} of the operators of {opset.domain!r}")
    _check_names(proto.graph, frozenset(), what)
    for function in proto.functions:
        ports = [[onnx.ValueInfoProto(name=name) for name in each] for each in (function.input, function.output)]
        _check_names(onnx.GraphProto(node=function.node, input=ports[0], output=ports[1]), frozenset(), what)
    in_order = [_check_order(each.node, what) for each in (proto.graph, *proto.functions)]
    return all(in_order)


def nodes_written_out(proto: onnx.ModelProto, what: str = "the model") -> int:
    """How many nodes a model has once every call of a function is replaced by its nodes; or a function that nobody
    calls, for that is written out too."""
    if not proto.functions:
        return 0
    functions = {(each.domain, each.name, each.overload): _read(each.node) for each in proto.functions}
    main = _read(proto.graph.node)
    _count(main, functions, what)
    for each in functions.values():  # those that nobody calls may not go in circles either
        _count(each, functions, what)
    return max(each.written_out for each in (main, *functions.values()))


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes, and those of the bodies in them."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        for body in _bodies(node):
            waiting.extend(body.node)


def _bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _read(nodes: Iterable[onnx.NodeProto]) -> _Function:
    found = _Function()
    for node in all_nodes(nodes):
        found.nodes += 1
        found.calls[node.domain, node.op_type, node.overload] += 1
    return found


def _count(start: _Function, functions: dict[Key, _Function], what: str) -> None:
    """Depth first, without recursion: the file decides how deep it is."""
    path = [start]
    open_now = {id(start)}
    while path:
        function = path[-1]
        called = [functions[key] for key in function.calls if key in functions]
        missing = next((each for each in called if not each.written_out), None)
        if missing is not None:
            if id(missing) in open_now:
                raise InputError(f"{what} is malformed: its functions call each other in a circle")
            path.append(missing)
            open_now.add(id(missing))
            continue
        inner = sum(functions[key].written_out * times for key, times in function.calls.items() if key in functions)
        function.written_out = max(function.nodes + inner, 1)
        function.levels = 1 + max((each.levels for each in called), default=0)
        if function.levels > MOST_LEVELS:
            raise InputError(f"{what} has functions that call each other more than {MOST_LEVELS} levels deep")
        open_now.discard(id(path.pop()))


def _check_names(graph: onnx.GraphProto, outside: frozenset[str], what: str) -> None:
    """Whatever a graph, or a body in it, reads or gives is computed somewhere."""
    known = {"", *(each.name for each in (*graph.input, *graph.initializer))}
    known.update(each.values.name for each in graph.sparse_initializer)
    known.update(name for node in graph.node for name in node.output)
    inside = outside | known
    for node in graph.node:
        for name in node.input:
            if name not in inside:
                raise InputError(f"{what} is malformed: {node.op_type} reads {name!r}, which nothing computes")
        for body in _bodies(node):
            _check_names(body, inside, what)
    for output in graph.output:
        if output.name not in known or not output.name:  # a body may not hand on what is outside, either
            raise InputError(f"{what} is malformed: nothing computes the output {output.name!r}")


def _check_order(nodes: Sequence[onnx.NodeProto], what: str) -> bool:
    """No node of a graph, or of a body in it, needs what is computed from its own result; whether they are in order."""
    makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    needs = [{makers[name] for name in _read_by(node) if name in makers} for node in nodes]
    waiting = [len(each) for each in needs]
    users: list[list[int]] = [[] for _ in nodes]
    for place, each in enumerate(needs):
        for maker in each:
            users[maker].append(place)
    ready = [place for place, count in enumerate(waiting) if not count]
    done = 0
    while ready:
        done += 1
        for user in users[ready.pop()]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    if done < len(nodes):
        node = nodes[next(place for place, count in enumerate(waiting) if count)]
        name = node.name or (node.output[0] if node.output else "")
        raise InputError(f"{what} is malformed: the node {name!r} ({node.op_type}) needs its own result, in a circle")
    in_order = all(max(each, default=-1) < place for place, each in enumerate(needs))
    return all([in_order, *(_check_order(body.node, what) for node in nodes for body in _bodies(node))])


def _read_by(node: onnx.NodeProto) -> Iterator[str]:
    """The names that a node reads: its inputs, and what its bodies take from outside."""
    yield from node.input
    for body in _bodies(node):
        own = {each.name for each in (*body.input, *body.initializer)}
        own.update(name for each in body.node for name in each.output)
        for each in body.node:
            yield from (name for name in _read_by(each) if name not in own)
        yield from (each.name for each in body.output if each.name not in own)
