"""`onward optimize`: a model, simplified."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..console.command import EXIT_CODES, Answer, Debug, Force, Json, ModelFile, check_free, working
from ..models.model_options import Inputs, Seed

EPILOG = f"""Examples:
  onward optimize theirs.onnx -o less.onnx
  onward optimize theirs.onnx -o less.onnx -i ids=ids.npy    compare both on these inputs, not on made-up ones

{EXIT_CODES} If both do not answer alike,
nothing is written, and that is 1.
"""


def optimize(
    model: ModelFile,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")],
    input: Inputs = [],  # noqa: B006 (typer copies it)
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Run both models in onnxruntime and compare their outputs.")
    ] = True,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
) -> Answer:
    """Simplify a model: fold constants, share equal parts, drop what nothing needs."""
    import onward

    from ..files.file_inputs import feeds_of, given_inputs, open_file

    given = given_inputs(input, seed)
    check_free(output, force, ".data")
    opened = open_file(model)
    feeds = feeds_of(opened, given) if given.values else None
    before = _measured(open_file(model))
    with working(f"optimising {model}"):
        onward.optimize(model, output, verify=verify, inputs=feeds if verify else None)
    after = _measured(open_file(output))
    data = {"ok": True, "file": str(output), "before": before, "after": after, "verified": verify}
    return Answer(data, lambda: _show(data))


def _measured(opened: Any) -> dict[str, int]:
    return {"nodes": sum(1 for graph in opened.model.graphs() for _ in graph), "bytes": opened.bytes}


def _show(data: dict[str, Any]) -> None:
    from onward.write.files import readable

    before, after = data["before"], data["after"]
    print(f"{before['nodes']} nodes became {after['nodes']}")
    print(f"{readable(before['bytes'])} became {readable(after['bytes'])}")
    print(f"{data['file']}: {'onnxruntime answers as before' if data['verified'] else 'not verified'}")
