"""The call that is traced: its arguments as named tensors, and the axes that shall stay dynamic."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ...errors import InputError, UnknownNameError
from ..ground.axes import AxisSpace
from ..ground.names import encodable, is_encodable
from ..ground.tree import Path, Structure, flatten
from .signature import is_script, script_signature
from .weights import Weight, parameter_count

AxisNames = dict[int, str]
NAMES_HINT = "use the names in input_names and output_names, or the parameter names of forward"


@dataclass(frozen=True)
class Call:
    """A model's arguments: every tensor among them is a graph input, everything else is baked in."""

    leaves: tuple[Any, ...]
    structure: Structure  # of (args, kwargs)
    positions: tuple[int, ...]  # of the tensors among the leaves
    names: tuple[str, ...]  # of the tensors
    keys: tuple[str, ...]  # of all leaves: the parameter, and the way to the leaf inside it
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of the parameters that have one
    weight_names: tuple[str, ...] = ()  # names that are left over for parameters
    signature: inspect.Signature | None = None
    remarks: tuple[str, ...] = ()  # how arguments were understood, worth saying if the model refuses them
    state: tuple[Weight, ...] = ()  # buffers that are inputs too, after the arguments; `names` has them last
    written: tuple[int, ...] = ()  # of the tensors among the arguments: those whose new content is an output

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of the tensors among the arguments."""
        return self.names[: len(self.positions)]

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The tensors among the arguments, then the buffers."""
        return (*(self.leaves[i] for i in self.positions), *(each.tensor for each in self.state))

    @property
    def by_parameter(self) -> dict[str, Any]:
        """Every leaf under its parameter, however it was passed."""
        return dict(zip(self.keys, self.leaves, strict=True))

    def arguments(self, tensors: Sequence[Any]) -> tuple[tuple, dict[str, Any]]:
        """The call with other tensors in place of the given ones; those for the buffers are no arguments."""
        leaves = list(self.leaves)
        for position, tensor in zip(self.positions, tensors, strict=not self.state):
            leaves[position] = tensor
        args, kwargs = self.structure.unflatten(leaves)
        return tuple(args), kwargs


def bind_call(function: Any, args: Any, kwargs: Mapping[str, Any] | None, input_names: Sequence[str] | None) -> Call:
    """Flatten the arguments and name every tensor after the parameter it is passed for."""
    given = args
    args, kwargs = _split_keywords(function, args, kwargs)
    signature = _signature(function)
    parameter_names = _check_signature(function, signature, args, kwargs, given)
    leaves, structure = flatten((args, kwargs))
    positions = tuple(i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor))
    keys = unique_names([_leaf_name(path, parameter_names) for path in structure.paths])
    for i in positions:
        _check_tensor(keys[i], leaves[i])
    _check_device([leaves[i] for i in positions])
    names, weight_names = _chosen_names(function, [encodable(keys[i]) for i in positions], input_names)
    remarks = _remarks(given, args, parameter_names, keys, leaves)
    parameters = signature.parameters.values() if signature else ()
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
    return Call(tuple(leaves), structure, positions, names, tuple(keys), defaults, weight_names, signature, remarks)


def _check_tensor(name: str, tensor: torch.Tensor) -> None:
    if tensor.is_nested or tensor.layout is not torch.strided or tensor.is_quantized:
        kind = "quantized" if tensor.is_quantized else "nested" if tensor.is_nested else str(tensor.layout)
        raise InputError(
            f"the tensor for {name!r} is {kind.removeprefix('torch.').removeprefix('_')}, and inputs of an ONNX model "
            "are dense",
            hint="pass a dense tensor, and convert it inside the model if need be",
        )
    if _PARTIAL.fullmatch(str(tensor.dtype)):
        raise InputError(
            f"the tensor for {name!r} is of {tensor.dtype}, which PyTorch has no operators for",
            hint="pass it as torch.uint8, and take the bits apart inside the model",
        )


# Types of less than a byte, or of bits without a meaning: PyTorch cannot even copy most of them.
_PARTIAL = re.compile(r"torch\.(u?int[1-7]|bits\d+(x\d+)?|qu?int\w+|float4\w*)")


def _check_device(tensors: list[torch.Tensor]) -> None:
    """Under the default device "meta" every tensor that is made without a device has no data, ours among them."""
    if torch.get_default_device().type == "meta" and any(each.device.type != "meta" for each in tensors):
        raise InputError(
            'the default device is "meta", on which tensors have no data, and the example is on '
            f"{next(each.device.type for each in tensors if each.device.type != 'meta')!r}",
            hint='export outside of `with torch.device("meta")`, or call torch.set_default_device(None) first',
        )


def _remarks(given: Any, args: tuple, parameters: list[str], keys: list[str], leaves: list[Any]) -> tuple[str, ...]:
    """What a user may have meant otherwise."""
    remarks = []
    if isinstance(given, list):
        remarks.append(f"args is a list, which is one argument ({parameters[0]!r}); pass a tuple for several")
    elif args and isinstance(args[-1], dict) and len(args) > 1 and all(isinstance(key, str) for key in args[-1]):
        remarks.append(
            f"the dict at the end of args was passed for {parameters[-1]!r}: not all of its keys "
            f"({', '.join(args[-1])}) are parameters of the model"
        )
    arrays = [key for key, leaf in zip(keys, leaves, strict=True) if type(leaf).__module__ == "numpy"]
    if arrays:
        remarks.append(f"{', '.join(map(repr, arrays))} came as numpy; pass tensors: torch.from_numpy(...)")
    if not remarks and not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        remarks.append("there is no tensor among args, so the model has no input")
    return tuple(remarks)


def _split_keywords(function: Any, args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple, dict[str, Any]]:
    """A trailing dict among the arguments holds keyword arguments, as `torch.onnx.export` has always had it."""
    if not (kwargs is None or isinstance(kwargs, Mapping)):
        raise InputError(
            f"kwargs must be a dict of keyword arguments, not {type(kwargs).__name__}", hint='try kwargs={"mask": mask}'
        )
    args = tuple(args) if isinstance(args, tuple) else (args,)  # a named tuple is a tuple of arguments, too
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
            raise InputError(
                f"{', '.join(map(repr, twice))} given twice: in the dict at the end of args and in kwargs",
                hint="pass keyword arguments in one of the two",
            )
        return args[:-1], {**named, **trailing}
    return args, named


def _signature(function: Any) -> inspect.Signature | None:
    if is_script(function):
        return script_signature(function)
    told = getattr(function, "__signature__", None)  # a module whose forward is made at run time says what it takes
    if isinstance(function, torch.nn.Module) and isinstance(told, inspect.Signature):
        return told
    try:
        return inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function)
    except (TypeError, ValueError):
        return None


def _check_signature(
    function: Any, signature: inspect.Signature | None, args: tuple, kwargs: dict, given: Any
) -> list[str]:
    """The parameter name of every positional argument. A call that does not fit is the user's mistake, said early."""
    is_module = isinstance(function, torch.nn.Module)
    name = f"{type(function).__name__}.forward" if is_module else getattr(function, "__name__", "the model")
    if signature is None:
        return [f"input_{i}" for i in range(len(args))]
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        counted = f"{len(args)} positional and {len(kwargs)} keyword argument{'s' * (len(kwargs) != 1)} given"
        advice = "args is a list, which is one argument" if isinstance(given, list) else counted
        if isinstance(given, tuple) and hasattr(given, "_fields"):
            advice = "args is a named tuple, each field of which is one argument"
        raise InputError(
            f"the arguments do not fit {name}{_without_types(signature)}: {error}",
            hint=f"{advice}; pass a tuple with one entry per parameter, and keyword arguments in kwargs",
        ) from error
    positional = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in positional][: len(args)]
    rest = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_POSITIONAL), "input")
    return names + [f"{rest}_{i}" for i in range(len(args) - len(names))]


def _without_types(signature: inspect.Signature) -> inspect.Signature:
    """`(x, mask=None)`: with the types of a large model's forward, nobody would find the parameter."""
    bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    return signature.replace(parameters=bare, return_annotation=signature.empty)


def _leaf_name(path: Path, parameter_names: list[str]) -> str:
    part, first, *rest = path
    head = parameter_names[int(first)] if part == "0" else first
    return "_".join([head, *rest])


def checked_names(parameter: str, names: Sequence[Any] | None) -> list[str]:
    """Names that a user gives, each a string with something in it."""
    for name in names or []:
        if not isinstance(name, str) or not name:
            raise InputError(
                f"{parameter} must be a list of non-empty strings, and it has {name!r}",
                hint="the names of the first few are enough; those without one are named for you",
            )
        if not is_encodable(name):
            raise _not_encodable(parameter, name)
    return list(names or [])


def _not_encodable(parameter: str, name: str) -> InputError:
    return InputError(
        f"{parameter} has the name {name!r}, which has no form in UTF-8", hint="leave out the lone surrogates"
    )


def unique_names(names: list[str]) -> list[str]:
    """A name belongs to the first that has it; others add `_1`, `_2`, ..., passing over what is somebody's name."""
    taken = set(names)
    seen: set[str] = set()
    result = []
    for name in names:
        candidate, number = name, 1
        while candidate in seen or (candidate != name and candidate in taken):
            candidate, number = f"{name}_{number}", number + 1
        seen.add(candidate)
        result.append(candidate)
    return result


def _chosen_names(
    function: Any, defaults: list[str], chosen: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names for the inputs, and names that run on into the parameters."""
    chosen = checked_names("input_names", chosen)
    twice = sorted({name for name in chosen if chosen.count(name) > 1})
    if twice:
        raise InputError(
            f"input_names has {', '.join(map(repr, twice))} more than once", hint="every input needs its own name"
        )
    count = len(defaults)
    parameters = parameter_count(function) if len(chosen) > count else 0
    if len(chosen) > count + parameters:
        raise InputError(
            f"input_names has {len(chosen)} names, and there {'is' if count == 1 else 'are'} {count} "
            f"tensor{'s' * (count != 1)} among the arguments ({', '.join(defaults) or 'none'})"
            + (f" and {parameters} parameter{'s' * (parameters != 1)} in the model" if parameters else ""),
            hint="give at most one name per tensor" + (" and parameter; buffers keep theirs" if parameters else ""),
        )
    return tuple(unique_names([*chosen[:count], *defaults[len(chosen) :]])), tuple(chosen[count:])


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
            raise nobodys_axes(name, call.names, output_names)
    return inputs, outputs


def nobodys_axes(name: str, inputs: Iterable[str], outputs: Iterable[str]) -> UnknownNameError:
    """`dynamic_axes` has a name that neither an input nor an output has."""
    known = f"neither an input ({', '.join(inputs)}) nor an output ({', '.join(outputs)})"
    return UnknownNameError(f"dynamic_axes names {name!r}, which is {known}", name=name, known=known, hint=NAMES_HINT)


def check_axis(name: str, axis: int, rank: int) -> int:
    """The axis counted from the front."""
    if not -rank <= axis < rank:
        raise InputError(
            f"dynamic_axes[{name!r}] has axis {axis}, and {name!r} has {rank} ax{'i' if rank == 1 else 'e'}s",
            hint=f"axes run from {-rank} to {rank - 1}" if rank else f"{name!r} is a scalar: it has no axes",
        )
    return axis % rank


def _axis_names(name: str, axes: Any, rank: int | None) -> AxisNames:
    if isinstance(axes, Mapping):
        pairs = list(axes.items())
    elif isinstance(axes, Sequence) and not isinstance(axes, str):
        pairs = [(axis, f"{name}_axis_{axis % rank if rank and isinstance(axis, int) else axis}") for axis in axes]
    else:
        raise InputError(
            f"dynamic_axes[{name!r}] must be a list of axes or a dict of axis to name, not {axes!r}",
            hint=f'try dynamic_axes={{{name!r}: {{0: "batch"}}}}',
        )
    result: AxisNames = {}
    for axis, label in pairs:
        if not isinstance(axis, int) or isinstance(axis, bool):
            raise InputError(
                f"dynamic_axes[{name!r}] has the axis {axis!r}, which is not an integer",
                hint="axes are numbers: {0: 'batch'}",
            )
        if not isinstance(label, str) or not label:
            raise InputError(f"dynamic_axes[{name!r}][{axis}] must be a name, not {label!r}", hint='such as "batch"')
        if not is_encodable(label):
            raise _not_encodable(f"dynamic_axes[{name!r}]", label)
        place = axis if rank is None else check_axis(name, axis, rank)
        if result.setdefault(place, label) != label:
            raise InputError(
                f"dynamic_axes[{name!r}] names axis {place} twice: {result[place]!r} and {label!r}",
                hint=f"axis {axis} of {name!r} is axis {place}; keep one of the names",
            )
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


def solve_roots(call: Call, axes: dict[str, AxisNames], space: AxisSpace) -> dict[str, int]:
    """The example's size of every axis that others follow or that follows none, on an axis itself or not."""
    sizes = example_sizes(call, axes)
    roots = {label: size for label, size in sizes.items() if label not in space.formulas}
    for label, formula in space.formulas.items():
        if label not in sizes:
            continue
        place = next(f"axis {i} of {n!r}" for n, named in axes.items() for i, each in named.items() if each == label)
        missing = [root for root in formula.names if root not in roots]
        if len(missing) == 1:
            solved = formula.solved_for(missing[0], sizes[label], roots)
            if solved is None:
                raise InputError(
                    f"{place} is {label!r}, and no size of {missing[0]!r} gives the example's {sizes[label]}",
                    hint="correct the example, or the Dim",
                )
            roots[missing[0]] = solved
        elif formula.at(roots) != sizes[label]:
            known = ", ".join(f"{root!r} is {roots[root]}" for root in formula.names)
            raise InputError(
                f"{place} is {label!r}, and its size in the example is {sizes[label]}: {known}, "
                f"so it must be {formula.at(roots)}",
                hint="correct the example, or the Dim",
            )
    return roots
