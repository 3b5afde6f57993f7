"""What a script returns, with its named tuples: inside the interpreter they are tuples, as in TorchScript's graphs."""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator
from typing import Any


def with_names(value: Any, kind: Any) -> Any:
    """A value of Python's with named tuples where the script's type `kind` has them."""
    name = kind.kind()
    if name == "TupleType" and type(value) is tuple:
        items = [with_names(each, inner) for each, inner in zip(value, kind.elements(), strict=True)]
        fields, label = tuple(_fields(kind.str())), kind.annotation_str.rpartition(".")[2]
        # The results of `topk`, `max(dim)` and the like have names inside a script, and are plain tuples outside.
        return _named_tuple(label, fields)(*items) if fields and label.isidentifier() else tuple(items)
    if name == "ListType" and type(value) is list:
        return [with_names(each, kind.getElementType()) for each in value]
    if name == "DictType" and type(value) is dict:
        return {key: with_names(each, kind.getValueType()) for key, each in value.items()}
    if name == "OptionalType" and value is not None:
        return with_names(value, kind.getElementType())
    return value


@functools.cache
def _named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    return collections.namedtuple(name, fields)


def _fields(text: str) -> Iterator[str]:
    """`NamedTuple(a : Tensor, b : (int, int))` has the fields a and b; nothing else tells them in Python."""
    if not text.startswith("NamedTuple("):
        return
    inside, depth, start = text.removeprefix("NamedTuple(").removesuffix(")"), 0, 0
    for place, letter in enumerate(f"{inside},"):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            yield inside[start:place].partition(" : ")[0].strip()
            start = place + 1
