"""The error of every value of a file against PyTorch: how far a run of the file is off where it has come so far.

The file runs in onnxruntime without optimizations, since what is fused away cannot be looked at, with intermediate
values as outputs; the captured program runs in PyTorch, node by node. A value that both have is compared (`hunt/` knows
which these are). All activations of a large model are too much to hold at once, so values are taken in portions, each
at the cost of a run on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onward.hunt.case import Case
from onward.hunt.pieces import FileGraph
from onward.hunt.whole_file_run import errors_in_run
from onward.lower.origins import ORIGINS
from onward.program import Program
from onward.verify import Comparison, output_steps, random_outputs
from onward.write.files import readable

from .call_shapes import Sized
from .contents import Contents
from .memory import bytes_of

_PORTION = 512 << 20  # bytes of values that one run holds
_MOST_PORTIONS = 8
_MOST_WEIGHTS = 4 << 30  # bytes; every run has them three times: PyTorch's, the file's, onnxruntime's


@dataclass(frozen=True)
class Errors:
    """by_value  what was compared, by the name of the value; `note` says how, and what was left out"""

    by_value: Mapping[str, Comparison] = field(default_factory=dict)
    note: str = ""


def errors_of(program: Program, model: ir.Model, sized: Sized) -> Errors:
    """Compare the values of `model`, the program's own or a file that was made of it, on the program's example."""
    captured = program.captured
    weights = sum(each.const_value.nbytes for each in model.graph.initializers.values() if each.const_value is not None)
    if weights > _MOST_WEIGHTS:
        return Errors(note=f"values were not compared with PyTorch's: the model has {readable(weights)} of weights")
    table = program.model.meta.get(ORIGINS, {})
    case = Case(captured, FileGraph(model), table, captured.example_inputs, program.example_feeds())
    if not case.known:
        return Errors(note="no value of the file is known to PyTorch by its name, so none was compared")
    wanted = {str(value.name): bytes_of(value, sized) for node in sized.model.graph for value in node.outputs}
    random, steps = _of_all_values(model)
    portions = list(_portions([name for name in case.known if name not in random], wanted))
    found: dict[str, Comparison] = {}
    for portion in portions[:_MOST_PORTIONS]:
        found.update(errors_in_run(case, portion, grid=steps))
    if not found:
        return Errors(note="onnxruntime does not run the model, so no value was compared")
    left = sum(map(len, portions[_MOST_PORTIONS:]))
    total = sum(1 for node in model.graph for value in node.outputs if value.name)
    note = (
        f"{len(found)} of {total} values were compared with PyTorch's on the example, in a run without onnxruntime's "
        "optimizations"
    )
    return Errors(found, f"{note}; {left} more would have taken too much memory" if left else note)


def _of_all_values(model: ir.Model) -> tuple[dict[str, str], dict[str, float]]:
    """Which values depend on random numbers, and the steps of those on a grid: what verification knows of outputs."""
    opened = model.clone()
    outputs = set(opened.graph.outputs)
    opened.graph.outputs.extend(value for node in opened.graph for value in node.outputs if value not in outputs)
    return random_outputs(opened), output_steps(opened)


def _portions(names: Sequence[str], wanted: Mapping[str, int | None]) -> Iterator[list[str]]:
    """Names whose values fit into memory together, in their order; one of unknown size is taken for a small one."""
    portion: list[str] = []
    held = 0
    for name in names:
        size = wanted.get(name) or 0
        if portion and held + size > _PORTION:
            yield portion
            portion, held = [], 0
        portion.append(name)
        held += size
    if portion:
        yield portion


def attach_errors(found: Contents, errors: Errors) -> None:
    """Write the errors into the data. A node with several results has the worst of them."""
    found.data["error_note"] = errors.note or None
    for name, compared in errors.by_value.items():
        node = found.makers.get(name)
        if node is None:
            continue
        error = _error(compared)
        if node["error"] is None or _badness(error) > _badness(node["error"]):
            node["error"] = error


def _error(compared: Comparison) -> dict[str, float | bool | str | None]:
    known = compared.problem is None
    return {
        "max": compared.max_abs_error if known else None,
        "scaled": compared.max_scaled_error if known else None,
        "ok": compared.ok,
        "problem": compared.problem,
    }


def _badness(error: Mapping[str, float | bool | str | None]) -> tuple[bool, float]:
    scaled = error["scaled"]
    return not error["ok"], scaled if isinstance(scaled, float) else 0.0
