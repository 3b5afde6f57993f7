"""The data of the page: what the model says by itself (`contents.py`), and what the export knows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from onward.capture.program.facts import CapturedProgram, pair_tensor
from onward.program import Program
from onward.verify import Verification

from .call_shapes import Sizes, assumed_sizes
from .contents import Contents, Json, contents
from .page_subject import Sections, Shown

_FIXED = "written as fixed: "  # how a warning about an axis that was given up begins


def report_data(
    program: Shown,
    verification: Verification | None = None,
    more: Sections = (),
    *,
    sizes: Mapping[str, Sequence[int]] | None = None,
    observe: Callable[[], Mapping[str, Sizes]] | None = None,
) -> Contents:
    """Everything but measurements.

    sizes    of the inputs by name, for shapes and all that follows from them; a program has those of its example, and
             of a file dynamic axes have the smallest size that it allows
    observe  asks a run for the shapes of all values, by name; it is called if inference leaves some unknown
    """
    captured = program.captured if isinstance(program, Program) else None
    if sizes is None:
        sizes = example_sizes(captured) if captured is not None else assumed_sizes(program.model)
    found = contents(
        program.model,
        sizes,
        files=dict(_files(captured)) if captured is not None else None,
        counted_at=sizes_text(program.model, sizes),
        observe=observe,
    )
    data = found.data
    data["frozen"] = [text.removeprefix(_FIXED) for text in program.warnings if text.startswith(_FIXED)]
    data["warnings"] = [text for text in program.warnings if not text.startswith(_FIXED)]
    data["verification"] = verification_rows(verification)
    data["sections"] = [{"title": title, "html": html} for title, html in more]
    _prove(data["axes"], captured, verification)
    return found


def example_sizes(captured: CapturedProgram) -> dict[str, tuple[int, ...]]:
    """The sizes of a program's example, as the file has them: a complex number is a last axis of 2."""
    return {
        port.name: tuple(pair_tensor(tensor).shape)
        for port, tensor in zip(captured.inputs, captured.example_inputs, strict=True)
    }


def sizes_text(model: ir.Model, sizes: Mapping[str, Sequence[int]]) -> str:
    """`x 2×3×224×224, mask 2×7`; weights that are inputs are left out."""
    names = [str(value.name) for value in model.graph.inputs if not value.is_initializer()]
    return ", ".join(f"{name} {'×'.join(map(str, sizes[name])) or 'scalar'}" for name in names if name in sizes)


def verification_rows(verification: Verification | None) -> list[Json] | None:
    if verification is None:
        return None
    rows: list[Json] = []
    for check in verification.checks:
        if check.skipped is not None:
            rows.append(_row(check.label, "", None, "skipped", check.skipped))
        for each in check.comparisons:
            known = each.problem is None and each.random is None
            if each.random is not None and each.problem is None:
                verdict = f"type and shape ok; values random ({each.random})"
            else:
                verdict = "ok" if each.ok else str(each)
            rows.append(_row(check.label, each.name, each.max_scaled_error if known else None, verdict, ok=each.ok))
    return rows


def _row(
    sizes: str, output: str, error: float | None, verdict: str, skipped: str | None = None, *, ok: bool = True
) -> Json:
    return {"sizes": sizes, "output": output, "error": error, "verdict": verdict, "ok": ok, "skipped": skipped}


def _files(captured: CapturedProgram) -> Iterator[tuple[str, str]]:
    """The full path of every line that nodes name by `net.py:12`."""
    for node in captured.graph.nodes:
        source: Any = node.meta.get("source")
        if source is not None:
            yield source.short, source.file


def _prove(axes: list[Json], captured: CapturedProgram | None, verification: Verification | None) -> None:
    """How it is known that an axis is dynamic: the sizes that the tracer saw, those that onnxruntime was run at."""
    runs = verification.checks if verification is not None else ()
    for axis in axes:
        name, proven = axis["name"], axis["proven"]
        if captured is not None:
            axis["bounds"] = axis["bounds"] or _bounds(captured, name)
            probed = captured.axes.get(name, ())
            if probed:
                proven.append(f"traced at {', '.join(map(str, dict.fromkeys(probed)))}")
            elif name in captured.space.formulas:
                proven.append(f"follows from {captured.space.formulas[name]}")
        checks = [each for each in runs if each.label == f"{name}={_after(each.label)}"]
        ran = [check for check in checks if check.skipped is None]
        right = [_after(check.label) for check in ran if check.ok]
        wrong = [_after(check.label) for check in ran if not check.ok]
        if right:
            proven.append(f"checked at {', '.join(right)}")
        if wrong:
            proven.append(f"wrong at {', '.join(wrong)}")
        proven += [f"{_after(check.label)}: {check.skipped}" for check in checks if check.skipped is not None]


def _after(label: str) -> str:
    """`3` of `batch=3`."""
    return label.rpartition("=")[2]


def _bounds(captured: CapturedProgram, name: str) -> str | None:
    bounds = captured.space.bounds_of(name)
    return None if bounds is None else f"{bounds[0]}..{'' if bounds[1] is None else bounds[1]}"
