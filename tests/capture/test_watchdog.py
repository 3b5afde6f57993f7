"""Calls that are stopped because they do not end."""

from __future__ import annotations

import sys

import pytest
import torch

from onward.capture.python.watchdog import TookTooLong, at_most


def endless() -> None:
    x = torch.zeros(())
    while True:
        with torch.no_grad(), torch.device("cpu"):
            x = x + 1


def test_no_mode_stays_open() -> None:
    """Where it is stopped is a matter of luck, so it is stopped often. (`tests/conftest.py` watches other states.)"""
    before, modes = sys.gettrace(), torch._C._len_torch_function_stack()
    for _ in range(50):
        with pytest.raises(TookTooLong, match="within"), at_most(0.002):
            endless()
        assert torch.is_grad_enabled() and torch._C._len_torch_function_stack() == modes
    assert sys.gettrace() is before


class Slow:
    """Nearly all the time of a loop that makes these passes while they are thrown away."""

    def __del__(self) -> None:
        for _ in range(3000):
            pass


def throwing_away() -> None:
    x = 3
    while x > 1:
        Slow()
        x = x * 2 % 7 + 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_stop_that_a_finalizer_swallows_is_tried_again() -> None:
    with pytest.raises(TookTooLong), at_most(0.1):
        throwing_away()
    assert sys.gettrace() is None and sys.getprofile() is None
