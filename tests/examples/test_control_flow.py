"""examples/newton.py and examples/scan_rnn.py: one loop in the file, right for every number of turns."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from .test_kv_cache import load_example


def test_newton(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = load_example("newton")
    example.main(tmp_path / "newton.onnx")
    assert capsys.readouterr().out.count("turns, off by") == 4
    program = example.export(tmp_path / "newton.onnx")
    assert [node.op_type for node in program.model.graph].count("Loop") == 1
    assert [port.shape for port in program.outputs] == [("batch", "n", "n"), ()]
    turns = []
    for size, tolerance in ((2, 1e-1), (4, 1e-4), (8, 1e-5), (5, 1e9)):
        matrix = example.regular(2, size, seed=size)
        inverse, count = program(matrix, torch.tensor(tolerance))
        turns.append(int(count))
        assert (matrix @ inverse - torch.eye(size)).abs().max() <= tolerance
    assert turns[-1] == 0 and len(set(turns)) >= 3, "good enough from the start, and some other numbers of turns"


def test_scan_rnn(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    example = load_example("scan_rnn")
    monkeypatch.setitem(sys.modules, example.__name__, example)  # PyTorch's compiler looks functions up by name
    example.main(tmp_path / "tagger.onnx")
    assert capsys.readouterr().out.count("off by") == 6
    torch.manual_seed(1)
    model = example.Tagger().eval()
    for program in (example.export(model, tmp_path / "tagger.onnx"), example.export_through_torch(model)):
        assert [node.op_type for node in program.model.graph].count("Loop") == 2
        assert [port.shape for port in program.outputs] == [("time", "batch", 5), ("batch", 16)]
        for time, batch in ((1, 1), (13, 3)):
            x = torch.randn(time, batch, 6)
            with torch.no_grad():
                torch.testing.assert_close(program(x), model.step_by_step(x), rtol=1e-4, atol=1e-5)
