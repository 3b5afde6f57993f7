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


def test_the_tables_name_operators_that_exist() -> None:
    known = {(schema.domain, schema.name) for schema in schemas()}
    assert set(MISSING) | set(ELSEWHERE) <= known


def test_pictures_need_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    node = onnx.helper.make_node("ImageDecoder", ["x"], ["y"])
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(onward.MissingDependencyError, match="ImageDecoder reads pictures with Pillow\n  pip install"):
        onward.backend.run_node(node, np.zeros(3, dtype=np.uint8))
