"""`onward ops`, once through the real executable."""

from __future__ import annotations

import json

import pytest

from onward.cli.commands.ops import in_words
from onward.cli.operator_record import load
from tests.cli.running import invoke, onward


def test_the_table_says_what_is_recorded() -> None:
    done = onward("ops", "nn.functional.conv2d")
    assert done.returncode == 0, done.stderr
    head, row, *rest = done.stdout.splitlines()
    assert head.split() == ["operator", "dtypes", "opsets", "dynamic", "axes"]
    assert row.split()[:2] == ["nn.functional.conv2d", "float32"]
    assert row.split()[-2:] == ["9+", "yes"]
    assert rest[-1].startswith("1 operators, recorded with torch 2.")


def test_patterns_and_parts_of_names_choose() -> None:
    found = json.loads(invoke("ops", "fft.*", "--json").stdout)["operators"]
    assert {each["operator"] for each in found} == {name for name in load().marks if name.startswith("fft.")}
    found = json.loads(invoke("ops", "softmax", "--json").stdout)["operators"]
    assert {"softmax", "log_softmax"} <= {each["operator"] for each in found}


def test_what_fails_comes_with_the_reason() -> None:
    found = json.loads(invoke("ops", "unique", "--failing", "--json").stdout)["operators"]
    (own,) = [each for each in found if each["operator"] == "unique"]
    assert "has no lowering for opset 9 (exists from 11)" in own["reasons"]["9"]
    assert (
        invoke("ops", "neg", "--failing").stdout
        == "of the operators like 'neg', none is recorded as failing in float32\n"
    )


def test_the_registry_of_lowerings() -> None:
    done = invoke("ops", "--aten", "gelu")
    assert done.stdout.splitlines()[1].split() == ["aten.gelu.default", "9,", "20"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ops", "no_such_thing"], "no operator is called like 'no_such_thing'"),
        (["ops", "--dtype", "int7"], "nothing is recorded for 'int7', only for bfloat16, bool"),
        (["ops", "--opset", "3"], "nothing is recorded for float32 at opset 3, only at 9, 11"),
        (["oops"], "No such command 'oops'"),
    ],
)
def test_mistakes_are_told_in_a_sentence(arguments: list[str], message: str) -> None:
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr and "Traceback" not in done.stderr
    if arguments[0] == "ops":
        told = json.loads(invoke(*arguments, "--json").stdout)
        assert not told["ok"] and message in told["error"]["what"]


def test_help_and_version() -> None:
    assert "onward ops --failing" in invoke("ops", "--help").stdout
    assert invoke("--version").stdout == "onward 0.1.0\n"


@pytest.mark.parametrize(
    ("passed", "judged", "words"),
    [
        ([9, 11, 13], [9, 11, 13], "9+"),
        ([13], [9, 11, 13], "13+"),
        ([9, 13], [9, 11, 13], "9, 13"),
        ([], [9], "none"),
        ([], [], "-"),
    ],
)
def test_opsets_in_words(passed: list[int], judged: list[int], words: str) -> None:
    assert in_words(passed, judged) == words
