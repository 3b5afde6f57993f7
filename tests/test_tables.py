"""Tables of functions refuse a second function for a key, and name both places."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from onward.capture.decompose.decompositions import rule
from onward.capture.decompose.linalg import cholesky
from onward.capture.functions import counts, intercepts
from onward.capture.memory.aliasing import _inverse
from onward.lower.fold import folds
from onward.tables import enter, merged, place_of, registrar


def first() -> None: ...


def second() -> None: ...


BOTH = rf"at {re.escape(place_of(first))} and at {re.escape(place_of(second))}$"


def test_a_second_function_for_a_key_is_refused_and_both_places_are_named() -> None:
    table: dict[Any, Callable[..., Any]] = {}
    under = registrar(table)
    assert under("a", "b")(first) is first
    with pytest.raises(ValueError, match=f"^b is registered twice in one table: {BOTH}"):
        under("b", "c")(second)
    assert table == {"a": first, "b": first}


def test_a_key_may_come_twice_in_one_registration() -> None:
    table: dict[Any, Callable[..., Any]] = {}
    registrar(table)(torch.max_pool1d, torch.nn.functional.max_pool1d, torch.max_pool1d)(first)
    assert set(table.values()) == {first}


def test_tables_that_share_a_key_are_not_merged() -> None:
    assert merged({"a": first}, {"b": second}) == {"a": first, "b": second}
    with pytest.raises(ValueError, match=f"^one_hot is registered twice in one table: {BOTH}"):
        merged({torch.nn.functional.one_hot: first}, {torch.nn.functional.one_hot: second})


def test_an_entry_is_named_by_its_function() -> None:
    class Entry:
        def __init__(self, function: Callable[..., Any]) -> None:
            self.function = function

    table: dict[str, Entry] = {}
    enter(table, "Add", Entry(first))
    with pytest.raises(ValueError, match=f"^Add is registered twice in one table: {BOTH}"):
        enter(table, "Add", Entry(second))


@pytest.mark.parametrize(
    ("register", "key"),
    [
        (counts.intercepts, torch.nn.functional.one_hot),
        (intercepts.intercepts, torch.equal),
        (cholesky.computes, torch.ops.aten.cholesky.default),
        (rule, "aten::kron"),
        (_inverse, torch.ops.aten.view.default),
        (folds, "Add"),
    ],
)
def test_our_own_tables_refuse_a_second_function(register: Any, key: Any) -> None:
    with pytest.raises(ValueError, match="registered twice in one table: .* and at .*test_tables.py"):
        register(key)(second)


def test_export_works_however_it_is_imported() -> None:
    """No other module of onward has to be loaded by somebody else first."""
    program = (
        "import torch\n"
        "from onward.api import export\n"
        "program = export(torch.nn.Linear(2, 3), torch.ones(1, 2), verify=True)\n"
        "print(program.opset_version)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ))
    assert (run.returncode, run.stdout) == (0, "20\n"), run.stderr
