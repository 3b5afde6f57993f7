"""Where the model would run, on the page: what `onward.compatibility` knows of every target, node by node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_ir as ir

from onward.errors import ExportError
from onward.files.compat import Compatibility, Finding, held_against
from onward.verify import load_onnxruntime

from .contents import Contents, Json

_OTHERS = ("tensorrt", "openvino", "coreml")
_PLACES = 20  # nodes of one finding that are listed
_WORDS = {"problem": "", "unknown": "not known: ", "condition": "only under a condition: "}


def attach_runtimes(found: Contents, model: ir.Model, *, ran: bool) -> None:
    """Write down what is known of every target; `ran` says that onnxruntime has just run the model."""
    data = found.data
    if ran:
        title = f"onnxruntime {load_onnxruntime().__version__}"
        data["compatibility"].append({"target": title, "problems": [], "source": "it has run the model for this page"})
    for targets in (_OTHERS,) if ran else (("onnxruntime",), _OTHERS):
        try:
            answers = held_against(model, targets)
        except ExportError as error:  # onnxruntime is not installed, for one
            data["notes"].append(f"nothing is known about {', '.join(targets)}: {error.what}")
            continue
        _enter(answers, found)


def _enter(answers: Iterable[Compatibility], found: Contents) -> None:
    for answer in answers:
        found.data["compatibility"].append({
            "target": answer.title,
            "problems": list(_problems(answer, found)),
            "source": "; ".join(answer.cited.values()),
        })  # fmt: skip


def _problems(answer: Compatibility, found: Contents) -> Iterator[Json]:
    order = {id(node): index for index, node in enumerate(found.data["nodes"])}
    for finding in (*answer.problems, *answer.unknown, *answer.conditions):
        text = _text(finding)
        made = [found.makers[place.output] for place in finding.places if place.output in found.makers]
        if finding.verdict == "problem":
            for node in made:
                node["problems"].append(f"{answer.title}: {text}")
        for node in made[:_PLACES]:
            yield {"node": order[id(node)], "text": text}
        if len(made) > _PLACES:
            yield {"node": None, "text": f"{text} (and {len(made) - _PLACES} more nodes)"}
        if not made:
            yield {"node": None, "text": text}


def _text(finding: Finding) -> str:
    operator = f"{finding.operator}: " if finding.operator else ""
    return f"{_WORDS[finding.verdict]}{operator}{finding.text}"
