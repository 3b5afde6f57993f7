"""The sweep at a size of 0 sees wrong files, and asks only what PyTorch answers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from reliability.fuzz.judge import AGREES, WRONG
from reliability.zero.__main__ import main
from reliability.zero.cases import Case, cases
from reliability.zero.judge import judge
from reliability.zero.listed import LISTED

PAGE = Path(__file__).resolve().parents[2] / "docs" / "known-defects.md"


def test_a_wrong_file_is_seen() -> None:
    asked = cases("nn.functional.relu", "float32")[0]
    assert judge(asked).kind == AGREES
    wrong = Case(asked.text, asked.model, asked.example, asked.axes, asked.inputs, (torch.zeros(0, 7),))
    verdict = judge(wrong)
    assert verdict.kind == WRONG
    assert "the shape is" in verdict.detail


def test_nothing_is_asked_that_pytorch_refuses() -> None:
    """The largest of no elements does not exist; an axis beside it may be empty."""
    axes = {each.axes for each in cases("max:reduction_with_dim", "float32")}
    assert axes
    for case in cases("max:reduction_with_dim", "float32"):
        assert all(0 in case.inputs[place].shape for place, _ in case.axes)


def test_some_operators_and_layers_at_a_size_of_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--names", "isin,cumsum,nn.Linear,nn.GLU", "--jobs", "1"]) == 0
    assert "| in known-defects.md | 1 | `nn.GLU` |" in capsys.readouterr().out


@pytest.mark.parametrize("words", LISTED.values())
def test_what_is_listed_is_on_the_page(words: str) -> None:
    assert words in PAGE.read_text(encoding="utf-8").replace("\n", " ")
