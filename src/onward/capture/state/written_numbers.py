"""Whole numbers that are written in the model's code.

A size that became a plain number may be compared with anything, and nobody sees it: `len(range(n)) > 100`. Such a line
mostly names the number that it compares with. So the sizes around these numbers are worth a run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from types import CodeType
from typing import Any

from ..program.facts import Source
from .own_code import called, codes_of

_MOST = 8  # numbers
_LARGEST = 1 << 16
_LONGEST_TEXT = 40  # longer ones are documentation


def written_numbers(model: Any, lines: Collection[Source]) -> list[int]:
    """The numbers in the functions of these lines, and then those in the model's other functions."""
    codes = [code for function in called(model) for code in codes_of(function)]
    codes.sort(key=lambda code: not any(_has(code, line) for line in lines))
    found = dict.fromkeys(number for code in codes for constant in code.co_consts for number in _numbers(constant))
    return [number for number in found if 1 < number <= _LARGEST][:_MOST]


def _has(code: CodeType, line: Source) -> bool:
    return code.co_filename == line.file and any(each[2] == line.line for each in code.co_lines())


def _numbers(constant: Any) -> Iterator[int]:
    if isinstance(constant, (tuple, frozenset)):
        for each in constant:
            yield from _numbers(each)
    elif isinstance(constant, str):
        yield from map(int, re.findall(r"\d{1,5}", constant) if len(constant) <= _LONGEST_TEXT else ())
    elif type(constant) is int:
        yield constant
