"""Every operator that the installed onnx has a schema for, at every version, with every attribute: it runs, or the
reason is written here."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import onnx
import onnx.helper
import pytest

import onward
import onward.backend
from onward.backend.compile import IGNORED_ATTRIBUTES
from onward.backend.registry import Implementation, find

from .judge import assert_same, one_node

DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")

# What does not run, (domain, operator): why. Nothing at the moment.
MISSING: dict[tuple[str, str], str] = {}
# Compiled in another way than by a function of the table.
ELSEWHERE = {
    ("", "Constant"): "a constant of the plan, made when the model is prepared",
    ("ai.onnx.preview.training", "Gradient"): "a body of the nodes that it differentiates, see backend/gradients.py",
}


@functools.cache
def schemas() -> list[Any]:
    found = [schema for schema in onnx.defs.get_all_schemas_with_history() if schema.domain in DOMAINS]
    return sorted(found, key=lambda schema: (schema.domain, schema.name, schema.since_version))


def rows() -> list[Any]:
    return [pytest.param(each, id=f"{each.domain}.{each.name}-{each.since_version}".lstrip(".")) for each in schemas()]


def is_there(schema: Any) -> bool:
    """A function of ours, or a definition by other operators in the schema itself."""
    return (
        find(schema.domain, schema.name, schema.since_version) is not None
        or schema.has_function
        or schema.has_context_dependent_function
        or (schema.domain, schema.name) in ELSEWHERE
    )


def unknown_attributes(schema: Any, implementation: Implementation) -> list[str]:
    """Attributes that a file may set and the function would refuse."""
    graphs = onnx.defs.OpSchema.AttrType.GRAPH
    known = {name for name, attribute in schema.attributes.items() if attribute.type == graphs}
    if implementation.takes_all:
        return []
    return sorted(set(schema.attributes) - implementation.names - known - IGNORED_ATTRIBUTES)


def test_onnx_has_the_domains() -> None:
    assert {schema.domain for schema in schemas()} == set(DOMAINS)
    assert {schema.domain for schema in onnx.defs.get_all_schemas_with_history()} == set(DOMAINS)


@pytest.mark.parametrize("schema", rows())
def test_it_is_there(schema: Any) -> None:
    assert is_there(schema) != ((schema.domain, schema.name) in MISSING)
    implementation = find(schema.domain, schema.name, schema.since_version)
    if implementation is not None:
        assert unknown_attributes(schema, implementation) == []


# Operators that run by onnx's own definition, which is written for one opset: (operator, inputs' shapes, attributes)
BY_DEFINITION: list[tuple[str, list[tuple[int, ...]], dict[str, Any]]] = [
    ("Attention", [(1, 2, 3, 4)] * 3, {}),
    ("RotaryEmbedding", [(1, 2, 3, 4), (1, 3, 2), (1, 3, 2)], {}),
    ("CausalConvWithState", [(1, 2, 5), (2, 1, 3)], {}),
    ("LinearAttention", [(1, 3, 4)] * 3, {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"}),
]


@pytest.mark.parametrize(("op_type", "shapes", "attributes"), BY_DEFINITION, ids=[row[0] for row in BY_DEFINITION])
def test_a_definition_serves_every_later_opset(op_type: str, shapes: Any, attributes: dict[str, Any]) -> None:
    """onnx gives no definition for an opset in which an operator of it has changed; it still means the same."""
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(shape, np.float32) for shape in shapes]
    names = [f"x{place}" for place in range(len(inputs))]
    node = onnx.helper.make_node(op_type, names, ["y"], **attributes)
    first = min(schema.since_version for schema in schemas() if (schema.domain, schema.name) == ("", op_type))
    opsets = range(first, onnx.defs.onnx_opset_version() + 1)
    results = [onward.backend.run_node(node, inputs, opset_version=opset)[0] for opset in opsets]
    assert len(results) > 1
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("opset", (12, 13, 21, 22))
@pytest.mark.parametrize("op_type", ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"))
@pytest.mark.parametrize("reduction", ("mean", "sum", "none"))
def test_losses_at_every_opset(op_type: str, opset: int, reduction: str) -> None:
    random = np.random.default_rng(0)
    x, weight = random.standard_normal((4, 3, 2), np.float32), np.array([0.5, 2, 1], np.float32)
    feeds = {"x": x, "t": random.integers(0, 3, (4, 2)), "w": weight}
    node = onnx.helper.make_node(op_type, ["x", "t", "w"], ["y"], reduction=reduction, ignore_index=1)
    assert_same(one_node(node, feeds, {"y": onnx.TensorProto.FLOAT}, {"": opset}), feeds)


def test_the_tables_name_operators_that_exist() -> None:
    known = {(schema.domain, schema.name) for schema in schemas()}
    assert set(MISSING) | set(ELSEWHERE) <= known


def test_pictures_need_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    node = onnx.helper.make_node("ImageDecoder", ["x"], ["y"])
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(onward.MissingDependencyError, match="ImageDecoder reads pictures with Pillow\n  pip install"):
        onward.backend.run_node(node, np.zeros(3, dtype=np.uint8))
