"""The KV-cache example runs, and its three ways to generate agree."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch


def load_example(name: str) -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_says_the_same_three_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_example("kv_cache").main(tmp_path / "decoder.onnx")
    *_, first, second, third = capsys.readouterr().out.strip().splitlines()
    answers = {line[line.index("[") :] for line in (first, second, third)}
    assert len(answers) == 1
    assert len(answers.pop().split(",")) == 16


def test_a_prompt_in_pieces_is_a_prompt(tmp_path: Path) -> None:
    example = load_example("kv_cache")
    torch.manual_seed(1)
    model = example.Decoder().eval()
    program = example.export(model, tmp_path / "decoder.onnx")
    tokens = torch.randint(0, example.WORDS, (1, 9))
    whole = program(tokens, torch.arange(9))
    program.reset_state()
    program(tokens[:, :4], torch.arange(4))
    program(tokens[:, 4:5], torch.arange(4, 5))
    assert torch.allclose(program(tokens[:, 5:], torch.arange(5, 9)), whole, atol=1e-5)
    assert not model.layers[0].keys.any(), "the export wrote to the model's own cache"
