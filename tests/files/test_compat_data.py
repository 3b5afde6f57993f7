"""The tables behind `onward.compatibility`: every claim has a source, and says what the code can read."""

from __future__ import annotations

import importlib.util
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from onward.files.compat.target_tables import check, cited, names, table_of
from onward.write.type_texts import dtype_name

TARGETS = ["coreml", "onnxruntime", "openvino", "tensorrt"]
ELEMENTS = {dtype_name(each) for each in ir.DataType}
NOT_IN_ONNX = {"ATen", "Affine", "ConstantFill", "Crop", "ImageScaler", "IsFinite", "ParametricSoftplus", "ScaledTanh",
               "SimplifiedLayerNormalization"}  # fmt: skip  # experiments of the first versions, that sources list
HISTORY: dict[str, list[Any]] = defaultdict(list)
for _schema in onnx.defs.get_all_schemas_with_history():
    if _schema.domain == "":
        HISTORY[_schema.name].append(_schema)
ROOT = Path(__file__).resolve().parents[2]


def records(table: Any) -> Iterator[tuple[str, str, Any]]:
    for domain, operators in table["operators"].items():
        for name, record in operators.items():
            yield domain, name, record


def test_every_target_has_a_table() -> None:
    assert names() == TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_every_claim_names_a_source_that_can_be_found(target: str) -> None:
    table = table_of(target)
    assert table["format"] == 1 and table["target"] == target and re.fullmatch(r"\d{4}-\d\d-\d\d", table["read"])
    for source in table["sources"].values():
        assert source["title"] and cited(source).startswith(source["title"])
        if "repository" in source:
            assert re.fullmatch(r"[\w-]+/[\w-]+", source["repository"]) and source["path"]
            assert source["commit"] is None or re.fullmatch(r"[0-9a-f]{40}", source["commit"])
        else:
            assert source.get("document") or (source["package"] and source["by"])
    claims = [record for _, _, record in records(table)]
    claims += [table[key] for key in ("opset", "ir", "types", "dynamic", "external", "absent") if key in table]
    assert len(claims) > 60
    assert {claim["source"] for claim in claims} <= set(table["sources"])
    assert table["meaning"] and table["absent"]["verdict"] in ("unknown", "problem")


@pytest.mark.parametrize("target", ["coreml", "openvino", "tensorrt"])
def test_records_are_of_operators_and_types_that_exist(target: str) -> None:
    table = table_of(target)
    for domain, name, record in records(table):
        assert domain or name in HISTORY or name in NOT_IN_ONNX, name
        assert record["supported"] in (True, False) or (record["supported"] is None and record["why"])
        assert set(record.get("types", [])) <= ELEMENTS, name
        assert record["supported"] or "types" not in record
        if "from" in record and "known" in record:
            assert record["from"] <= record["known"], name
    types = table["types"]
    assert {*types.get("accepted", []), *types.get("usual", []), *types.get("limited", {})} <= ELEMENTS


@pytest.mark.parametrize("target", ["coreml", "openvino", "tensorrt"])
def test_limits_fit_the_definitions_of_the_operators(target: str) -> None:
    """Attributes and inputs of a check exist, and the default values keep it: an attribute left out is no problem."""
    for domain, name, record in records(table_of(target)):
        for limit in record.get("limits", []):
            assert set(limit) <= {"text", "check", "otherwise"} and limit["text"], name
            rule = limit.get("check")
            if rule is None:
                continue
            assert domain == "", name
            schemas = HISTORY[name]
            if "attribute" in rule:
                known = [each.attributes[rule["attribute"]] for each in schemas if rule["attribute"] in each.attributes]
                assert known, f"{name} has no {rule['attribute']}"
                for default in (each.default_value for each in known if "absent" not in rule):
                    node = ir.Node("", name, [], [ir.from_proto(default)] if default.type else [])
                    assert check(rule, node), f"{name}.{rule['attribute']}"
            else:
                kind = "input" if "input" in rule else "output"
                most = max(len(each.inputs if kind == "input" else each.outputs) for each in schemas)
                assert rule[kind] < most, f"{name} has {most} {kind}s"


def test_the_table_of_kernels_is_that_of_the_version_it_names() -> None:
    if onnxruntime.__version__ != table_of("onnxruntime")["version"]:
        pytest.skip(f"onnxruntime {onnxruntime.__version__} is installed, and the table is of another version")
    spec = importlib.util.spec_from_file_location("onnxruntime_kernels", ROOT / "tools" / "onnxruntime_kernels.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.render(table_of("onnxruntime")["read"]) == tool.TARGET.read_text(encoding="utf-8")
