"""Python's own code, rewritten: all that we know of the interpreter's instructions is here.

What is known was true for the versions named below, and is tried out once before it is believed. Elsewhere nothing is
rewritten.
"""

from __future__ import annotations

import dis
import functools
import operator
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Replacements = Mapping[str, Callable[..., Any]]  # by the name of the builtin function

_KNOWN = (3, 11) <= sys.version_info[:2] <= (3, 14)
_LOAD = dis.opmap["LOAD_GLOBAL"]
_CONSTANT, _NOTHING = dis.opmap["LOAD_CONST"], dis.opmap["NOP"]
_NULL = dis.opmap.get("PUSH_NULL", 0)


class Calls:
    """Code in which calls of some builtin functions go to others.

    Since Python 3.11 the instruction that loads a global name says whether the name is about to be called, so
    `int(n)` can be told from `isinstance(n, int)`. The rewritten code has the other function among its constants: it
    needs no name to be anywhere, and goes on working whatever becomes of us.
    """

    def __init__(self, replacements: Replacements) -> None:
        self._replacements = replacements
        self.rewritten = functools.lru_cache(maxsize=4096)(self._rewritten)
        self.is_possible = functools.cache(self._is_possible)

    def _rewritten(self, file: str, code: types.CodeType) -> types.CodeType:
        """The code, and the code of functions inside it, with calls going to ours; itself if there are none.

        The file is only a part of the key: Python takes the same function in two files for equal.
        """
        constants: list[Any] = [
            self.rewritten(file, each) if isinstance(each, types.CodeType) else each for each in code.co_consts
        ]
        content = bytearray(code.co_code)
        for name, place, is_call in list(self._calls(code)):
            ours = self._replacements[name]
            index = next((i for i, each in enumerate(constants) if each is ours), len(constants))
            length = _length(code.co_code, place)
            if index > 255 or length < 4:  # it would take a longer instruction
                continue
            constants[index:] = constants[index:] or [ours]
            loading = _loading(index, is_call)
            content[place : place + length] = loading + bytes((_NOTHING, 0)) * ((length - len(loading)) // 2)
        unchanged = len(constants) == len(code.co_consts) and all(map(operator.is_, constants, code.co_consts))
        return code if unchanged else code.replace(co_consts=tuple(constants), co_code=bytes(content))

    def _calls(self, code: types.CodeType) -> Iterator[tuple[str, int, bool]]:
        """Where one of the names is called, or handed to `map`: the name, the place, and whether it is a call.

        Instructions are two bytes, and the lowest bit of LOAD_GLOBAL's argument says that a call follows. Looking for
        these bytes is twenty times faster than `dis`, and every function of the model's packages is looked at.
        """
        content, names = code.co_code, code.co_names
        for name in set(self._replacements).intersection(names):
            index = names.index(name)
            if index < 128:
                yield from ((name, place, True) for place in _places(content, _LOAD, 2 * index + 1))
                if "map" in names[:128]:
                    mapped = _LOAD, 2 * names.index("map") + 1
                    for place in _places(content, _LOAD, 2 * index):
                        if _before(content, place) == mapped:
                            yield name, place, False

    def _is_possible(self) -> bool:
        """Whether this Python's code looks as we think it does: it is tried out."""
        if not _KNOWN:
            return False

        def sample(value: Any) -> Any:
            return (value, int), int(value), list(map(int, [value])), (lambda: float(value))()

        def named(name: str) -> Callable[[Any], Any]:
            return lambda value: (name, value)

        tried = Calls({"int": named("int"), "float": named("float")})
        try:
            code = tried.rewritten(__file__, sample.__code__)
            result = types.FunctionType(code, {"map": map, "list": list, "int": int, "float": float})(1)
        except Exception:  # an interpreter that we do not know
            return False
        return bool(result == ((1, int), ("int", 1), [("int", 1)], ("float", 1)))


def _loading(index: int, is_call: bool) -> bytes:
    """The instructions that load a constant; for a call with the empty place that Python wants beside it."""
    constant, empty = bytes((_CONSTANT, index)), bytes((_NULL, 0)) if is_call else b""
    return empty + constant if sys.version_info < (3, 13) else constant + empty


def _length(content: bytes, place: int) -> int:
    """How long an instruction is, with the interpreter's own notes behind it, which are zeros."""
    end = place + 2
    while end < len(content) and content[end] == 0:
        end += 2
    return end - place


def _places(content: bytes, operation: int, argument: int) -> Iterator[int]:
    """Where an instruction stands, with no longer argument than it shows."""
    pattern = bytes((operation, argument))
    place = content.find(pattern)
    while place >= 0:
        if place % 2 == 0 and (place == 0 or content[place - 2] != dis.EXTENDED_ARG):
            yield place
        place = content.find(pattern, place + 1)


def _before(content: bytes, place: int) -> tuple[int, int]:
    """The instruction before a place, leaving out the interpreter's own notes."""
    place -= 2
    while place > 0 and content[place] == 0:
        place -= 2
    return (content[place], content[place + 1]) if place >= 0 else (0, 0)
