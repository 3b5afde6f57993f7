"""Models of one node, for every operator of ONNX and every type that it may have: what claims are tried on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
from onnx import TensorProto, helper

Option = onnx.defs.OpSchema.FormalParameterOption
KINDS = onnx.defs.OpSchema.AttrType
NEEDS_A_BODY = ("If", "Loop", "Scan", "SequenceMap")

# Required attributes that not just any value does for.
VALUES: dict[tuple[str, str], Any] = {
    ("BitShift", "direction"): "LEFT",
    ("Cast", "to"): TensorProto.FLOAT,
    ("BitCast", "to"): TensorProto.FLOAT,
    ("Einsum", "equation"): "i->i",
    ("TfIdfVectorizer", "mode"): "TF",
    ("RegexFullMatch", "pattern"): "a",
}


def schemas(opset: int) -> list[Any]:
    """The operators of an opset that are not deprecated there."""
    names = {each.name for each in onnx.defs.get_all_schemas_with_history() if each.domain == ""}
    found = []
    for name in sorted(names):
        try:
            schema = onnx.defs.get_schema(name, opset, "")
        except onnx.defs.SchemaError:
            continue
        if not schema.deprecated:
            found.append(schema)
    return found


def types_of(schema: Any) -> list[dict[str, str]]:
    """One choice of types per type of the first type variable of the inputs; the others take one that they have."""
    variables = {each.type_param_str: sorted(each.allowed_type_strs) for each in schema.type_constraints}
    used = [each.type_str for each in (*schema.inputs, *schema.outputs) if each.type_str in variables]
    if not used:
        return [{}]
    usual = ("tensor(float)", "tensor(int64)", "tensor(bool)")
    rest = {name: next((each for each in usual if each in types), types[0]) for name, types in variables.items()}
    return [{**rest, used[0]: kind} for kind in variables[used[0]]]


def model_of(schema: Any, types: dict[str, str], opset: int, more: str = "") -> onnx.ModelProto | None:
    """A model of that node alone, with inputs of no declared shape; None if an attribute cannot be made up.

    more: "inputs" gives the optional inputs and outputs too, "attributes" the optional attributes, at their defaults
    """
    wanted = Option.Optional if more == "inputs" else None
    inputs = [
        _value(f"x{place}", types.get(formal.type_str, formal.type_str))
        for place, formal in enumerate(schema.inputs)
        if formal.option in (Option.Single, Option.Variadic, wanted)
    ]
    outputs = [
        onnx.ValueInfoProto(name=f"y{place}")
        for place, formal in enumerate(schema.outputs)
        if place == 0 or formal.option in (Option.Single, Option.Variadic, wanted)
    ]
    names = [[each.name for each in values] for values in (inputs, outputs)]
    node = helper.make_node(schema.name, *names, name="only")
    for name, attribute in schema.attributes.items():
        if attribute.required:
            made = VALUES.get((schema.name, name), _made_up(attribute.type))
            if made is None:
                return None
            node.attribute.append(helper.make_attribute(name, made))
        elif more == "attributes" and attribute.default_value.type:
            node.attribute.append(attribute.default_value)
    graph = helper.make_graph([node], "single", inputs, outputs)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets))
    return _with_output_types(model, [types.get(formal.type_str, formal.type_str) for formal in schema.outputs])


def _with_output_types(model: onnx.ModelProto, otherwise: list[str]) -> onnx.ModelProto:
    try:
        model = onnx.shape_inference.infer_shapes(model)
    except onnx.shape_inference.InferenceError:
        return model
    for value, kind in zip(model.graph.output, otherwise, strict=False):
        if not value.type.WhichOneof("value"):
            value.type.CopyFrom(_type(kind))
    return model


def _made_up(kind: Any) -> Any:
    return {
        KINDS.INT: 1, KINDS.FLOAT: 1.0, KINDS.STRING: "a", KINDS.INTS: [1], KINDS.FLOATS: [1.0], KINDS.STRINGS: ["a"],
        KINDS.TENSOR: helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0]),
    }.get(kind)  # fmt: skip


def _value(name: str, kind: str) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, _type(kind))


def _type(kind: str) -> onnx.TypeProto:
    if kind.startswith("seq("):
        return helper.make_sequence_type_proto(_type(kind[4:-1]))
    if kind.startswith("optional("):
        return helper.make_optional_type_proto(_type(kind[9:-1]))
    element = kind.removeprefix("tensor(").removesuffix(")")
    return helper.make_tensor_type_proto(TensorProto.DataType.Value(element.upper()), None)


def single_nodes(opset: int, more: str = "") -> Iterator[tuple[str, onnx.ModelProto]]:
    """All of them, with a label."""
    for schema in schemas(opset):
        if schema.name in NEEDS_A_BODY:
            continue
        for types in types_of(schema):
            model = model_of(schema, types, opset, more)
            if model is not None:
                yield f"{schema.name} {' '.join(types.values())}", model


__all__ = ["model_of", "schemas", "single_nodes", "types_of"]
