"""The dynamic axes of an `ExportedProgram`: its symbols, their bounds, and what follows from them.

A symbol has the name of its `Dim`, or of the axis in `dynamic_axes`, or else PyTorch's own for it (`s77`): programs
that were saved do not know the names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...errors import InputError
from ..call.inputs import AxisNames, Call, solve_roots
from ..call.shapes import AskedAxes
from ..ground.axes import UNBOUNDED, AxisSpace, Bounds, Formula
from .exported_model import ExportedModel, user_inputs

Places = dict[tuple[str, int], Any]  # {(input, axis): the program's expression of its size}


def program_axes(model: ExportedModel, call: Call, asked: AskedAxes) -> AskedAxes:
    """What is asked for, with the axes of the program; what the program has fixed cannot be had."""
    places = dict(_places(model, call))
    symbols = {symbol for expression in places.values() for symbol in expression.free_symbols}
    _check_fixed(model, call, places, asked)
    names = {**_symbol_names(model, symbols), **_chosen_names(model, places, asked)}
    axes: dict[str, AxisNames] = defaultdict(dict)
    formulas: dict[str, Formula] = {}
    made_up: set[str] = set()
    for (name, axis), expression in places.items():
        label = names.get(expression)
        formula = None if label and expression.is_Symbol else _formula(expression, names)
        if label is None:
            label = str(formula) if formula else f"{name}_axis_{axis}"
            made_up |= set() if formula else {label}
        if formula is not None:
            formulas[label] = formula
        axes[name][axis] = label
    given = asked.space.bounds
    bounds = {names[each]: _bounds(model.program, each, given.get(names[each])) for each in symbols}
    made_up |= {str(each) for each in symbols if names[each] == str(each)}
    limited = {label: each for label, each in bounds.items() if each != UNBOUNDED}
    space = AxisSpace(limited, formulas, frozenset(), frozenset(made_up))
    _check_example(call, axes, space)
    return AskedAxes(dict(axes), asked.outputs, space)


def _places(model: ExportedModel, call: Call) -> Iterator[tuple[tuple[str, int], Any]]:
    """Every dynamic axis. Leaves are told by their identity: containers may be flattened in another order there."""
    args, kwargs = call.arguments(call.tensors)
    waiting: dict[int, list[Any]] = defaultdict(list)
    values = {node.name: node.meta.get("val") for node in model.program.graph.nodes if node.op == "placeholder"}
    for spec, leaf in zip(user_inputs(model.program), pytree.tree_leaves((args, kwargs)), strict=True):
        waiting[id(leaf)].append(values.get(spec.name))
    for name, tensor in zip(call.own_names, call.tensors, strict=False):  # buffers come after the arguments
        value = waiting[id(tensor)].pop(0)
        if not isinstance(value, torch.Tensor):
            continue
        _check_tensor(name, tensor, value, model)
        for axis, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt) and size.node.expr.free_symbols:
                yield (name, axis), size.node.expr


def _check_tensor(name: str, tensor: torch.Tensor, expected: torch.Tensor, model: ExportedModel) -> None:
    """The graph was made for one dtype, one number of axes, and the sizes that are fixed."""
    if tensor.dtype is not expected.dtype or tensor.dim() != expected.dim():
        raise InputError(
            f"{name!r} is {_text(tensor, model)}, and the ExportedProgram takes {_text(expected, model)}",
            hint="pass tensors like those that the program was made with",
        )
    sizes: Any = expected.shape
    for axis, (size, fixed) in enumerate(zip(tensor.shape, sizes, strict=True)):
        wanted = int(fixed) if not isinstance(fixed, torch.SymInt) or not fixed.node.expr.free_symbols else size
        if size != wanted:
            raise InputError(
                f"axis {axis} of {name!r} is {size}, and the ExportedProgram has fixed it at {wanted}",
                hint="pass a tensor of that size, or make the axis dynamic in torch.export.export(dynamic_shapes=...)",
            )


def _text(tensor: torch.Tensor, model: ExportedModel) -> str:
    """`float32[batch, 4]`"""
    shape: Any = tensor.shape
    sizes = [_written(size.node.expr, model) if isinstance(size, torch.SymInt) else str(size) for size in shape]
    return f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(sizes)}]"


def _written(expression: Any, model: ExportedModel) -> str:
    """An expression in the names of the Dims."""
    names = _symbol_names(model, expression.free_symbols)
    return names.get(expression) or str(_formula(expression, names) or expression)


def _check_fixed(model: ExportedModel, call: Call, places: Places, asked: AskedAxes) -> None:
    """An axis is dynamic if it is in the program, and fixed if it is there."""
    for name, named in asked.inputs.items():
        for axis, label in named.items():
            if (name, axis) not in places and label not in asked.space.optional:
                size = call.tensors[call.names.index(name)].size(axis)
                raise InputError(
                    f"axis {axis} of {name!r} shall be dynamic ({label!r}), and the ExportedProgram has fixed it at "
                    f"{size}",
                    hint="make it dynamic in torch.export.export(dynamic_shapes=...), or export the model itself",
                )
    for name, axis in sorted(asked.fixed & set(places)):
        raise InputError(
            f"axis {axis} of {name!r} shall be fixed, and it is dynamic in the ExportedProgram "
            f"({_written(places[name, axis], model)})",
            hint="leave it out of dynamic_shapes, or fix it in torch.export.export",
        )


def _symbol_names(model: ExportedModel, symbols: Collection[Any]) -> dict[Any, str]:
    """The names of the Dims that a program was made with, while PyTorch remembers them."""
    names: dict[Any, str] = {symbol: str(symbol) for symbol in symbols}
    for node in model.program.graph.nodes:
        value = node.meta.get("val") if node.op == "placeholder" else None
        for size in value.shape if isinstance(value, torch.Tensor) else ():
            if isinstance(size, torch.SymInt):
                sources = getattr(size.node.shape_env, "source_to_var", {})
                for source, name in getattr(size.node.shape_env, "source_name_to_debug_name", {}).items():
                    if sources.get(source) in names and str(name).isidentifier():
                        names[sources[source]] = str(name)
                return names
    return names


def _chosen_names(model: ExportedModel, places: Places, asked: AskedAxes) -> dict[Any, str]:
    """The names that the caller gives to sizes of the program."""
    chosen: dict[Any, str] = {}
    for (name, axis), expression in places.items():
        label = asked.inputs.get(name, {}).get(axis)
        if label is None or label in asked.space.made_up or label in asked.space.formulas:
            continue
        if chosen.setdefault(expression, label) != label:
            raise InputError(
                f"{chosen[expression]!r} and {label!r} (axis {axis} of {name!r}) are one size in the ExportedProgram "
                f"({_written(expression, model)})",
                hint="give them one name",
            )
    return chosen


def _formula(expression: Any, names: Mapping[Any, str]) -> Formula | None:
    """A sum of multiples of symbols; None for anything else."""
    factors = expression.as_coefficients_dict()
    offset = factors.pop(1, 0)
    terms = tuple((names.get(part), factor) for part, factor in factors.items())
    if not terms or any(name is None or not factor.is_Integer or factor < 1 for name, factor in terms):
        return None
    return Formula(tuple((str(name), int(factor)) for name, factor in terms), int(offset))


def _bounds(program: torch.export.ExportedProgram, symbol: Any, asked: Bounds | None) -> Bounds:
    """The program's own, narrowed by what is asked for."""
    known = program.range_constraints.get(symbol)
    low, high = asked or UNBOUNDED
    if known is None:
        return low, high
    if known.lower.is_Integer:
        low = max(low, int(known.lower))
    if known.upper.is_Integer:
        high = int(known.upper) if high is None else min(high, int(known.upper))
    return low, high


def _check_example(call: Call, axes: Mapping[str, AxisNames], space: AxisSpace) -> None:
    for label, size in solve_roots(call, dict(axes), space).items():
        low, high = space.bounds.get(label, UNBOUNDED)
        if size < low or (high is not None and size > high):
            raise InputError(
                f"{label!r} is {size} in the example, and the ExportedProgram allows {low} "
                + ("and more" if high is None else f"to {high}"),
                hint="use an example within the bounds",
            )
