"""What every subcommand shares: the name, the version, and what a mistake looks like."""

from __future__ import annotations

import sys

import typer

from .ops import EPILOG, ops

app = typer.Typer(
    name="onward",
    help="From PyTorch to ONNX in one forward pass.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from onward import __version__

        print(f"onward {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Options of the command itself."""


app.command(epilog=EPILOG)(ops)


def main() -> None:
    """Run the command. A mistake of the user is one message, without a traceback."""
    from onward.errors import ExportError

    try:
        app(prog_name="onward")
    except ExportError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
