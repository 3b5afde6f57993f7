"""The parameters of `export` are declared once: what a type checker, `help` and the checks know of them agrees with the
declaration."""

from __future__ import annotations

import dataclasses
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import torch

import onward
from onward.given_parameters import resolve
from onward.options import ExportOptions
from onward.parameters import ACTING, PARAMETERS, POSITIONAL

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
OF_THE_CALL = ("model", "args", "f", "kwargs")


# --- a type checker --------------------------------------------------------------------------------------------------
DEFAULTS = {name: each.default for name, each in PARAMETERS.items() if isinstance(each.default, bool | str | int)}
CALLS = {
    "every name": (f"onward.export(model, x, {', '.join(f'{name}=None' for name in PARAMETERS)})", None),
    "every default": (f"onward.export(model, x, {', '.join(f'{name}={DEFAULTS[name]!r}' for name in DEFAULTS)})", None),
    "the call itself": ("onward.export(model=model, args=(x,), f=io.BytesIO(), kwargs={})", None),
    "by position": ("onward.export(model, x, 'm.onnx', True, False, None, ['x'], ['y'])", None),
    "from api": ("from onward.api import export; export(model, x, opset_version=17).check()", None),
    "a misspelt name": (
        "onward.export(model, x, dynamic_axis={})",
        'Unexpected keyword argument "dynamic_axis" for "export"; did you mean',
    ),
    "a misspelt name from api": (
        "from onward.api import export; export(model, x, opset=17)", 'Unexpected keyword argument "opset" for "export"',
    ),
    "a wrong type": (
        "onward.export(model, x, verify='yes')",
        'Argument "verify" to "export" has incompatible type "str"; expected "bool | None"',
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy says of each call."""
    file = tmp_path_factory.mktemp("typed") / "calls.py"
    before = ["import io", "import onward", "import torch", "model, x = torch.nn.Linear(2, 3), torch.ones(1, 2)"]
    file.write_text("\n".join([*before, *(call for call, _ in CALLS.values())]) + "\n")
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--no-error-summary", str(file)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found: dict[str, list[str]] = {name: [] for name in CALLS}
    for line in run.stdout.splitlines():
        place = re.match(r".*calls\.py:(\d+): error: (.*)", line)  # mypy may name the equal file of an earlier run
        if place:
            found[[*CALLS][int(place[1]) - len(before) - 1]].append(place[2])
    assert run.returncode == 1 and not run.stderr, run.stdout + run.stderr  # some of the calls are wrong
    return found


@pytest.mark.parametrize("name", CALLS)
def test_a_type_checker_refuses_a_wrong_call_and_no_other(name: str, complaints: dict[str, list[str]]) -> None:
    text = CALLS[name][1]
    if text is None:
        assert complaints[name] == []
    else:
        assert len(complaints[name]) == 1 and text in complaints[name][0]


# --- at run time -----------------------------------------------------------------------------------------------------
def test_the_signature_has_every_parameter_with_its_type_and_default() -> None:
    shown = inspect.signature(onward.export).parameters
    assert set(shown) == {*OF_THE_CALL, *PARAMETERS}
    assert list(shown)[:3] == ["model", "args", "f"] and tuple(shown)[3:8] == POSITIONAL
    for name, parameter in PARAMETERS.items():
        assert (shown[name].default, shown[name].annotation) == (parameter.default, parameter.type), name
        by_position = shown[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        assert by_position == (name in POSITIONAL), name
    assert inspect.signature(onward.export).return_annotation is onward.Program
    assert shown["opset_version"].annotation == int | None and shown["opset_version"].default == 20


@pytest.mark.parametrize("name", PARAMETERS)
def test_help_says_what_a_parameter_means(name: str) -> None:
    words = " ".join((onward.export.__doc__ or "").split())
    assert f" {name} {PARAMETERS[name].meaning}" in words


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_meaning_is_one_sentence(name: str) -> None:
    meaning = PARAMETERS[name].meaning
    if PARAMETERS[name].origin == "without meaning":
        assert not meaning.endswith(".")  # it is the end of a warning
    else:
        assert meaning[0].isupper() and meaning.endswith(".") and ". " not in meaning


def test_the_options_of_an_export_are_the_declared_ones() -> None:
    assert {each.name for each in dataclasses.fields(ExportOptions)} == set(ACTING)
    types = get_type_hints(ExportOptions)
    for name in ACTING:
        declared = PARAMETERS[name].type
        assert declared is Any or types[name] == declared or (types[name] | None) == declared, name


def test_what_is_not_given_is_as_declared() -> None:
    options = resolve((), {}, None)
    assert {name: getattr(options, name) for name in ACTING} == {name: PARAMETERS[name].default for name in ACTING}
    assert resolve((), dict.fromkeys(PARAMETERS), None) == options


@pytest.mark.parametrize(
    ("name", "near"),
    [("opset", "opset_version"), ("Verify", "verify"), ("dynamic_axis", "dynamic_axes"), ("arg", "args")],
)
def test_a_misspelt_name_is_refused_and_the_nearest_one_named(name: str, near: str) -> None:
    with pytest.raises(TypeError) as caught:
        onward.export(torch.nn.Linear(2, 3), torch.ones(1, 2), **{name: True})  # type: ignore[arg-type]
    assert str(caught.value) == f"export() got an unexpected keyword argument {name!r}; did you mean {near!r}?"


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_documentation_has_every_parameter(name: str) -> None:
    pages = ["migrating.md"] if PARAMETERS[name].origin != "onward" else [path.name for path in DOCS.glob("*.md")]
    assert any(
        re.search(rf"^#+ .*\b{name}\b|`{name}[`=]|\b{name}=", (DOCS / page).read_text(), re.MULTILINE) for page in pages
    )
