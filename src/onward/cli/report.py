"""`onward report`: the report page of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import onnx_ir as ir
import typer

from onward.report.page import render

from .command import EXIT_CODES, Answer, Debug, Force, Json, check_free, working
from .feeds import ModelFile, Opened, open_file, port_of, port_text, shape_of

EPILOG = f"""Examples:
  onward report m.onnx -o page.html
  onward report m.onnx               writes m.html

{EXIT_CODES}
"""


def report(
    model: ModelFile,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The page; beside the file by default.")] = None,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> Answer:
    """Write a page about an ONNX file that opens without a network: inputs, outputs, operators, every node."""
    page = output if output is not None else model.with_suffix(".html")
    check_free(page, force)
    with working(f"reading {model}"):
        text = render(FileView(open_file(model)))
    page.write_text(text, encoding="utf-8")
    return Answer({"ok": True, "file": str(page)}, lambda: print(f"the report is in {page}"))


@dataclass(frozen=True)
class FilePort:
    """An input or an output as the page shows it."""

    value: ir.Value

    @property
    def name(self) -> str:
        return str(self.value.name)

    @property
    def axes(self) -> dict[int, str]:
        return {axis: size for axis, size in enumerate(shape_of(self.value)) if isinstance(size, str)}

    def __str__(self) -> str:
        return port_text(port_of(self.value))


@dataclass(frozen=True)
class FileView:
    """A file as the page shows a program."""

    opened: Opened

    @property
    def model(self) -> ir.Model:
        return self.opened.model

    @property
    def opset_version(self) -> int:
        return self.model.opset_imports.get("", 0)

    @property
    def inputs(self) -> tuple[FilePort, ...]:
        return tuple(FilePort(value) for value in self.model.graph.inputs if not value.is_initializer())

    @property
    def outputs(self) -> tuple[FilePort, ...]:
        return tuple(FilePort(value) for value in self.model.graph.outputs)

    @property
    def warnings(self) -> tuple[str, ...]:
        return ()
