"""Regular expressions in linear time, as RE2 matches them, by which ONNX defines RegexFullMatch.

Python's own matcher goes back and forth: a pattern of a dozen characters keeps it busy for years. Here a pattern
becomes a list of instructions, and all places in it that can be reached are followed at once, character by character.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from ...errors import BackendError
from ..limits import about_to_make

if sys.version_info >= (3, 11):
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_parse as parser

MOST_INSTRUCTIONS = 10_000
_WORK = 64  # elements that an instruction counts for, for each character

Test = Callable[[str], bool]
_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d", "CATEGORY_NOT_DIGIT": r"\D", "CATEGORY_SPACE": r"\s", "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w", "CATEGORY_NOT_WORD": r"\W",
}  # fmt: skip


class FullMatch:
    """Whether a whole text is of a pattern."""

    def __init__(self, pattern: str) -> None:
        try:
            parsed = parser.parse(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise BackendError(f"the pattern {pattern[:100]!r} is no regular expression: {error}") from error
        self._flags = parsed.state.flags
        self._program: list[tuple[str, Any, Any]] = []
        self._sequence(parsed)
        self._add("match")

    def __call__(self, text: str) -> bool:
        about_to_make(len(text), len(self._program), _WORK)
        places = self._closure([0], text, 0)
        for index, character in enumerate(text):
            if not places:
                return False
            following = [at + 1 for at in places if self._program[at][0] == "test" and self._program[at][1](character)]
            places = self._closure(following, text, index + 1)
        return any(self._program[at][0] == "match" for at in places)

    def _closure(self, starts: list[int], text: str, index: int) -> set[int]:
        """Every instruction that can be reached without another character."""
        seen: set[int] = set()
        waiting = list(starts)
        while waiting:
            at = waiting.pop()
            if at in seen:
                continue
            seen.add(at)
            kind, first, second = self._program[at]
            if kind == "split":
                waiting += [first, second]
            elif kind == "jump":
                waiting.append(first)
            elif kind == "at" and self._holds(first, text, index):
                waiting.append(at + 1)
        return seen

    def _holds(self, where: str, text: str, index: int) -> bool:
        flags = re.MULTILINE if self._flags & re.MULTILINE else 0
        pattern = {
            "AT_BEGINNING": "^", "AT_BEGINNING_STRING": r"\A", "AT_END": "$", "AT_END_STRING": r"\Z",
            "AT_BOUNDARY": r"\b", "AT_NON_BOUNDARY": r"\B",
        }[where]  # fmt: skip
        return re.compile(pattern, flags).match(text, index) is not None

    # Instructions

    def _add(self, kind: str, first: Any = None, second: Any = None) -> int:
        if len(self._program) >= MOST_INSTRUCTIONS:
            raise BackendError(f"the pattern of a RegexFullMatch has more than {MOST_INSTRUCTIONS} instructions")
        self._program.append((kind, first, second))
        return len(self._program) - 1

    def _sequence(self, nodes: Any) -> None:
        for operator, argument in nodes:
            self._node(str(operator), argument)

    def _node(self, operator: str, argument: Any) -> None:
        if operator in ("LITERAL", "NOT_LITERAL", "ANY", "IN", "RANGE", "CATEGORY"):
            self._add("test", self._test(operator, argument))
        elif operator == "AT":
            self._add("at", str(argument))
        elif operator == "SUBPATTERN":
            self._sequence(argument[3])
        elif operator == "BRANCH":
            self._branch(argument[1])
        elif operator in ("MAX_REPEAT", "MIN_REPEAT"):
            self._repeat(*argument)
        else:
            raise BackendError(f"the pattern of a RegexFullMatch has {operator.lower()}, which RE2 does not know")

    def _branch(self, choices: list[Any]) -> None:
        ends = []
        for choice in choices[:-1]:
            split = self._add("split")
            self._sequence(choice)
            ends.append(self._add("jump"))
            self._program[split] = ("split", split + 1, len(self._program))
        self._sequence(choices[-1])
        for end in ends:
            self._program[end] = ("jump", len(self._program), None)

    def _repeat(self, least: int, most: int, node: Any) -> None:
        for _ in range(least):
            self._repeated(node)
        if most == parser.MAXREPEAT:
            split = self._add("split")
            self._repeated(node)
            self._add("jump", split)
            self._program[split] = ("split", split + 1, len(self._program))
            return
        splits = []
        for _ in range(most - least):
            splits.append(self._add("split"))
            self._repeated(node)
        for split in splits:
            self._program[split] = ("split", split + 1, len(self._program))

    def _repeated(self, node: Any) -> None:
        self._add("jump", len(self._program) + 1)  # so that even nothing, often, comes to an end
        self._sequence(node)

    def _test(self, operator: str, argument: Any) -> Test:
        if operator == "ANY":
            every = bool(self._flags & re.DOTALL)
            return lambda character: every or character != "\n"
        if operator == "LITERAL":
            return self._folded(lambda character: ord(character) == argument)
        if operator == "NOT_LITERAL":
            same = self._folded(lambda character: ord(character) == argument)
            return lambda character: not same(character)
        if operator == "RANGE":
            return self._folded(lambda character: argument[0] <= ord(character) <= argument[1])
        if operator == "CATEGORY":
            compiled = re.compile(_CATEGORIES[str(argument)], self._flags & re.ASCII)
            return lambda character: compiled.match(character) is not None
        negated = bool(argument) and str(argument[0][0]) == "NEGATE"
        tests = [self._test(str(kind), item) for kind, item in argument if str(kind) != "NEGATE"]
        return lambda character: any(test(character) for test in tests) != negated

    def _folded(self, test: Test) -> Test:
        if not self._flags & re.IGNORECASE:
            return test
        return lambda character: any(test(each) for each in {*character.lower(), *character.upper()})
