"""The fuzzer finds what is planted, in every class, and a slice of its programs finds nothing new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from onward.verify import compare
from reliability.fuzz import judge as judging
from reliability.fuzz.__main__ import main
from reliability.fuzz.generate import decides, generate
from reliability.fuzz.inputs import runs
from reliability.fuzz.judge import BAD, Verdict, judge
from reliability.fuzz.minimize import minimized
from reliability.fuzz.noise import Noise
from reliability.fuzz.pool import judged
from reliability.fuzz.program import FuzzProgram, Statement
from reliability.fuzz.report import lines, signature
from reliability.fuzz.tasks import judge_seed
from reliability.page import record

from . import planted

SLICES = [range(60), range(100, 160)]


def test_a_right_file_agrees_at_the_example_on_fresh_values_and_at_other_sizes(tmp_path: Path) -> None:
    verdict = judge(planted.program("v1 = x0 * 2"), tmp_path)
    assert (verdict.kind, verdict.runs) == (judging.AGREES, 8)


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (planted.another_model, judging.WRONG, "example: output '0' differs"),
        (planted.wrong_at_other_sizes, judging.WRONG, "at {'batch': "),
        (planted.wrong_and_said_so, judging.WARNED, "at {'batch': "),
        (planted.wrong_at_the_example_and_said_so, judging.WRONG, "example"),
        (planted.clean_error, judging.ERROR, "CaptureError: it cannot be followed"),
        (planted.other_exception, judging.EXCEPTION, "KeyError: 'surprise'"),
        (planted.not_a_model, judging.UNLOADABLE, "onnxruntime does not load the model"),
    ],
)
def test_a_planted_fault_is_found_in_its_class(tmp_path: Path, fault: judging.Export, kind: str, said: str) -> None:
    verdict = judge(planted.program("v1 = x0 * 2"), tmp_path, export=fault)
    assert verdict.kind == kind
    assert said in verdict.detail


def test_a_result_that_rounding_decides_is_called_so_and_not_wrong(tmp_path: Path) -> None:
    shaky = planted.program("v1 = torch.sign(x0 * 0.1 + x0 * 0.2 - x0 * 0.3)")
    zero = planted.giving(torch.zeros_like)
    assert judge(shaky, tmp_path, export=zero).kind == judging.ILL


def test_a_program_that_pytorch_refuses_is_thrown_away(tmp_path: Path) -> None:
    assert judge(planted.program("v1 = x0.view(7, 7)"), tmp_path).kind == judging.REFUSED


def test_a_dead_process_a_hanging_one_and_a_mistake_of_the_fuzzer_are_recorded_and_the_run_goes_on() -> None:
    verdicts = dict(judged(range(5), 1, planted.judge_or_die, seconds=0.5))
    assert {seed: each.kind for seed, each in verdicts.items()} == {
        0: judging.AGREES, 1: judging.DIED, 2: judging.TIMEOUT, 3: judging.EXCEPTION, 4: judging.AGREES,
    }  # fmt: skip
    assert "exit code 7" in verdicts[1].detail
    assert "in the fuzzer: ValueError" in verdicts[3].detail


def test_a_seed_always_makes_the_same_program() -> None:
    for seed in range(10):
        first, second = generate(seed), generate(seed)
        assert first.source() == second.source()
        assert first.options() == second.options()


def test_programs_use_every_family_front_end_and_number_of_axes() -> None:
    programs = [generate(seed) for seed in range(300)]
    assert {each.front for each in programs} == {"trace", "script", "exported"}
    assert {len(each.dynamic) for each in programs} == {0, 1, 2, 3}
    families = {tag.split(".")[0] for each in programs for tag in each.tags}
    assert families == {
        "pointwise",
        "shapes",
        "indexing",
        "reductions",
        "layers",
        "sizes",
        "types",
        "writes",
        "control",
        "decisions",
    }
    assert {size for each in programs for size in each.axes.values()} >= {1, 2, 3, 4}


def test_programs_that_decide_on_data_are_given_data_for_either_side() -> None:
    seed = next(seed for seed in range(100) if decides(seed))
    program = generate(seed)
    assert program.decides and not planted.program("v1 = x0").decides
    labels = [each.label for each in runs(program)]
    assert "negated values" in labels and labels.count("fresh values") == 5


def test_sizes_to_compare_at_have_one_two_and_four_times_the_example() -> None:
    tried = [each["batch"] for each in planted.program("v1 = x0").other_sizes()]
    assert 1 in tried and 8 in tried and 2 not in tried  # the example has 2
    assert 0 in [each["batch"] for each in planted.program("v1 = x0").other_sizes(zero=True)]


def test_minimizing_keeps_what_the_find_needs_and_drops_the_rest(tmp_path: Path) -> None:
    body = (
        Statement(("v1 = x0 + 1",), ("v1",), ("x0",)),
        Statement(("v2 = self.l0(v1)",), ("v2",), ("v1",)),
        Statement(("v3 = torch.relu(v2)",), ("v3",), ("v2",)),
        Statement(("v4 = v3 * 2",), ("v4",), ("v3",)),
    )
    whole = planted.program("v1 = x0").with_body(body, "v4, v1")
    whole = FuzzProgram(**{**vars(whole), "inits": ("self.l0 = nn.Linear(3, 3)",)})

    def still(candidate: FuzzProgram) -> bool:
        return "torch.relu(" in candidate.source() and judge(candidate, tmp_path).kind == judging.AGREES

    small = minimized(whole, still)
    assert [line for each in small.body for line in each.lines] == ["v3 = torch.relu(x0)"]
    assert (small.inits, small.returns, small.dynamic) == ((), "v3", ())


def test_the_report_counts_by_class_and_names_seeds(tmp_path: Path) -> None:
    verdicts = {
        1: Verdict(judging.AGREES, runs=6),
        7: Verdict(judging.WRONG, "at {'n': 3}: 5 of 9"),
        9: Verdict(judging.REFUSED),
    }
    told = lines(verdicts, "a command", 60.0)
    assert told[0].startswith("`a command`: 3 programs, 2 of them accepted by PyTorch, 6 runs compared")
    assert "| wrong without a word | 1 | 7 |" in told
    page = tmp_path / "page.md"
    page.write_text("<!-- fuzz: begin -->\nold\n<!-- fuzz: end -->\n", encoding="utf-8")
    record("fuzz", told, page)
    assert "old" not in page.read_text(encoding="utf-8")
    assert signature("at {'n': 3}: 5 of 9") == signature("at {'n': 12}: 6 of 10")


def test_the_command_shows_a_program_and_its_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed-of-program", "0"]) == 0
    shown = capsys.readouterr().out
    assert "class Model(nn.Module):" in shown
    assert "agrees" in shown


@pytest.mark.parametrize("seeds", SLICES, ids=str)
def test_a_slice_of_random_programs_finds_nothing_new(seeds: range) -> None:
    """`make fuzz` is the whole. `python -m reliability.fuzz --seed-of-program S` shows one of these."""
    found = {seed: each.detail for seed, each in judged(seeds, 1, judge_seed) if each.kind in BAD}
    assert not found


def _saturated() -> torch.nn.LSTM:
    layer = torch.nn.LSTM(3, 3)
    torch.nn.init.constant_(layer.bias_ih_l0[:3], -16.0)  # the input gate is all but shut
    return layer


@pytest.mark.parametrize(
    ("function", "x", "stable"),
    [
        (torch.nn.LSTM(3, 3), torch.randn(4, 2, 3), True),
        (_saturated(), torch.randn(4, 2, 3), False),
        (lambda x: torch.nn.functional.gelu(x, approximate="tanh"), torch.linspace(-3, 3, 20), True),
        (lambda x: torch.nn.functional.gelu(x, approximate="tanh"), torch.tensor([-4.1, -3.9]), False),
        (lambda x: torch.cdist(x, x[:20] + 1), torch.randn(30, 4), True),
        (lambda x: torch.cdist(x, x), torch.randn(30, 4), False),
        (lambda x: torch.cdist(x, x), torch.randn(20, 4), True),
        (lambda x: x.sum((0, -1)), torch.linspace(-1, 2, 12).reshape(3, 4), True),
        (lambda x: x.sum((0, -1)), torch.cat([torch.linspace(-1, 1, 12), torch.tensor([7e-4])]).reshape(1, 13), False),
        (lambda x: x @ x.mT, torch.tensor([[1.0, 0.7, -0.5], [0.5, 0.2, 1.0]]), True),
        (lambda x: x[0] @ x[1], torch.tensor([[1.0, 0.7, -0.5], [0.5, 1e-4, 1.0]]), False),
    ],
    ids=[
        "lstm",
        "shut lstm",
        "gelu",
        "gelu of nothing",
        "distances",
        "equal rows",
        "few equal rows",
        "sum",
        "sum of nothing",
        "products",
        "product of nothing",
    ],
)
def test_noise_moves_what_rounding_moves(function: Any, x: torch.Tensor, stable: bool) -> None:
    def result() -> torch.Tensor:
        with torch.no_grad():
            found = function(x.clone())
        return found if isinstance(found, torch.Tensor) else found[0]

    expected, moved = result(), []
    for seed in range(16):
        with Noise(seed):
            moved.append(result())
    assert all(compare(expected, each, "y", None).ok for each in moved) is stable
    torch.testing.assert_close(result(), expected, rtol=0, atol=0)
