"""`onward report`: the report page of a file."""

from __future__ import annotations

import sys
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..console.command import EXIT_CODES, FAILED, Answer, Debug, Force, Json, ModelFile, check_free, plain, working
from ..models.model_options import Args, Function, Inputs, Seed, Strict, WeightsFile, asked

if TYPE_CHECKING:  # it needs PyTorch, and --help and completion do not
    from ..files.page_server import PageServer

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
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PAGE", help="The page to write; the default is beside the file."),
    ] = None,
    profile: Annotated[bool, typer.Option("--profile/--no-profile", help="Time every node in onnxruntime.")] = True,
    input: Inputs = [],  # noqa: B006 (typer copies it)
    against: Annotated[
        str | None, typer.Option(metavar="TARGET", help="Compare every value with this model's, as `verify` does.")
    ] = None,
    arg: Args = [],  # noqa: B006
    weights: WeightsFile = None,
    strict: Strict = True,
    seed: Seed = 0,
    training: Annotated[bool, typer.Option("--training", help="Put that model in training mode.")] = False,
    function: Function = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    serving: Annotated[bool, typer.Option("--serve", help="Serve the page on a port of this machine as well.")] = False,
    port: Annotated[
        int | None, typer.Option(metavar="N", help="The port for --serve; the default is a free one.", min=1, max=65535)
    ] = None,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> Answer:
    """Write a page about an ONNX file that opens without a network: its graph, shapes, times, FLOPs, memory."""
    from onward.report import render, write_page

    from ..console.usage_errors import UsageMistake
    from ..files.file_inputs import given_inputs, open_file
    from ..files.page_measurements import FileView, alone, held_against
    from ..files.page_server import serve
    from ..models.file_and_model import eager_target

    page = output if output is not None else model.with_suffix(".html")
    check_free(page, force)
    what = None
    if against is not None:
        what = asked(against, arg, input, weights, strict, seed, function)
    elif arg or weights is not None or function or training:
        raise UsageMistake("--arg, --weights, --function and --training are about a model", hint="name it: --against")
    server = _server(serving, port, as_json)
    with working(f"reading {model}") as tell:
        opened = open_file(model)
        if what is None:
            measuring, verification = alone(opened, given_inputs(input, seed), profile), None
        else:
            tell(f"building {against}")
            target = eager_target(what, training)
            tell(f"comparing {model} with {against}")
            measuring, verification = held_against(opened, what, target, profile)
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


def _server(serving: bool, port: int | None, as_json: bool) -> PageServer | None:
    """With its port, which is taken before any work is done."""
    from ..console.usage_errors import UsageMistake
    from ..files.page_server import listen

    if serving and as_json:
        raise UsageMistake("--serve goes on until it is ended, and --json is one answer", hint="leave one of them out")
    if port is not None and not serving:
        raise UsageMistake("--port is for --serve", hint="add --serve, or leave it out")
    return listen(port or 0) if serving else None


def _open(address: str) -> bool:
    """Open the page in a browser, and say whether there is one."""
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False
