"""The `onward` command: its subcommands, its version, its help."""

from __future__ import annotations

import typer

from . import bench, demo, diff, export, inspect, ops, optimize, report, run, verify
from .command import EXIT_CODES, command

app = typer.Typer(
    name="onward",
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


app.command(**command(export.EPILOG))(export.export)
app.command(**command(verify.EPILOG))(verify.verify)
app.command(**command(run.EPILOG))(run.run)
app.command(**command(inspect.EPILOG))(inspect.inspect)
app.command(**command(optimize.EPILOG))(optimize.optimize)
app.command(**command(diff.EPILOG, trouble=diff.TROUBLE))(diff.diff)
app.command(**command(report.EPILOG))(report.report)
app.command(**command(bench.EPILOG))(bench.bench)
app.command(**command(ops.EPILOG))(ops.ops)
app.command(**command(demo.EPILOG))(demo.demo)


def main() -> None:
    """Run the command."""
    app(prog_name="onward")
