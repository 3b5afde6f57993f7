"""The Python code in which a model is written: its functions, and the globals of their files. Python's own libraries,
PyTorch's and numpy's are not meant."""

from __future__ import annotations

import collections
import contextlib
import functools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

_NOT_THEIRS = frozenset({"torch", "onward", "builtins"})
_NOT_FOLLOWED = _NOT_THEIRS | {"numpy", "None"} | sys.stdlib_module_names
_CACHING = type(functools.lru_cache(lambda: None))
# Kinds of attributes that no code is reached through; modules have thousands of them.
_NO_FUNCTIONS = frozenset({
    type(None), bool, int, float, str, tuple, list, set, dict, collections.OrderedDict,
    torch.Tensor, torch.nn.Parameter, torch.Size,
})  # fmt: skip
_OF_CLASSES = frozenset({"__init_subclass__", "__class_getitem__", "__new__", "__getattr__", "__dir__", "__reduce__"})
_MOST_ENTRIES = 256  # of a table of functions
_INSTALLED = ("site-packages", "dist-packages")


def namespaces(model: Any) -> list[dict[str, Any]]:
    """The globals of the files in which the model is written, helpers in other files and packages among them."""
    reach = reach_of(model)
    own = {id(each.__globals__): each.__globals__ for each in reach.first}
    theirs = {key: names for key, names in own.items() if _package(names.get("__name__")) not in _NOT_THEIRS}
    return list({**theirs, **reach.files}.values())


def own_functions(model: Any) -> list[types.FunctionType]:
    """The functions that are called first: the model itself, or the `forward` of its modules' classes."""
    found = [model, getattr(model, "__func__", None)]
    if isinstance(model, torch.nn.Module):
        found = [vars(kind).get("forward") for kind in _kinds(model)]
    return [each for each in found if isinstance(each, types.FunctionType)]


def kept_by_function(function: types.FunctionType) -> list[Any]:
    """What a function keeps from call to call: defaults, what it closes over, and what its attributes hold."""
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    closed = [cell.cell_contents for _, cell in closed_over(function)]
    return [*defaults, *closed, *function.__dict__.values()]


def closed_over(function: types.FunctionType) -> list[tuple[str, types.CellType]]:
    """The variables of other functions that a function uses, as far as they have a value."""
    named = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return [(name, cell) for name, cell in named if _is_filled(cell)]


def classes(model: Any) -> list[type]:
    """The classes of the model's modules."""
    return sorted(reach_of(model).kinds, key=lambda kind: kind.__qualname__)


def packages(model: Any) -> set[str]:
    """The packages, or scripts, in which it is written, helpers among them."""
    return {_package(names.get("__name__")) for names in namespaces(model)}


class _OfExport(threading.local):
    reached: dict[int, tuple[Any, Reach]] | None = None


_OF_EXPORT = _OfExport()


@contextlib.contextmanager
def one_reach() -> Iterator[None]:
    """Around an export: what a model reaches is looked for once."""
    before, _OF_EXPORT.reached = _OF_EXPORT.reached, {}
    try:
        yield
    finally:
        _OF_EXPORT.reached = before


def reach_of(model: Any) -> Reach:
    """What the model's code reaches by name; inside of an export, what was found first."""
    known = _OF_EXPORT.reached
    if known is None:
        return Reach(model)
    if id(model) not in known:
        known[id(model)] = model, Reach(model)
    return known[id(model)][1]


def functions(model: Any) -> list[types.FunctionType]:
    """The model's functions and methods, those of its own packages that its modules have at hand, and what they call by
    name in files and packages of others, as far as one can see without running them."""
    roots = list(_reached([model], None))
    packages = {_package(each.__module__) for each in roots} - _NOT_THEIRS
    spaces = {id(each.__globals__): each.__globals__ for each in roots if _package(each.__module__) in packages}
    beside = (value for names in spaces.values() for value in list(names.values()))
    own = [each for each in (*roots, *_reached(beside, packages)) if _package(each.__module__) in packages]
    return list({id(each): each for each in (*own, *reach_of(model).functions)}.values())


class Reach:
    """The functions that a model's `forward` may call, in whatever file, by the names that stand in their code.

    first    the functions that are called first
    kinds    the classes of the model's modules
    files    the globals of the files of `keepers`
    memo     what somebody else has worked out about the rest

    What is kept from run to run is looked for among the `keepers`: the functions of the packages that the model is
    written in, and of files that are not installed. What other libraries keep is theirs, and may be much.

    A method is taken to be called where its name stands in some code that was seen, and a special one (`__call__`)
    where its class does. Modules are called by their `forward`.
    """

    def __init__(self, model: Any) -> None:
        self.first = own_functions(model)
        self.kinds = _kinds(model) if isinstance(model, torch.nn.Module) else set()
        self.memo: dict[str, Any] = {}
        self._own = {_package(each.__module__) for each in (*self.first, *self.kinds)}
        self._found: dict[int, types.FunctionType] = {}
        self.files: dict[int, dict[str, Any]] = {}
        self._values: dict[int, Any] = {}
        self._methods: dict[str, list[Any]] = {}
        self._classes: set[type] = set()
        self._names: set[str] = set()
        self._waiting: list[Any] = list(self.first)
        if isinstance(model, torch.nn.Module):
            for kind in self.kinds:
                self._enter_class(kind, of_modules=True)
            held = _held(model)
            kinds = {type(each) for each in held.values()} - _NO_FUNCTIONS
            things = [each for each in held.values() if type(each) in kinds]
            self._waiting += [each for each in things if isinstance(_function_of(each), types.FunctionType)]
            for kind in kinds:
                self._enter_class(kind)
        while self._waiting:
            for function in _reached([self._waiting.pop()], None):
                if id(function) not in self._found and _is_followed(function.__module__):
                    self._found[id(function)] = function
                    self._enter(function)

    @property
    def functions(self) -> list[types.FunctionType]:
        return list(self._found.values())

    @functools.cached_property
    def keepers(self) -> list[types.FunctionType]:
        return [each for each in self._found.values() if self._is_looked_at(each.__globals__)]

    @functools.cached_property
    def classes(self) -> list[type]:
        """Those that code of the keepers' files may keep something in."""
        modules = [(each, sys.modules.get(each.__module__)) for each in self._classes]
        found = [each for each, module in modules if module is not None and self._is_looked_at(vars(module))]
        return sorted(found, key=lambda kind: kind.__qualname__)

    def _is_looked_at(self, names: dict[str, Any]) -> bool:
        """Whether a file is of the model's own packages, or not installed."""
        if _package(names.get("__name__")) in self._own:
            return True
        file = str(names.get("__file__"))
        return _is_followed(names.get("__name__")) and not any(part in file for part in _INSTALLED)

    @property
    def values(self) -> list[Any]:
        """The globals that code names."""
        return list(self._values.values())

    def _enter(self, function: types.FunctionType) -> None:
        is_looked_at = self._is_looked_at(function.__globals__)
        if is_looked_at and _is_followed(function.__globals__.get("__name__")):
            self.files[id(function.__globals__)] = function.__globals__
        for name in dict.fromkeys(name for code in codes_of(function) for name in code.co_names):
            if name not in self._names:
                self._names.add(name)
                self._waiting += self._methods.get(name, ())
        for value in _named(function, self._values if is_looked_at else {}):
            if isinstance(value, type):
                self._enter_class(value)
            else:
                self._waiting.append(value)

    def _enter_class(self, kind: type, *, of_modules: bool = False) -> None:
        for each in kind.__mro__ if kind not in self._classes else ():
            if each in self._classes or not _is_followed(each.__module__):
                continue
            self._classes.add(each)
            for name, method in vars(each).items():
                self._methods.setdefault(name, []).append(method)
                if name in self._names or (name.startswith("__") and name not in _OF_CLASSES and not of_modules):
                    self._waiting.append(method)


def _is_followed(module: Any) -> bool:
    """Whether code of a module is followed where the model's calls it: Python's own, PyTorch's and numpy's is not."""
    return _package(module) not in _NOT_FOLLOWED


def _held(model: torch.nn.Module) -> dict[int, Any]:
    """What modules keep as attributes, functions among it; no modules or tensors."""
    return {id(value): value for module in model.modules() for value in vars(module).values()}


def _named(function: types.FunctionType, seen: dict[int, Any]) -> list[Any]:
    """What a function's code names: globals, attributes of modules among them, and entries of its tables. The globals
    themselves are put into `seen`."""
    names = dict.fromkeys(name for code in codes_of(function) for name in code.co_names)
    found, waiting = [], [function.__globals__[name] for name in names if name in function.__globals__]
    opened = set()  # modules may name each other
    while waiting:
        value = waiting.pop()
        seen[id(value)] = value
        if isinstance(value, types.ModuleType):
            if _is_followed(value.__name__) and id(value) not in opened:
                opened.add(id(value))
                waiting += [vars(value)[name] for name in names if name in vars(value)]
        elif isinstance(value, (dict, list, tuple)):
            found += list(value.values() if isinstance(value, dict) else value)[:_MOST_ENTRIES]
        else:
            found.append(value)
    return found


def called(model: Any) -> list[types.FunctionType]:
    """The model's own functions and methods without `__init__`, and what they call by name, as far as one can see
    without running them."""
    every = (*_reached([model], None), *reach_of(model).functions)
    return list({id(each): each for each in every if each.__name__ != "__init__"}.values())


def codes_of(function: types.FunctionType) -> list[types.CodeType]:
    """The code of a function and of the functions inside of it."""
    found, waiting = [], [function.__code__]
    while waiting:
        code = waiting.pop()
        found.append(code)
        waiting += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return found


def _reached(values: Any, packages: set[str] | Callable[[Any], bool] | None) -> Iterator[types.FunctionType]:
    """Functions among the values: methods of classes and modules, and what closures hold, are reached through them.

    Classes count if they are of one of the packages; without any given, only those that modules are made of.
    """
    counts = packages if callable(packages) else lambda module: _package(module) in (packages or ())
    seen: set[int] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        value = _function_of(value)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, types.FunctionType):
            yield value
            waiting += [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        elif isinstance(value, torch.nn.Module):
            if packages is None:
                waiting += (each for kind in _kinds(value) for each in vars(kind).values())
        elif isinstance(value, type) and counts(value.__module__):
            waiting += vars(value).values()


def _function_of(value: Any) -> Any:
    """The function behind a method, a property, a cache or a partial call."""
    if isinstance(value, functools.partial):
        return _function_of(value.func)
    if isinstance(value, property):
        return value.fget
    if isinstance(value, (types.MethodType, classmethod, staticmethod)):
        return value.__func__
    return value.__wrapped__ if isinstance(value, _CACHING) else value


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
