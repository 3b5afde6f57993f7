"""Who may read the integers of a file for linger's tools.

These know the scale of every tensor of integers: an operator of linger's domain says that of its result, and a few
standard operators keep that of their first input. Whatever else reads integers gets floats, and what it makes of them
becomes integers again:

    y = Resize(x)   ->   y = Quant(Resize(Dequant(x)))

On one grid nothing is rounded by that. Joined integers are no Concat there, but a QCat, and integers that stand for
another number from here on (x * 0.5) are multiplied with a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import torch

from ...errors import LoweringError
from ...passes.constant_tensors import add_constant, as_torch
from ...passes.node_replacement import take_place
from ..exact.integers import LINGER
from .operators import ROUNDING

Make = Callable[[str, list[ir.Value | None], dict[str, Any]], ir.Node]
"""Makes a node of linger's domain, with the attributes that all have."""

KEEP_THE_SCALE = frozenset(
    ("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Pad", "Gather", "Expand", "Tile")
    + ("Relu", "Clip", "Split", "MaxPool")
)
READ_INTEGERS = KEEP_THE_SCALE | {"Shape", "Cast", "Equal"}

# The attributes that say the scale and the bits of a result.
_OF_RESULT = {"Quant": ("scale_x", "data_bits"), "Gather": ("scale_w", "w_bits")}
_Grid = tuple[float, int]


def _said_of_operands(node: ir.Node) -> list[tuple[int, float]]:
    """The places of activations among the inputs of one of linger's operators, and the scales that it says of them."""
    if node.op_type == "Quant":
        return []
    names = ["scale_o"] if node.op_type == "Dequant" else ["scale_x", "scale_y"]
    names = [f"scale_x_{place}" for place in range(len(node.inputs))] if node.op_type == "QCat" else names
    return [(place, node.attributes[name].as_float()) for place, name in enumerate(names) if name in node.attributes]


def _meant(value: ir.Value) -> float | None:
    """The scale that an operator of linger's says of integers, or of what they are moved to."""
    for use in value.uses():
        if use.node.domain == LINGER:
            return dict(_said_of_operands(use.node)).get(use.idx)
        for moved in use.node.outputs:
            found = _meant(moved) if moved.dtype == value.dtype else None
            if found is not None:
                return found
    return None


def keep_boundaries(graph: ir.Graph, make: Make) -> None:
    """Rewrite in place what linger's tools would not take."""
    _Boundaries(graph, make).run()


class _Boundaries:
    def __init__(self, graph: ir.Graph, make: Make) -> None:
        self.graph, self.make = graph, make
        self.grids: dict[ir.Value, _Grid] = {}  # the scale and the bits of every tensor of integers
        self.multiplied: dict[tuple[ir.Value, float], ir.Value] = {}
        self.floats: dict[ir.Value, ir.Value] = {}  # what a tensor of integers stands for, once somebody asked

    def run(self) -> None:
        for node in list(self.graph):
            if node.domain == LINGER:
                for place, scale in _said_of_operands(node):
                    self._multiply(node, place, scale)
                self._say(node)
                continue
            given = self._given(node)
            if not any(given):
                continue
            if node.op_type in READ_INTEGERS and not any(given[1:]):
                self._carry(node, given[0])
                continue
            if len(set(filter(None, given))) > 1:
                given = self._on_one_grid(node)
            if node.op_type == "Concat" and all(given):
                self._join(node, given)  # type: ignore[arg-type]
            else:
                self._in_float(node, next(filter(None, given)))

    def _given(self, node: ir.Node) -> list[_Grid | None]:
        return [self.grids.get(value) if value is not None else None for value in node.inputs]

    def _on_one_grid(self, node: ir.Node) -> list[_Grid | None]:
        """A node reads integers of several scales. They mean what its own readers say: some were to be multiplied."""
        meant = _meant(node.outputs[0])
        if meant is None:
            raise LoweringError(f"{node.op_type} reads integers of several scales, and nobody says what they mean")
        for place, _ in enumerate(node.inputs):
            self._multiply(node, place, meant)
        return self._given(node)

    def _say(self, node: ir.Node) -> None:
        scale, bits = _OF_RESULT.get(node.op_type, ("scale_o", "o_bits"))
        if bits in node.attributes:
            self.grids[node.outputs[0]] = (node.attributes[scale].as_float(), node.attributes[bits].as_int())

    def _multiply(self, reader: ir.Node, place: int, scale: float) -> None:
        """Integers that mean another number to an operator than where they come from: its own operator says which."""
        value = reader.inputs[place]
        grid = self.grids.get(value) if value is not None else None
        if value is None or grid is None or grid[0] == scale:
            return
        if (value, scale) not in self.multiplied:
            factor, bits = grid[0] / scale, grid[1]
            number = add_constant(self.graph, f"{value.name}.times", torch.tensor(64, dtype=torch.int8))
            sides = {"scale_x": grid[0], "x_bits": bits, "scale_y": 64 / factor, "y_bits": 8}
            node = self.make("QMul", [value, number], sides | {"scale_o": scale, "o_bits": bits, **ROUNDING})
            made = node.outputs[0]
            node.name = f"{reader.name}.{value.name}.QMul"
            made.name, made.type, made.shape = f"{value.name}.times_{factor:g}.QMul", value.type, value.shape
            node.metadata_props.update(reader.metadata_props)
            self.graph.insert_before(reader, node)
            self.grids[made], self.multiplied[value, scale] = (scale, bits), made
        reader.replace_input_with(place, self.multiplied[value, scale])

    def _carry(self, node: ir.Node, grid: _Grid | None) -> None:
        if grid is not None and node.op_type in KEEP_THE_SCALE:
            for value in node.outputs:
                if value.dtype == node.inputs[0].dtype:  # type: ignore[union-attr]  # a MaxPool may have indices too
                    self.grids[value] = grid

    def _join(self, node: ir.Node, given: list[_Grid]) -> None:
        attributes: dict[str, Any] = {"axis": node.attributes["axis"].as_int(), **ROUNDING}
        for place, (scale, bits) in enumerate(given):
            attributes |= {f"scale_x_{place}": scale, f"x_{place}_bits": bits}
        joined = self.make("QCat", list(node.inputs), attributes | {"scale_o": given[0][0], "o_bits": given[0][1]})
        take_place(self.graph, node, joined)
        self.grids[joined.outputs[0]] = given[0]

    def _in_float(self, node: ir.Node, grid: _Grid) -> None:
        scale, bits = grid
        kind = next(value.dtype for value in node.inputs if value in self.grids)
        for place, value in enumerate(node.inputs):
            if value in self.grids:
                node.replace_input_with(place, self._float_of(node, value))
            elif value is not None and value.const_value is not None and value.dtype == kind:
                node.replace_input_with(place, self._float_constant(value, scale))
        for value in node.outputs:
            if value.dtype == kind:
                self._quantize(node, value, scale, bits)

    def _float_of(self, reader: ir.Node, value: ir.Value) -> ir.Value:
        if value not in self.floats:
            attributes = [ir.AttrFloat32("scale_o", self.grids[value][0])]
            node = ir.Node(LINGER, "Dequant", [value], attributes, name=f"{reader.name}.{value.name}.float")
            node.metadata_props.update(reader.metadata_props)
            made = node.outputs[0]
            made.name, made.type, made.shape = f"{value.name}.float", ir.TensorType(ir.DataType.FLOAT), value.shape
            self.graph.insert_before(reader, node)
            self.floats[value] = made
        return self.floats[value]

    def _float_constant(self, value: ir.Value, scale: float) -> ir.Value:
        assert value.const_value is not None
        return add_constant(self.graph, f"{value.name}.float", as_torch(value).float() / scale)

    def _quantize(self, node: ir.Node, value: ir.Value, scale: float, bits: int) -> None:
        """Integers of what a node computes, for those who read it; a Dequant among these is not needed any more."""
        new = self.make("Quant", [value], {"data_bits": bits, "scale_x": scale, "zero_point": 0})
        new.name = f"{node.name}.Quant"
        new.metadata_props.update(node.metadata_props)
        integers, readers = new.outputs[0], [use.node for use in value.uses() if use.node is not new]
        integers.name, integers.type, integers.shape = value.name, value.type, value.shape
        value.name, value.type = f"{value.name}.float", ir.TensorType(ir.DataType.FLOAT)
        for reader in readers:
            if reader.op_type == "Dequant" and not reader.outputs[0].is_graph_output():
                ir.convenience.replace_all_uses_with(reader.outputs[0], value)
            else:
                for place, each in enumerate(reader.inputs):
                    if each is value:
                        reader.replace_input_with(place, integers)
        self.graph.insert_after(node, new)
        self.grids[integers], self.floats[integers] = (scale, bits), value
