"""examples/quantisation_aware_training.py: evaluation and onnxruntime agree on every element."""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_kv_cache import load_example


def test_quantisation_aware_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        right = load_example("quantisation_aware_training").main(tmp_path / "q.onnx")
    finally:
        import onward

        onward.restore()
    assert "equal elements: 100.000%" in capsys.readouterr().out
    assert min(right) > 0.95
