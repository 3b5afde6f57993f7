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
    parameters = []
    for value in node.inputs():
        parameters.append(graph.addInput())
        parameters[-1].setType(value.type())
    writing = graph.create(node.kind(), parameters, 1)
    writing.output().setType(node.output().type())
    graph.insertNode(writing)
    graph.registerOutput(writing.output())
    interpret: Any = torch._C._jit_interpret_graph  # type: ignore[attr-defined]
    return interpret(graph, tuple(map(plain, inputs)))
