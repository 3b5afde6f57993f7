"""The `onward` command: its subcommands, its version, its help.

A subcommand is imported when it is used: most of them need PyTorch, which takes seconds, and `onward --help` and
completion do not.
"""

from __future__ import annotations

import importlib
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from .console.command import EXIT_CODES, command

# The subcommands as `onward --help` lists them. The docstring of the function of that name says more.
COMMANDS = {
    "export": "Export a model to ONNX and verify the file in onnxruntime, on the example and at other sizes.",
    "verify": "Compare a file in onnxruntime with the model that it was made of, on the example and at other sizes.",
    "run": "Run an ONNX file and show its outputs.",
    "inspect": "Show the inputs, outputs, opsets, operators and weights of an ONNX file.",
    "optimize": "Simplify a model; both models run in onnxruntime before the file is written.",
    "diff": "Show the differences between two ONNX files: structure, weights, inputs, outputs and size.",
    "report": "Write a page about an ONNX file that opens without a network.",
    "bench": "Time an ONNX file in onnxruntime, or compare two.",
    "ops": "List PyTorch's operators, with the dtypes and opsets in which they export, and with dynamic axes.",
    "demo": "Export a bundled model, verify the file at other sizes, and write its report page.",
}


class Later(TyperCommand):
    """A subcommand that is imported when it is used."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return _load(str(self.name)).make_context(info_name, args, parent=parent, **extra)


class Subcommands(TyperGroup):
    """All subcommands by name."""

    def __init__(self, *, commands: Any = None, **settings: Any) -> None:
        later: dict[str, Any] = {name: Later(name, short_help=text) for name, text in COMMANDS.items()}
        super().__init__(commands=later, **settings)


def _load(name: str) -> Any:
    module = importlib.import_module(f".commands.{name}", __package__)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    own = {name.lower(): getattr(module, name) for name in ("TROUBLE", "WORDS") if hasattr(module, name)}
    alone.command(name, **command(module.EPILOG, **own))(getattr(module, name))
    return get_command(alone)


app = typer.Typer(
    name="onward",
    cls=Subcommands,
    help="From PyTorch to ONNX in one forward pass.",
    epilog=f"{EXIT_CODES}\n\nShell completion: onward --install-completion",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # it would take the brackets of an input for markup, and break examples over lines
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


def main() -> None:
    """Run the command."""
    app(prog_name="onward")
