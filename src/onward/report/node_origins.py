"""Where a node comes from: the modules around it, the line of code, as far as a file says.

Our own files say it in `onward.*` metadata, those of PyTorch's exporters in theirs; older ones, and TensorFlow's, put
the path into the names of nodes, `/features/features.0/Conv`.
"""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from onward.write.node_scopes import Level, relative, torch_levels

_LEVEL = re.compile(r"/([^\[\]/]*)\[([^\]]*)\]")
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in [^\n]*(?:\n[ \t]+([^\n]+))?')
_LINE = re.compile(r"^(.+\.py):(\d+)(?: in .*)?$")
_MOST_CODE = 200


@dataclass(frozen=True)
class Places:
    """How the nodes of one model tell where they come from.

    by_names  whether names of nodes are paths
    files     the full path of `net.py:12`, for a model that was just exported
    """

    by_names: bool = False
    files: Mapping[str, str] = field(default_factory=dict)

    def scope(self, node: ir.Node) -> list[list[str]]:
        """The modules around a node, [name, class] from the outside in; none at the top level."""
        return [[name, kind] for name, kind in self._levels(node) if name]

    def _levels(self, node: ir.Node) -> list[Level]:
        metadata = node.metadata_props
        if "onward.scope" in metadata or "onward.classes" in metadata:
            return _own_levels(metadata.get("onward.scope", ""), metadata.get("onward.classes", ""))
        levels = torch_levels(metadata) or _namespace_levels(metadata)
        if not any(name for name, _ in levels) and self.by_names and node.name and "/" in node.name:
            return _path_levels(node.name)
        return levels

    def source(self, node: ir.Node) -> tuple[str | None, str | None]:
        """`net.py:12` and the text of that line."""
        own = node.metadata_props.get("onward.source")
        trace = node.metadata_props.get("pkg.torch.onnx.stack_trace")
        if own is None and trace:
            frames = _FRAME.findall(trace)
            if frames:
                own_code = [frame for frame in frames if not re.search(r"[/\\]torch[/\\]", frame[0])]
                file, line, code = (own_code or frames)[-1]
                return f"{_base(file)}:{line}", code.strip()[:_MOST_CODE] or None
        told = _LINE.match((node.doc_string or "").partition("\n")[0].strip())
        if told is not None and (own is None or own == f"{_base(told[1])}:{told[2]}"):
            return f"{_base(told[1])}:{told[2]}", _code(told[1], int(told[2]))
        if own is not None and own in self.files:
            return own, _code(self.files[own], int(own.rpartition(":")[2]))
        return own, None


def places_of(model: ir.Model, files: Mapping[str, str] | None = None) -> Places:
    nodes = list(model.graph)
    paths = sum("/" in (node.name or "") for node in nodes)
    return Places(2 * paths >= max(len(nodes), 1), files or {})


def _path_levels(name: str) -> list[Level]:
    """`/features/features.0/Conv` is in `0` of `features`."""
    return relative((part, "") for part in name.split("/")[:-1] if part)


def _own_levels(path: str, classes: str) -> list[Level]:
    found = [(name, kind) for kind, name in _LEVEL.findall(classes)]
    if found and ".".join(name for name, _ in found) == path:
        return found
    return [(name, "") for name in path.split(".")]


def _namespace_levels(metadata: Mapping[str, str]) -> list[Level]:
    """`: net.Net/features: Sequential/features.0: Conv2d/conv2d: aten.conv2d.default`"""
    parts = [part.partition(":") for part in metadata.get("namespace", "").split("/")]
    return relative([(name.strip(), kind.strip()) for name, colon, kind in parts if colon][:-1])


def _base(file: str) -> str:
    return re.split(r"[/\\]", file)[-1]


def _code(file: str, line: int) -> str | None:
    """Of Python files alone: a file of a stranger may name any path of the machine."""
    if not file.endswith(".py") or not os.path.isfile(file):
        return None
    return linecache.getline(file, line).strip()[:_MOST_CODE] or None
