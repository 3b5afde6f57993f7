"""What the shortcuts for sizes say, beside what PyTorch's own kernels do."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from onward.capture.sizes.layout_rules import rule_for
from onward.capture.sizes.layouts import Layout

aten = torch.ops.aten
X = (3, 4, 5)
CASES: list[tuple[Any, list[Any]]] = [
    (aten.cat.default, [[X, X]]),
    (aten.cat.default, [[X, (3, 1, 5), (3, 0, 5)], 1]),
    (aten.cat.default, [[X, X], -1]),
    (aten.cat.default, [[X, (3, 4, 6)], 1]),
    (aten.cat.default, [[X, (0,)], 1]),
    (aten.cat.default, [[(0,), X], 1]),
    (aten.cat.default, [[(2,), (0,)]]),
    (aten.cat.default, [[(2,), (3,)]]),
    (aten.stack.default, [[X, X, X]]),
    (aten.stack.default, [[X, X], -1]),
    (aten.stack.default, [[X, (3, 4, 6)]]),
    (aten.mean.dim, [X, [1]]),
    (aten.mean.dim, [X, [0, -1], True]),
    (aten.mean.dim, [X, None]),
    (aten.mean.dim, [X, []]),
    (aten.mean.dim, [X, [3]]),
    (aten.logsumexp.default, [X, [2], True]),
    (aten.addmm.default, [(7,), (2, 3), (3, 7)]),
    (aten.addmm.default, [(2, 1), (2, 3), (3, 7)]),
    (aten.addmm.default, [(6,), (2, 3), (3, 7)]),
    (aten.addmm.default, [(7,), (2, 3), (4, 7)]),
    (aten.tril.default, [X]),
    (aten.triu.default, [X, 1]),
    (aten.tril.default, [(3,)]),
    (aten.roll.default, [X, [1], [0]]),
]


def _made(value: Any, *, as_layouts: bool) -> Any:
    if isinstance(value, tuple):
        tensor = torch.empty(value, device="meta")
        return Layout.of(tensor) if as_layouts else tensor
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return [_made(each, as_layouts=as_layouts) for each in value]
    return value


@pytest.mark.parametrize(("op", "given"), CASES)
def test_a_rule_says_what_the_kernel_does_or_nothing(op: Any, given: list[Any]) -> None:
    rule = rule_for(op)
    assert rule is not None
    told = rule(*(_made(each, as_layouts=True) for each in given))
    try:
        size = tuple(op(*(_made(each, as_layouts=False) for each in given)).shape)
    except Exception:
        size = None  # the kernel refuses these sizes, and a rule must not know better
    assert told in (size, None)
    plain = all(isinstance(each, tuple) and 0 not in each for each in given[:1])
    assert told is not None or size is None or not plain or len(given[0]) == 1
