"""TorchScript graphs, made ready for the interpreter.

Functions are inlined, and methods of the script's own classes. Calls of a module's methods are not: the nodes inside
should carry the module's name. PyTorch's pass inlines all, so these calls hide behind another name while it runs.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import torch

from ...program.facts import Source

CALL_METHOD = "onward::call_method"
_CONTEXT_METHODS = {"prim::Enter": ("__enter__", 0), "prim::Exit": ("__exit__", 3)}  # how many are None: no error
_PLACE = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+)(, in (?P<function>\S+))?')


@functools.cache
def prepared(graph: Any) -> Any:
    """A copy of a graph in which every call is a method call."""
    copy = graph.copy()
    _hide_method_calls(copy, copy)
    torch._C._jit_pass_inline(copy)
    return copy


def _hide_method_calls(graph: Any, block: Any) -> None:
    for node in list(block.nodes()):
        for inner in node.blocks():
            _hide_method_calls(graph, inner)
        if node.kind() in _CONTEXT_METHODS:
            node = _as_method_call(graph, node)
        if node.kind() != "prim::CallMethod" or not _is_module(next(iter(node.inputs())).type()):
            continue
        hidden = graph.create(CALL_METHOD, list(node.inputs()), node.outputsSize())
        hidden.s_("name", node.s("name"))
        hidden.insertBefore(node)
        hidden.copyMetadata(node)
        for old, new in zip(node.outputs(), hidden.outputs(), strict=True):
            new.setType(old.type())
            old.replaceAllUsesWith(new)
        node.destroy()


def _as_method_call(graph: Any, node: Any) -> Any:
    """`with manager as x:` calls two methods of the manager; TorchScript has kinds of their own for them."""
    name, absent = _CONTEXT_METHODS[node.kind()]
    nothing = [graph.create("prim::Constant", 1) for _ in range(absent)]
    for each in nothing:
        each.output().setType(torch._C.NoneType.get())
        each.insertBefore(node)
    called = graph.create("prim::CallMethod", [node.input(), *(each.output() for each in nothing)], 1)
    called.s_("name", name)
    called.insertBefore(node)
    called.copyMetadata(node)
    called.output().setType(node.output().type())
    node.output().replaceAllUsesWith(called.output())
    node.destroy()
    return called


def _is_module(kind: Any) -> bool:
    """Modules, and interfaces that modules have; a class of the script's own has an `__init__` to be compiled."""
    return not hasattr(kind, "method_names") or "__init__" not in kind.method_names()


def is_pytorchs_module(module: Any) -> bool:
    """Whether a module inside a script is of a class of `torch.nn`."""
    return str(module._type().qualified_name()).startswith("__torch__.torch.nn.modules.")


def source_of(node: Any) -> Source | None:
    """The line of the script that a node comes from: the user's, where PyTorch's own code was inlined around it."""
    found = [
        Source(match["file"], int(match["line"]), match["function"] or "forward")
        for match in _PLACE.finditer(node.sourceRange())
    ]
    own = [place for place in found if not place.file.startswith((_TORCH, "<"))]
    return next(iter(own or found), None)


_TORCH = torch.__file__.removesuffix("__init__.py")
