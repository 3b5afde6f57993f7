"""The call that is traced: its arguments as named tensors, and the axes that shall stay dynamic."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import InputError
from .tree import Path, Structure, flatten

AxisNames = dict[int, str]


@dataclass(frozen=True)
class Call:
    """A model's arguments: every tensor among them is a graph input, everything else is baked in."""

    leaves: tuple[Any, ...]
    structure: Structure  # of (args, kwargs)
    positions: tuple[int, ...]  # of the tensors among the leaves
    names: tuple[str, ...]  # of the tensors

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        return tuple(self.leaves[i] for i in self.positions)

    def arguments(self, tensors: Sequence[Any]) -> tuple[tuple, dict[str, Any]]:
        """The call with other tensors in place of the given ones."""
        leaves = list(self.leaves)
        for position, tensor in zip(self.positions, tensors, strict=True):
            leaves[position] = tensor
        args, kwargs = self.structure.unflatten(leaves)
        return tuple(args), kwargs


def bind_call(function: Any, args: Any, kwargs: Mapping[str, Any] | None, input_names: Sequence[str] | None) -> Call:
    """Flatten the arguments and name every tensor after the parameter it is passed for."""
    args, kwargs = _split_keywords(function, args, kwargs)
    signature = _signature(function)
    parameter_names = _check_signature(function, signature, args, kwargs)
    leaves, structure = flatten((args, kwargs))
    positions = tuple(i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor))
    defaults = [_leaf_name(structure.paths[i], parameter_names) for i in positions]
    names = _chosen_names(unique_names(defaults), input_names)
    return Call(tuple(leaves), structure, positions, names)


def _split_keywords(function: Any, args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple, dict[str, Any]]:
    """A trailing dict among the arguments holds keyword arguments, as `torch.onnx.export` has always had it."""
    args = args if isinstance(args, tuple) else (args,)
    named = dict(kwargs or {})
    if not args or not isinstance(args[-1], dict):
        return args, named
    trailing = args[-1]
    signature = _signature(function)
    parameters = signature.parameters if signature else {}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if all(isinstance(key, str) and (takes_any or key in parameters) for key in trailing):
        twice = sorted(set(trailing) & set(named))
        if twice:
            raise InputError(f"{', '.join(twice)} given twice: in the trailing dict of args and in kwargs")
        return args[:-1], {**named, **trailing}
    return args, named


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function)
    except (TypeError, ValueError):
        return None


def _check_signature(function: Any, signature: inspect.Signature | None, args: tuple, kwargs: dict) -> list[str]:
    """The parameter name of every positional argument. A call that does not fit is the user's mistake, said early."""
    name = type(function).__name__ if isinstance(function, torch.nn.Module) else getattr(function, "__name__", "model")
    if signature is None:
        return [f"input_{i}" for i in range(len(args))]
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(
            f"the arguments do not fit {name}.forward{signature}: {error}",
            hint=f"args has {len(args)} positional and {len(kwargs)} keyword arguments; "
            "pass a tuple with one entry per parameter of forward",
        ) from error
    positional = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in positional][: len(args)]
    rest = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_POSITIONAL), "input")
    return names + [f"{rest}_{i}" for i in range(len(args) - len(names))]


def _leaf_name(path: Path, parameter_names: list[str]) -> str:
    part, first, *rest = path
    head = parameter_names[int(first)] if part == "0" else first
    return "_".join([head, *rest])


def checked_names(parameter: str, names: Sequence[Any] | None) -> list[str]:
    """Names that a user gives, each a string with something in it."""
    for name in names or []:
        if not isinstance(name, str) or not name:
            raise InputError(f"{parameter} must be a list of non-empty strings, and it has {name!r}")
    return list(names or [])


def unique_names(names: list[str]) -> list[str]:
    seen: set[str] = set()
    result = []
    for name in names:
        candidate, number = name, 1
        while candidate in seen:
            candidate, number = f"{name}_{number}", number + 1
        seen.add(candidate)
        result.append(candidate)
    return result


def _chosen_names(defaults: list[str], chosen: Sequence[str] | None) -> tuple[str, ...]:
    chosen = checked_names("input_names", chosen)
    twice = sorted({name for name in chosen if chosen.count(name) > 1})
    if twice:
        raise InputError(f"input_names has {', '.join(twice)} more than once", hint="every input needs its own name")
    if len(chosen) > len(defaults):
        raise InputError(
            f"input_names has {len(chosen)} names for {len(defaults)} tensor inputs ({', '.join(defaults)})",
            hint="give at most one name per tensor among the arguments",
        )
    return tuple(unique_names([*chosen, *defaults[len(chosen) :]]))


def dynamic_inputs(
    call: Call, dynamic_axes: Mapping[str, Any] | None, output_names: Sequence[str] | None
) -> tuple[dict[str, AxisNames], dict[str, AxisNames]]:
    """`dynamic_axes` in its three forms, checked: the axes of inputs and those asked for on outputs, by name."""
    inputs: dict[str, AxisNames] = {}
    outputs: dict[str, AxisNames] = {}
    for name, axes in (dynamic_axes or {}).items():
        if name in call.names:
            tensor = call.tensors[call.names.index(name)]
            inputs[name] = _axis_names(name, axes, tensor.dim())
        elif not output_names or name in output_names:
            outputs[name] = _axis_names(name, axes, None)
        else:
            raise InputError(
                f"dynamic_axes names {name!r}, which is neither an input ({', '.join(call.names)}) "
                f"nor an output ({', '.join(output_names)})",
                hint="use the names in input_names and output_names, or the parameter names of forward",
            )
    return inputs, outputs


def _axis_names(name: str, axes: Any, rank: int | None) -> AxisNames:
    if isinstance(axes, Mapping):
        pairs = list(axes.items())
    elif isinstance(axes, Sequence) and not isinstance(axes, str):
        pairs = [(axis, f"{name}_axis_{axis % rank if rank and isinstance(axis, int) else axis}") for axis in axes]
    else:
        raise InputError(
            f"dynamic_axes[{name!r}] must be a list of axes or a dict of axis to name, not {type(axes).__name__}"
        )
    result: AxisNames = {}
    for axis, label in pairs:
        if not isinstance(axis, int) or isinstance(axis, bool):
            raise InputError(f"dynamic_axes[{name!r}] has the axis {axis!r}, which is not an integer")
        if rank is not None and not -rank <= axis < rank:
            raise InputError(
                f"dynamic_axes[{name!r}] has axis {axis}, and {name!r} has {rank} axes",
                hint=f"axes run from {-rank} to {rank - 1}" if rank else f"{name!r} is a scalar: it has no axes",
            )
        if not isinstance(label, str) or not label:
            raise InputError(f"dynamic_axes[{name!r}][{axis}] must be a name, not {label!r}")
        result[axis % rank if rank else axis] = label
    return result


def example_sizes(call: Call, axes: dict[str, AxisNames]) -> dict[str, int]:
    """The example's size of every named axis; the same name means the same size."""
    sizes: dict[str, int] = {}
    places: dict[str, str] = {}
    for name, named in axes.items():
        tensor = call.tensors[call.names.index(name)]
        for axis, label in named.items():
            size, place = tensor.size(axis), f"axis {axis} of {name!r}"
            if sizes.setdefault(label, size) != size:
                raise InputError(
                    f"{label!r} is {sizes[label]} on {places[label]} and {size} on {place} of the example",
                    hint="axes of one name must have one size: correct the example, or give them different names",
                )
            if size == 0:
                raise InputError(f"{place} is dynamic and has size 0 in the example", hint="use an example with data")
            places.setdefault(label, place)
    return sizes
