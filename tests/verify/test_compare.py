"""Tolerances: what a correct model satisfies, what a wrong one does not, and the words for it."""

from __future__ import annotations

import math

import pytest
import torch

from onward.errors import VerifyError
from onward.verify import Check, Tolerance, Verification, check, compare, compare_output, tolerances

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]
COMPLEX = [torch.complex64, torch.complex128]
EXACT = [torch.bool, torch.int8, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64]


def values(dtype: torch.dtype, count: int = 1000) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    if dtype.is_complex:
        return torch.randn(count, dtype=dtype, generator=generator)
    drawn = torch.randn(count, dtype=torch.float64, generator=generator)
    return (drawn if dtype.is_floating_point else drawn.abs() * 50).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX + EXACT, ids=str)
def test_equal_tensors_agree(dtype: torch.dtype) -> None:
    result = compare(values(dtype), values(dtype), "y")
    assert result.ok and result.max_abs_error == 0 and result.count == 1000 and result.dtype == dtype


@pytest.mark.parametrize("dtype", FLOATS[:4] + COMPLEX, ids=str)
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_errors_are_judged_by_the_size_of_the_tensor(dtype: torch.dtype, size: float) -> None:
    expected = (values(dtype).to(torch.complex128 if dtype.is_complex else torch.float64) * size).to(dtype)
    wide = expected.to(torch.complex128 if dtype.is_complex else torch.float64)
    allowed = tolerances(dtype)
    # in float64, so that the error is exactly the one meant and not what the narrow type makes of it
    inside = compare(wide, wide + 0.9 * allowed.atol * size, "y", allowed)
    outside = compare(wide, wide + 3 * allowed.atol * size + 3 * allowed.rtol * wide.abs(), "y", allowed)
    assert inside.ok and inside.scale == pytest.approx(size, rel=0.5)
    assert not outside.ok and outside.mismatches > 900


@pytest.mark.parametrize("dtype", EXACT, ids=str)
def test_integers_and_booleans_agree_exactly_or_not(dtype: torch.dtype) -> None:
    expected = values(dtype)
    actual = expected.clone()
    actual[7] = not expected[7] if dtype == torch.bool else int(expected[7]) + 1
    result = compare(expected, actual, "y")
    assert (result.ok, result.mismatches, result.worst_index) == (False, 1, (7,))


def test_neighbouring_large_integers_differ() -> None:
    expected = torch.tensor([2**62, 5])
    result = compare(expected, expected + torch.tensor([1, 0]), "y")
    assert result.mismatches == 1 and result.expected == 2**62 and result.actual == 2**62 + 1


def test_known_mistakes_are_beyond_the_float32_tolerance_and_rounding_is_not() -> None:
    torch.manual_seed(0)
    x = torch.randn(16, 128)
    layers = [torch.nn.Linear(128, 128) for _ in range(100)]

    def network(x: torch.Tensor, approximate: str = "none", eps: float = 1e-5) -> torch.Tensor:
        with torch.no_grad():
            for layer in layers:
                step = torch.nn.functional.gelu(layer.to(x.dtype)(x), approximate=approximate)
                x = torch.nn.functional.layer_norm(x + step, (128,), eps=eps)
        return x

    right, exact = network(x), network(x.double()).float()
    assert compare(exact, right, "y").ok
    assert not compare(exact, network(x.float(), approximate="tanh"), "y").ok
    assert not compare(exact, network(x.float(), eps=1e-3), "y").ok


def test_a_mask_value_does_not_excuse_the_rest() -> None:
    for filler in (-1e9, torch.finfo(torch.float32).min):
        expected = values(torch.float32)
        expected[:300] = filler
        actual = expected.clone()
        actual[500] += 0.01
        result = compare(expected, actual, "y")
        assert result.worst_index == (500,) and result.mismatches == 1 and result.scale < 15


def test_zeros_do_not_shrink_the_scale_and_all_zeros_have_one() -> None:
    expected = torch.zeros(1000)
    expected[:3] = 1.0
    assert compare(expected, expected + 1e-6, "y").ok
    assert compare(torch.zeros(3), torch.full((3,), 1e-6), "y").ok
    assert not compare(torch.zeros(3), torch.full((3,), 1e-3), "y").ok


@pytest.mark.parametrize(
    "expected, actual, bad",
    [
        ([1.0, math.nan], [1.0, math.nan], 0),
        ([math.inf, -math.inf], [math.inf, -math.inf], 0),
        ([1.0, math.nan], [1.0, 2.0], 1),
        ([1.0, 2.0], [1.0, math.nan], 1),
        ([math.inf, 1.0], [-math.inf, 1.0], 1),
        ([math.inf, 1.0], [3e38, 1.0], 1),
        ([1.0, 1.0], [math.inf, math.nan], 2),
        ([math.nan, math.nan], [math.nan, 0.0], 1),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_nan_and_infinity_have_to_be_in_the_same_places(expected, actual, bad, dtype) -> None:
    result = compare(torch.tensor(expected, dtype=dtype), torch.tensor(actual, dtype=dtype), "y")
    assert result.mismatches == bad
    assert result.max_abs_error == (math.inf if bad else 0)


def test_type_shape_scalars_and_empty_tensors() -> None:
    assert (
        compare(torch.ones(2), torch.ones(2).double(), "y").problem
        == "the type is torch.float64, expected torch.float32"
    )
    assert compare(torch.ones(2, 1), torch.ones(1, 2), "y").problem == "the shape is [1, 2], expected [2, 1]"
    assert compare(torch.zeros(0, 3), torch.zeros(0, 3), "y").ok
    assert not compare(torch.zeros(0, 3), torch.zeros(3, 0), "y").ok
    scalar = compare(torch.tensor(1.0), torch.tensor(2.0), "y")
    assert (scalar.ok, scalar.worst_index) == (False, ())


def test_the_error_shows_everything() -> None:
    expected = torch.ones(2, 3)
    actual = expected.clone()
    actual[1, 2] = 1.5
    assert check(expected, expected, "logits").ok
    with pytest.raises(VerifyError) as caught:
        check(expected, actual, "logits", label="batch=1")
    assert str(caught.value) == (
        "onnxruntime and PyTorch disagree (batch=1)\n"
        "  output 'logits' differs in 1 of 6 elements: max error 0.5 (0.5 of its scale 1), "
        "tolerance rtol 0.0001, atol 5e-05 x scale; worst at [1, 2]: expected 1, got 1.5"
    )
    with pytest.raises(VerifyError, match=r"output 'logits': the shape is \[3\], expected \[2, 3\]"):
        check(expected, torch.ones(3), "logits")
    with pytest.raises(VerifyError, match="tolerance exact; worst at"):
        check(torch.tensor([True]), torch.tensor([False]), "mask")


def test_a_given_tolerance_is_used_both_ways() -> None:
    expected, actual = torch.ones(4), torch.full((4,), 1.01)
    assert not compare(expected, actual, "y").ok
    assert compare(expected, actual, "y", Tolerance(0.02, 0.0)).ok
    assert not compare(expected, expected + 2e-5, "y", Tolerance(1e-6, 1e-6)).ok


def test_a_type_without_tolerance_is_refused() -> None:
    with pytest.raises(VerifyError, match="there is no tolerance for torch.float8_e8m0fnu"):
        tolerances(torch.float8_e8m0fnu)


def test_verification_reads_as_a_table() -> None:
    good = compare(torch.ones(2, 3), torch.ones(2, 3), "logits")
    bad = compare(torch.ones(1, 3), torch.zeros(1, 3), "logits")
    wrong = compare(torch.ones(1), torch.ones(1).long(), "size")
    passed = Verification((Check("example", (good,)), Check("batch=1", (good,))))
    assert passed.ok and str(passed).endswith("2 runs agree, largest error 0 of an output's scale")
    passed.raise_unless_ok()
    failed = Verification((Check("example", (good,)), Check("batch=1", (bad, wrong)), Check("batch=9", skipped="no")))
    lines = str(failed).splitlines()
    assert lines[0].split() == ["run", "output", "type", "shape", "max", "error", "of", "scale", "result"]
    assert lines[2].split() == ["example", "logits", "float32", "2x3", "0", "0", "ok"]
    assert lines[3].split() == ["batch=1", "logits", "float32", "1x3", "1", "1", "3", "of", "3", "differ"]
    assert lines[5].endswith("skipped: no")
    assert lines[-1] == "1 of 2 runs disagree: batch=1"
    with pytest.raises(VerifyError, match=r"disagree\n  batch=1: output 'logits' differs.*\n  batch=1: output 'size'"):
        failed.raise_unless_ok()


def test_verifying_nothing_is_not_success() -> None:
    empty = Verification((Check("batch=1", skipped="the model refuses it"),))
    assert not empty.ok and str(empty).endswith("nothing was verified")
    with pytest.raises(VerifyError, match=r"nothing was verified\n  batch=1: the model refuses it"):
        empty.raise_unless_ok()


@pytest.mark.parametrize(
    ("actual", "text"),
    [
        ([torch.ones(2), torch.zeros(3)], None),
        ([torch.ones(2), torch.ones(3)], "output 'y[1]' differs in 3 of 3 elements"),
        ([torch.ones(2), torch.zeros(2)], "output 'y[1]': the shape is [2], expected [3]"),
        ([torch.ones(2)], "output 'y': it is a list of 1 tensor, expected a list of 2 tensors"),
        (torch.ones(2), "output 'y': it is a tensor, expected a list of 2 tensors"),
    ],
)
def test_lists_are_compared_by_their_elements(actual: torch.Tensor | list[torch.Tensor], text: str | None) -> None:
    results = compare_output([torch.ones(2), torch.zeros(3)], actual, "y")
    wrong = [str(each) for each in results if not each.ok]
    assert len(wrong) == (text is not None) and all(text in each for each in wrong if text)


def test_empty_lists_agree() -> None:
    assert all(each.ok for each in compare_output([], [], "y"))
    assert not any(each.ok for each in compare_output([], [torch.ones(1)], "y"))


def rounded(off: int, by: float) -> tuple[torch.Tensor, torch.Tensor]:
    """5,000 values on a grid of step 0.1, of which the second has so many away by so many steps."""
    expected = torch.round(values(torch.float32, 5000) * 10) * 0.1
    actual = expected.clone()
    actual[:off] += 0.1 * by
    return expected, actual


@pytest.mark.parametrize(
    ("off", "by", "step", "ok"),
    [
        (4000, 1, 0.1, True),  # one step, however many
        (5, 3, 0.1, True),  # a thousandth further away
        (6, 3, 0.1, False),
        (4000, 1, None, False),  # not rounded to a grid: no steps
        (4000, 0.2, 0.0, True),  # the 255th part of its range
        (4000, 1, 0.0, False),
    ],
)
def test_rounded_outputs_may_be_a_step_away(off: int, by: float, step: float | None, ok: bool) -> None:
    result = compare(*rounded(off, by), "y", step=step)
    assert result.ok is ok
    assert result.mismatches == off


def test_the_words_for_steps() -> None:
    result = compare(*rounded(6, 3), "y", step=0.1)
    assert "4994 of 5000 elements equal, in steps of 0.1 6 further than one" in str(result)
    table = str(Verification((Check("example", (compare(*rounded(5, 3), "y", step=0.1),)),)))
    assert "ok: 4995 of 5000 equal, 5 more than a step away" in table
