"""`onward report`: the report page of a file."""

from __future__ import annotations

import contextlib
import sys
import warnings
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import onnx_ir as ir
import typer

from onward.capture import CaptureWarning
from onward.errors import ExportError, MissingDependencyError, VerifyError
from onward.mismatch import exported_like
from onward.options import TrainingMode
from onward.report import Measuring, render, write_page
from onward.verify import Session, Verification

from .command import EXIT_CODES, FAILED, Answer, Debug, Force, Json, check_free, first_line, plain
from .feeds import ModelFile, Opened, feeds_of, given_inputs, open_file
from .mistakes import UsageMistake
from .rebuild import Args, Asked, Function, Inputs, Seed, Strict, WeightsFile, asked
from .serve import PageServer, listen, serve
from .targets import Target
from .values import Given
from .verify import bound, eager_target

EPILOG = f"""Examples:
  onward report m.onnx                          writes m.html, with the time of every node
  onward report m.onnx -o page.html --open      and shows it in a browser
  onward report m.onnx --serve --port 8000      and shows it at http://127.0.0.1:8000/ until Ctrl-C
  onward report m.onnx -i "x:f32[8,3,224,224]"  times, FLOPs and memory at these sizes
  onward report m.onnx --against train.py:Net --weights w.pt
                                                and the error of every value against PyTorch

{EXIT_CODES} If the page is
written and no browser is found to open it, that is 1.
"""


def report(
    model: ModelFile,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The page; beside the file by default.")] = None,
    profile: Annotated[bool, typer.Option("--profile/--no-profile", help="Time every node in onnxruntime.")] = True,
    input: Inputs = [],  # noqa: B006 (typer copies it)
    against: Annotated[
        str | None, typer.Option(metavar="TARGET", help="Compare every value with this model's, as `verify` does.")
    ] = None,
    arg: Args = [],  # noqa: B006
    weights: WeightsFile = None,
    strict: Strict = True,
    seed: Seed = 0,
    training: Annotated[bool, typer.Option("--training", help="That model in training mode.")] = False,
    function: Function = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    serving: Annotated[bool, typer.Option("--serve", help="Show the page on a port of this machine, too.")] = False,
    port: Annotated[int | None, typer.Option(help="That port; without, one that is free.", min=1, max=65535)] = None,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> Answer:
    """Write a page about an ONNX file that opens without a network: its graph, shapes, times, FLOPs, memory."""
    page = output if output is not None else model.with_suffix(".html")
    check_free(page, force)
    what = None
    if against is not None:
        what = asked(against, arg, input, weights, strict, seed, function)
    elif arg or weights is not None or function or training:
        raise UsageMistake("--arg, --weights, --function and --training are about a model", hint="name it: --against")
    server = _server(serving, port, as_json)
    with _telling(f"reading {model}") as tell:
        opened = open_file(model)
        if what is None:
            measuring, verification = _alone(opened, given_inputs(input, seed), profile), None
        else:
            tell(f"building {against}")
            target = eager_target(what, training)
            tell(f"comparing {model} with {against}")
            measuring, verification = _held_against(opened, what, target, profile)
        text = render(FileView(opened.model), verification, measuring=replace(measuring, progress=tell))
    write_page(page, text)
    address = server.url if server is not None else page.resolve().as_uri()
    seen = _open(address) if open_page else None
    data = {"ok": seen is not False, "file": str(page), "opened": seen, "notes": list(measuring.notes)}

    def show() -> None:
        print(f"the report is in {page}")
        for note in measuring.notes:
            print(f"note: {plain(note)}", file=sys.stderr)
        if seen is False:
            where = f"address in one: {address}" if server is not None else f"file in one: {page.resolve()}"
            print(f"error: no browser was found; open this {where}", file=sys.stderr)
        if server is not None:
            print(f"it is at {server.url} until Ctrl-C", flush=True)
            serve(server, text)

    return Answer(data, show, FAILED if seen is False else 0)


def _alone(opened: Opened, given: Given, profile: bool) -> Measuring:
    """On the inputs that the command line gives, or on made-up ones if onnxruntime accepts them."""
    if not profile and not given.values:
        return Measuring(profile=False)
    try:
        session = Session(opened.path)
    except (VerifyError, MissingDependencyError) as error:
        feeds = feeds_of(opened, given) if given.values else None
        return Measuring(feeds, profile=False, notes=(f"no times: {first_line(error)}",))
    try:
        feeds = feeds_of(opened, given, session)
    except ExportError as error:
        if given.values:
            raise
        return Measuring(notes=(f"no times: {first_line(error)}",))
    return Measuring(feeds, profile=profile, path=opened.path)


def _held_against(opened: Opened, what: Asked, target: Target, profile: bool) -> tuple[Measuring, Verification | None]:
    """The same, and every value that the model has too."""
    try:
        session = Session(opened.path)
    except (VerifyError, MissingDependencyError) as error:
        return Measuring(notes=(f"no times and no errors: {first_line(error)}",)), None
    comparison = bound(opened, session, what, target)
    verification = Verification(tuple(comparison.checks()))
    feeds = dict(zip(comparison.names, comparison.example, strict=True))
    measuring = Measuring(feeds, profile=profile, path=opened.path)
    args, kwargs = comparison.call.arguments([each.clone() for each in comparison.example])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CaptureWarning)  # they are about a file that is not written
            program = exported_like(
                opened.model,
                comparison.model,
                tuple(args),
                kwargs,
                input_names=list(comparison.names),
                training=TrainingMode.PRESERVE,
            )
    except ExportError as error:
        return replace(measuring, notes=(f"no errors of single values: {first_line(error)}",)), verification
    return replace(measuring, against=program), verification


def _server(serving: bool, port: int | None, as_json: bool) -> PageServer | None:
    """With its port, which is taken before any work is done."""
    if serving and as_json:
        raise UsageMistake("--serve goes on until it is ended, and --json is one answer", hint="leave one of them out")
    if port is not None and not serving:
        raise UsageMistake("--port is for --serve", hint="add --serve, or leave it out")
    return listen(port or 0) if serving else None


def _open(address: str) -> bool:
    """Whether a browser was there to show it."""
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


@contextlib.contextmanager
def _telling(what: str) -> Iterator[Callable[[str], None]]:
    """What goes on, on stderr, if a person is looking."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(what)) as status:
        yield lambda text: status.update(escape(text))


@dataclass(frozen=True)
class FileView:
    """A file as the page shows a program."""

    model: ir.Model
    warnings: tuple[str, ...] = ()
