"""`int(tensor)` and `float(tensor)` as numbers that the graph computes.

Python insists that `__int__` and `__float__` give plain numbers, so nothing that they return remembers where it comes
from. The names cannot be other functions either, as `len` can (`lengths.py`): `int` is also a type, in
`isinstance(n, int)` or `dtype=float`. But since Python 3.11 the instruction that loads a name says whether the name is
about to be called. So the model's own functions run, while they are traced, with code in which exactly the calls go to
the functions below. For all that is neither a tensor nor a number from data these do what Python's do.

Some code needs a plain number for good: as a key, in the name of an attribute. It fails with ours, and the model is
traced once more as it is written (`Freedom.conversions`), with the warning that a number was read out.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import math
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from .own_code import functions
from .sizes import SYMBOLIC, Computed, Size, size_lines, symbol

if TYPE_CHECKING:
    from .tracer import Tracer


def _number(value: Any) -> Any:
    """The number from data that a value is or holds; None if it is something else."""
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
        value = value.item()
    return value if isinstance(value, SYMBOLIC) and size_lines(value.node) else None


def _counted(number: Any) -> Any:
    """True and False as 1 and 0."""
    if not isinstance(number, torch.SymBool):
        return number
    size = number.node
    return symbol(Size(size.tracer, tuple(map(int, size.values)), Computed(torch.sym_int, (size,))))


def _int(plain: Any, value: Any) -> Any:
    number = _number(value)
    if number is None:
        return plain(value)
    return math.trunc(number) if isinstance(number, torch.SymFloat) else _counted(number)


def _float(plain: Any, value: Any) -> Any:
    number = _number(value)
    return plain(value) if number is None else torch.sym_float(_counted(number))


def _isinstance(plain: Any, value: Any, kinds: Any) -> bool:
    """What stands for a number is one."""
    number = value.node.values[0] if isinstance(value, SYMBOLIC) and size_lines(value.node) else value
    return plain(value, kinds) or plain(number, kinds)


def _divmod(plain: Any, one: Any, other: Any) -> Any:
    followed = any(isinstance(each, SYMBOLIC) and size_lines(each.node) for each in (one, other))
    return (one // other, one % other) if followed else plain(one, other)


# What is called in place of Python's function, which comes first among the arguments, and how many follow it.
_FOLLOWING: dict[str, tuple[Callable[..., Any], int]] = {
    "int": (_int, 1),
    "float": (_float, 1),
    "isinstance": (_isinstance, 2),
    "divmod": (_divmod, 2),
}


def _hidden(name: str) -> str:
    """What the rewritten code calls it."""
    return f"__onward_{name}__"


def _following(tracer: Tracer, name: str) -> Callable[..., Any]:
    plain, (function, count), thread = getattr(builtins, name), _FOLLOWING[name], threading.get_ident()

    def following(*args: Any, **kwargs: Any) -> Any:
        if len(args) != count or kwargs or threading.get_ident() != thread:
            return plain(*args, **kwargs)
        result = function(plain, *args)
        if isinstance(result, SYMBOLIC):
            tracer.elsewhere.data_sizes.has_conversions = True
        return result

    return following


@contextlib.contextmanager
def conversions_followed(tracer: Tracer, model: Any) -> Iterator[None]:
    """Inside, `int(...)` and `float(...)` in the model's own code keep where a number comes from."""
    if not tracer.elsewhere.data_sizes.freedom.conversions or not _is_understood():
        yield
        return
    changed = [(each, each.__code__, new) for each, new in _rewritten(functions(model))]
    outer = {name: vars(builtins).get(_hidden(name)) for name in _FOLLOWING}
    try:
        for name in _FOLLOWING:
            setattr(builtins, _hidden(name), _following(tracer, name))
        for function, _, code in changed:
            function.__code__ = code
        yield
    finally:
        for function, code, _ in changed:
            function.__code__ = code
        for name, before in outer.items():
            if before is None:
                delattr(builtins, _hidden(name))
            else:
                setattr(builtins, _hidden(name), before)


def _rewritten(found: Iterable[types.FunctionType]) -> Iterator[tuple[types.FunctionType, types.CodeType]]:
    for function in found:
        shadowed = any(name in function.__globals__ for name in _FOLLOWING)
        if not shadowed and getattr(function, "__builtins__", None) is vars(builtins):
            code = _with_our_calls(function.__code__.co_filename, function.__code__)
            if code is not function.__code__:
                yield function, code


@functools.lru_cache(maxsize=4096)
def _with_our_calls(file: str, code: types.CodeType) -> types.CodeType:
    """The code, and the code of functions inside it, with calls going to ours; itself if there are none.

    The file is only a part of the key: Python takes the same function in two files for equal.
    """
    constants = tuple(
        _with_our_calls(file, each) if isinstance(each, types.CodeType) else each for each in code.co_consts
    )
    names, content = list(code.co_names), bytearray(code.co_code)
    if any(name in names for name in _FOLLOWING):
        for name, place in _calls(code):
            hidden = _hidden(name)
            index = names.index(hidden) if hidden in names else len(names)
            if index > 127:  # it would take a longer instruction
                continue
            names[index:] = names[index:] or [hidden]
            content[place] = 2 * index + (content[place] & 1)
    if bytes(content) == code.co_code and all(map(_is, constants, code.co_consts)):
        return code
    return code.replace(co_consts=constants, co_names=tuple(names), co_code=bytes(content))


def _is(one: Any, other: Any) -> bool:
    return one is other


def _calls(code: types.CodeType) -> Iterator[tuple[str, int]]:
    """Where one of the names is called, or handed to `map`: the name, and the place of the instruction's argument.

    Instructions are two bytes, and the lowest bit of LOAD_GLOBAL's argument says that a call follows. Looking for these
    bytes is twenty times faster than `dis`, and every function of the model's packages is looked at.
    """
    content, names = code.co_code, code.co_names
    for name in set(_FOLLOWING).intersection(names):
        index = names.index(name)
        if index < 128:
            yield from ((name, place + 1) for place in _places(content, _LOAD, 2 * index + 1))
            if "map" in names[:128]:
                mapped = _LOAD, 2 * names.index("map") + 1
                for place in _places(content, _LOAD, 2 * index):
                    if _before(content, place) == mapped:
                        yield name, place + 1


_LOAD = dis.opmap["LOAD_GLOBAL"]


def _places(content: bytes, operation: int, argument: int) -> Iterator[int]:
    """Where an instruction stands, with no longer argument than it shows."""
    pattern = bytes((operation, argument))
    place = content.find(pattern)
    while place >= 0:
        if place % 2 == 0 and (place == 0 or content[place - 2] != dis.EXTENDED_ARG):
            yield place
        place = content.find(pattern, place + 1)


def _before(content: bytes, place: int) -> tuple[int, int]:
    """The instruction before a place, leaving out the interpreter's own notes, which are zeros."""
    place -= 2
    while place > 0 and content[place] == 0:
        place -= 2
    return (content[place], content[place + 1]) if place >= 0 else (0, 0)


@functools.cache
def _is_understood() -> bool:
    """Whether this Python's code looks as we think it does: it is tried out."""

    def sample(value: Any) -> Any:
        return (value, int), int(value), list(map(int, [value])), float(value)

    def named(name: str) -> Callable[[Any], Any]:
        return lambda value: (name, value)

    try:
        code = _with_our_calls(__file__, sample.__code__)
        names = {"map": map, "list": list, "int": int, _hidden("int"): named("int"), _hidden("float"): named("float")}
        result = types.FunctionType(code, names)(1)
    except Exception:  # an interpreter that we do not know: numbers are read out as before, with the warning
        return False
    return result == ((1, int), ("int", 1), [("int", 1)], ("float", 1))
