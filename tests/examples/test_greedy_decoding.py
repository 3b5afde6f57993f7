"""examples/greedy_decoding.py does what it says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

_HERE = Path(__file__).parents[2] / "examples" / "greedy_decoding.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("greedy_decoding", _HERE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_file_decodes_as_pytorch_does(
    example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = example.main(str(tmp_path / "decoder.onnx"))
    assert capsys.readouterr().out.count("as PyTorch: True") == 3
    assert (tmp_path / "decoder.onnx").exists()
    assert [port.axes[0] for port in program.outputs] == ["batch", "batch"]
    decoder, generator, lengths = example.build(), torch.Generator().manual_seed(0), set()
    for batch, length, limit in ((1, 1, 20), (1, 5, 20), (1, 9, 20), (4, 3, 20), (2, 2, 1), (3, 4, 0)):
        inputs = torch.randint(20, (batch, length), generator=generator), torch.tensor(limit)
        tokens, score = program(*inputs)
        expected = decoder(*inputs)
        assert torch.equal(tokens, expected[0])
        torch.testing.assert_close(score, expected[1])
        lengths.add(tokens.shape[1])
    assert {0, 1, 20} < lengths | {20} and len(lengths) > 3, "some sequences end early"
