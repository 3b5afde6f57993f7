"""Which function computes which ONNX operator, and how the node's inputs and attributes reach it.

    @implements("Clip")                       # every version: attributes and inputs of one name are one parameter
    def clip(x: Tensor, min: Any = None, max: Any = None) -> Tensor: ...

    @implements("Softmax", since=13)          # the newer version sits just below the older one

Inputs come by position, None for those left out. Attributes come by name, the schema's defaults filled in, so that an
attribute that later became an input of the same name needs no second function. A function that takes one of these
names is told more about its node:

    outputs   how many outputs the node has
    types     the element types of the inputs as ONNX numbers them, 0 where unknown (torch has no int4)
    opset     the version of the operator's domain
    natural   which inputs are known to hold no negative number, so that indices need not be counted from the end

Inputs that say how to compute rather than on what (sizes, axes, bounds) are best had as Python's numbers:

    @implements("Reshape", numbers=("shape",))        # a number or a tuple of them where it can be, otherwise a tensor
    @implements("Gather", scalars=("indices",))       # only if it is a single number

One output is returned as it is (a list is an ONNX sequence), several as a tuple.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..tables import place_of

ABOUT_THE_NODE = ("outputs", "types", "opset", "natural")


@dataclass(frozen=True)
class Implementation:
    """A registered function: for versions of the domain from `since` on."""

    function: Callable[..., Any]
    since: int
    names: frozenset[str]
    takes_all: bool
    numbers: Mapping[int, int] = field(default_factory=dict)  # places of inputs: the most axes of numbers taken there


_table: dict[tuple[str, str], dict[int, Implementation]] = {}


def implements(
    *op_types: str, since: int = 1, domain: str = "", numbers: Sequence[str] = (), scalars: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function as the implementation of operators, from a version of their domain on."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(function).parameters.values()
        kinds = inspect.Parameter
        names = frozenset(p.name for p in parameters if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY))
        takes_all = any(p.kind is kinds.VAR_KEYWORD for p in parameters)
        places = [p.name for p in parameters]
        taken = {places.index(name): most for most, group in ((1, numbers), (0, scalars)) for name in group}
        for op_type in op_types:
            versions = _table.setdefault((domain, op_type), {})
            if since in versions:
                both = f"{place_of(versions[since].function)} and {place_of(function)}"
                raise ValueError(f"{op_type} has two implementations since {since}: {both}")
            versions[since] = Implementation(function, since, names, takes_all, taken)
        return function

    return decorate


def find(domain: str, op_type: str, version: int) -> Implementation | None:
    """The implementation with the highest `since` not above the version."""
    load_families()
    versions = _table.get((domain, op_type), {})
    usable = [since for since in versions if since <= version]
    return versions[max(usable)] if usable else None


def implemented() -> list[tuple[str, str]]:
    """The (domain, operator) pairs that have an implementation."""
    load_families()
    return sorted(_table)


@functools.cache
def load_families() -> None:
    """Importing the families fills the table."""
    from . import ops  # noqa: F401
