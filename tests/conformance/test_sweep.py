"""The sweep can tell right from wrong."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import onward
from conformance.invariants import INVARIANTS
from conformance.judge import Settings, compare, exporter, judge
from conformance.operators import chosen, why_left_out
from conformance.report import failures, passes, summary
from conformance.samples import Sample, samples

ROOT = Path(__file__).resolve().parents[2]


def first(name: str, dtype: torch.dtype = torch.float32) -> Sample:
    return samples(chosen([name])[name], dtype, 1)[0][0]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ["add", "where", "cumsum"])
def test_a_right_export_passes(name: str, dynamic: bool) -> None:
    assert judge(first(name), exporter(Settings(dynamic=dynamic))).status == "pass"


def test_bfloat16_goes_in_and_out() -> None:
    assert judge(first("neg", torch.bfloat16), exporter(Settings())).status == "pass"


def test_a_wrong_file_is_a_mismatch_and_a_frozen_one_is_baked() -> None:
    sample = first("mul")

    def wrong(sample: Sample, path: Path) -> None:
        names = [f"in_{place}" for place in range(len(sample.inputs))]
        onward.export(lambda x, y: x + y, sample.inputs, path, input_names=names)

    def frozen(sample: Sample, path: Path) -> None:
        answer = sample.expected[0]
        onward.export(lambda x, y: x * 0 + answer, sample.inputs, path, input_names=["in_0", "in_1"])

    def refuses(sample: Sample, path: Path) -> None:
        raise ValueError("no") from KeyError("the cause")

    assert judge(sample, wrong).status == "mismatch"
    assert judge(sample, frozen).status == "baked"
    verdict = judge(sample, refuses)
    assert (verdict.status, verdict.reason) == ("export", "KeyError: 'the cause'")


def test_results_are_compared_by_number_shape_kind_and_value() -> None:
    x = torch.ones(2)
    assert compare([x], [x]) == ""
    assert compare([x], [x, x]) == "2 results in place of 1"
    assert compare([x], [torch.ones(3)]) == "result 0 has shape [3] in place of [2]"
    assert compare([x], [x.long()]) == "result 0 has dtype torch.int64 in place of torch.float32"
    assert compare([x.long()], [x.long() + 1]) == "result 0 differs in 2 of 2 values"


@pytest.mark.parametrize("name", ["linalg.eigh", "linalg.svd", "svd"])
def test_vectors_are_right_with_either_sign_and_wrong_otherwise(name: str) -> None:
    x = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0))
    right = list(getattr(torch if name == "svd" else torch.linalg, name.split(".")[-1])(x + x.mT))
    flipped = [each * (-1 if each.dim() == 3 else 1) for each in right]
    assert compare(right, flipped, INVARIANTS[name]) == ""
    turned = right[-1].roll(1, -1)
    assert "differs" in compare(right, [*right[:-1], turned], INVARIANTS[name])
    assert "differs" in compare(right, [*right[:-1], right[-1] * 1.1], INVARIANTS[name])


def test_types_of_few_digits_may_be_some_roundings_off() -> None:
    one, large = torch.ones(1, dtype=torch.bfloat16), torch.full((1,), 64.0, dtype=torch.bfloat16)
    assert compare([one], [one + 2**-6]) == ""
    assert compare([one], [one + 2**-5]) == "result 0 differs in 1 of 1 values"
    assert compare([one], [one + 0.5], inputs=(large,)) == ""  # what is left of 64 - 63 is known to half of one
    single = one.float()
    assert compare([single], [single + 2**-6], inputs=(large.float(),)) == "result 0 differs in 1 of 1 values"


def test_what_more_digits_give_is_right_too() -> None:
    sample = first("logaddexp", torch.float16)
    inputs = (torch.tensor([20.0, 3.0], dtype=torch.float16), torch.tensor([20.0, 4.0], dtype=torch.float16))
    overflown = replace(sample, inputs=inputs, expected=[torch.tensor([torch.inf, 4.3125], dtype=torch.float16)])
    overflown = replace(overflown, other_inputs=None)
    assert judge(overflown, exporter(Settings())).status == "pass"
    wrong = replace(overflown, model=replace_call(sample, torch.hypot))
    assert judge(wrong, lambda _, path: exporter(Settings())(overflown, path)).status == "mismatch"


def replace_call(sample: Sample, function: Any) -> Any:
    model = copy.copy(sample.model)
    model._function = function
    return model


@pytest.mark.parametrize(("name", "place"), [("sort", 1), ("argsort", 0), ("topk", 1)])
def test_any_of_equal_elements_may_be_named_but_none_twice(name: str, place: int) -> None:
    call = {"sort": torch.sort, "argsort": torch.argsort, "topk": lambda x: torch.topk(x, 2)}[name]
    inputs = (torch.tensor([1.0, 2.0, 2.0]),)
    found = call(inputs[0])
    right = [found] if isinstance(found, torch.Tensor) else list(found)

    def otherwise(places: dict[int, int]) -> list[torch.Tensor]:
        changed = list(right)
        changed[place] = right[place].clone().apply_(lambda number: places.get(number, number))
        return changed

    invariants = first(name).invariants_of(inputs)
    assert compare(right, otherwise({1: 2, 2: 1}), invariants) == ""
    assert "differs" in compare(right, otherwise({1: 0, 0: 1}), invariants)
    assert "differs" in compare(right, otherwise({2: 1}), invariants)


def test_what_is_out_of_scope_says_why() -> None:
    assert why_left_out("randn") == "random"
    with pytest.raises(SystemExit, match="randn \\(random\\), no_such_operator"):
        chosen(["randn", "no_such_operator"])


def test_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    sweep = [sys.executable, "-W", "ignore", "-m", "conformance"]
    command = [*sweep, "--ops", "neg,fft.fft", "--jobs", "1", "--json", str(out)]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "float32: 1 of 1 operators (100.0%), 1 of 1 samples" in shown
    results = list(json.loads(out.read_text())["results"].values())
    assert sorted(unit["op"] for unit in results) == ["fft.fft", "neg"]
    assert [passes(unit) for unit in results] == [True, True]
    assert summary(results) in shown and failures(results) == ""
