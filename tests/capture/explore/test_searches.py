"""How often the ways through a model are searched."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

import onward
from onward.capture.attempt import explored
from onward.capture.explore import explorer
from onward.capture.explore.explorer import Explorer
from onward.capture.explore.items import Program
from onward.capture.explore.renaming import Behind

FACTORS = "56789" * 20


class _Grown(torch.nn.Module):
    """A loop that is not kept: its factor is another number in each turn, and nobody sees where it comes from."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factors = FACTORS
        while x.sum() < 100:
            x = x * float(factors[:1])
            factors = factors[1:]
        return x


class _GrownByCounting(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factors, turn = FACTORS, 0
        while x.sum() < 100:
            x = x * float(factors[:1]) + turn
            factors = factors[1:]
            turn += 1
        return x


class _GrownBehindAQuestionToSizes(_Grown):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.arange(x.shape[0]).sum() >= 0:
            x = x + 1
        return super().forward(x)


@pytest.mark.parametrize(("model", "searches"), [(_Grown, 1), (_GrownByCounting, 2), (_GrownBehindAQuestionToSizes, 2)])
def test_a_search_is_repeated_with_the_settings_that_something_depends_on(
    model: type[torch.nn.Module], searches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Any] = []

    class Counting(explored.Explorer):
        def program(self) -> Program:
            begun.append(self)
            return super().program()

    monkeypatch.setattr(explored, "Explorer", Counting)
    with pytest.warns(onward.CaptureWarning, match="a plain value changes from turn to turn"):
        onward.export(model(), (torch.ones(3),), dynamic_axes={"x": {0: "n"}})
    assert len(begun) == searches


def test_all_searches_of_an_export_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is refused under several plans of sizes does not pay for a whole search under each."""

    def branch(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x

    program = onward.export(branch, (torch.ones(3),))
    assert not any("keeps the example's" in text for text in program.warnings)
    monkeypatch.setattr(explored, "_MOST_OF_ALL", 2)
    with pytest.warns(onward.CaptureWarning, match="it takes too many runs to see every way through it"):
        onward.export(branch, (torch.ones(3),))


class _LeftFromInside(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(())
        for _ in range(4):
            if (x > 1).all():
                continue
            for _ in range(4):
                if x.min() < -x.max():
                    break
                total = total + x.mean()
            x = x * total.tanh()
        return x


def test_what_a_branch_has_to_reach_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch that stands in others was looked at anew for every attempt of each of these."""
    looked: Counter[Any] = Counter()
    held: list[Any] = []  # the runs, so that no two have one id
    original = Explorer._both_sides

    def counted(self: Any, run: Any, at: int, other: Any, high: int, *more: Any) -> Any:
        held.append(run)
        looked[id(run), at, high] += 1
        return original(self, run, at, other, high, *more)

    monkeypatch.setattr(Explorer, "_both_sides", counted)
    with pytest.warns(onward.CaptureWarning, match="it takes too many runs to see every way through it"):
        onward.export(_LeftFromInside(), (torch.tensor([1.5, -0.5, 0.25]),))
    assert len(looked) > 100
    assert max(looked.values()) == 1


def test_a_search_looks_at_so_many_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "_MOST_LOOKED", 50)
    with pytest.warns(onward.CaptureWarning, match="its branches meet in too many ways"):
        onward.export(_LeftFromInside(), (torch.tensor([1.5, -0.5, 0.25]),))


class _LoopsInARow(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = x.sum()
        total = total * 2 if total > 1 else total
        for row in x:
            total = total + row.max()
        for row in x:
            total = total * row.min()
        for row in x:
            total = total - row.max()
        for row in x:
            total = total * row.mean()
        for row in x:
            total = total + row.min()
        for row in x:
            total = total * row.max()
        for row in x:
            total = total - row.min()
        for row in x:
            total = total + row.mean()
        return total


def test_what_follows_many_loops_is_renamed_once_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every loop in a row took twice as long as the one before it."""
    times = 0
    original = Behind.apply

    def counted(self: Behind, *given: Any) -> Any:
        nonlocal times
        times += 1
        return original(self, *given)

    monkeypatch.setattr(Behind, "apply", counted)
    program = onward.export(_LoopsInARow(), (torch.rand(3, 4),), dynamic_axes={"x": {0: "rows"}})
    assert sum("loop kept as Loop" in text for text in program.warnings) == 8
    assert times < 2_000  # it was 6,687
