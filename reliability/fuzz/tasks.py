"""What worker processes are asked to do; they import it by name."""

from __future__ import annotations

from pathlib import Path

from .generate import generate
from .judge import Verdict, judge
from .program import FuzzProgram


def judge_seed(seed: int, folder: Path, *, zero: bool = False) -> Verdict:
    return judge(generate(seed), folder, zero=zero)


def judge_program(_: int, folder: Path, *, program: FuzzProgram, zero: bool = False) -> Verdict:
    return judge(program, folder, zero=zero)
