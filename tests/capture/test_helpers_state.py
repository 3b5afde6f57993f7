"""State that functions in other files than the model's keep, and state beside modules: it is said, and nothing of a
trace stays in it."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import onward
from onward.capture.memory.tensor import Traced

HELPERS = """
import os
import torch

CACHE, COUNT, LIST = {}, 0, []

class Box:
    n = 0

BOX = Box()

def global_number(x):
    global COUNT
    COUNT += 1  # here
    return x * COUNT

def global_list(x):
    LIST.append(1)  # here
    return x * len(LIST)

def attribute(x):
    BOX.n += 1  # here
    return x * BOX.n

def class_attribute(x):
    Box.n += 1  # here
    return x * Box.n

def function_attribute(x):
    function_attribute.calls = getattr(function_attribute, "calls", 0) + 1  # here
    return x * function_attribute.calls

def default(x, box=[0]):
    box[0] += 1  # here
    return x * box[0]

def environment(x):
    os.environ["ONWARD_TEST_RUNS"] = str(int(os.environ.get("ONWARD_TEST_RUNS", "0")) + 1)  # here
    return x * int(os.environ["ONWARD_TEST_RUNS"])

def table(x):
    if "table" not in CACHE:
        CACHE["table"] = torch.arange(x.shape[0]) + 0 * x[:, 0]
    return x + CACHE["table"][:, None]

def table_of_a_function(x):
    if not hasattr(table_of_a_function, "kept"):
        table_of_a_function.kept = x * 2
    return x + table_of_a_function.kept

def table_of_a_default(x, kept={}):
    kept["x"] = x * 2
    return x + kept["x"]

def closed(kept):
    def function(x):
        kept.append(x * 2)
        return x + kept[-1]
    return function

KEPT = []
table_of_a_closure = closed(KEPT)
"""
COUNTING = [
    "global_number", "global_list", "attribute", "class_attribute", "function_attribute", "default", "environment",
]  # fmt: skip
KEEPING = ["table", "table_of_a_function", "table_of_a_default", "table_of_a_closure"]


@pytest.fixture
def helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "far_helpers.py").write_text(HELPERS, encoding="utf-8")
    lines = ["import torch", "import far_helpers"]
    for name in (*COUNTING, *KEEPING):
        lines += [
            f"class {name}(torch.nn.Module):",
            "    def forward(self, x):",
            f"        return far_helpers.{name}(x)",
        ]
    (tmp_path / "near_net.py").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ONWARD_TEST_RUNS", "0")
    importlib.import_module("near_net")
    yield sys.modules["far_helpers"]
    for name in ("near_net", "far_helpers"):
        del sys.modules[name]


def _warned(model: torch.nn.Module) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        onward.export(model, (torch.rand(2, 3),), dynamic_axes={"x": {0: "n"}})
    return [str(each.message) for each in caught if issubclass(each.category, onward.CaptureWarning)]


@pytest.mark.parametrize("name", COUNTING)
def test_a_count_that_a_helper_keeps_is_said_with_its_line(name: str, helpers: ModuleType) -> None:
    warned = _warned(getattr(sys.modules["near_net"], name)())
    body = HELPERS[HELPERS.index(f"def {name}(") :]
    line = 1 + HELPERS[: HELPERS.index(f"def {name}(") + body.index("# here")].count("\n")
    assert len(warned) == 1
    assert f"far_helpers.py:{line}: the model changes its" in warned[0]


@pytest.mark.parametrize("name", KEEPING)
def test_nothing_of_a_trace_stays_with_a_helper(name: str, helpers: ModuleType) -> None:
    model = getattr(sys.modules["near_net"], name)()
    _warned(model)
    function = getattr(helpers, name)
    kept = [*helpers.CACHE.values(), *helpers.KEPT, *vars(function).values(), *(function.__defaults__ or ())]
    assert not any(isinstance(each, Traced) for each in kept)
    assert type(model(torch.rand(4, 3))) is torch.Tensor


def test_the_environment_is_the_models_own() -> None:
    """A model that sets a variable to what it was is not warned about."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            os.environ["ONWARD_TEST_SAME"] = "1"
            return x * int(os.environ["ONWARD_TEST_SAME"])

    try:
        assert _warned(Model()) == []
    finally:
        os.environ.pop("ONWARD_TEST_SAME", None)


class Written(torch.nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.weight, self.how = torch.nn.Parameter(torch.ones(3)), how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.how == "data":
            self.weight.data = self.weight.data * 2
        elif self.how == "no_grad":
            with torch.no_grad():
                self.weight.copy_(self.weight * 2)
        elif self.how == "parameter":
            self.weight = torch.nn.Parameter(self.weight.detach() * 2)
        elif self.how == "same":
            self.weight.data = self.weight.data.clone()
        return x * self.weight


@pytest.mark.parametrize("how", ["data", "no_grad", "parameter"])
def test_a_parameter_that_is_computed_from_itself_is_said(how: str) -> None:
    model = Written(how)
    warned = _warned(model)
    assert len(warned) == 1
    assert "the model writes to its parameter 'weight'" in warned[0]
    assert "unknown line" not in warned[0]
    assert torch.equal(model.weight.detach(), torch.ones(3))


def test_a_parameter_that_stays_what_it_is_needs_no_word() -> None:
    assert _warned(Written("same")) == []
