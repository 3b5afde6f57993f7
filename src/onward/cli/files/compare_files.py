"""Two ONNX models, compared: the same changes in the same order every time.

Nodes are paired by operator and the name of what they compute; files of different exporters share few names, so the
rest is paired in order, by operator and attributes. Values are taken for equal if paired nodes compute them, so that
only true changes of the wiring remain.
"""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onward.files.parameters import held
from onward.write.files import readable
from onward.write.type_texts import operator_name, tensor_type

from .file_inputs import Opened, port_of, port_text

_MANY = 5000  # nodes without common names beyond which pairing them is done roughly


@dataclass(frozen=True)
class Change:
    """One difference: in which part, "removed", "added", "changed" or "renamed", of what, and how."""

    part: str
    kind: str
    name: str
    text: str = ""


def compare_files(a: Opened, b: Opened, tolerance: float = 0.0) -> list[Change]:
    """What differs, in a stable order."""
    renamed = dict(_renamed_weights(a.model, b.model))
    return [
        *_of_file(a, b),
        *_ports("inputs", _listed(a.model.graph.inputs), _listed(b.model.graph.inputs)),
        *_ports("outputs", _listed(a.model.graph.outputs), _listed(b.model.graph.outputs)),
        *_operators(a.model, b.model),
        *_nodes(a.model, b.model, renamed),
        *_weights(a.model, b.model, renamed, tolerance),
        *_mapping("metadata", dict(a.model.metadata_props), dict(b.model.metadata_props)),
    ]


def _mapping(part: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Change]:
    for key in [*a, *(key for key in b if key not in a)]:
        if key not in b:
            yield Change(part, "removed", key, str(a[key]))
        elif key not in a:
            yield Change(part, "added", key, str(b[key]))
        elif a[key] != b[key]:
            yield Change(part, "changed", key, f"{a[key]} -> {b[key]}")


def _of_file(a: Opened, b: Opened) -> Iterator[Change]:
    def told(each: Opened) -> dict[str, str]:
        model = each.model
        opsets = {
            f"opset {domain or 'ai.onnx'}": str(version) for domain, version in sorted(model.opset_imports.items())
        }
        return {"IR version": str(model.ir_version), "producer": str(model.producer_name or "none"), **opsets}

    yield from _mapping("file", told(a), told(b))
    if a.bytes != b.bytes:
        yield Change(
            "file", "changed", "size", f"{readable(a.bytes)} -> {readable(b.bytes)} ({b.bytes - a.bytes:+d} bytes)"
        )


def _listed(values: Any) -> list[dict[str, Any]]:
    return [port_of(value) for value in values if not value.is_initializer()]


def _ports(part: str, a: list[dict[str, Any]], b: list[dict[str, Any]]) -> Iterator[Change]:
    yield from _mapping(
        part, {each["name"]: port_text(each) for each in a}, {each["name"]: port_text(each) for each in b}
    )
    names = [each["name"] for each in a], [each["name"] for each in b]
    if names[0] != names[1] and sorted(names[0]) == sorted(names[1]):
        yield Change(part, "changed", "order", f"{', '.join(names[0])} -> {', '.join(names[1])}")


# Nodes


def _all_nodes(model: ir.Model) -> list[ir.Node]:
    """All nodes of a model, in the bodies of its nodes and in its functions too."""
    roots: list[Any] = [model.graph, *model.functions.values()]
    return [node for root in roots for node in root.all_nodes()]


def _operators(a: ir.Model, b: ir.Model) -> Iterator[Change]:
    counts = Counter(map(operator_name, _all_nodes(a))), Counter(map(operator_name, _all_nodes(b)))
    for name in sorted({*counts[0], *counts[1]}):
        if counts[0][name] != counts[1][name]:
            yield Change("operators", "changed", name, f"{counts[0][name]} -> {counts[1][name]}")


def _name(node: ir.Node) -> str:
    return str(next((value.name for value in node.outputs if value.name), node.name))


def _attributes(node: ir.Node) -> dict[str, str]:
    return {name: _attribute(each) for name, each in sorted(node.attributes.items())}


def _attribute(attribute: Any) -> str:
    if attribute.is_ref():
        return f"@{attribute.ref_attr_name}"
    value = attribute.value
    if attribute.type == ir.AttributeType.TENSOR:
        return f"{tensor_type(value)} {_digest(value)[:8]}"
    if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        graphs = [value] if attribute.type == ir.AttributeType.GRAPH else value
        return f"a body of {' and '.join(str(len(graph)) for graph in graphs)} nodes"  # they are compared themselves
    return str(value)


def _pairs(a: list[ir.Node], b: list[ir.Node]) -> list[tuple[ir.Node, ir.Node]]:
    by_name = {(operator_name(node), _name(node)): node for node in b}
    pairs = [(node, by_name[key]) for node in a if (key := (operator_name(node), _name(node))) in by_name]
    done = {id(node) for pair in pairs for node in pair}
    rest = [[node for node in nodes if id(node) not in done] for nodes in (a, b)]
    keys = [[(operator_name(node), tuple(_attributes(node).items())) for node in nodes] for nodes in rest]
    matcher = difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=max(map(len, rest)) > _MANY)
    matched = [(rest[0][i + k], rest[1][j + k]) for i, j, size in matcher.get_matching_blocks() for k in range(size)]
    return [*pairs, *matched]


def _nodes(a: ir.Model, b: ir.Model, renamed: Mapping[str, str]) -> Iterator[Change]:
    nodes = _all_nodes(a), _all_nodes(b)
    pairs = _pairs(*nodes)
    partner = {id(first): second for first, second in pairs}
    taken = {id(second) for _, second in pairs}
    stands_for = dict(renamed)  # names in the first file -> names in the second
    old, new = ([str(value.name) for value in model.graph.inputs] for model in (a, b))
    stands_for |= dict(zip([x for x in old if x not in new], [y for y in new if y not in old], strict=False))
    for first, second in pairs:
        for x, y in zip(first.outputs, second.outputs, strict=False):
            stands_for[str(x.name)] = str(y.name)
    for node in nodes[0]:
        if id(node) not in partner:
            yield Change("nodes", "removed", f"{operator_name(node)} {_name(node)}", _call(node))
        elif text := _changed(node, partner[id(node)], stands_for):
            yield Change("nodes", "changed", f"{operator_name(node)} {_name(node)}", text)
    for node in nodes[1]:
        if id(node) not in taken:
            yield Change("nodes", "added", f"{operator_name(node)} {_name(node)}", _call(node))


def _inputs(node: ir.Node) -> list[str]:
    return [str(value.name) if value is not None else "nothing" for value in node.inputs]


def _call(node: ir.Node) -> str:
    attributes = ", ".join(f"{name}={value}" for name, value in _attributes(node).items())
    return f"({', '.join(_inputs(node))})" + (f" {attributes}" if attributes else "")


def _changed(a: ir.Node, b: ir.Node, stands_for: Mapping[str, str]) -> str:
    found = [
        f"{each.name} {each.text}" if each.kind == "changed" else f"{each.name} {each.kind} ({each.text})"
        for each in _mapping("", _attributes(a), _attributes(b))
    ]
    before, after = _inputs(a), _inputs(b)
    if len(before) != len(after):
        found.append(f"inputs ({', '.join(before)}) -> ({', '.join(after)})")
    else:
        found.extend(
            f"input {place} {x} -> {y}"
            for place, (x, y) in enumerate(zip(before, after, strict=True))
            if stands_for.get(x, x) != y
        )
    if len(a.outputs) != len(b.outputs):
        found.append(f"{len(a.outputs)} outputs -> {len(b.outputs)}")
    return "; ".join(found)


# Weights


def _digest(tensor: Any) -> str:
    """Of type, shape and content."""
    content = repr(list(tensor.string_data())).encode() if tensor.dtype == ir.DataType.STRING else tensor.tobytes()
    return hashlib.sha256(tensor_type(tensor).encode() + content).hexdigest()


def _renamed_weights(a: ir.Model, b: ir.Model) -> Iterator[tuple[str, str]]:
    """The weights that both models have, under different names. Of several equal weights, the first is paired with the
    first."""
    first, second = dict(held(a)), dict(held(b))
    waiting: dict[str, list[str]] = {}
    for name, tensor in second.items():
        if name not in first:
            waiting.setdefault(_digest(tensor), []).append(name)
    if waiting:
        for name, tensor in first.items():
            if name not in second and (found := waiting.get(_digest(tensor))):
                yield name, found.pop(0)


def _weights(a: ir.Model, b: ir.Model, renamed: Mapping[str, str], tolerance: float) -> Iterator[Change]:
    first, second = dict(held(a)), dict(held(b))
    new_names = set(renamed.values())
    for name, tensor in first.items():
        if name in second:
            if text := _difference(tensor, second[name], tolerance):
                yield Change("weights", "changed", name, text)
        elif name in renamed:
            yield Change("weights", "renamed", name, renamed[name])
        else:
            yield Change("weights", "removed", name, tensor_type(tensor))
    for name, tensor in second.items():
        if name not in first and name not in new_names:
            yield Change("weights", "added", name, tensor_type(tensor))


def _difference(a: Any, b: Any, tolerance: float) -> str | None:
    if tensor_type(a) != tensor_type(b):
        return f"{tensor_type(a)} -> {tensor_type(b)}"
    if a.dtype == ir.DataType.STRING:
        return None if _digest(a) == _digest(b) else "other strings"
    if a.tobytes() == b.tobytes():
        return None
    wide = np.complex128 if a.dtype.name.startswith("COMPLEX") else np.float64
    x, y = a.numpy().astype(wide), b.numpy().astype(wide)
    with np.errstate(invalid="ignore"):
        same = (a.numpy() == b.numpy()) | (np.isnan(x) & np.isnan(y))
        least = 1.0 if a.dtype.is_integer() else 0.0  # float64 does not tell large integers apart
        apart = np.where(same, 0.0, np.maximum(np.abs(x - y), least))
    apart = np.where(np.isnan(apart), np.inf, apart)  # a number against no number
    if apart.max() <= tolerance:
        return None
    return f"{int((apart > tolerance).sum())} of {apart.size} numbers differ, by up to {apart.max():.3g}"
