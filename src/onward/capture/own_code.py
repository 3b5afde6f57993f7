"""The Python code in which a model is written: its modules' globals, and its functions. PyTorch's own is not meant."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import torch

_NOT_THEIRS = frozenset({"torch", "onward", "builtins"})


def namespaces(model: Any) -> list[dict[str, Any]]:
    """The globals of the model's functions."""
    found = {id(each.__globals__): each.__globals__ for each in own_functions(model)}
    return [names for names in found.values() if _package(names.get("__name__")) not in _NOT_THEIRS]


def own_functions(model: Any) -> list[types.FunctionType]:
    """The functions that are called first: the model itself, or the `forward` of its modules' classes."""
    found = [model, getattr(model, "__func__", None)]
    if isinstance(model, torch.nn.Module):
        found = [vars(kind).get("forward") for kind in _kinds(model)]
    return [each for each in found if isinstance(each, types.FunctionType)]


def kept_by_function(function: types.FunctionType) -> list[Any]:
    """What a function keeps from call to call: defaults, what it closes over, and its attributes."""
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    closed = [cell.cell_contents for _, cell in closed_over(function)]
    return [*defaults, *closed, *([function.__dict__] if function.__dict__ else [])]


def closed_over(function: types.FunctionType) -> list[tuple[str, types.CellType]]:
    """The variables of other functions that a function uses, as far as they have a value."""
    named = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return [(name, cell) for name, cell in named if _is_filled(cell)]


def classes(model: Any) -> list[type]:
    """The classes of the model's modules."""
    return sorted(_kinds(model), key=lambda kind: kind.__qualname__) if isinstance(model, torch.nn.Module) else []


def packages(model: Any) -> set[str]:
    """The packages, or scripts, in which it is written."""
    return {_package(names.get("__name__")) for names in namespaces(model)}


def functions(model: Any) -> list[types.FunctionType]:
    """The model's functions and methods, and those of its own packages that its modules have at hand."""
    roots = list(_reached([model], None))
    packages = {_package(each.__module__) for each in roots} - _NOT_THEIRS
    spaces = {id(each.__globals__): each.__globals__ for each in roots if _package(each.__module__) in packages}
    beside = (value for names in spaces.values() for value in list(names.values()))
    found = {id(each): each for each in (*roots, *_reached(beside, packages))}
    return [each for each in found.values() if _package(each.__module__) in packages]


def called(model: Any) -> list[types.FunctionType]:
    """The model's own functions and methods without `__init__`, and what they call by a global name, as far as one can
    see without running them: functions, and methods of classes, of its packages."""
    theirs = packages(model)
    waiting = [each for each in _reached([model], None) if each.__name__ != "__init__"]
    found: dict[int, types.FunctionType] = {}
    while waiting:
        function = waiting.pop()
        if id(function) in found or _package(function.__module__) not in theirs:
            continue
        found[id(function)] = function
        names = [name for code in codes_of(function) for name in code.co_names]
        values = [function.__globals__[name] for name in names if name in function.__globals__]
        waiting += [each for each in _reached(values, theirs) if each.__name__ != "__init__"]
    return list(found.values())


def codes_of(function: types.FunctionType) -> list[types.CodeType]:
    """The code of a function and of the functions inside of it."""
    found, waiting = [], [function.__code__]
    while waiting:
        code = waiting.pop()
        found.append(code)
        waiting += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return found


def _reached(values: Any, packages: set[str] | None) -> Iterator[types.FunctionType]:
    """Functions among the values: methods of classes and modules, and what closures hold, are reached through them.

    Classes count if they are of one of the packages; without any given, only those that modules are made of.
    """
    seen: set[int] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, types.FunctionType):
            yield value
            waiting += [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        elif isinstance(value, torch.nn.Module):
            if packages is None:
                waiting += (each for kind in _kinds(value) for each in vars(kind).values())
        elif isinstance(value, type) and packages and _package(value.__module__) in packages:
            waiting += vars(value).values()


def _kinds(model: torch.nn.Module) -> set[type]:
    kinds = {kind for each in {type(module) for module in model.modules()} for kind in each.__mro__}
    return {kind for kind in kinds if _package(kind.__module__) not in _NOT_THEIRS}


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # its variable has no value yet
        return False


def _package(name: Any) -> str:
    return str(name).split(".")[0]
