"""The tensors of a model's state dict: what they are called, and whether they are followed like inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from ...errors import InputError
from ...options import ExportOptions
from ..ground.names import encodable
from ..ground.operator_schemas import draws


@dataclass(frozen=True, slots=True)
class Weight:
    """A parameter or a buffer under its first name: a tied weight is one tensor."""

    name: str  # in the file; the state dict's own unless the user chose another
    key: str  # in the state dict
    tensor: torch.Tensor
    kind: str  # "parameter" | "buffer"
    persistent: bool = True  # in the state dict
    aliases: tuple[str, ...] = ()  # other keys of a tied weight


@dataclass(frozen=True, slots=True)
class Weights:
    """A model's state in the order of `state_dict()`. Live weights are read by the graph as they are: nothing is folded
    into them, and what the model computes from them is recorded."""

    state: tuple[Weight, ...] = ()
    live: bool = False
    fed: bool = False  # whoever runs the file may give other weights


def weights_of(model: Any, *, live: bool = False, fed: bool = False, names: Sequence[str] = ()) -> Weights:
    """The state of a module, or of the module that a bound method belongs to. `names` go to the first parameters."""
    module = owner(model)
    if module is None:
        return Weights()
    chosen, taken, state = iter(names), set(names), []
    for weight in _state(module):
        name = next(chosen, None) if weight.kind == "parameter" else None
        if name is None:
            name, number = weight.name, 1
            while name in taken:
                name, number = f"{weight.name}_{number}", number + 1
        taken.add(name)
        state.append(dataclasses.replace(weight, name=name))
    return Weights(tuple(state), live, fed)


def owner(model: Any) -> torch.nn.Module | None:
    """The module whose weights a call reads: the model, or what `model.encode` belongs to. A function has none."""
    module = getattr(model, "__self__", model)
    return module if isinstance(module, torch.nn.Module) else None


def check_has_weights(model: Any, parameter: str) -> None:
    """Refuse to make inputs of weights that nobody can list."""
    if owner(model) is None:
        raise InputError(
            f"{parameter} makes inputs of a model's parameters, and {getattr(model, '__name__', 'the model')!r} is a "
            "function, which has none of its own",
            hint=f"export the nn.Module that it calls, or leave out {parameter}",
        )


def parameter_count(model: Any) -> int:
    """How many parameters a model has, tied ones once."""
    module = owner(model)
    return 0 if module is None else sum(weight.kind == "parameter" for weight in _state(module))


def chosen_weights(model: Any, options: ExportOptions, names: Sequence[str]) -> Weights:
    """The state as an export asks for it. A model in training keeps its weights apart: somebody will train them."""
    if not options.export_params:
        check_has_weights(model, "export_params=False")
    if options.keep_initializers_as_inputs:
        check_has_weights(model, "keep_initializers_as_inputs=True")
    module = owner(model)
    training = module is not None and any(getattr(each, "training", False) for each in module.modules())
    fed = options.keep_initializers_as_inputs or not options.export_params
    return weights_of(model, live=fed or training or not options.do_constant_folding, fed=fed, names=names)


def _state(module: torch.nn.Module) -> list[Weight]:
    """As `state_dict()` has it: module by module, its parameters and then its buffers. Each tensor once."""
    found: dict[int, Weight] = {}
    for path, each in module.named_modules(remove_duplicate=False):
        hidden = each._non_persistent_buffers_set
        for kind, tensors in (("parameter", each._parameters), ("buffer", each._buffers)):
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                key = f"{path}.{name}" if path else name
                _check_weight(key, tensor, kind)
                known = found.get(id(tensor))
                if known is not None:
                    found[id(tensor)] = dataclasses.replace(known, aliases=(*known.aliases, key))
                else:
                    found[id(tensor)] = Weight(
                        encodable(key), key, tensor, kind, kind == "parameter" or name not in hidden
                    )
    return list(found.values())


def _check_weight(key: str, tensor: torch.Tensor, kind: str) -> None:
    """Refuse what has no memory that a file could hold."""
    if torch.nn.parameter.is_lazy(tensor):
        raise InputError(
            f"the {kind} {key!r} has no shape yet: it belongs to a lazy module that was never called",
            hint="call the model once first, with inputs like the example's",
        )
    if tensor.is_nested or tensor.layout is not torch.strided:
        form = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.").removeprefix("_")
        raise InputError(
            f"the {kind} {key!r} is a {form} tensor, and tensors of an ONNX model are dense",
            hint="keep it in the model as a dense tensor: to_dense(), or to_padded_tensor() for a nested one",
        )


_VARIES = "varies"  # in what a node knows of itself: an input or a random number reaches it


def is_made_of_weights(node: Any) -> bool:
    """Whether a value is computed from weights alone: no input, no size of one, no random number.

    Nodes that are not keep a mark, so that asking it of every value of a long trace takes no longer and longer.
    """
    if not isinstance(node, fx.Node):
        return False
    waiting: list[fx.Node] = [node]
    seen: dict[fx.Node, fx.Node | None] = {node: None}  # with the node that takes it
    while waiting:
        each: fx.Node | None = waiting.pop()
        assert each is not None
        is_random = isinstance(each.target, OpOverload) and draws(each.target, each.args, each.kwargs)
        if each.op == "placeholder" or is_random or _VARIES in each.meta:
            while each is not None:
                each.meta[_VARIES] = True
                each = seen[each]
            return False
        for taken in each.all_input_nodes:
            if taken not in seen:
                seen[taken] = each
                waiting.append(taken)
    return any(each.op == "get_attr" for each in seen)
