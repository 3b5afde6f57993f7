"""What `python -m bench.python_code` calls right, wrong and refused."""

from __future__ import annotations

import io
from pathlib import Path

import onnx
import pytest
import torch
from rich.console import Console

from bench import python_code
from bench.python_code import DATA, REFUSED, RIGHT, SIZES, WRONG, Row, outcome, show


@pytest.mark.parametrize("row", [*DATA, SIZES[0]], ids=lambda row: row.title)
def test_what_onward_keeps(row: Row, tmp_path: Path) -> None:
    assert outcome(row, "onward", tmp_path) == RIGHT


def test_a_file_of_one_side_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def doubles(model: torch.nn.Module, args: tuple[torch.Tensor, ...], path: Path) -> None:
        text = '<ir_version: 8, opset_import: ["" : 13]> g (float[n, 4] x) => (float[n, 4] y) { y = Add (x, x) }'
        onnx.save(onnx.parser.parse_model(text), path)

    def refuses(model: torch.nn.Module, args: tuple[torch.Tensor, ...], path: Path) -> None:
        raise RuntimeError("data-dependent")

    table = {"doubles": lambda spec, opset: doubles, "refuses": lambda spec, opset: refuses}
    monkeypatch.setattr(python_code, "EXPORTERS", table)
    assert [outcome(DATA[0], name, tmp_path) for name in table] == [WRONG, REFUSED]


def test_what_is_shown() -> None:
    results = {row.title: {"onward": RIGHT, "dynamo": REFUSED, "legacy": WRONG} for row in (*DATA, *SIZES)}
    out = io.StringIO()
    show(results, Console(file=out, width=120))
    lines = [line.replace(" ", "") for line in out.getvalue().splitlines()]
    assert f"│right,controlflowondata│{len(DATA)}of{len(DATA)}│0of{len(DATA)}│0of{len(DATA)}│" in lines
