"""What an export leaves beside the model when it is asked to: the report page and the captured program as text."""

from __future__ import annotations

import os
import re
from pathlib import Path

from onward.errors import WriteError
from onward.program import Program
from onward.verify import Verification

from .page import write_page, write_report


def write_artifacts(
    program: Program,
    folder: str | os.PathLike[str],
    *,
    report: bool,
    captured: bool,
    verification: Verification | None,
) -> list[Path]:
    """Write what was asked for; returns the files."""
    name = re.sub(r"[^\w.-]+", "_", program.model.graph.name or "model")
    directory = Path(folder)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(
            f"{directory} cannot hold the report and the captured program: {error.strerror or error}",
            hint="give artifacts_dir a folder that can be written to",
        ) from error
    written = []
    if report:
        written.append(directory / f"{name}.html")
        write_report(program, written[-1], verification)
    if captured:
        written.append(directory / f"{name}.captured.txt")
        write_page(written[-1], captured_text(program))
    return written


def captured_text(program: Program) -> str:
    """One line per node of the captured graph: what it computes, what is known of it, and where it comes from."""
    lines = []
    for node in program.captured.graph.nodes:
        fact, scope, source = (node.meta.get(key) for key in ("val", "scope", "source"))
        known = f" -> {fact}" if fact is not None else ""
        where = "  # " + ", ".join(str(part) for part in (scope, source) if part) if scope or source else ""
        lines.append(f"{node.format_node()}{known}{where}")
    return "\n".join(lines) + "\n"
