"""`onward diff`: what changed, in a stable order, with the exit codes of diff."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onward.cli.files import compare_files
from tests.cli.models import TEXT, save
from tests.cli.running import invoke, onward


def changes(a: Path, b: Path, *more: str) -> list[str]:
    done = invoke("diff", a, b, "--json", *more)
    told: dict[str, Any] = json.loads(done.stdout)
    assert done.exit_code == (0 if told["same"] else 1) and told["ok"] is told["same"]
    return [f"{each['part']} {each['kind']} {each['name']}: {each['text']}" for each in told["changes"]]


def of(tmp_path: Path, before: str, after: str, **kwargs: Any) -> list[str]:
    assert before in TEXT
    a, b = save(tmp_path / "a.onnx"), save(tmp_path / "b.onnx", TEXT.replace(before, after), **kwargs)
    return [each for each in changes(a, b) if not each.startswith("file changed size")]


def test_the_real_executable(tmp_path: Path) -> None:
    a, b = save(tmp_path / "a.onnx"), save(tmp_path / "b.onnx", TEXT.replace("Relu (product)", "Sigmoid (product)"))
    done = onward("diff", "a.onnx", "b.onnx", "--html", "page.html", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines()[:2] == ["- a.onnx", "+ b.onnx"]
    assert "\nnodes\n  - Relu y: (product)\n  + Sigmoid y: (product)\n" in done.stdout
    assert '<td class="added">added</td><td>Sigmoid y</td>' in (tmp_path / "page.html").read_text()
    again = invoke("diff", a, a)
    assert (again.exit_code, again.stdout) == (0, f"{a} and {a} do not differ\n")
    assert b.exists()


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("alpha = 1.0", "alpha = 0.5", ["nodes changed Gemm product: alpha 1.0 -> 0.5"]),
        ("<alpha = 1.0> ", "", ["nodes changed Gemm product: alpha removed (1.0)"]),
        ("Add (ids, one)", "Add (one, ids)",
         ["nodes changed Add file: input 0 ids -> one; input 1 one -> ids"]),
        ("float[n, 4] x", "float[m, 4] x", ["inputs changed x: float32[n, 4] -> float32[m, 4]"]),
        ('"" : 20', '"" : 19', ["file changed opset ai.onnx: 20 -> 19"]),
        ("somebody", "nobody", ["file changed producer: somebody -> nobody"]),
        ("int64 one = {1}", "int64 one = {2}", ["weights changed one: 1 of 1 numbers differ, by up to 1"]),
        ("(float[n, 4] x, int64[n] ids)", "(int64[n] ids, float[n, 4] x)", ["inputs changed order: x, ids -> ids, x"]),
        ("   same = Identity (x)\n   product = Gemm <alpha = 1.0> (same,", "   product = Gemm <alpha = 1.0> (x,",
         ["operators changed Identity: 1 -> 0", "nodes removed Identity same: (x)",
          "nodes changed Gemm product: input 0 same -> x"]),
    ],
)  # fmt: skip
def test_changes(before: str, after: str, found: list[str], tmp_path: Path) -> None:
    assert of(tmp_path, before, after) == found


def test_weights(tmp_path: Path) -> None:
    a, b = save(tmp_path / "a.onnx"), save(tmp_path / "b.onnx", scale=1.0001)
    found = changes(a, b)
    assert [each.split(" differ")[0] for each in found] == [
        "weights changed weight: 12 of 12 numbers", "weights changed bias: 3 of 3 numbers"
    ]  # fmt: skip
    assert changes(a, b, "--tolerance", "0.01") == []


def test_other_names_for_everything_are_no_other_wiring(tmp_path: Path) -> None:
    a, b = save(tmp_path / "a.onnx"), onnx.load(save(tmp_path / "b.onnx"))
    new = {name: f"v{i}" for i, name in enumerate(["same", "product", "weight", "bias", "one"])}
    for node in b.graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]
        node.output[:] = [new.get(name, name) for name in node.output]
    for tensor in b.graph.initializer:
        tensor.name = new[tensor.name]
    b.graph.node[2].name = "other"
    onnx.save(b, tmp_path / "b.onnx")
    found = [each for each in changes(a, tmp_path / "b.onnx") if not each.startswith("file")]
    assert found == ["weights renamed one: v4", "weights renamed weight: v2", "weights renamed bias: v3"]


def test_bodies_are_compared(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 20]>
    g (bool c, float[3] x) => (float[3] y)
    { y = If (c) <then_branch = t () => (float[3] a) { a = Neg (x) },
                  else_branch = e () => (float[3] b) { b = Abs (x) }> }
    """
    for name, each in (("a", text), ("b", text.replace("Abs", "Exp"))):
        onnx.save(onnx.parser.parse_model(each), tmp_path / f"{name}.onnx")
    found = changes(tmp_path / "a.onnx", tmp_path / "b.onnx")
    assert [each for each in found if each.startswith("nodes")] == [
        "nodes removed Abs b: (x)",
        "nodes added Exp b: (x)",
    ]


def test_the_page_escapes_names(tmp_path: Path) -> None:
    a = save(tmp_path / "a.onnx")
    b = onnx.load(a)
    b.producer_name = "<script>alert(1)</script>\u202e"
    onnx.save(b, tmp_path / "b.onnx")
    invoke("diff", a, tmp_path / "b.onnx", "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<script>" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in page and "\u202e" not in page


def test_trouble_is_two_as_with_diff(tmp_path: Path) -> None:
    a = save(tmp_path / "a.onnx")
    (tmp_path / "text").write_text("no model")
    for other, more, message in [
        (tmp_path / "missing", [], "there is no file"),
        (tmp_path / "text", [], "is no ONNX model"),
        (a, ["--html", str(tmp_path / "no" / "page.html")], "does not exist"),
        (a, ["--html", str(a)], "already exists"),
    ]:
        done = invoke("diff", a, other, *more)
        assert done.exit_code == 2 and message in done.stderr


def test_many_changes_are_cut_short_for_people(tmp_path: Path) -> None:
    a, b = save(tmp_path / "a.onnx"), save(tmp_path / "b.onnx", scale=2.0)
    shown = invoke("diff", a, b, "--most", "1").stdout
    assert "and 1 more; --most shows them" in shown and "bias" not in shown


def test_large_integers_that_float64_does_not_tell_apart_differ() -> None:
    a, b = (ir.tensor(np.array([2**63 - 1 - less, 5])) for less in (0, 1))
    assert compare_files._difference(a, b, 0.0) == "1 of 2 numbers differ, by up to 1"
    assert compare_files._difference(a, a, 0.0) is None
