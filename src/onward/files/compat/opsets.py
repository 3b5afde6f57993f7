"""What stands between a model and another opset, read from the schemas of the installed `onnx`.

Each node is held against its operator's definition in the other opset as it stands, down or up: does it exist there,
and take this number of inputs, these attributes, these types? Two more things change without a change of signature, and
a reader of the old opset would compute something else without a word: default values, and meanings (`_MEANINGS`, which
the schemas tell in prose only).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import onnx
import onnx_ir as ir

from .node_facts import Findings, Said, Step, type_string

SOURCE = "schemas"
_BROADCAST = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")


def cited() -> str:
    return f"The definitions of operators: onnx {onnx.__version__}, read from the installed package (onnx.defs)"


def newest() -> int:
    """The newest opset that the installed onnx has definitions of."""
    return int(onnx.defs.onnx_opset_version())


def check_model(model: ir.Model, opset: int, found: Findings) -> None:
    """Readers stop at an IR version too."""
    newest_ir = max((row[1] for row in onnx.helper.VERSION_TABLE if row[2] == opset), default=None)
    if newest_ir is not None and model.ir_version > newest_ir:
        text = (
            f"the model has IR version {model.ir_version}; the releases of ONNX that ended with opset {opset} "
            f"read IR versions up to {newest_ir}"
        )
        found.add(("condition", text, SOURCE))


def judge(step: Step, opset: int) -> Iterator[Said]:
    """What a node has that its operator has not in another opset."""
    if step.domain:
        return  # another domain has versions of its own, which stay
    here, there = step.schema(), step.schema(opset)
    if there is None:
        yield "problem", _missing(step, here, opset), SOURCE
    elif there.deprecated:
        yield "problem", f"deprecated from opset {there.since_version} on", SOURCE
    elif here is None:
        yield "unknown", f"opset {step.opset} of the model does not define it, so nothing can be compared", SOURCE
    elif here.since_version != there.since_version:
        for text in _differences(step, here, there, f"in opset {opset}"):
            yield "problem", text, SOURCE


def _missing(step: Step, here: Any, opset: int) -> str:
    if here is None:
        return "ONNX has no operator of this name"
    text = f"exists from opset {_first_versions()[step.node.op_type]} on"
    if here.has_function or here.has_context_dependent_function:
        text += f"; ONNX defines it by other operators, which may do in opset {opset}"
    return text


@functools.cache
def _first_versions() -> dict[str, int]:
    first: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            first[schema.name] = min(schema.since_version, first.get(schema.name, schema.since_version))
    return first


def _differences(step: Step, here: Any, there: Any, then: str) -> Iterator[str]:
    yield from _counts(step.node, there, then)
    yield from _attributes(step.node, here, there, then)
    yield from _types(step.node, there, then)
    meaning = _MEANINGS.get(step.node.op_type)
    if meaning is not None:
        since, holds, text = meaning
        if min(here.since_version, there.since_version) < since <= max(here.since_version, there.since_version):
            unchanged = holds(step.node)
            if not unchanged:
                yield text if unchanged is False else f"{text} (the shapes here do not tell)"


def _counts(node: ir.Node, there: Any, then: str) -> Iterator[str]:
    for what, values, least, most, formal in (
        ("input", node.inputs, there.min_input, there.max_input, there.inputs),
        ("output", node.outputs, there.min_output, there.max_output, there.outputs),
    ):
        count = max((place for place, value in enumerate(values, 1) if value is not None and value.name), default=0)
        if count > most:
            yield f"has {count} {what}s, and takes at most {most} {then}"
        required = [each for each in formal if each.option == onnx.defs.OpSchema.FormalParameterOption.Single]
        if count < least:
            lacking = ", ".join(f"'{each.name}'" for each in required[count:]) or f"{least} of them"
            yield f"has {count} {what}s, and needs {lacking} {then}"


def _attributes(node: ir.Node, here: Any, there: Any, then: str) -> Iterator[str]:
    for name, attribute in node.attributes.items():
        known = there.attributes.get(name)
        if known is None:
            default = here.attributes[name].default_value if name in here.attributes else None
            spare = (
                default is not None and default.type and not attribute.is_ref() and _plain(default) == attribute.value
            )
            yield f"the attribute '{name}' does not exist {then}" + (
                " (it has its default value here)" if spare else ""
            )
        elif known.type.name != attribute.type.name:
            yield f"the attribute '{name}' is {known.type.name} {then}, not {attribute.type.name}"
        elif _is_negative(attribute) and _allows_negative(here, name) and not _allows_negative(there, name):
            yield f"'{name}' is negative, which has no meaning {then}"
    for name, known in there.attributes.items():
        if name in node.attributes:
            continue
        if known.required:
            yield f"the attribute '{name}' is needed {then}"
        elif name in here.attributes:
            before, after = _plain(here.attributes[name].default_value), _plain(known.default_value)
            if before != after:
                yield f"without '{name}' it is {_shown(before)} now, and {_shown(after)} {then}"


def _plain(default: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(default) if default.type else None
    return value.decode() if isinstance(value, bytes) else value


def _shown(value: Any) -> str:
    return "without a value" if value is None else str(value)


def _is_negative(attribute: ir.Attr) -> bool:
    if attribute.is_ref() or attribute.name not in ("axis", "axes"):
        return False
    given = attribute.value if isinstance(attribute.value, list | tuple) else [attribute.value]
    return any(isinstance(each, int) and each < 0 for each in given)


def _allows_negative(schema: Any, name: str) -> bool:
    """The text of the definition is the only place that says so."""
    described = schema.attributes[name].description.lower() if name in schema.attributes else ""
    default = _plain(schema.attributes[name].default_value) if name in schema.attributes else None
    return "negative" in described or "[-r" in described or (isinstance(default, int) and default < 0)


def _types(node: ir.Node, there: Any, then: str) -> Iterator[str]:
    bound: dict[str, str] = {}
    for values, formal in ((node.inputs, there.inputs), (node.outputs, there.outputs)):
        for position, value in enumerate(values):
            if value is None or not value.name or not formal:
                continue
            parameter = formal[min(position, len(formal) - 1)]
            variadic = parameter.option == onnx.defs.OpSchema.FormalParameterOption.Variadic
            kind = type_string(value)
            if kind is None or (position >= len(formal) and not variadic):  # too many: said already
                continue
            if parameter.types and kind not in parameter.types:
                yield f"{kind} is not a type of '{parameter.name}' {then}"
            elif parameter.is_homogeneous and bound.setdefault(parameter.type_str, kind) != kind:
                yield f"'{parameter.name}' is {kind}, and has to be {bound[parameter.type_str]} like others {then}"


# What changed without a change of signature: the version it changed in, whether a node means the same either way
# (None: not known), and what to say otherwise.


def _last_axis(node: ir.Node) -> bool | None:
    value, attribute = node.inputs[0], node.attributes.get("axis")
    if attribute is None:
        return True  # other defaults: said already
    if attribute.is_ref() or value is None:
        return None
    axis = attribute.as_int()
    return axis == -1 or (None if value.shape is None else axis == value.shape.rank() - 1)


def _same_shapes(node: ir.Node) -> bool | None:
    shapes = [value.shape for value in node.inputs if value is not None]
    if any(shape is None or any(not isinstance(size, int) for size in shape) for shape in shapes):
        return None
    return len({tuple(shape) for shape in shapes if shape is not None}) == 1


_FLATTENS = "before opset 13 it works on everything from its axis on, after on that axis alone"
_MEANINGS: dict[str, tuple[int, Callable[[ir.Node], bool | None], str]] = {
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), (13, _last_axis, _FLATTENS)),
    "GroupNormalization": (21, lambda node: False, "before opset 21 scale and bias are per group, after per channel"),
    **dict.fromkeys(_BROADCAST, (7, _same_shapes, "before opset 7 shapes are not broadcast by themselves")),
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), (8, _same_shapes, "before opset 8 shapes are not broadcast")),
}
