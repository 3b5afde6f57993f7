"""One record for each operator, and everybody asks the same one."""

from __future__ import annotations

import onnx
import pytest
import torch

from onward.backend.registry import find as implementation_of
from onward.lower.emitter import Emitter
from onward.onnx_operators import RECORDS, find
from onward.onnx_operators.dimension_math import broadcast_at_any_size
from onward.onnx_operators.elementwise import Unary
from onward.onnx_operators.propagation import propagate
from onward.onnx_operators.random_numbers import RANDOM
from onward.onnx_operators.record import register


def test_a_second_record_for_an_operator_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^ai.onnx.Relu has two records: .*wise.Unary and .*wise.Unary$"):
        register(Unary(torch.relu), "Relu")
    register(Unary(torch.relu), "Relu", domain="test")  # another domain's is another operator
    assert find("Relu") is not find("Relu", "test") and RECORDS.pop(("test", "Relu")) is not None


def test_every_record_is_for_an_operator_of_onnx() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}
    assert {name for domain, name in RECORDS if not domain} <= known


def test_the_backend_computes_what_is_folded() -> None:
    """But for casts and ranges, which PyTorch's own operators define where a model's constants are folded."""
    apart = set()
    for (domain, name), record in RECORDS.items():
        found = implementation_of(domain, name, 18) if record.can_fold else None
        if found is not None and found.function is not record.evaluate:
            apart.add(name)
    assert apart == {"Cast", "ConstantOfShape", "Range"}


def test_random_operators_are_neither_folded_nor_shared() -> None:
    assert {"Dropout", "RandomNormalLike", "Multinomial"} < RANDOM
    assert not any(RECORDS["", name].can_fold for name in RANDOM)
    g = Emitter(18)
    x = g.input("x", torch.float32, (2,))
    assert g.op.RandomNormalLike(x) is not g.op.RandomNormalLike(x)
    assert g.op.Exp(x) is g.op.Exp(x)


def test_dimensions_that_hold_at_any_size() -> None:
    g = Emitter(18)
    assert propagate("Add", [(2, 1), (3,)], [None, None], {}, 1) == [(2, 3)]
    assert propagate("Add", [(2, 3), (4,)], [None, None], {}, 1, broadcast_at_any_size) == [None]
    assert propagate("Unheard", [(2,)], [None], {}, 2) == [None, None]
    assert propagate("Relu", [None], [None], {}, 1) == [None]
    assert g.dims(g.op.Flatten(g.input("y", torch.float32, (2, 3, 4)), axis=2)) == (6, 4)
