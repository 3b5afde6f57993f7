"""`onward verify`: a file in onnxruntime against the model that it should be, at several sizes."""

from __future__ import annotations

from typing import Annotated

import typer

from ..console.command import EXIT_CODES, FAILED, Answer, Debug, Json, ModelFile, plain, working
from ..models.model_options import Args, Function, Inputs, Seed, Strict, WeightsFile, asked
from .export import verification_data

EPILOG = f"""Examples:
  onward verify m.onnx --against mynets:build --arg depth=50 --weights w.safetensors
  onward verify m.onnx --against train.py:Net --weights w.pt -i x=picture.npy
  onward verify m.onnx --against timm:resnet18 --seed 0 --json     the weights that `onward export` drew

{EXIT_CODES} If file and model disagree,
that is 1.
"""


def verify(
    model: ModelFile,
    against: Annotated[str, typer.Option(metavar="TARGET", help="The model, in the form that `onward export` takes.")],
    arg: Args = [],  # noqa: B006 (typer copies it)
    input: Inputs = [],  # noqa: B006
    weights: WeightsFile = None,
    strict: Strict = True,
    seed: Seed = 0,
    training: Annotated[bool, typer.Option("--training", help="Put the model in training mode.")] = False,
    function: Function = False,
    as_json: Json = False,
    debug: Debug = False,
) -> Answer:
    """Compare an ONNX file in onnxruntime with the model it should be, on an example and at other sizes."""
    from onward.verify import Session, Verification

    from ..files.file_inputs import open_file
    from ..models.file_and_model import bound, eager_target, explained

    what = asked(against, arg, input, weights, strict, seed, function)
    opened = open_file(model)
    with working(f"building {against}"):
        target = eager_target(what, training)
    with working(f"comparing {model} with {against}"):
        session = Session(model)
        comparison = bound(opened, session, what, target)
        verification = Verification(tuple(comparison.checks()))
        remarks = [] if verification.ok else explained(comparison, verification)
    data = {"ok": verification.ok, "file": str(model), "against": against, **(verification_data(verification) or {})}
    data["explanation"] = remarks

    def show() -> None:
        print("\n".join(map(plain, [*str(verification).splitlines(), *remarks])))

    return Answer(data, show, 0 if verification.ok else FAILED)
