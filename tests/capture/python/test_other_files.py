"""Functions in other files than the model's: `utils.py` beside `net.py`. They are followed like the model's own."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import onward

UTILS = """
import functools
import torch

def of_its_type(x):
    return x * 2 if type(x) is torch.Tensor else x * 3

def of_a_number(x):
    return x * 2 if isinstance(x.shape[0], int) else x * 3

def first_half(x):
    return x[: int(x.shape[0] * 0.5)]

def states(x):
    state, found = torch.zeros(x.shape[1]), []
    for i in range(x.shape[0]):
        state = state * 0.5 + x[i]
        found.append(state)
    return torch.stack(found)

def times_a_count(x):
    return x * int((x > 0).sum())

@functools.lru_cache
def cached(n):
    return int(n * 0.5)

def by_a_cached_number(x):
    return x * cached(x.shape[0])

class Scale:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return self.scaled(x)

    def scaled(self, x):
        return x * self.factor if type(x) is torch.Tensor else x

TABLE = {"type": of_its_type}
"""

NET = """
import torch
import far_utils
from far_utils import TABLE, Scale, by_a_cached_number, first_half, of_a_number, of_its_type, states, times_a_count

class OfItsType(torch.nn.Module):
    def forward(self, x):
        return of_its_type(x)

class OfANumber(torch.nn.Module):
    def forward(self, x):
        return far_utils.of_a_number(x)

class FirstHalf(torch.nn.Module):
    def forward(self, x):
        return self.half(x)

    def half(self, x):
        return first_half(x)

class States(torch.nn.Module):
    def forward(self, x):
        return states(x)

class TimesACount(torch.nn.Module):
    def forward(self, x):
        return times_a_count(x)

class ByACachedNumber(torch.nn.Module):
    def forward(self, x):
        return by_a_cached_number(x)

class ByATable(torch.nn.Module):
    def forward(self, x):
        return TABLE["type"](x)

class ByAnObject(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = Scale(2.0)

    def forward(self, x):
        return self.scale(x)

class ByANewObject(torch.nn.Module):
    def forward(self, x):
        return Scale(3.0)(x)
"""
NAMES = [line.split()[1].split("(")[0] for line in NET.splitlines() if line.startswith("class ")]


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "far_utils.py").write_text(UTILS, encoding="utf-8")
    (tmp_path / "far_net.py").write_text(NET, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("far_net")
    for name in ("far_net", "far_utils"):
        del sys.modules[name]


@pytest.mark.parametrize("name", NAMES)
def test_functions_of_another_file_are_followed(net: ModuleType, name: str) -> None:
    model = getattr(net, name)()
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        program = onward.export(model, torch.randn(6, 3), input_names=["x"], dynamic_axes={"x": {0: "rows"}})
    for rows in (1, 2, 3, 5, 6, 9):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x), model(x))


def test_files_that_name_each_other_are_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two files imports the other, and the code of each names both."""
    text = "import {other}\nimport torch\ndef {name}_scaled(x):\n    return near.limit(far.limit(x))\n"
    text += "def limit(x):\n    return x.clamp(max=1.0)\nimport near, far\n"
    for name, other in (("near", "far"), ("far", "near")):
        (tmp_path / f"{name}.py").write_text(text.format(name=name, other=other), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    near = importlib.import_module("near")
    try:
        program = onward.export(near.near_scaled, (torch.rand(3),), verify=True)
        assert torch.equal(program(torch.tensor([0.5, 2.0, 3.0])), torch.tensor([0.5, 1.0, 1.0]))
    finally:
        for name in ("near", "far"):
            del sys.modules[name]
