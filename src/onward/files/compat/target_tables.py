"""Targets that are known from tables: which operators, which types, which limits. The tables are `targets/*.json`.

A table is data with its sources, written down by hand from documents or read from an installed package by a script in
tools/. What it says of an operator:

    supported   true, false, or null: the source leaves it open, and `why` says how
    types       the element types that it takes, at the inputs and outputs `at` (by default the first input)
    from, known the first version of the operator that is taken, and the newest that the source knows of
    limits      a sentence each, with a check where the graph can tell; what no check decides is left to the reader
    source      which of the table's `sources` says so

What a table does not say is not known; nothing follows from silence, unless the source is a complete list (`absent`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir

from .node_facts import Findings, Said, Step, constant_of, element_of, is_constant, is_dynamic

FOLDER = Path(__file__).parent / "targets"


def names() -> list[str]:
    """The targets that have a table."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


@functools.cache
def table_of(target: str) -> Mapping[str, Any]:
    with open(FOLDER / f"{target}.json", encoding="utf-8") as file:
        table: Mapping[str, Any] = json.load(file)
    return table


def cited(source: Mapping[str, str]) -> str:
    """A source in one line."""
    if "repository" in source:
        commit = f"@{source['commit'][:12]}" if source.get("commit") else " (commit not recorded)"
        return f"{source['title']}: {source['repository']}{commit} {source['path']}"
    if "document" in source:
        return f"{source['title']}: {source['document']}"
    return f"{source['title']}: {source['package']}, read by {source['by']}"


def check_model(table: Mapping[str, Any], model: ir.Model, found: Findings) -> None:
    """What concerns the model as a whole."""
    title = f"{table['title']} {table['version']}"
    opset = model.opset_imports.get("", model.opset_imports.get("ai.onnx"))
    known = table.get("opset")
    if known and opset is not None and not known["first"] <= opset <= known["last"]:
        text = f"the model has opset {opset}, and {title} reads {known['first']} to {known['last']}"
        found.add(("problem", text, known["source"]))
    ir_version = table.get("ir")
    if ir_version and model.ir_version > ir_version["last"]:
        text = f"the model has IR version {model.ir_version}, and {title} reads them up to {ir_version['last']}"
        found.add(("problem", text, ir_version["source"]))
    inputs = [value for value in model.graph.inputs if not value.is_initializer()]
    if "dynamic" in table and any(map(is_dynamic, inputs)):
        dynamic = ", ".join(f"'{value.name}'" for value in inputs if is_dynamic(value))
        found.add(("condition", f"dynamic sizes ({dynamic}): {table['dynamic']['text']}", table["dynamic"]["source"]))
    if "external" in table and any(isinstance(value.const_value, ir.ExternalTensor) for value in _weights(model)):
        found.add(("condition", table["external"]["text"], table["external"]["source"]))
    types = table.get("types", {})
    if "accepted" in types:
        for value in (*inputs, *model.graph.outputs):
            element = element_of(value)
            if element is not None and element not in types["accepted"]:
                text = f"'{value.name}' has the type {element}, which {title} does not take"
                found.add(("problem", text, types["source"]))


def _weights(model: ir.Model) -> Iterator[ir.Value]:
    for graph in model.graphs():
        yield from graph.initializers.values()


def judge(table: Mapping[str, Any], step: Step) -> Iterator[Said]:
    """What the table says of a node; nothing if it is taken as it is."""
    record = table["operators"].get(step.domain, {}).get(step.node.op_type)
    if record is None:
        absent = table["absent"]
        yield absent["verdict"], absent["text"], absent["source"]
        return
    source = record["source"]
    if record["supported"] is None:
        yield "unknown", record["why"], source
        return
    limits = record.get("limits", [])
    if not record["supported"]:
        yield "problem", "; ".join(["not supported", *(limit["text"] for limit in limits)]), source
        return
    yield from _versions(record, step)
    yield from _types(table, record, step)
    for limit in limits:
        holds = check(limit["check"], step.node) if "check" in limit else None
        if not holds:
            breaks = "problem" if holds is False else "condition"
            yield limit.get("otherwise", breaks), limit["text"], source


def _versions(record: Mapping[str, Any], step: Step) -> Iterator[Said]:
    schema = step.schema()
    version = schema.since_version if schema is not None else step.opset
    if version is None:
        return
    if version < record.get("from", 0):
        yield "problem", f"taken from version {record['from']} on, and here it is version {version}", record["source"]
    elif version > record.get("known", version):
        text = f"the source knows it up to version {record['known']}, and here it is version {version}"
        yield "unknown", text, record["source"]


def _types(table: Mapping[str, Any], record: Mapping[str, Any], step: Step) -> Iterator[Said]:
    general = table.get("types", {})
    if "types" in record:
        accepted, source, values = record["types"], record["source"], _at(step.node, record.get("at", ["input 0"]))
    elif "accepted" in general:
        accepted, source, values = general["accepted"], general["source"], [*step.node.inputs, *step.node.outputs]
    elif "usual" in general:
        accepted, source, values = general["usual"], general["source"], _at(step.node, ["input 0"])
    else:
        return
    for value in dict.fromkeys(values):
        if value is None or not value.name:  # left out
            continue
        element = element_of(value)
        if element is None and accepted is general.get("accepted"):
            continue  # a type that it does not have at all is unlikely, and would be noticed at an input
        elif element is None:
            yield "unknown", f"what it takes depends on a type that is not known (of '{value.name}')", source
        elif element in accepted:
            continue
        elif element in general.get("limited", {}):
            yield "condition", general["limited"][element], general["source"]
        elif "usual" in general and "types" not in record:
            yield "unknown", f"{general['text']} (here {element})", source
        else:
            yield "problem", f"not for {element}, only for {', '.join(accepted)}", source


def _at(node: ir.Node, places: Sequence[str]) -> list[ir.Value | None]:
    found: list[ir.Value | None] = []
    for place in places:
        kind, _, number = place.partition(" ")
        values: Sequence[ir.Value | None] = node.inputs if kind.startswith("input") else node.outputs
        found += [values[int(number)]] if number and int(number) < len(values) else [] if number else values
    return found


# Checks: whether a limit is kept. None: the graph does not tell.


def check(rule: Mapping[str, Any], node: ir.Node) -> bool | None:
    """Whether a node keeps a limit."""
    if "attribute" in rule:
        return _check_attribute(rule, node)
    kind = "input" if "input" in rule else "output"
    values: Sequence[ir.Value | None] = node.inputs if kind == "input" else node.outputs
    value = values[rule[kind]] if rule[kind] < len(values) else None
    if value is None or not value.name:
        return True  # what is not there breaks nothing
    return _check_value(rule, value)


def _check_attribute(rule: Mapping[str, Any], node: ir.Node) -> bool | None:
    attribute = node.attributes.get(rule["attribute"])
    if attribute is None:
        return True  # limits in the tables are all kept by the default values
    if attribute.is_ref():
        return None
    if "absent" in rule:
        return False
    given = attribute.value
    return all(each == rule["all"] for each in given) if "all" in rule else given in rule["in"]


def _check_value(rule: Mapping[str, Any], value: ir.Value) -> bool | None:
    if "absent" in rule:
        return (
            not (value.uses() or value.is_graph_output())
            if value.producer() is not None and "output" in rule
            else False
        )
    if "constant" in rule:
        return is_constant(value)
    if "rank" in rule:
        return None if value.shape is None else value.shape.rank() in rule["rank"]
    if "static" in rule:
        return not is_dynamic(value)
    if "types" in rule:
        element = element_of(value)
        return None if element is None else element in rule["types"]
    numbers = constant_of(value)  # "zero"
    return None if numbers is None else not numbers.astype("float32").any()
