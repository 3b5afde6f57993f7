"""What linger 3 writes, as its sources say it: every operator's attributes with their types, and who may read integers.

Compared with the exporter of LISTENAI/linger (linger/onnx/export.py and the modules that call it), commits 4c478b6 and
443a135. Its own check after an export refuses what `complaints` finds.
"""

from __future__ import annotations

import onnx
from onnx import AttributeProto, helper, numpy_helper

_I, _IS, _F, _S = AttributeProto.INT, AttributeProto.INTS, AttributeProto.FLOAT, AttributeProto.STRING
_ALL = {"platform": _S}
_RESULT = {**_ALL, "quant_mode": _S, "o_bits": _I, "scale_o": _F}
_ONE = {**_RESULT, "x_bits": _I, "scale_x": _F}
_TWO = {**_ONE, "y_bits": _I, "scale_y": _F}
_WEIGHT = {**_ONE, "w_bits": _I, "scale_w": _F}
_WINDOW = {"kernel_shape": _IS, "pads": _IS, "strides": _IS}
_CONV = {**_WEIGHT, **_WINDOW, "dilations": _IS, "group": _I}
_POOL = {**_ONE, **_WINDOW, "ceil_mode": _I, "count_include_pad": _I}

ATTRIBUTES: dict[str, dict[str, int]] = {
    "Quant": {**_ALL, "data_bits": _I, "scale_x": _F, "zero_point": _I},
    "Dequant": {"scale_o": _F},
    "QConv1d": _CONV,
    "QConv2d": _CONV,
    "QConvTranspose1d": {**_CONV, "output_padding": _IS},
    "QConvTranspose2d": {**_CONV, "output_padding": _IS},
    "QLinear": _WEIGHT,
    "QAdd": _TWO,
    "QMul": _TWO,
    "QMatmul": _TWO,
    "QSigmoid": _ONE,
    "QTanh": _ONE,
    "QGelu": _ONE,
    "QSwish": _ONE,
    "QSoftmax": {**_ONE, "axis": _I},
    "QAvgPool1d": _POOL,
    "QAvgPool2d": {**_POOL, "divisor_override": _I},
    "QGlobalAveragePool2d": _ONE,
    "Gather": {**_ALL, "w_bits": _I, "scale_w": _F},
}

_KEEP = {
    "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Pad", "Gather", "Expand", "Tile",
    "Relu", "Clip", "Split", "MaxPool",
}  # fmt: skip
_READ = _KEEP | {"Shape", "Cast", "Equal"}
_TYPES = {4: onnx.TensorProto.INT8, 8: onnx.TensorProto.INT8, 16: onnx.TensorProto.INT16, 32: onnx.TensorProto.INT32}


def attributes_of(node: onnx.NodeProto) -> dict[str, object]:
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def _wanted(node: onnx.NodeProto) -> dict[str, int]:
    if node.op_type != "QCat":
        return ATTRIBUTES.get(node.op_type, {})
    each = {f"scale_x_{place}": _F for place in range(len(node.input))}
    return {**_RESULT, "axis": _I, **each, **{f"x_{place}_bits": _I for place in range(len(node.input))}}


def _operands(node: onnx.NodeProto) -> dict[int, tuple[float, int]]:
    """The scale and the bits that an operator of linger's says of each input."""
    held = attributes_of(node)
    found: dict[int, tuple[float, int]] = {}
    for place in range(len(node.input)):
        for name in (f"x_{place}", *([["x"], ["y"]][place] if place < 2 else [])):
            if f"scale_{name}" in held and f"{name}_bits" in held:
                found[place] = held[f"scale_{name}"], held[f"{name}_bits"]  # type: ignore[assignment]
    if "scale_w" in held:
        place = 0 if node.op_type == "Gather" else 1
        found[place] = held["scale_w"], held["w_bits"]  # type: ignore[assignment]
        if len(node.input) > 2:
            found[2] = held["scale_x"] * held["scale_w"], 32  # type: ignore[operator]
    return found


def complaints(model: onnx.ModelProto) -> list[str]:
    """What linger's tools would not take."""
    found = [] if ("linger", 1) in {(each.domain, each.version) for each in model.opset_import} else ["the domain"]
    weights = {each.name: each for each in model.graph.initializer}
    types = {each.name: each.type.tensor_type.elem_type for each in model.graph.value_info}
    grids: dict[str, tuple[float, int]] = {}
    for node in model.graph.node:
        told = f"{node.op_type} {node.output[0]}"
        if node.domain == "linger":
            kinds = {each.name: each.type for each in node.attribute}
            if kinds != _wanted(node) or list(kinds) != sorted(kinds):
                found.append(f"{told}: the attributes {kinds}")
            found += _complaints_of_inputs(node, weights, grids, told)
            held = attributes_of(node)
            if node.op_type != "Dequant":
                scale, bits = {"Quant": ("scale_x", "data_bits"), "Gather": ("scale_w", "w_bits")}.get(
                    node.op_type, ("scale_o", "o_bits")
                )
                grids[node.output[0]] = held[scale], held[bits]  # type: ignore[assignment]
        else:
            read = [place for place, name in enumerate(node.input) if name in grids]
            if read and (node.op_type not in _READ or read != [0]):
                found.append(f"{told}: integers without a Dequant")
            elif read and node.op_type in _KEEP:
                grids |= dict.fromkeys(
                    node.output if node.op_type == "Split" else node.output[:1], grids[node.input[0]]
                )
        if node.output[0] in grids and types.get(node.output[0]) != _TYPES[grids[node.output[0]][1]]:
            found.append(f"{told}: the type {types.get(node.output[0])}")
    return found + [f"{each.name}: an output of integers" for each in model.graph.output if each.name in grids]


def _complaints_of_inputs(
    node: onnx.NodeProto,
    weights: dict[str, onnx.TensorProto],
    grids: dict[str, tuple[float, int]],
    told: str,
) -> list[str]:
    found = []
    for place, (scale, bits) in _operands(node).items():
        name = node.input[place]
        if node.op_type == "Quant":
            continue
        if name in weights:
            if weights[name].data_type != _TYPES[bits]:
                found.append(f"{told}: {name} is of {weights[name].data_type}")
            if not numpy_helper.to_array(weights[name]).size:
                found.append(f"{told}: {name} is empty")
        elif grids.get(name) != (scale, bits):
            found.append(f"{told}: {name} has {grids.get(name)}, and the operator says {(scale, bits)}")
        role = {0: "weight"} if node.op_type == "Gather" else {1: "weight", 2: "bias"}
        if "scale_w" in attributes_of(node) and place in role and not name.endswith(role[place]):
            found.append(f"{told}: the name {name}")
    if node.op_type == "Dequant" and grids.get(node.input[0], (None,))[0] != attributes_of(node)["scale_o"]:
        found.append(f"{told}: another scale than {grids.get(node.input[0])}")
    return found
