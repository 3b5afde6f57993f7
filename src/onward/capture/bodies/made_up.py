"""Results of operators on ways that the example does not take, where its data may not fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

aten = torch.ops.aten


def made_up(op: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """A result of the right form, where the data of the example has none: the largest of no elements, for example."""
    if op is aten.select.int:  # of a row that there is not
        tensor, dim = args[0], args[1] % args[0].dim()
        return tensor.new_ones((*tensor.shape[:dim], *tensor.shape[dim + 1 :]))
    if op in (aten.reshape.default, aten.view.default) and args[1].count(-1) == 1:  # of elements that do not fit
        others = max(-math.prod(args[1]), 1)
        return args[0].new_ones([args[0].numel() // others if each == -1 else each for each in args[1]])
    on_meta = tree_map_only(torch.Tensor, lambda each: each.to("meta"), (args, dict(kwargs)))
    result = op(*on_meta[0], **on_meta[1])
    return tree_map_only(torch.Tensor, lambda each: torch.ones_like(each, device="cpu"), result)
