"""`onward demo`: the bundled model from start to finish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..console.command import EXIT_CODES, FAILED, Answer, Debug, Json
from .export import verification_data

EPILOG = f"""Examples:
  onward demo           writes out/demo.onnx and out/demo.html
  onward demo /tmp/x

{EXIT_CODES}
"""


def demo(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder to write to; it is created if it does not exist.")
    ] = Path("out"),
    as_json: Json = False,
    debug: Debug = False,
) -> Answer:
    """Export a bundled model, verify the file at other sizes, and write its report page."""
    import onward.demo
    from onward.errors import WriteError

    try:
        verification = onward.demo.main(str(folder))  # it prints as it goes
    except OSError as error:
        if isinstance(error, WriteError):
            raise
        raise WriteError(f"cannot write to '{folder}': {error.strerror or error}") from error
    data = {
        "ok": verification.ok,
        "file": str(folder / "demo.onnx"),
        "verified": verification_data(verification),
        "report": str(folder / "demo.html"),
    }
    return Answer(data, lambda: None, 0 if verification.ok else FAILED)
