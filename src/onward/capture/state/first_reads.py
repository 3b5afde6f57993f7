"""What the code of a model may find of an earlier run, read from the code: nothing has to be run for that.

Only what is read before it is written, and not only filled, can make a difference.
"""

from __future__ import annotations

import dis
import itertools
import types
import weakref
from collections.abc import Iterable, Iterator

from .own_code import codes_of

_READS = ("LOAD_ATTR", "LOAD_METHOD")


_KNOWN: weakref.WeakKeyDictionary[type, dict[str, bool]] = weakref.WeakKeyDictionary()


def may_be_read_first(kind: type, name: str) -> bool:
    """False only if every function that reads the attribute has written it before, on every way to the read."""
    known = _KNOWN.setdefault(kind, {})
    if name not in known:
        known[name] = any(_reads_first(code, name) for code in _codes(kind))
    return known[name]


def _codes(kind: type) -> Iterator[types.CodeType]:
    for each in kind.__mro__:
        for value in vars(each).values():
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if isinstance(function, types.FunctionType) and function.__name__ != "__init__":
                yield from codes_of(function)


def _reads_first(code: types.CodeType, name: str) -> bool:
    if name in code.co_consts:  # getattr(self, "name", None), hasattr, a key of vars(self)
        return True
    if name not in code.co_names:
        return False
    for each in dis.get_instructions(code):
        if each.argval == name and each.opname.startswith(_READS):
            return True
        if each.argval == name and each.opname == "STORE_ATTR":
            return False  # on every way to what follows
        if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
            return name in _read_in(code)  # the write may be on one of several ways
    return False


def _read_in(code: types.CodeType) -> set[str]:
    return {str(each.argval) for each in dis.get_instructions(code) if each.opname.startswith(_READS)}


_FILLING = frozenset({"append", "appendleft", "extend", "add", "insert"})


def is_only_filled(name: str, codes: Iterable[types.CodeType]) -> bool:
    """Whether code does nothing to what has a name but put something into it: `self.log.append(...)`."""
    for code in codes:
        if name in code.co_consts:
            return False
        if name in (*code.co_names, *code.co_freevars) and not _fills(code, name):
            return False
    return True


def _fills(code: types.CodeType, name: str) -> bool:
    instructions = list(dis.get_instructions(code))
    return all(
        following.opname.startswith(_READS) and following.argval in _FILLING
        for each, following in itertools.pairwise(instructions)
        if each.argval == name and each.opname.startswith((*_READS, "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"))
    )
