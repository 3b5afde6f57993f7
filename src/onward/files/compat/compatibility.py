"""Where a model would run: `onward.compatibility(model, "tensorrt")`, and the command `onward inspect --for`.

Nothing is claimed without a source. What a source says against a node is a problem. What it takes under a condition, of
which the graph does not tell whether it holds, is a condition. Where no source says anything it is not known. That a
model has no problem means that the sources know of none; only onnxruntime, which is asked itself, is known to load it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
import onnx_ir as ir

from ...errors import ExportError, InputError
from ..load import AnyModel, load, load_copy
from ..shapes import infer
from . import kernels, opsets, target_tables
from .node_facts import Finding, Findings, Said, Step, domain_of, steps


@dataclass(frozen=True)
class Compatibility:
    """What is known about a model and a target.

    problems    what would not work there
    unknown     what no source tells
    conditions  what works if something holds that the graph does not tell
    sources     where all of it comes from
    """

    target: str
    title: str
    meaning: str
    """What a problem means there."""
    findings: tuple[Finding, ...]
    sources: Mapping[str, str]
    remarks: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """No source knows of a problem."""
        return not self.problems

    @property
    def problems(self) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.verdict == "problem")

    @property
    def unknown(self) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.verdict == "unknown")

    @property
    def conditions(self) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.verdict == "condition")

    def to_dict(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "target": self.target,
            "title": self.title,
            "ok": self.ok,
            "meaning": self.meaning,
            **{
                name: [_finding(each) for each in getattr(self, name)] for name in ("problems", "unknown", "conditions")
            },
            "remarks": list(self.remarks),
            "sources": dict(self.sources),
        }

    def __str__(self) -> str:
        lines = [f"{self.title}: {self.summary()}"]
        for each in self.findings:
            lines.append(f"  {each.verdict}: {each.operator + ': ' if each.operator else ''}{each.text}")
            lines += [f"    {place}" for place in each.places[:3]]
            lines += [f"    and {len(each.places) - 3} more"] if len(each.places) > 3 else []
        return "\n".join([*lines, *self.remarks_and_sources()])

    def remarks_and_sources(self) -> list[str]:
        """The last lines of every account."""
        return [f"  {each}" for each in (*self.remarks, *(f"source: {text}" for text in self.cited.values()))]

    def summary(self) -> str:
        """In a line."""
        said = [
            f"{len(found)} {words[len(found) != 1]}"
            for found, words in (
                (self.problems, ("problem", "problems")),
                (self.unknown, ("thing that is not known", "things that are not known")),
                (self.conditions, ("condition", "conditions")),
            )
            if found
        ]
        return ", ".join(said) if said else "no problem known"

    @property
    def cited(self) -> dict[str, str]:
        """The first source, which says what is there at all, and those of what was found."""
        used = {next(iter(self.sources)), *(each.source for each in self.findings)}
        return {key: text for key, text in self.sources.items() if key in used}


def _finding(each: Finding) -> dict[str, Any]:
    places = [vars(place) for place in each.places]
    return {"operator": each.operator, "text": each.text, "source": each.source, "nodes": places}


def targets() -> list[str]:
    """What a model can be held against."""
    return [*target_tables.names(), f"opset-1 to opset-{opsets.newest()}"]


def compatibility(model: AnyModel, target: str) -> Compatibility:
    """Which operators and types of a model would be a problem on a target, as far as sources tell.

    model   a path, bytes, a ModelProto, an onnx_ir.Model or what export returned
    target  "onnxruntime", "tensorrt", "openvino", "coreml", or an opset to bring the model to: "opset-13"
    """
    return held_against(model, [target])[0]


def held_against(
    model: AnyModel, targets: Sequence[str], *, file: str | os.PathLike[str] | None = None
) -> list[Compatibility]:
    """The same for several targets; the model is read once. `file` is where it was read from, if that was done."""
    versions = [check_target(target) for target in targets]
    typed, to_load = _typed(model), model if file is None else file
    return [
        _for_opset(typed, target, opset) if opset is not None else _for_runtime(to_load, typed, target)
        for target, opset in zip(targets, versions, strict=True)
    ]


def _for_runtime(model: AnyModel, typed: ir.Model, target: str) -> Compatibility:
    table = target_tables.table_of(target)
    if target == "onnxruntime":
        return _for_onnxruntime(model, typed, table)
    found = _found(typed, lambda step: target_tables.judge(table, step))
    target_tables.check_model(table, typed, found)
    return _answer(target, table, found, tuple(table.get("remarks", ())))


def check_target(target: str) -> int | None:
    """Refuse what is no target; the number if it is an opset."""
    match = re.fullmatch(r"opset-(\d{1,9})", str(target))
    if match is None:
        if target not in target_tables.names():
            raise InputError(f"no target is called {target!r}", hint=f"choose one of: {', '.join(targets())}")
        return None
    opset, newest = int(match[1]), opsets.newest()
    if not 1 <= opset <= newest:
        raise InputError(
            f"there is no opset {opset}: the installed onnx {onnx.__version__} defines opset 1 to {newest}",
            hint=f"choose one of opset-1 to opset-{newest}",
        )
    return opset


def _typed(model: AnyModel) -> ir.Model:
    """The model with the types and shapes of what it computes, as far as they can be known.

    Calls of its own functions are replaced by what they do, which is where types are known, unless a function is
    written for another opset than the model.
    """
    copied = load_copy(model)
    if copied.functions:
        _take_apart(copied)
    try:
        infer(copied)
    except ExportError:  # a graph that contradicts itself: what it declares has to do
        return load(model)
    return copied


def _take_apart(model: ir.Model) -> None:
    from onnx_ir.passes.common import InlinePass  # all of its passes come along, and most models have no functions

    imported = {domain_of(domain): version for domain, version in model.opset_imports.items()}
    if any(
        imported.get(domain_of(domain), version) != version
        for function in model.functions.values()
        for domain, version in function.opset_imports.items()
    ):
        return
    try:
        InlinePass()(model)
    except ir.passes.InvariantError as error:
        raise InputError(f"the functions of the model call each other in a circle: {error}") from error


def _found(model: ir.Model, judge: Callable[[Step], Iterator[Said]]) -> Findings:
    found = Findings()
    for step in steps(model):
        for said in judge(step):
            found.add(said, step)
    return found


def _for_opset(model: ir.Model, target: str, opset: int) -> Compatibility:
    found = _found(model, lambda step: opsets.judge(step, opset))
    opsets.check_model(model, opset, found)
    return Compatibility(
        target,
        f"opset {opset}",
        f"the node as it stands is not one of opset {opset}; onward.export(..., opset_version={opset}) writes others",
        tuple(found),
        {opsets.SOURCE: opsets.cited()},
    )


def _for_onnxruntime(model: AnyModel, typed: ir.Model, table: Mapping[str, Any]) -> Compatibility:
    told = kernels.refusal(model)
    title = f"onnxruntime {kernels.load_onnxruntime().__version__}"
    if told is None:
        remark = f"{title} loads the model"
        return Compatibility(
            "onnxruntime",
            title,
            table["meaning"],
            (),
            {kernels.LOADED: kernels.loading_cited()},
            (remark,),
        )
    found = _found(typed, lambda step: kernels.judge(table, step))
    target_tables.check_model(table, typed, found)
    found.add(("problem", f"it does not load the model: {told}", kernels.LOADED))
    answer = _answer("onnxruntime", table, found, ())
    return Compatibility(
        answer.target, title, answer.meaning, answer.findings,
        {**answer.sources, kernels.LOADED: kernels.loading_cited()},
    )  # fmt: skip


def _answer(target: str, table: Mapping[str, Any], found: Findings, remarks: tuple[str, ...]) -> Compatibility:
    sources = {key: target_tables.cited(source) for key, source in table["sources"].items()}
    return Compatibility(
        target, f"{table['title']} {table['version']}", table["meaning"], tuple(found), sources, remarks
    )
