"""The options by which `export` and `verify` come to a model, and what they make of them.

PyTorch is imported by the functions: the options alone, which --help and completion want, come without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..inputs.values import ExampleCall, Given
    from .model_sources import SourceModel

Args = Annotated[list[str], typer.Option("--arg", metavar="NAME=VALUE", help="An argument of the builder.")]
Inputs = Annotated[
    list[str],
    typer.Option("--input", "-i", metavar="SPEC", help="x:f32[1,3,224,224], ids:i64[1,16]=0..999, x=file.npy, all.npz"),
]
WeightsFile = Annotated[
    Path | None, typer.Option("--weights", "-w", metavar="FILE", help="A checkpoint: .safetensors, .pt, .pth, .bin.")
]
Strict = Annotated[
    bool, typer.Option("--strict/--no-strict", help="Whether the checkpoint must fit the model exactly.")
]
Seed = Annotated[int, typer.Option(metavar="N", help="The seed of random weights and inputs.")]
Function = Annotated[bool, typer.Option("--function", help="TARGET is a function to be exported, not a builder.")]


@dataclass(frozen=True)
class Asked:
    """What the options say of a model, before any work: mistakes in them are found first."""

    target: str
    args: dict[str, Any]
    given: Given
    weights: Path | None
    strict: bool
    seed: int
    function: bool


def asked(
    target: str, args: list[str], inputs: list[str], weights: Path | None, strict: bool, seed: int, function: bool
) -> Asked:
    """The options, read."""
    from onward.errors import InputError

    from ..inputs.grammar import parse_arguments, parse_inputs
    from ..inputs.values import make

    if weights is not None and not weights.is_file():
        raise InputError(f"there is no file '{weights}'")
    return Asked(
        target, parse_arguments(args), make(parse_inputs(inputs), seed), weights, strict, seed, function
    )  # fmt: skip


@dataclass(frozen=True)
class Rebuilt:
    """A model that is ready to be called, and how the loading went."""

    target: SourceModel
    remarks: tuple[str, ...]

    @property
    def model(self) -> Any:
        return self.target.model


def rebuild(what: Asked) -> Rebuilt:
    """Build the model and load its weights."""
    from .checkpoints import load_weights
    from .model_sources import load_target

    target = load_target(what.target, what.args, function=what.function, seed=what.seed)
    remarks: list[str] = []
    if what.weights is not None:
        remarks = load_weights(target.model, what.weights, what.strict)
    return Rebuilt(target, tuple(remarks))


def example_call(what: Asked, target: SourceModel) -> ExampleCall:
    """The example that the command line gives, or the target's own."""
    from onward.capture.frontends.front_ends import front_end_of
    from onward.errors import InputError

    from ..inputs.values import ExampleCall, arrange, signature_of

    if what.given.values:
        return arrange(target.model, what.given)
    if target.example is not None:
        return target.example
    if front_end_of(target.model).brings_example:
        return ExampleCall()
    signature = signature_of(target.model)
    takes = f"; it takes ({', '.join(signature.parameters)})" if signature is not None else ""
    if signature is not None and not signature.parameters:
        return ExampleCall()
    first = next(iter(signature.parameters), "x") if signature is not None else "x"
    raise InputError(
        f"the inputs of '{target.name}' are not known{takes}", hint=f'give them: --input "{first}:f32[1,3,224,224]"'
    )
