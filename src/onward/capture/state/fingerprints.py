"""What tells that something which a model keeps has moved on: a container, an array, an iterator.

Nothing here reads more than a few elements: it is asked before and after every trace, and after every line of a model
that has to be looked at more closely.
"""

from __future__ import annotations

import array
import collections
import itertools
import operator
import types
from typing import Any

import numpy

MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
SEQUENCES = (list, collections.deque)
CONTAINERS = frozenset((*MAPPINGS, *SEQUENCES, set))

_ARRAYS = (numpy.ndarray, bytearray, array.array)
_EXAMPLES: list[Any] = [  # iterators that know how many items are left
    iter([]), iter(()), iter(range(0)), iter({}), iter({}.values()), iter({}.items()), iter(set()),
    iter(collections.deque()), reversed([]), iter(""), iter(b""), itertools.repeat(None, 1),
]  # fmt: skip
_COUNTED = tuple(type(each) for each in _EXAMPLES)
_UNCOUNTED = (
    types.GeneratorType, map, filter, zip, enumerate, reversed, itertools.cycle, itertools.chain, itertools.islice,
    itertools.starmap, itertools.takewhile, itertools.dropwhile, itertools.accumulate, itertools.product,
    itertools.permutations, itertools.combinations, itertools.zip_longest, itertools.compress,
)  # fmt: skip
_MOST = 64  # elements that are looked at

UNKNOWN: Any = object()  # the state of what does not tell


def is_iterator(value: Any) -> bool:
    """Whether a value is one of Python's own iterators; those of other classes have attributes."""
    return type(value) in _ITERATORS


_ITERATORS = frozenset((itertools.count, *_COUNTED, *_UNCOUNTED))


def has_state(value: Any) -> bool:
    """Whether a value is an array or an iterator: it can change, and has neither attributes nor entries."""
    kind = type(value)
    return kind in _ITERATORS or kind in _ARRAYS


def state_of(value: Any) -> Any:
    """Something that is another one when a container, an array or an iterator has changed; UNKNOWN if it does not tell.

    Two containers with the same elements, one by one, are the same; their elements are not looked into.
    """
    kind = type(value)
    if kind is itertools.count:
        return repr(value)
    if kind in _UNCOUNTED:
        return UNKNOWN
    if kind in _COUNTED:
        return operator.length_hint(value, -1)
    if kind is numpy.ndarray:
        flat = value.reshape(-1) if value.flags.c_contiguous else value.flat
        return value.shape, b"" if value.dtype.hasobject else numpy.array(flat[:: value.size // _MOST + 1]).tobytes()
    if kind in (bytearray, array.array):
        return len(value), bytes(value[:: len(value) // _MOST + 1])
    elements = list(value.copy().values()) if isinstance(value, dict) else list(value.copy())
    return len(elements), [id(each) for each in elements[-_MOST:]]
