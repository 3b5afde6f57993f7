"""What the code of a function says about its loops."""

from __future__ import annotations

import sys

from onward.capture.ground.python_loops import is_called_for_a_loop, is_in_for


def around() -> bool:
    frame = sys._getframe(1)
    return is_in_for(frame.f_code, frame.f_lasti)


def called_for_a_loop() -> list[bool]:
    frame = sys._getframe(1)
    return [is_called_for_a_loop(frame.f_code, frame.f_lasti)]


def test_the_innermost_loop_counts() -> None:
    found = {"outside": around()}
    for _ in range(2):
        found["for"] = around()
        turns = 0
        while turns < 1:
            found["while in for"] = around()
            turns += 1
        found["for, behind the while"] = around()
    turns = 0
    while turns < 1:
        for _ in range(1):
            found["for in while"] = around()
        found["while"] = around()
        turns += 1
    assert found == {
        "outside": False,
        "for": True,
        "while in for": False,
        "for, behind the while": True,
        "for in while": True,
        "while": False,
    }


def test_a_call_whose_result_is_only_gone_through() -> None:
    for each in called_for_a_loop():
        assert each
    found = called_for_a_loop()
    for each in found:
        assert not each
