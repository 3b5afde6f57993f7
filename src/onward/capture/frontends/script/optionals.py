"""Optionals that are None or not, depending on data: `best` in a loop that keeps the best so far.

    best: Optional[Tensor] = None
    for i in range(int(n)):
        best = x if best is None else torch.maximum(best, x)

Such a value goes through a branch or a loop as a flag and a value, of which something stands there for nobody to read
while the flag is off.
"""

from __future__ import annotations

from typing import Any

import torch


class Maybe:
    """A value that is there if `present`, a number that depends on data."""

    __slots__ = ("present", "value")

    def __init__(self, present: Any, value: Any) -> None:
        self.present, self.value = present, value


def is_open(value: Any) -> bool:
    """Whether a value is None, or may be."""
    return value is None or isinstance(value, Maybe)


def concerns_optionals(inputs: list[Any]) -> bool:
    return any(isinstance(each, Maybe) for each in inputs)


def on_optionals(kind: str, inputs: list[Any]) -> Any:
    """The result; NotImplemented if a value has to be there."""
    if kind in ("prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional"):
        return inputs[0].value
    if kind in ("aten::__is__", "aten::__isnot__") and (inputs[0] is None or inputs[1] is None):
        present = next(each.present for each in inputs if isinstance(each, Maybe))
        return present if kind == "aten::__isnot__" else torch.sym_not(present)
    if kind == "prim::TupleConstruct":
        return tuple(inputs)
    return NotImplemented
