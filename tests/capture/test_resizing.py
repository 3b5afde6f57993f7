"""Inputs of other sizes, made of the example's values."""

from __future__ import annotations

import torch

from onward.capture.call.resizing import resized


def test_floats_come_again_a_little_smaller_so_that_no_two_are_alike() -> None:
    x = torch.randn(3, 4)
    larger = resized(x, {0: 10})
    assert larger.shape == (10, 4)
    assert larger.unique().numel() == 40
    assert larger.abs().max() <= x.abs().max()
    assert resized(x, {0: 3}) is x


def test_flags_and_what_is_not_finite_stay_what_they_are() -> None:
    mask = torch.tensor([0.0, 1.0, -torch.inf])
    assert set(resized(mask, {0: 20}).tolist()) == {0.0, 1.0, -torch.inf}


def test_many_whole_numbers_are_no_flags() -> None:
    assert resized(torch.arange(100.0).flip(0), {0: 250})[100:].unique().numel() > 140


def test_integers_repeat_in_order() -> None:
    assert resized(torch.tensor([[5, 2, 9]]), {1: 5}).tolist() == [[5, 2, 9, 5, 2]]


def test_sorted_lists_stay_sorted() -> None:
    assert resized(torch.tensor([0, 3]), {0: 5}).tolist() == [0, 0, 0, 3, 3]
    edges = resized(torch.tensor([0.1, 0.7, 2.5]), {0: 7})
    assert torch.equal(edges, edges.sort().values)
    assert edges.unique().numel() == 7


def test_an_empty_example_gives_zeros_of_no_length() -> None:
    assert resized(torch.zeros(0, 3), {1: 5}).shape == (0, 5)
