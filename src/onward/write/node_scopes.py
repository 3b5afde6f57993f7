"""Where a node comes from, in onward's own metadata or in that of PyTorch's exporter."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

import onnx_ir as ir

Level = tuple[str, str]  # name and class of a module


def scope_of(node: ir.Node) -> str:
    """`AlexNet/Sequential[features]/Conv2d[0]`"""
    metadata = node.metadata_props
    if "onward.classes" in metadata:
        return metadata["onward.classes"]
    return "/".join(f"{kind}{f'[{name}]' if name else ''}" for name, kind in torch_levels(metadata))


def source_of(node: ir.Node) -> str:
    """`net.py:42`, if the file says so."""
    return node.metadata_props.get("onward.source") or (node.doc_string or "").partition("\n")[0].strip()


def torch_levels(metadata: Mapping[str, str]) -> list[Level]:
    """The modules that PyTorch's exporter names, from the outside in; the outermost one has no name."""
    names = _strings(metadata.get("pkg.torch.onnx.name_scopes"))
    classes = _strings(metadata.get("pkg.torch.onnx.class_hierarchy"))
    return relative(list(zip(names, classes, strict=False))[:-1])  # the last one is the operator


def relative(levels: Iterable[Level]) -> list[Level]:
    """`("features", ...), ("features.0", "torch.nn.Conv2d")` are `("features", ...), ("0", "Conv2d")`."""
    found, above = [], ""
    for name, kind in levels:
        found.append((name.removeprefix(f"{above}.") if above else name, kind.rpartition(".")[2]))
        above = name
    return found


def _strings(text: str | None) -> list[str]:
    """A list of strings that was written as Python does. The file may say anything, so nothing is evaluated."""
    try:
        found = ast.literal_eval(text) if text else []
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []
