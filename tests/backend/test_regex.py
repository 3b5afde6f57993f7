"""RegexFullMatch in linear time: the same answers as Python's matcher, and an end."""

from __future__ import annotations

import re

import numpy as np
import pytest
from onnx import helper

from onward.backend import BackendError, run_node
from onward.backend.ops._regex import FullMatch

PATTERNS = [
    "", "a", "abc", "a|b", "a|", "(a|bc)*d", "a*", "a+b?", "a{2}", "a{2,}", "a{1,3}b", "(ab){0,2}", "[a-c]+",
    "[^a-c]+", ".", ".*",
    r"\d+", r"\w+\s\w+", r"\D\S\W", r"[\d_]+", "^a$", r"\Aab\Z", r"\bab\b c", "(?i)aBc", "(?i)[a-c]+",
    "(?s).*", "(a*)*", "(a*)+b",
    "((a|b)*c){2}", "(?:x|y)+?z", "(?P<name>a)b", r"a\.b", "(?i)straße", r"\u00e9+", "(?m)^a$",
]  # fmt: skip
TEXTS = [
    "", "a", "b", "ab", "abc", "aab", "aaa", "aaab", "bcbcd", "abab", "ababab", "12", "a b", "ab c", "A\n", "a\n",
    "\n", "ABC", "aBC",
    "_1", " ", "xyz", "xxyz", "a.b", "acbc", "STRASSE", "Straße", "éé", "cd", "!a ",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_answers_are_pythons(pattern: str) -> None:
    matches, compiled = FullMatch(pattern), re.compile(pattern)
    for text in TEXTS:
        assert matches(text) == (compiled.fullmatch(text) is not None), text


def run(pattern: str, text: str) -> bool:
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)
    return bool(run_node(node, np.array([text], object))[0][0])


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "(.*.*.*.*.*.*.*.*.*)*b", "a?" * 200 + "a" * 200 + "b"]
)
def test_patterns_that_keep_others_busy_for_years(pattern: str) -> None:
    assert not run(pattern, "a" * 200)
    assert run(pattern, "a" * 200 + "b")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(", "the pattern '\\(' is no regular expression"),
        (r"(a)\1", "has groupref, which RE2 does not know"),
        ("(?=a)a", "has assert, which RE2 does not know"),
        ("((a{100}){100}){100}", "has more than 10000 instructions"),
        ("(" * 5000 + ")" * 5000, "is no regular expression"),
    ],
)
def test_what_is_refused(pattern: str, text: str) -> None:
    with pytest.raises(BackendError, match=text):
        run(pattern, "aa")
