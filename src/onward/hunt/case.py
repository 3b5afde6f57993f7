"""What a hunt is about: a captured program, a file, and which value of one stands for which of the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir
import torch

from onward.capture.program.facts import CapturedProgram, Output, pair_tensor
from onward.hunt.findings import Spot, node_name
from onward.hunt.pieces import FileGraph, Piece
from onward.lower.origins import Origin
from onward.lower.registry import op_name


@dataclass
class Case:
    """What a hunt is about."""

    captured: CapturedProgram
    file: FileGraph
    table: Mapping[str, Origin]
    inputs: Sequence[torch.Tensor]
    given: Mapping[str, torch.Tensor] = field(default_factory=dict)  # weights that are inputs of the file
    expected: Sequence[Output] | None = None  # what the model itself answers

    def __post_init__(self) -> None:
        self.nodes = {node.name: node for node in self.captured.graph.nodes}
        self.order = {node: place for place, node in enumerate(self.captured.graph.nodes)}
        self.known = {
            name: origin
            for name, origin in self.table.items()
            if name in self.file.makers and isinstance(self.file.values[name].type, ir.TensorType | None)
        }
        self.fed = {
            port.name: pair_tensor(each) for port, each in zip(self.captured.inputs, self.inputs, strict=True)
        } | dict(self.given)

    def spot(self, piece: Piece) -> Spot:
        origin = self.table.get(piece.name)
        node = self.nodes.get(origin.node) if origin is not None else None
        meta = node.meta if node is not None else {}
        scope, source = meta.get("scope"), meta.get("source")
        return Spot(
            piece.name,
            node_name(piece.maker),
            piece.maker.op_type,
            tuple(map(node_name, piece.nodes)),
            op_name(node.target) if node is not None and node.op == "call_function" else "",
            scope.path if scope is not None else "",
            str(source) if source is not None else "",
        )
