"""From DequantizeLinear and QuantizeLinear around an operator to one operator of linger's domain.

    y = QuantizeLinear(Conv(DequantizeLinear(x), DequantizeLinear(w), DequantizeLinear(b)))
    ->  y = linger::QConv2d(x, w, b, scale_x=..., scale_w=..., scale_o=..., x_bits=8, w_bits=8, o_bits=8, ...)

linger's integers are signed and have no zero point, so uint8 around 128 becomes int8 around 0: the types of values
change, and constants among the integers move by 128. Its scales multiply where ONNX's divide, and are powers of two.
What is left of the pairs becomes linger::Quant and linger::Dequant.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import onnx_ir as ir
import torch

from ...errors import LoweringError
from ...lower.file_formats import Format, prepared_of
from ...passes.constant_tensors import add_constant, as_torch
from ...passes.node_replacement import take_place
from ..config.checks import QuantizationWarning
from ..config.settings import QuantConfig
from ..exact.integers import LINGER, ROUNDING_IS_TOLD
from .boundaries import keep_boundaries
from .operators import CONVERTERS, HINT, Chip, given, int_of, side_of, side_of_readers, sorted_attributes


def rewrite(model: ir.Model, *, platform: str) -> None:
    """Rewrite a graph in place."""
    _Rewriting(model.graph, platform).run()
    model.graph.opset_imports[LINGER] = 1


class _Rewriting:
    def __init__(self, graph: ir.Graph, platform: str) -> None:
        self.graph, self.chip = graph, Chip(platform)

    def run(self) -> None:
        for node in list(self.graph):
            if node.op_type == "Gather" and node.domain == "":
                self._look_up(node)
        for node in list(self.graph):
            if node.op_type == "QuantizeLinear" and node.domain == "":
                self._quantize(node)
        for node in list(self.graph):
            if node.op_type == "DequantizeLinear" and node.domain == "" and _is_read(node):
                self._dequantize(node)
        _drop_unread(self.graph)
        _drop_casts(self.graph)
        _make_signed(self.graph)
        keep_boundaries(self.graph, self.chip.node)
        _drop_unread(self.graph)
        _name_weights(self.graph)
        _warn_of_scales(self.graph)

    # Nodes

    def _quantize(self, node: ir.Node) -> None:
        result = side_of(node, node.outputs[0])
        made = given(node, 0).producer()
        convert = CONVERTERS.get(made.op_type) if made is not None and made.domain == "" else None
        new = convert(self.chip, made, result) if convert is not None and made is not None else None
        if new is None:
            attributes = {"data_bits": result.bits, "scale_x": result.scale, "zero_point": 0}
            new = self.chip.node("Quant", [given(node, 0)], attributes)
        self._replace(node, new, origin=made if convert is not None and new.op_type != "Quant" else node)

    def _look_up(self, node: ir.Node) -> None:
        """Rows of a table of integers. What they stand for is said by whoever reads them."""
        table, places = given(node, 0), given(node, 1)
        if table.const_value is None or len(table.shape or ()) != 2 or int_of(node, "axis", 0):
            return
        rows = side_of_readers(node.outputs[0])
        if rows is not None:
            new = self.chip.node("Gather", [table, places], {"scale_w": rows.scale, "w_bits": rows.bits})
            self._replace(node, new, origin=node)

    def _dequantize(self, node: ir.Node) -> None:
        side = side_of(node, given(node, 0))
        if side.value.const_value is not None:  # of an operation that linger has in float alone, as a Conv3d
            zero = 128 if side.value.dtype == ir.DataType.UINT8 else 0
            values = (as_torch(side.value).double() - zero).mul(1 / side.scale).float()
            made = add_constant(self.graph, f"{side.value.name}.float", values)
            ir.convenience.replace_all_uses_with(node.outputs[0], made)
            return
        self._replace(
            node, ir.Node(LINGER, "Dequant", [side.value], sorted_attributes({"scale_o": side.scale})), origin=node
        )

    def _replace(self, old: ir.Node, new: ir.Node, origin: ir.Node | None) -> None:
        take_place(self.graph, old, new)
        new.metadata_props.update((origin or old).metadata_props)


def _is_read(node: ir.Node) -> bool:
    return any(value.uses() or value.is_graph_output() for value in node.outputs)


def _drop_unread(graph: ir.Graph) -> None:
    for node in reversed(list(graph)):
        if not _is_read(node):
            graph.remove(node, safe=True)
    used = {value for node in graph for value in node.inputs}
    for name in [name for name, value in graph.initializers.items() if value not in used]:
        if not graph.initializers[name].is_graph_output():
            del graph.initializers[name]


# Signed integers


def _drop_casts(graph: ir.Graph) -> None:
    """Before opset 12 a MaxPool or a Clip of integers stands between two Casts, and one of 16 bits does too:
    linger's tools take integers as they are."""
    for node in list(graph):
        wide = node.inputs[0].dtype if node.inputs and node.inputs[0] is not None else None
        after = [use.node for use in node.outputs[0].uses()]
        if not _is_cast(node.inputs[0] if node.inputs else None) or node.outputs[0].dtype != wide or not after:
            continue
        kind = node.inputs[0].producer().inputs[0].dtype  # type: ignore[union-attr]
        if len(node.outputs) > 1 or not all(each.op_type == "Cast" and each.outputs[0].dtype == kind for each in after):
            continue
        if node.op_type == "Clip" and node.attributes:
            raise LoweringError("the bounds of a Clip are inputs from opset 11 on", hint="try opset_version=11")
        for place, value in enumerate(node.inputs):
            if _is_cast(value):
                node.replace_input_with(place, value.producer().inputs[0])  # type: ignore[union-attr]
            elif value is not None and value.const_value is not None and value.dtype == wide:
                content = as_torch(value).to(torch.uint8 if kind == ir.DataType.UINT8 else torch.int16)
                node.replace_input_with(place, add_constant(graph, f"{value.name}_short", content))
        node.outputs[0].type = ir.TensorType(kind)  # type: ignore[arg-type]
        for each in after:
            ir.convenience.replace_all_uses_with(each.outputs[0], node.outputs[0], replace_graph_outputs=True)
    _drop_unread(graph)


def _is_cast(value: ir.Value | None) -> bool:
    """Whether a value is made of integers on a grid, by nothing but a Cast."""
    made = value.producer() if value is not None else None
    given = made.inputs[0] if made is not None and made.op_type == "Cast" else None
    return given is not None and given.dtype in (ir.DataType.UINT8, ir.DataType.INT16)


def _make_signed(graph: ir.Graph) -> None:
    """Every value that descends from integers around 128 is int8 around 0, and so are the constants that it meets."""
    moved: dict[ir.Value, ir.Value] = {}
    grids: set[ir.Value] = set()
    for node in graph:
        starts = node.domain == LINGER and node.op_type != "Dequant"
        if not starts and not any(value in grids for value in node.inputs):
            continue
        for place, value in enumerate(node.inputs):
            if value is not None and value.const_value is not None and value.dtype == ir.DataType.UINT8:
                if value not in moved:
                    moved[value] = _signed(graph, value)
                node.replace_input_with(place, moved[value])
        for value in node.outputs:
            if value.dtype == ir.DataType.UINT8:
                value.type = ir.TensorType(ir.DataType.INT8)
                grids.add(value)
        _as_relu(node)
    _drop_unread(graph)


def _signed(graph: ir.Graph, value: ir.Value) -> ir.Value:
    assert value.const_value is not None
    numbers = (as_torch(value).to(torch.int16) - 128).to(torch.int8)
    return add_constant(graph, f"{value.name}_signed", numbers)


def _name_weights(graph: ir.Graph) -> None:
    """linger's tools know a weight and a bias by how their names end."""
    for node in graph:
        if node.domain != LINGER or "scale_w" not in node.attributes:
            continue
        for place, role in ((0, "weight"),) if node.op_type == "Gather" else ((1, "weight"), (2, "bias")):
            value = node.inputs[place] if place < len(node.inputs) else None
            if value is None or value.const_value is None or str(value.name).endswith(role):
                continue
            before, found, _ = str(value.name).rpartition(f".{role}")
            stem, number = before if found else str(node.name), 1
            name = f"{stem}.{role}"
            while name in graph.initializers:
                name, number = f"{stem}_{number}.{role}", number + 1
            value.name = name


def _warn_of_scales(graph: ir.Graph) -> None:
    """Training with linger never leaves these bounds, so that nobody knows what its tools make of others."""
    said = {
        (node.outputs[0].name, each.as_float())
        for node in graph
        if node.domain == LINGER
        for name, each in node.attributes.items()
        if name.startswith("scale_") and not 1 <= each.as_float() <= 2**23
    }
    if said:
        told = ", ".join(f"{name} has {scale:g}" for name, scale in sorted(said))
        warnings.warn(
            f"linger keeps its scales between 1 and 2**23, and its tools may not take others: {told}. Smaller inputs "
            "(128 is the largest number that 8 bits reach), or narrower ranges by onward.constrain, have larger ones",
            QuantizationWarning,
            stacklevel=2,
        )


def _as_relu(node: ir.Node) -> None:
    """A Relu of signed integers is a standard one; so is Clip(x, 0, 127) of int8."""
    if node.op_type == "Relu":
        node.domain = ""
    if node.op_type != "Clip" or node.domain or len(node.inputs) < 3:
        return
    bounds = [value.const_value for value in node.inputs[1:] if value is not None]
    if [int(each.numpy()) for each in bounds if each is not None] == [0, 127]:
        node.op_type = "Relu"
        node.resize_inputs(1)


# As an option of `onward.export`

PLATFORM = "venusA"  # linger's own default


@contextlib.contextmanager
def _rounding_is_told() -> Iterator[None]:
    token = ROUNDING_IS_TOLD.set(True)
    try:
        yield
    finally:
        ROUNDING_IS_TOLD.reset(token)


def _finish(graph: ir.Model, model: Any) -> None:
    config: QuantConfig | None = getattr(prepared_of(model), "config", None)
    platform = (config.platform if config is not None else None) or PLATFORM
    if config is not None and config.weight_only:
        raise LoweringError(
            "linger's chips compute in integers, and weight_only=True leaves activations in float", hint=HINT
        )
    if config is not None and config.rounding != "half_up":
        raise LoweringError(
            "linger's chips round halves up, and the model was evaluated with halves to even", hint=HINT
        )
    foreign = sorted({node.op_type for node in graph.graph if node.domain == "com.microsoft"})
    if foreign:
        raise LoweringError(
            f"{', '.join(foreign)} runs in onnxruntime alone, and linger's chips have nothing like it",
            hint='init with QuantConfig(lstm="float")',
        )
    rewrite(graph, platform=platform)


FORMAT = Format(_rounding_is_told, _finish)
