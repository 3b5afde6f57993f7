"""An `ExportedProgram` as a model like any other: a module with the program's weights, called as the original was.

What a program adds to a model is said by its signature: example inputs, dynamic axes with bounds, and arguments that
it was made for.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, SymIntArgument
from torch.utils import _pytree as pytree

from ...errors import InputError
from ...options import ExportOptions
from ...parameters import TrainingMode
from ..call.inputs import Call
from ..call.shapes import AskedAxes
from ..decisions.decisions import CaptureWarning
from ..ground.source import warn_user
from ..program.facts import caution
from .exported_axes import program_axes
from .exported_model import ExportedModel, user_inputs, with_signature
from .front_end import PythonModel, is_none_given
from .graph_modules import class_name, nested_like, source_of

_NAMED = "call it as the model was called for torch.export.export, with tensors of the same dtype and number of axes"


class Exported(PythonModel):
    """A `torch.export.ExportedProgram`, or the module that was made of it."""

    brings_example = True
    has_own_classes = False
    is_slow_to_copy = True
    has_changed_inputs = True

    def takes(self, model: Any) -> bool:
        return isinstance(model, (torch.export.ExportedProgram, ExportedModel))

    def opened(self, model: Any) -> ExportedModel:
        return model if isinstance(model, ExportedModel) else as_module(model)

    def signature(self, model: Any) -> inspect.Signature | None:
        return model.signature if isinstance(model, ExportedModel) else _signature(model)

    def example(
        self, model: Any, args: Any, kwargs: Mapping[str, Any] | None, options: ExportOptions
    ) -> tuple[Any, Mapping[str, Any] | None, ExportOptions]:
        given = _own_example(model.program) if is_none_given(args, kwargs) else (args, kwargs)
        return *_own_call(model, *given), options

    def axes(self, model: Any, call: Call, asked: AskedAxes) -> AskedAxes:
        return program_axes(model, call, asked)

    def check_mode(self, model: Any, asked: TrainingMode) -> None:
        _check_mode(model, asked)

    def changed_inputs(self, model: Any) -> list[str]:
        said = model.program.graph_signature
        returned = set(said.user_outputs)
        return [name for new, name in said.user_inputs_to_mutate.items() if new not in returned]


def as_module(program: torch.export.ExportedProgram) -> ExportedModel:
    """The program as a module, with parameters, buffers and constants under the names that they have in it."""
    generated = _module_of(program)
    model = type(_original_name(program), (ExportedModel,), {})()
    model.program, model.generated, model.signature = program, (generated,), _signature(program)
    model.forward = with_signature(model.forward, model.signature)
    signature = program.graph_signature
    kept = [*program.state_dict, *(name for name in program.constants if name not in program.state_dict)]
    for name in kept:
        tensor = _attribute(generated, name)
        if not isinstance(tensor, torch.Tensor):
            continue  # an object of another kind that the graph reads, or nothing of the graph's
        *path, last = name.split(".")
        home: torch.nn.Module = model
        for part in path:
            if part not in home._modules:
                home.add_module(part, torch.nn.Module())
            home = home.get_submodule(part)
        if isinstance(tensor, torch.nn.Parameter):
            home.register_parameter(last, tensor)
        else:
            persistent = name in program.state_dict and name not in signature.non_persistent_buffers
            home.register_buffer(last, tensor, persistent=persistent)
    return model


def _module_of(program: torch.export.ExportedProgram) -> torch.fx.GraphModule:
    checks = {} if "check_guards" not in inspect.signature(program.module).parameters else {"check_guards": False}
    generated = program.module(**checks)
    generated._forward_pre_hooks.clear()  # PyTorch's checks of the inputs; ours come before, in words for people
    generated._forward_pre_hooks_with_kwargs.clear()
    return generated


def _attribute(module: torch.nn.Module, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _original_name(program: torch.export.ExportedProgram) -> str:
    for node in program.graph.nodes:
        for path, kind in (node.meta.get("nn_module_stack") or {}).values():
            if path == "":
                return class_name(kind)
    return "ExportedProgram"


def _signature(program: torch.export.ExportedProgram) -> inspect.Signature:
    """The parameters by their names, as far as the program knows them."""
    in_spec = program.call_spec.in_spec
    positional, named = in_spec.children()
    names = list(program.module_call_graph[0].signature.forward_arg_names or ())
    if len(names) != positional.num_children + named.num_children:
        names = [f"input_{i}" for i in range(positional.num_children)] + list(named.context)
    kinds = inspect.Parameter
    return inspect.Signature(
        [
            *(kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in names[: positional.num_children]),
            *(kinds(name, kinds.KEYWORD_ONLY) for name in named.context),
        ]
    )


# --- the call --------------------------------------------------------------------------------------------------------
def _own_example(program: torch.export.ExportedProgram) -> tuple[Any, dict[str, Any]]:
    if program.example_inputs is None:
        raise InputError("the ExportedProgram has no example inputs", hint="pass them in args, and in kwargs")
    return program.example_inputs


def _own_call(model: ExportedModel, args: Any, kwargs: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """The arguments, if the program was made for such."""
    given = args, kwargs
    args = args if isinstance(args, tuple) else (args,)
    if not kwargs and args and isinstance(args[-1], dict) and set(args[-1]) == set(_keywords(model)):
        args, kwargs = args[:-1], args[-1]
    try:
        arguments = model.signature.bind(*args, **(kwargs or {})).arguments
    except TypeError:
        return given  # `bind_call` says it of every model
    in_spec = model.program.call_spec.in_spec
    leaves, structure = pytree.tree_flatten(nested_like(in_spec, list(arguments.values())))
    if structure != in_spec:
        raise InputError(
            f"the arguments are {_nesting(model, leaves, structure)}, and the ExportedProgram takes "
            f"{_nesting(model, [None] * in_spec.num_leaves, in_spec)}",
            hint=_NAMED,
        )
    leaves = [_fitting(spec, leaf) for spec, leaf in zip(user_inputs(model.program), leaves, strict=True)]
    return pytree.tree_unflatten(leaves, structure)


def _nesting(model: ExportedModel, leaves: list[Any], structure: pytree.TreeSpec) -> str:
    """`x, state[0], state[1]`"""
    args, kwargs = pytree.tree_unflatten(leaves, structure)
    named = dict(zip(model.signature.parameters, [*args, *kwargs.values()], strict=True))
    found = [(name, path) for name, value in named.items() for path, _ in pytree.tree_leaves_with_path(value)]
    return ", ".join(f"{name}{pytree.keystr(path)}" for name, path in found) or "none"


def _keywords(model: ExportedModel) -> list[str]:
    return [each.name for each in model.signature.parameters.values() if each.kind is each.KEYWORD_ONLY]


def _fitting(spec: Any, leaf: Any) -> Any:
    """A leaf of the arguments, if the program was made for it; a number that may vary becomes an input."""
    if isinstance(spec, SymIntArgument):
        return leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)
    if isinstance(spec, ConstantArgument) and not isinstance(leaf, torch.Tensor) and leaf != spec.value:
        raise InputError(
            f"{spec.name!r} is {leaf!r}, and the ExportedProgram was made for {spec.value!r}",
            hint="what is not a tensor is part of the program: make another one with torch.export.export",
        )
    return leaf


# --- the mode --------------------------------------------------------------------------------------------------------
def _check_mode(model: ExportedModel, asked: TrainingMode) -> None:
    """The mode of a program was decided when it was made. Say so where it is another one than is asked for."""
    if asked is TrainingMode.PRESERVE:
        return
    trains = next((node for node in model.program.graph.nodes if _trains(node)), None)
    if trains is None and asked is TrainingMode.TRAINING:
        warn_user(
            caution(
                "training=TrainingMode.TRAINING has no meaning here: the ExportedProgram was made of a model in eval "
                "mode, or of one for which the mode makes no difference",
                "The file is the model in eval mode",
                "call model.train() before torch.export.export",
            ),
            CaptureWarning,
        )
    elif trains is not None and asked is TrainingMode.EVAL:
        where = source_of(trains)
        warn_user(
            caution(
                f"the ExportedProgram was made of a model in training mode ({trains.target}"
                + (f" at {where}" if where else "")
                + "), and is exported so",
                "The file is the model in training: dropout drops, and batches are normalised by themselves",
                "call model.eval() before torch.export.export",
            ),
            CaptureWarning,
        )


def _trains(node: torch.fx.Node) -> bool:
    """Whether a node does what only a model in training does."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    flags = [each.name for each in node.target._schema.arguments]
    name = next((flag for flag in ("train", "training") if flag in flags), None)
    if name is None:
        return False
    place = flags.index(name)
    return bool(node.args[place] if place < len(node.args) else node.kwargs.get(name, False))
