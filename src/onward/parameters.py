"""The parameters of `export`: the one place where their names, types, defaults, meanings and flags stand.

`ExportParameters` is what a type checker knows of a call. Everything else is derived from it: the signature that
`inspect.signature(onward.export)` shows, the text of `help(onward.export)`, the check of names, and the options and
help texts of `onward export`. To add a parameter, add it here, to `ExportOptions` (with the type that it has once it is
checked), and to docs/migrating.md.

This module loads neither PyTorch nor onnx, because `onward --help` does without them.
"""

from __future__ import annotations

import enum
import functools
import inspect
import os
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

from typing_extensions import TypedDict, get_type_hints

# What every check, message and test derives from. A newer opset also needs the kernels of its runtime:
# tools/kernel_types.py makes lower/_kernel_types.py anew.
OLDEST_OPSET = 9
NEWEST_OPSET = 26
# docs/design.md says why.
DEFAULT_OPSET = 20

_WIDTH = 114
_Function = TypeVar("_Function", bound=Callable[..., Any])


class TrainingMode(enum.Enum):
    """The mode in which a model is exported. PyTorch's enum of this name means the same, and True is TRAINING.

    EVAL      as for inference, whatever mode the model is in
    PRESERVE  each module in the mode that it is in
    TRAINING  dropout drops, and batch norms use the statistics of each batch
    """

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """What the nodes of the file are. PyTorch's enum of this name means the same.

    ONNX                ONNX operators; what has no lowering is an error
    ONNX_ATEN           every operator as an ATen node
    ONNX_ATEN_FALLBACK  an ATen node for what has no lowering
    ONNX_FALLTHROUGH    a node of the operator's own domain for what has no lowering
    RAW                 the captured graph as it is
    """

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3
    RAW = 4


@dataclass(frozen=True)
class Parameter:
    """What is known of one parameter.

    default       what an export does if the parameter is not given, or is None
    meaning       one sentence; of a parameter without a meaning, the reason why it has none
    origin        "onward", "torch.onnx", "synonym" (another name of a parameter) or "without meaning"
    flag          what the parameter is called on the command line of `onward export`, if it can be given there
    flag_meaning  one sentence about the flag, where it takes something else than the parameter
    """

    default: Any
    meaning: str
    origin: str
    flag: str | None = None
    flag_meaning: str | None = None
    name: str = ""
    type: Any = Any

    @property
    def on_command_line(self) -> str:
        """What `onward export --help` says."""
        return self.flag_meaning or self.meaning


def _ours(default: Any, meaning: str, flag: str | None = None, flag_meaning: str | None = None) -> Parameter:
    return Parameter(default, meaning, "onward", flag, flag_meaning)


def _classic(default: Any, meaning: str, flag: str | None = None, flag_meaning: str | None = None) -> Parameter:
    return Parameter(default, meaning, "torch.onnx", flag, flag_meaning)


def _synonym(meaning: str) -> Parameter:
    return Parameter(None, meaning, "synonym")


def _without_meaning(reason: str) -> Parameter:
    return Parameter(None, reason, "without meaning")


class ExportParameters(TypedDict, total=False):
    """The parameters of `export` beside the model and its arguments. None means: not given."""

    # The first five may be given by position after `f`, as in every version of PyTorch up to 2.4.
    export_params: Annotated[
        bool | None,
        _classic(True, "False makes the model's parameters inputs of the file, in the order of the state dict."),
    ]
    verbose: Annotated[bool | None, _classic(False, "Print the graph, as print(program) does.")]
    training: Annotated[
        Any,
        _classic(
            TrainingMode.EVAL,
            "The mode in which the model is exported: onward.TrainingMode.EVAL, .TRAINING or .PRESERVE.",
            "--training",
            "Export the model in training mode.",
        ),
    ]
    input_names: Annotated[
        Sequence[str] | None,
        _classic(None, "Names for the first inputs; the other inputs are named after the parameters of forward."),
    ]
    output_names: Annotated[
        Sequence[str] | None,
        _classic(None, "Names for the first outputs.", "--outputs", "Names for the first outputs, such as y,mask."),
    ]

    opset_version: Annotated[
        int | None,
        _classic(
            DEFAULT_OPSET,
            f"The version of ONNX's operators, from {OLDEST_OPSET} to the newest that onnxruntime loads.",
            "--opset",
        ),
    ]
    dynamic_axes: Annotated[
        Mapping[str, Any] | None,
        _classic(
            None,
            'Axes that may vary, such as {"x": {0: "batch"}, "y": [0, 2]}; axes of one name have one size.',
            "--dynamic",
            "Axes that may vary: x:0=batch, or x:0=batch[1..64] with bounds.",
        ),
    ]
    dynamic_shapes: Annotated[
        Any,
        _classic(None, 'Axes that may vary, in any form of torch.export, such as {"x": {0: Dim("batch", max=64)}}.'),
    ]
    external_data: Annotated[
        bool | None,
        _classic(
            None,
            "Write the weights to a file of their own; the default is to do so if the model is over 2 GiB.",
            "--external-data/--one-file",
        ),
    ]
    keep_initializers_as_inputs: Annotated[
        bool | None, _classic(False, "Make the model's parameters inputs of the file that have a default.")
    ]
    do_constant_folding: Annotated[
        bool | None, _classic(True, "Compute what depends on weights alone while the model is exported.")
    ]
    operator_export_type: Annotated[
        Any,
        _classic(OperatorExportTypes.ONNX, "What the nodes are: a member of onward.OperatorExportTypes."),
    ]
    custom_opsets: Annotated[
        Mapping[str, int] | None, _classic(None, "The versions of domains of your own operators, by domain.")
    ]
    custom_translation_table: Annotated[
        Mapping[Any, Any] | None, _classic(None, "Functions that translate operators in this export, by operator.")
    ]
    export_modules_as_functions: Annotated[
        bool | Collection[type] | None,
        _classic(False, "Write all modules, or those of the given classes, as functions of the file."),
    ]
    strip_doc_string: Annotated[
        bool | None, _classic(True, "False adds the line of the model's code to every node as its doc string.")
    ]
    enable_onnx_checker: Annotated[bool | None, _classic(False, "Let onnx's own checker look at the model.")]
    optimize: Annotated[bool | None, _classic(True, "Simplify the graph after the model is translated.")]
    report: Annotated[
        bool | None, _classic(False, "Write a page about the model that opens without a network.", "--report")
    ]
    profile: Annotated[bool | None, _classic(False, "Print how long every stage of the export took.")]
    dump_exported_program: Annotated[bool | None, _classic(False, "Write the captured program as text.")]
    artifacts_dir: Annotated[
        str | os.PathLike[str] | None, _classic(".", "The folder for the page and for the captured program.")
    ]

    verify: Annotated[
        bool | None,
        _classic(
            False,
            "Compare onnxruntime with PyTorch on the example and at other sizes; a difference is an error.",
            "--verify/--no-verify",
        ),
    ]
    allow_static_axes: Annotated[
        bool | None,
        _ours(
            False,
            "Write an axis that the model freezes as a fixed one, with a warning, instead of an error.",
            "--allow-static-axes",
        ),
    ]
    allow_constant_outputs: Annotated[
        bool | None,
        _ours(
            False,
            "Write an output that depends on no input as a constant, instead of an error.",
            "--allow-constant-outputs",
        ),
    ]
    mutable_buffers: Annotated[
        bool | None,
        _ours(False, "Make an input and an output of every buffer that the model changes, such as a KV cache."),
    ]
    quant_format: Annotated[
        str | None,
        _ours("qdq", 'The form of a quantized model: "qdq" is standard ONNX, "linger" is for the chips of that name.'),
    ]

    aten: Annotated[bool | None, _synonym("True is operator_export_type=OperatorExportTypes.ONNX_ATEN.")]
    export_raw_ir: Annotated[bool | None, _synonym("True is operator_export_type=OperatorExportTypes.RAW.")]
    use_external_data_format: Annotated[bool | None, _synonym("True is external_data=True.")]

    dynamo: Annotated[Any, _without_meaning("there is one way to capture a model here, and it needs no choice")]
    fallback: Annotated[Any, _without_meaning("there is one way to capture a model here, and nothing to fall back to")]
    autograd_inlining: Annotated[
        Any,
        _without_meaning(
            "an autograd.Function is written by its symbolic if it has one, otherwise by what it computes"
        ),
    ]
    example_outputs: Annotated[Any, _without_meaning("the outputs are those of the example call, which is run anyway")]
    _retain_param_name: Annotated[Any, _without_meaning("parameters always keep their names")]
    add_node_names: Annotated[Any, _without_meaning("nodes always have names")]
    onnx_shape_inference: Annotated[Any, _without_meaning("shapes are known from running the model")]
    fixed_batch_size: Annotated[
        Any, _without_meaning("an axis is fixed unless dynamic_axes or dynamic_shapes says otherwise")
    ]
    propagate: Annotated[Any, _without_meaning("shapes are known from running the model")]
    google_printer: Annotated[Any, _without_meaning("verbose=True prints one format")]
    use_new_jit_passes: Annotated[Any, _without_meaning("TorchScript's passes are not used")]
    onnxscript_compatibility: Annotated[Any, _without_meaning("onnxscript is not used")]


def _declared() -> dict[str, Parameter]:
    found = {}
    for name, annotation in get_type_hints(ExportParameters, include_extras=True).items():
        kind, parameter = annotation.__origin__, annotation.__metadata__[0]
        found[name] = replace(parameter, name=name, type=kind)
    return found


# Every parameter by name, in the order of the declaration.
PARAMETERS: Mapping[str, Parameter] = _declared()
POSITIONAL = tuple(PARAMETERS)[:5]
ACTING = tuple(name for name, each in PARAMETERS.items() if each.origin in ("onward", "torch.onnx"))
WITHOUT_MEANING = {name: each.meaning for name, each in PARAMETERS.items() if each.origin == "without meaning"}


def with_parameters(function: _Function) -> _Function:
    """Give a function that takes `**parameters: Unpack[ExportParameters]` the signature and the text of all of them.

    The five that may be given by position stand in the place of `*positional`.
    """
    kinds = inspect.Parameter
    signature = inspect.signature(function, eval_str=True)
    own = list(signature.parameters.values())

    def declared(names: Collection[str], kind: Any) -> list[inspect.Parameter]:
        return [kinds(name, kind, default=PARAMETERS[name].default, annotation=PARAMETERS[name].type) for name in names]

    by_name = [name for name in PARAMETERS if name not in POSITIONAL]
    taken = [
        *(each for each in own if each.kind is each.POSITIONAL_OR_KEYWORD),
        *declared(POSITIONAL, kinds.POSITIONAL_OR_KEYWORD),
        *(each for each in own if each.kind is each.KEYWORD_ONLY),
        *declared(by_name, kinds.KEYWORD_ONLY),
    ]
    function.__signature__ = signature.replace(parameters=taken)  # type: ignore[attr-defined]
    function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{described()}"
    return function


@functools.cache
def described() -> str:
    """What every parameter means, as `help(onward.export)` shows it."""
    of = {origin: [each for each in PARAMETERS.values() if each.origin == origin] for origin in _TITLES}
    parts = [f"{title}\n\n{_table(of[origin])}" for origin, title in _TITLES.items()]
    return "\n\n".join([*parts, "docs/migrating.md says more about every parameter of `torch.onnx.export`."])


_TITLES = {
    "torch.onnx": "The parameters of `torch.onnx.export`, of today and of older versions:",
    "onward": "The parameters that onward adds:",
    "synonym": "Older names:",
    "without meaning": "Parameters that are accepted and have no meaning here; each of them warns once:",
}


def _table(rows: Sequence[Parameter]) -> str:
    width = max(len(each.name) for each in rows) + 2
    return "\n".join(
        textwrap.fill(each.meaning, _WIDTH, initial_indent=each.name.ljust(width), subsequent_indent=" " * width)
        for each in rows
    )
