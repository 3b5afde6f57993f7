"""`torch._foreach_add_` and its like: the same op on every tensor of a list."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload

aten = torch.ops.aten

# Where the op for one tensor has another name.
_SINGLE = {
    "maximum": "clamp_min",  # which takes numbers too
    "minimum": "clamp_max",
    "norm": "linalg_vector_norm",
}
_WITH_VALUE = ("addcmul", "addcdiv")  # the factor is a positional argument here, and `value=` there


def is_foreach(op: OpOverload) -> bool:
    return op._schema.name.startswith("aten::_foreach_")


def foreach(op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> list[Any] | None:
    """Call the op for each tensor; every list has one entry per tensor, anything else goes to all of them."""
    name = op._schema.name.removeprefix("aten::_foreach_")
    in_place = name.endswith("_")
    name = name.removesuffix("_")
    single = getattr(aten, _SINGLE.get(name, name) + "_" * in_place)
    if name in _WITH_VALUE and len(args) > 3:
        args, kwargs = args[:3], {**kwargs, "value": args[3]}
        if isinstance(kwargs["value"], torch.Tensor):
            kwargs["value"] = kwargs["value"].tolist()
    count = next(len(value) for value in args if isinstance(value, (list, tuple)))
    results = [
        single(*(_entry(value, i) for value in args), **{key: _entry(value, i) for key, value in kwargs.items()})
        for i in range(count)
    ]
    return None if in_place else results


def _entry(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, (list, tuple)) else value
