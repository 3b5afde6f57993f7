"""Text that a script writes: `"{}".format(n)`, `str(x)`, `"%d" % n`.

TorchScript writes numbers in its own way (`1.0` as `1.`), and a text may be a key or be compared, so TorchScript itself
is asked. A text of what depends on data or on a size is known to nobody: a script may print it, or raise it.
"""

from __future__ import annotations

from typing import Any

import torch

from .lists import plain

WRITING = frozenset(
    {"aten::format", "aten::str", "aten::percentFormat", "aten::chr", "aten::hex", "aten::oct", "aten::bin"}
)
# What a text that nobody knows may be used for: it makes another one, or is shown.
_PASSED_ON = frozenset({*WRITING, "aten::add", "aten::join", "prim::unchecked_cast"})
_SHOWN = frozenset({"prim::Print", "aten::warn"})


class UnknownText:
    """A text that depends on data or on a size."""

    def __repr__(self) -> str:
        return "a text that depends on data or on a size"


def concerns_texts(inputs: list[Any]) -> bool:
    return any(_is_unknown(each) for each in inputs)


def _is_unknown(value: Any) -> bool:
    return isinstance(value, UnknownText) or (isinstance(value, list) and any(map(_is_unknown, value)))


def on_texts(kind: str, inputs: list[Any]) -> Any:
    """The result for a text that nobody knows; NotImplemented if somebody has to know it."""
    if kind in _SHOWN:
        return None
    if kind == "prim::ListConstruct":
        return list(inputs)
    return UnknownText() if kind in _PASSED_ON else NotImplemented


def text_of(node: Any, inputs: list[Any]) -> Any:
    """The text, by a graph of this one node."""
    graph = torch._C.Graph()
    leaves: list[Any] = []
    given = [_given(graph, each, of.type(), leaves) for each, of in zip(map(plain, inputs), node.inputs(), strict=True)]
    writing = graph.create(node.kind(), given, 1)
    writing.output().setType(node.output().type())
    graph.insertNode(writing)
    graph.registerOutput(writing.output())
    interpret: Any = torch._C._jit_interpret_graph  # type: ignore[attr-defined]
    return interpret(graph, tuple(leaves))


def _given(graph: Any, value: Any, kind: Any, leaves: list[Any]) -> Any:
    """A value in a graph: containers are put together there, by their types, and what is in them is an input.

    As inputs they would have no types of their own, and what an empty list is a list of cannot be seen.
    """
    if kind.kind() == "OptionalType" and value is not None:
        kind = kind.getElementType()
    parts: list[Any]
    if kind.kind() == "ListType":
        name, parts = "prim::ListConstruct", [(each, kind.getElementType()) for each in value]
    elif kind.kind() == "TupleType":
        name, parts = "prim::TupleConstruct", list(zip(value, kind.elements(), strict=True))
    elif kind.kind() == "DictType":
        kinds = (kind.getKeyType(), kind.getValueType())
        name, parts = "prim::DictConstruct", [pair for each in value.items() for pair in zip(each, kinds, strict=True)]
    else:
        leaves.append(value)
        leaf = graph.addInput()
        leaf.setType(kind)
        return leaf
    made = graph.create(name, [_given(graph, each, of, leaves) for each, of in parts], 1)
    made.output().setType(kind)
    graph.insertNode(made)
    return made.output()
