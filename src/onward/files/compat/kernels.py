"""onnxruntime on the CPU: its kernels, from `targets/onnxruntime.json`, and the word of the one that is installed.

The table knows what each kernel takes, so it can blame nodes one by one; onnxruntime itself stops at the first. But
only onnxruntime knows whether a model loads: it computes float16 in float32 where it has to, and takes operators apart
that ONNX defines by others. So the model is loaded, and if that works nothing is a problem, whatever the table says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import ExportError
from ...program import Program
from ...verify.runtime import Session, load_onnxruntime
from ..load import AnyModel
from .node_facts import Said, Step, type_string

LOADED = "loading"


def loading_cited() -> str:
    return f"Its own word: onnxruntime {load_onnxruntime().__version__}, asked to load the model"


def refusal(model: AnyModel) -> str | None:
    """What the installed onnxruntime says against the model; None if it loads it."""
    try:
        Session(model.model if isinstance(model, Program) else model)
    except ExportError as error:
        return re.sub(r"^onnxruntime does not load the model: (\[ONNXRuntimeError\] : \d+ : )?", "", error.what)
    return None


def judge(table: Mapping[str, Any], step: Step) -> Iterator[Said]:
    """What the kernels say of a node."""
    record = table["operators"].get(step.domain, {}).get(step.node.op_type)
    schema = step.schema()
    apart = schema is not None and (schema.has_function or schema.has_context_dependent_function)
    if record is None:
        if apart:
            yield "unknown", "it has no kernel: onnxruntime takes it apart into the operators that define it", "kernels"
        elif step.domain in table["operators"] and step.node.op_type not in _BUILT_IN:
            yield "problem", "no kernel", "kernels"
        elif step.domain not in table["operators"]:
            yield table["absent"]["verdict"], table["absent"]["text"], table["absent"]["source"]
        return
    version = schema.since_version if schema is not None else 1
    kernels = [types for first, last, types in record["kernels"] if _covers(first, last, version)]
    if not kernels:
        verdict: Any = "unknown" if apart else "problem"
        yield verdict, f"no kernel for version {version} of it", "kernels"
        return
    bound = _bound(step, schema, record)
    matches = [_matches(table, types, bound) for types in kernels]
    if True in matches:
        return
    if None in matches:
        yield "unknown", "which kernel it needs depends on types that are not known", "kernels"
        return
    wrong = ", ".join(sorted({kind for name, kind in bound.items() if kind and _is_wrong(table, kernels, name, kind)}))
    verdict = "unknown" if apart else "problem"
    yield verdict, f"no kernel for {wrong or 'this combination of types: ' + _listed(bound)}", "kernels"


_BUILT_IN = ("Constant",)
"""onnxruntime makes initializers of them."""


def _covers(first: int, last: int | None, version: int) -> bool:
    return first == version if last is None else first <= version <= last


def _bound(step: Step, schema: Any, record: Mapping[str, Any]) -> dict[str, str | None]:
    """The type of each type variable, and of each parameter by name: kernels are registered by either."""
    if schema is not None:
        inputs = [(each.name, each.type_str) for each in schema.inputs]
        outputs = [(each.name, each.type_str) for each in schema.outputs]
    else:
        inputs, outputs = record.get("inputs", []), record.get("outputs", [])
    bound: dict[str, str | None] = {}
    for values, formal in ((step.node.inputs, inputs), (step.node.outputs, outputs)):
        for position, value in enumerate(values):
            if value is None or not value.name or not formal:
                continue
            kind = type_string(value)
            for name in formal[min(position, len(formal) - 1)]:
                bound[name] = bound.get(name) or kind
    return bound


def _matches(table: Mapping[str, Any], types: Mapping[str, str], bound: Mapping[str, str | None]) -> bool | None:
    """Whether a kernel takes these types; float16 is computed as float32 where there is no kernel for it."""
    asked = {name: kind for name, kind in bound.items() if name in types}
    if None in asked.values():
        return None
    for translate in (lambda kind: kind, lambda kind: kind.replace("(float16)", "(float)")):
        if all(translate(kind) in table["groups"][types[name]] for name, kind in asked.items()):
            return True
    return False


def _is_wrong(table: Mapping[str, Any], kernels: list[dict[str, str]], name: str, kind: str) -> bool:
    """Whether no kernel takes this type at this place."""
    return all(name in types and _matches(table, {name: types[name]}, {name: kind}) is False for types in kernels)


def _listed(bound: Mapping[str, str | None]) -> str:
    return ", ".join(sorted({kind for kind in bound.values() if kind}))
