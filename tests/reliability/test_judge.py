"""What the fuzzer's judge excuses, and what not: every hole that was found in it has a planted fault here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import onnx
import pytest
import torch

from onward.capture.record.tracer import Tracer
from onward.lower import program_to_model
from onward.passes import pipeline
from reliability.fuzz import judge as judging
from reliability.fuzz.builder import Builder
from reliability.fuzz.declared import misdeclared
from reliability.fuzz.differences import differences
from reliability.fuzz.excuses import CannotCompute, Case, computed, excuses
from reliability.fuzz.generate import generate
from reliability.fuzz.inputs import runs
from reliability.fuzz.judge import judge
from reliability.fuzz.noise import Noise, NoiseFault
from reliability.fuzz.pool import judged
from reliability.fuzz.program import Argument, FuzzProgram, Statement
from reliability.fuzz.report import causes

from . import planted
from .planted import giving, program_of

_LINE = 13  # of the first statement in the file of a program without layers

_FILE = f"fuzzed_5_0.py:{_LINE}"
_BRANCH = (
    f"{_FILE}: a branch depends on the size of axis 'batch': the file holds where `{{}}` is {{}}, and batch = 1 would"
)
_READ = f"{_FILE}: a value was read out of a tensor"
_TRUTH = f"{_READ} (if, while, or bool()), and the file keeps the example's answer (True). Inputs"
_NUMBER = f"{_READ} (.item(), int() or float()), and the file keeps the example's answer ({{}}). Inputs"


_SIZED = "v1 = x0 * 2 if x0.shape[0] > 1 else x0"
_BLOCK = "if x0.mean().item() < 0:\n            v1 = x0 * 2\n        else:\n            v1 = x0"
_ITEM = "v1 = x0 * 2 if x0.abs().sum().item() > -1 else x0"
_FLOAT = "v1 = x0 * 2 if float(x0.abs().sum()) > -1 else x0"


def test_the_lines_of_the_warnings_here_are_those_of_the_first_statement() -> None:
    assert planted.program("v1 = x0 * 2").source().splitlines()[_LINE - 1].strip() == "v1 = x0 * 2"


def _two_more_from(rows: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x0: x0 * 2 + (torch.arange(x0.shape[0]) // rows)[:, None]


def _only_the_examples() -> Callable[[torch.Tensor], torch.Tensor]:
    """Right on the example's values alone, at all sizes."""
    first = planted.program("v1 = x0").example()[0][0, 0]
    return lambda x0: torch.where((x0 - first).abs().min() < 1e-6, x0 * 2, x0 * 3)


@pytest.mark.parametrize(
    ("line", "file", "said", "kind"),
    [
        # (a) Wrong where the warning says, and elsewhere: the second outweighs the first.
        (_SIZED, _two_more_from(4), _BRANCH.format("batch > 1", True), judging.WRONG),
        (_SIZED, lambda x0: x0 * 2, _BRANCH.format("batch > 1", True), judging.WARNED),
        # (b) The condition that the warning states is computed.
        ("v1 = x0 * 2", _two_more_from(2), _BRANCH.format("batch == 100", False), judging.WRONG),
        ("v1 = x0 * 2", _two_more_from(2), _BRANCH.format("zeros_like(...).shape[0] == 1", False), judging.WRONG),
        # (c) A warning that is not listed.
        ("v1 = x0 * 2", _only_the_examples(), "the running statistics of l0 are updated by the model", judging.WRONG),
        ("v1 = x0 * 2", _two_more_from(2), "the file holds for batch = 2", judging.WRONG),
        # (d) The answer at the line is always the same.
        ("v1 = x0 * 2 if (x0.abs() > -1).all() else x0", _two_more_from(2), _TRUTH, judging.WRONG),
        (_FLOAT, _only_the_examples(), _NUMBER.format("3.2"), judging.WRONG),
        (_ITEM, _only_the_examples(), _NUMBER.format(True), judging.WRONG),
        ("v1 = x0 * x0.sum().item()", None, _NUMBER.format("3.2"), judging.WARNED),
        (_BLOCK, lambda x0: x0 * 2, _NUMBER.format(True), judging.WARNED),
        (_BLOCK.replace("x0.mean().item()", "x0.mean()"), lambda x0: x0 * 2, _TRUTH, judging.WARNED),
    ],
    ids=["both", "as warned", "other sizes", "unknown condition", "unlisted", "unlisted of sizes", "same truth",
         "number that decides", "truth of a number", "number that is used", "other side by a number",
         "other side"],
)  # fmt: skip
def test_a_warning_excuses_only_what_it_says(tmp_path: Path, line: str, file: Any, said: str, kind: str) -> None:
    if file is None:
        kept = float(planted.program("v1 = x0").example()[0].sum())
        file = lambda x0: x0 * kept  # noqa: E731
    verdict = judge(planted.program(line), tmp_path, export=giving(file, said))
    assert verdict.kind == kind, verdict.detail


def test_noise_is_drawn_until_a_warning_has_excused_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise of dozens of runs took longer than the export."""
    draws: list[Any] = []
    monkeypatch.setattr(judging, "_draws", lambda reference, run: draws.append(run.label) or ())
    fault = giving(lambda x0: x0 * 2, _NUMBER.format(True))
    assert judge(planted.program(_BLOCK), tmp_path, export=fault).kind == judging.WARNED
    assert len(draws) == 1


def test_a_fault_behind_a_run_that_a_warning_excuses_is_found(tmp_path: Path) -> None:
    fault = giving(lambda x0: x0 * 2 if x0.shape[0] < 4 else x0 * 3, _NUMBER.format(True))
    assert judge(planted.program(_BLOCK), tmp_path, export=fault).kind == judging.WRONG


_DATA = (
    "fuzzed_5_0.py:{line}: a value was read out of a tensor (if, while, or bool()), and the file keeps the example's"
)
_SIZE = "fuzzed_5_0.py:1: a branch depends on the size of axis 'batch': the file holds where `batch < 4` is True, and b"
_LARGE = "fuzzed_5_0.py:{line}: how large a tensor is depends on data here, and the file keeps its size in the example"
_FIXED = "written as fixed: axis 0 of 'x0': it is frozen"


@pytest.mark.parametrize(
    ("warning", "batch", "sign", "excused"),
    [
        (_DATA, 2, -1.0, True),
        (_DATA, 2, 1.0, False),
        (_DATA, 4, 1.0, False),  # shapes differ, and the answer does not
        (_DATA.replace("{line}", "1"), 2, -1.0, False),
        (_SIZE, 2, -1.0, False),
        (_SIZE, 3, -1.0, False),
        (_SIZE, 4, -1.0, True),
        (_LARGE, 2, 1.0, False),
        (_LARGE, 4, 1.0, True),
        (_FIXED, 4, 1.0, True),
        (_FIXED, 2, -1.0, False),
        ("something else", 4, -1.0, False),
    ],
)
def test_excuses_by_warning_sizes_and_data(warning: str, batch: int, sign: float, excused: bool) -> None:
    def model(x0: torch.Tensor) -> torch.Tensor:
        return x0 * 2 if x0.sum() > 0 else x0 - 1

    line = model.__code__.co_firstlineno + 1
    program = planted.program("v1 = x0")
    positive = bool(program.example()[0].sum() > 0)
    x = torch.full((batch, 3), sign if positive else -sign)
    case = Case(program, model, {"batch": batch}, (x,))
    assert excuses([warning.format(line=line)], case) is excused


def test_conditions_on_sizes_are_computed_or_refused() -> None:
    assert computed("number_of_chunks(batch, 3)", {"batch": 4}) == 2
    assert computed("(batch == 1) or (length % 2 == 0)", {"batch": 2, "length": 4}) is True
    for unknown in ("zeros_like(...).shape[0]", "width > 1", "__import__('os')"):
        with pytest.raises(CannotCompute):
            computed(unknown, {"batch": 4})


# (e) Rounding explains elements, and not runs

_SHAKY = "v1 = torch.sign(x0 * 0.1 + x0 * 0.2 - x0 * 0.3)"


def _shaky(x0: torch.Tensor) -> torch.Tensor:
    return -torch.sign(x0 * 0.1 + x0 * 0.2 - x0 * 0.3)


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        (lambda x0: (_shaky(x0), x0 * 2), judging.ILL),
        (lambda x0: (_shaky(x0), x0 * 3), judging.WRONG),
        (lambda x0: (_shaky(x0), (x0 * 2)[:, :1]), judging.WRONG),
        (lambda x0: (_shaky(x0), (x0 * 2).double()), judging.WRONG),
        (lambda x0: _shaky(x0), judging.WRONG),
        (lambda x0: (_shaky(x0) * 100, x0 * 2), judging.WRONG),
    ],
    ids=["as shaky as PyTorch", "other output", "shape", "type", "missing", "too far"],
)
def test_rounding_excuses_only_the_elements_that_it_moves(tmp_path: Path, file: Any, kind: str) -> None:
    program = program_of(_SHAKY, "v2 = x0 * 2", returns="v1, v2")
    assert judge(program, tmp_path, export=giving(file)).kind == kind


def test_rounding_excuses_only_the_integers_that_it_moves(tmp_path: Path) -> None:
    lines = (
        "v1 = torch.sign(x0 * 0.1 + x0 * 0.2 - x0 * 0.3).long()",
        "v2 = (x0 > 0).long()",
        "v3 = torch.cat([v1, v2])",
    )
    program = program_of(*lines, returns="v3")

    def file(x0: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.zeros_like(x0).long(), (x0 > 1e-3).long() + 1])

    assert judge(program, tmp_path, export=giving(file)).kind == judging.WRONG


@pytest.mark.parametrize(
    ("line", "file", "kind"),
    [
        ("x0 * 0.1 + x0 * 0.2 == x0 * 0.3", lambda x0: x0 == x0, judging.ILL),
        ("x0 * 0.1 + x0 * 0.2 != x0 * 0.3", lambda x0: x0 != x0, judging.ILL),
        ("x0 * 0.1 == x0 * 0.1001", lambda x0: x0 == x0, judging.WRONG),
        ("x0 == x0", lambda x0: x0 != x0, judging.WRONG),
        ("x0.sign() == -1", lambda x0: x0.sign() != -1, judging.WRONG),
    ],
)
def test_rounding_makes_equal_only_what_is_nearly_equal(tmp_path: Path, line: str, file: Any, kind: str) -> None:
    program = program_of(f"v1 = {line}", "v2 = x0 * 2", returns="v1, v2")
    assert judge(program, tmp_path, export=giving(lambda x0: (file(x0), x0 * 2))).kind == kind


@pytest.mark.parametrize("weight", ["torch.ones(3)", "torch.tensor([2.0, 0.5, -1.5])"])
@pytest.mark.parametrize(("found", "kind"), [(0, judging.ILL), (100, judging.WRONG)])
def test_a_norm_of_single_elements_is_nothing_or_rounding(tmp_path: Path, weight: str, found: int, kind: str) -> None:
    """PyTorch computes `x * scale - mean * scale`, which may be other than 0 where the mean is x."""
    program = program_of(f"v1 = F.group_norm(x0, 3, {weight})", "v2 = torch.where(v1 > 0)[0]", returns="v2")

    def file(x0: torch.Tensor) -> torch.Tensor:
        return torch.arange(found) + torch.where(x0 > 1e9)[0].sum()

    assert judge(program, tmp_path, export=giving(file)).kind == kind


@pytest.mark.parametrize("norm", ["F.group_norm(x0, 1)", "F.layer_norm(x0, (3,))"])
def test_a_norm_of_several_elements_is_none_of_these(tmp_path: Path, norm: str) -> None:
    program = program_of(f"v1 = {norm}", "v2 = torch.where(v1 > 0)[0]", returns="v2")
    fault = giving(lambda x0: torch.where(x0 - x0.mean(-1, keepdim=True) <= 0)[0])
    assert judge(program, tmp_path, export=fault).kind == judging.WRONG


def test_a_failure_of_the_noise_is_a_fault_of_the_fuzzer(tmp_path: Path) -> None:
    def fails(*_: Any) -> Any:
        raise TypeError("in the noise itself")

    with mock.patch.object(Noise, "_moved", fails), pytest.raises(NoiseFault):
        judge(planted.program("v1 = x0 * 2"), tmp_path, export=planted.another_model)


@pytest.mark.parametrize(("times", "kind"), [(2, judging.ILL), (3, judging.WRONG)])
def test_what_pytorch_leaves_undefined_excuses_what_follows_from_it(tmp_path: Path, times: int, kind: str) -> None:
    program = program_of("v1 = (x0 / 0).int()", "v2 = x0 * 2", returns="v1, v2")
    assert judge(program, tmp_path, export=giving(lambda x0: ((x0 * 0 + 5).int(), x0 * times))).kind == kind


# (f) Crashes in other words


@pytest.mark.parametrize("room", ["capture", "lower", "passes"])
def test_a_crash_of_onwards_is_found_although_it_is_a_clean_error(tmp_path: Path, room: str) -> None:
    def crash(*_: Any, **__: Any) -> Any:
        return {}["a crash of ours"]

    places: dict[str, tuple[Any, str, Any]] = {
        "capture": (Tracer, "_follow", crash),
        "lower": (program_to_model, "results_of", crash),
        "passes": (pipeline, "PIPELINE", (crash, *pipeline.PIPELINE)),
    }
    with mock.patch.object(*places[room]):
        verdict = judge(planted.program("v1 = x0 * 2"), tmp_path)
    assert verdict.kind == judging.INTERNAL and judging.INTERNAL in judging.BAD
    assert "a crash of ours" in verdict.detail


def test_an_error_of_the_models_own_is_no_crash(tmp_path: Path) -> None:
    wrong = program_of("v1 = {}[x0]")
    module = wrong.imported(tmp_path)

    def exported(asked: FuzzProgram, model: Any, example: tuple[torch.Tensor, ...]) -> Any:
        return judging.export(asked, wrong.build(module), example)

    verdict = judge(planted.program("v1 = x0 * 2"), tmp_path, export=exported)
    assert verdict.kind == judging.ERROR and "KeyError in forward" in verdict.detail


# (g) What the export leaves behind


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (planted.leaves_it_broken, "it no longer runs"),
        (planted.leaves_it_training, "the mode of"),
        (planted.leaves_other_weights, "the tensor l0.weight"),
        (planted.fails_and_leaves_it_training, "the mode of"),
    ],
)
def test_an_export_that_changes_the_model_is_found(tmp_path: Path, fault: judging.Export, said: str) -> None:
    program = replace(planted.program("v1 = self.l0(x0)"), inits=("self.l0 = nn.Linear(3, 3)",))
    verdict = judge(program, tmp_path, export=fault)
    assert (verdict.kind, said in verdict.detail) == (judging.CHANGED, True), verdict.detail


def test_expected_results_are_those_from_before_the_export(tmp_path: Path) -> None:
    verdict = judge(planted.program("v1 = x0 * 2"), tmp_path, export=planted.wrong_and_leaves_it_broken)
    assert verdict.kind == judging.WRONG


# (h) Tolerances


def test_a_coarse_type_loosens_only_the_outputs_that_it_reaches(tmp_path: Path) -> None:
    program = replace(
        program_of("v1 = x0 * 2", "v2 = x0.half()", returns="v1, v2"), coarse={"v1": torch.float32, "v2": torch.float16}
    )
    off = giving(lambda x0: (x0 * 2.018, x0.half()))
    assert judge(program, tmp_path, export=off).kind == judging.WRONG
    assert judge(replace(program, coarse={"v1": torch.float16}), tmp_path, export=off).kind == judging.AGREES


def test_the_builder_follows_coarse_types_through_reads_and_writes() -> None:
    import random

    builder = Builder(random.Random(1), 1, (Argument("x0", torch.float32, (2, 3)),), [{}])
    for line in (
        "v1 = x0 + 1",
        "v2 = v1[0]",
        "v3 = x0.half()",
        "v4 = v3.float() * 2",
        "v5 = x0 * 2",
        "v6 = x0.half().float()",
    ):
        assert builder.add(lambda _, line=line: [line])
    builder.writing = True
    statement = Statement(("v1[0] = v4[0]",), (), ("v1", "v4"))
    builder._see_all(statement)
    half = {name for name, dtype in builder.coarse.items() if dtype is torch.float16}
    assert half == {"v1", "v2", "v3", "v4", "v6"}  # v2 is a view of v1


# (i) What the file says of itself


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (planted.declares_other_sizes, judging.INVALID, "onnx's checker"),
        (planted.declares_another_rank, judging.INVALID, "onnx's checker"),
        (planted.declares_a_wrong_name, judging.WRONG, "is declared with the shape ['batch', 3] and has [4, 3]"),
    ],
)
def test_what_a_file_declares_is_compared(tmp_path: Path, fault: judging.Export, kind: str, said: str) -> None:
    program = program_of("v1 = x0 * 2", "v2 = torch.cat([x0, x0])", returns="v1, v2")
    verdict = judge(program, tmp_path, export=fault)
    assert (verdict.kind, said in verdict.detail) == (kind, True), verdict.detail


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (torch.zeros(4, 3), ""),
        (torch.zeros(4, 3).double(), "is declared as FLOAT and is torch.float64"),
        (torch.zeros(4, 3, 1), "is declared with the shape ['batch', 3] and has [4, 3, 1]"),
        (torch.zeros(4, 2), "is declared with the shape ['batch', 3] and has [4, 2]"),
        (torch.zeros(5, 3), "is declared with the shape ['batch', 3] and has [5, 3]"),
    ],
)
def test_types_ranks_and_sizes_are_held_against_the_declaration(found: torch.Tensor, said: str) -> None:
    output = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 3])
    proto = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [output]))
    assert misdeclared(proto, [found], {"batch": 4}) == (f"output 'y' {said}" if said else "")


# (j) Numbers


@pytest.mark.parametrize(
    ("want", "have", "same"),
    [(100000, 100001, False), (100000, 100000, True), (1, True, False), (True, True, True), (2, 2.0, False),
     (2.0, 2.0 + 1e-6, True), (2.0, 2.1, False), (7, torch.tensor(7), True), (7, torch.tensor(7.0), False)],
)  # fmt: skip
def test_numbers_are_compared_by_type_and_value(want: Any, have: Any, same: bool) -> None:
    assert (not differences(planted.program("v1 = x0"), want, have)) is same


# (k) What PyTorch refuses


def test_what_pytorch_refuses_is_judged_again_in_a_fresh_process() -> None:
    verdicts = dict(judged(range(4), 1, planted.refuses_behind_others))
    assert [verdicts[seed].kind for seed in range(4)] == [
        judging.AGREES, judging.EXCEPTION, judging.EXCEPTION, judging.REFUSED,
    ]  # fmt: skip
    assert "not in a fresh process: too late" in verdicts[1].detail
    assert any(line.startswith(f"{judging.REFUSED}: 1 x always") for line in causes(verdicts))


# (l) Inputs and results


def test_every_axis_is_1_alone() -> None:
    program = replace(planted.program("v1 = x0"), axes={"batch": 2, "length": 4}, dynamic=("batch", "length"))
    tried = program.other_sizes()
    for alone, other in (("batch", "length"), ("length", "batch")):
        assert any(each[alone] == 1 and 3 <= each[other] <= 5 for each in tried)


def test_every_program_gets_values_that_are_negated_large_rounded_and_masks_of_one_kind() -> None:
    program = planted.program("v1 = x0")
    arguments = (*program.arguments, Argument("mask1", torch.bool, ("batch",)))
    found = {each.label: each.inputs for each in runs(replace(program, arguments=arguments))}
    assert {"negated values", "large values", "rounded values"} <= found.keys()
    assert torch.equal(found["rounded values"][0], found["rounded values"][0].round())
    assert bool(found["masks all True"][1].all()) and not bool(found["masks all False"][1].any())


def test_a_fault_at_zero_alone_is_found(tmp_path: Path) -> None:
    verdict = judge(
        planted.program("v1 = x0 * 2"), tmp_path, export=giving(lambda x0: torch.where(x0 == 0, 1.0, x0 * 2))
    )
    assert verdict.kind == judging.WRONG and verdict.detail.startswith("rounded values")


def _dead(program: FuzzProgram) -> list[Statement]:
    import re

    read = set(re.findall(r"\b[a-z]+\d+\b", program.returns))
    dead = []
    for statement in reversed(program.body):
        returns = any("return" in line for line in statement.lines)
        if returns or not statement.targets or read.intersection(statement.targets):
            read.update(statement.sources)
        else:
            dead.append(statement)
    return dead


def test_nearly_every_statement_has_a_part_in_what_is_returned() -> None:
    programs = [generate(seed) for seed in range(60)]
    programs = [each for each in programs if "control.early" not in each.tags]
    dead = sum(len(_dead(each)) for each in programs)
    assert dead <= 0.12 * sum(len(each.body) for each in programs)  # the others assign what is the same for all inputs


def test_what_is_the_same_for_all_inputs_is_not_returned() -> None:
    import random

    builder = Builder(random.Random(1), 1, (Argument("x0", torch.float32, (2, 3)),), [{}])
    for line in ("v1 = x0 + 1", "v2 = torch.zeros_like(x0)", "v3 = x0.shape[0]"):
        assert builder.add(lambda _, line=line: [line])
    assert builder.varying() == {"x0", "v1"}
