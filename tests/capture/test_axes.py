"""Sizes that the axes may have: formulas, bounds, and what of them is left when axes are tied or fixed."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import onward
from onward.capture.ground.axes import AxisSpace, Formula, read_formula

KNOWN = ("batch", "past", "new")


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("past + new", Formula((("past", 1), ("new", 1)))),
        ("past+new+1", Formula((("past", 1), ("new", 1)), 1)),
        ("2*batch", Formula((("batch", 2),))),
        ("batch * 2 - 1", Formula((("batch", 2),), -1)),
        ("1 + past", Formula((("past", 1),), 1)),
        ("past + past", Formula((("past", 2),))),
        ("batch", None),
        ("past - new", None),
        ("past + length", None),
        ("past / 2", None),
        ("past +", None),
        ("past new", None),
        ("12", None),
        ("0*past", None),
        ("", None),
    ],
)
def test_names_that_are_formulas(text: str, formula: Formula | None) -> None:
    assert read_formula(text, KNOWN) == formula


def test_a_formula_is_written_as_it_is_read() -> None:
    for text in ("past + new", "2*batch - 1", "past + 3*new + 4"):
        assert str(read_formula(text, KNOWN)) == text


def test_a_formula_is_solved() -> None:
    formula = Formula((("n", 2),), 1)
    assert [formula.solved_for("n", size, {}) for size in (9, 8, 1)] == [4, None, None]
    assert Formula((("a", 1), ("b", 1))).solved_for("b", 9, {"a": 4}) == 5


SPACE = AxisSpace(
    bounds={"n": (2, 8), "m": (0, 5)}, formulas={"2*n": Formula((("n", 2),)), "n - 3": Formula((("n", 1),), -3)}
)


def test_sizes_are_followed_and_kept_within_bounds() -> None:
    assert SPACE.expand({"n": 5, "k": 1}) == {"n": 5, "k": 1, "2*n": 10, "n - 3": 2}
    assert SPACE.allows({"n": 4}) and SPACE.allows({"n": 8}) and SPACE.allows({"k": 1000})
    assert not SPACE.allows({"n": 3})  # n - 3 would be empty
    assert not SPACE.allows({"n": 9}) and not SPACE.allows({"m": 0})
    assert SPACE.limits(["n"]) == (4, 8) and SPACE.limits(["n", "m"]) == (4, 5) and SPACE.limits(["k"]) == (1, None)


def test_bounds_of_what_follows() -> None:
    assert [SPACE.bounds_of(name) for name in ("n", "2*n", "n - 3", "k")] == [(2, 8), (4, 16), (0, 5), None]


def test_tied_and_fixed_axes() -> None:
    tied = SPACE.tied({"n": "m"})
    assert tied.bounds["m"] == (2, 5) and tied.formulas["2*n"] == Formula((("m", 2),))
    assert SPACE.tied({}) is SPACE
    assert SPACE.without({"n"}).formulas == {} and SPACE.without({"m"}).formulas == SPACE.formulas
    both = AxisSpace(formulas={"t": Formula((("a", 1), ("b", 1)))}).tied({"b": "a"})
    assert both.formulas["t"] == Formula((("a", 2),))


def _asserted(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    assert a.shape[0] == b.shape[0]
    return a.sum(1) + b.sum(1)


def _branched(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a * 2 + b.sum() if a.shape[0] == b.shape[0] else a.sum() + b.mean()


class _Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.GRU(5, 4, batch_first=True)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.layer(a[:, None], b[None])[0]


@pytest.mark.parametrize(
    "model",
    [_asserted, _branched, _Recurrent(), lambda a, b: torch.vmap(torch.dot)(a, b)],
    ids=["assert", "branch", "gru", "vmap"],
)
def test_axes_that_the_model_compares_are_one(model: Any) -> None:
    width = 4 if isinstance(model, torch.nn.Module) else 5
    example = (torch.randn(3, 5), torch.randn(3, width))
    with pytest.warns(onward.CaptureWarning, match="axis 0 of 'b' is written as 'n'"):
        program = onward.export(model, example, input_names=["a", "b"], dynamic_axes={"a": {0: "n"}, "b": {0: "m"}})
    for size in (2, 3, 7):
        inputs = (torch.randn(size, 5), torch.randn(size, width))
        with torch.no_grad():
            torch.testing.assert_close(program(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)


def test_axes_that_the_model_compares_stay_two_where_both_sides_are_kept() -> None:
    def model(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * 2 + b.sum() if a.shape[0] == b.shape[0] else a * 3 + b.mean()

    example = (torch.randn(3, 5), torch.randn(3, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error", onward.CaptureWarning)
        program = onward.export(model, example, input_names=["a", "b"], dynamic_axes={"a": {0: "n"}, "b": {0: "m"}})
    assert [port.shape for port in program.inputs] == [("n", 5), ("m", 5)]
    for sizes in ((1, 1), (1, 2), (2, 1), (3, 3), (3, 7), (7, 7)):
        inputs = tuple(torch.randn(size, 5) for size in sizes)
        torch.testing.assert_close(program(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)
