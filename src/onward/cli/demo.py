"""`onward demo`: the bundled model from start to finish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .command import EXIT_CODES, Answer, Debug

EPILOG = f"""Examples:
  onward demo           writes out/demo.onnx and out/demo.html
  onward demo /tmp/x

{EXIT_CODES}
"""


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to write; it is made if it is not there.")] = Path("out"),
    debug: Debug = False,
) -> Answer:
    """Export a bundled model, verify the file at other sizes, and write its report page."""
    import onward.demo
    from onward.errors import WriteError

    try:
        onward.demo.main(str(folder))
    except OSError as error:
        if isinstance(error, WriteError):
            raise
        raise WriteError(f"cannot write to '{folder}': {error.strerror or error}") from error
    return Answer({}, lambda: None)
