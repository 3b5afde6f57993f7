"""Where the model would run, on the page: what `onward.compatibility` knows of every target, node by node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir as ir

from onward.errors import ExportError
from onward.files.compat import Compatibility, Finding, held_against
from onward.verify import load_onnxruntime

from .contents import Contents, Json

_OTHERS = ("tensorrt", "openvino", "coreml")
_PLACES = 20  # nodes of one finding that are listed


def attach_runtimes(found: Contents, model: ir.Model, *, ran: bool) -> None:
    """Write down what is known of every target; `ran` says that onnxruntime has just run the model."""
    data = found.data
    if ran:
        title = f"onnxruntime {load_onnxruntime().__version__}"
        data["compatibility"].append(_target(title, "it has run the model for this page"))
    for targets in (_OTHERS,) if ran else (("onnxruntime",), _OTHERS):
        try:
            answers = held_against(model, targets)
        except ExportError as error:  # onnxruntime is not installed, for one
            data["notes"].append(f"nothing is known about {', '.join(targets)}: {error.what}")
            continue
        _enter(answers, found)


def _enter(answers: Iterable[Compatibility], found: Contents) -> None:
    order = {id(node): index for index, node in enumerate(found.data["nodes"])}
    for answer in answers:
        told = _target(answer.title, "; ".join(answer.cited.values()))
        for key, findings in (
            ("problems", answer.problems),
            ("unknown", answer.unknown),
            ("conditions", answer.conditions),
        ):
            told[key] = [_finding(each, found, order) for each in findings]
        for finding in answer.problems:
            for node in _made(finding, found):
                node["problems"].append(f"{answer.title}: {_text(finding)}")
        found.data["compatibility"].append(told)


def _target(title: str, source: str) -> Json:
    return {"target": title, "problems": [], "unknown": [], "conditions": [], "source": source}


def _finding(finding: Finding, found: Contents, order: Mapping[int, int]) -> Json:
    """One sentence, with the number of nodes that it is about (0: the whole model) and the places of the first."""
    nodes = [order[id(node)] for node in _made(finding, found)]
    return {"text": _text(finding), "count": len(finding.places), "nodes": nodes[:_PLACES]}


def _made(finding: Finding, found: Contents) -> list[Json]:
    """The nodes of the main graph among those of a finding."""
    return [found.makers[place.output] for place in finding.places if place.output in found.makers]


def _text(finding: Finding) -> str:
    return f"{finding.operator}: {finding.text}" if finding.operator else finding.text
