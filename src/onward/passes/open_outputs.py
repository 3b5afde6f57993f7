"""Intermediate values become outputs.

    y = Relu(x); z = Neg(y)   outputs (z)     ->     the same nodes, outputs (z, y)

Not part of the pipeline: it is what `with_outputs` does to a graph. Nodes that no output needs are left for others to
drop.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

import onnx_ir as ir

from ..errors import InputError


def find_values(model: ir.Model, names: Sequence[str]) -> list[ir.Value]:
    """The values of these names, computed by nodes of the main graph; an error names the one that is not."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Sequence):
        raise InputError(f"the names of values are expected as a list, not {names!r}", hint='for example ["hidden"]')
    if not names:
        raise InputError(
            "no names are given, and a model needs an output", hint="onward.printable(model) lists the values"
        )
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"the name of a value is expected, not {name!r}")
        if list(names).count(name) > 1:
            raise InputError(f"the value '{name}' is named twice", hint="an output has a name of its own")
    computed = {str(value.name): value for node in model.graph for value in node.outputs if value.name}
    return [computed[name] if name in computed else _not_there(model, name, computed) for name in names]


def open_outputs(model: ir.Model, names: Sequence[str], *, keep: bool = True) -> list[ir.Value]:
    """Make values outputs, in place, after those that are there or instead of them. Returns all outputs."""
    wanted = find_values(model, names)
    outputs = [*model.graph.outputs, *(value for value in wanted if value not in set(model.graph.outputs))]
    model.graph.outputs[:] = outputs if keep else wanted
    return list(model.graph.outputs)


def _not_there(model: ir.Model, name: str, computed: dict[str, ir.Value]) -> ir.Value:
    for value in (*model.graph.inputs, *model.graph.initializers.values()):
        if value.name == name:
            kind = "an input" if value.is_graph_input() else "a weight"
            raise InputError(f"'{name}' is {kind} of the model, and only values that it computes can be outputs")
    for owner, inner in _inner_nodes(model.graph):
        if any(value.name == name for value in (*inner.outputs, *inner.inputs) if value is not None):
            raise InputError(
                f"the value '{name}' is inside the body of {owner}, which may run never or many times",
                hint="make it a result of that node, or choose one of the node's outputs",
            )
    for function in model.functions.values():
        if any(value.name == name for inner in function for value in inner.outputs):
            raise InputError(
                f"the value '{name}' is inside the function {function.domain}::{function.name}",
                hint="choose an output of a node that calls it",
            )
    node = next((node for node in model.graph if node.name == name), None)
    if node is not None:
        made = ", ".join(f"'{value.name}'" for value in node.outputs)
        raise InputError(f"'{name}' is a node, not a value", hint=f"it computes {made}")
    # A module's path is the beginning of the names of its values; the last of them is most likely its result.
    near = [each for each in computed if each.startswith(f"{name}.")][-1:]
    near += [each for each in difflib.get_close_matches(name, computed, n=3, cutoff=0.4) if each not in near][
        : 3 - len(near)
    ]
    close = (
        f"did you mean {' or '.join(repr(each) for each in near)}?"
        if near
        else "onward.printable(model) lists the values"
    )
    raise InputError(f"the model computes no value '{name}'", hint=close)


def _inner_nodes(graph: ir.Graph) -> Iterator[tuple[str, ir.Node]]:
    """Nodes of bodies, with a word for the node of the main graph that they belong to."""
    for node in graph:
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
                for inner in ir.traversal.RecursiveGraphIterator(attribute.as_graph()):
                    yield f"the {node.op_type} '{node.name or node.outputs[0].name}'", inner
